// Boxes of /v1/detect and /v1/decode. `boxes` [N,7 or more]: x, y, z, dx, dy, dz, heading and, if there are 9 numbers,
// velocity along x and y. `labels`, `scores` and `track_ids` [N] may be missing.
import { parseSafetensors, Refusal } from "./api.js";
import { edges } from "./scene.js";

const ENDING = ".safetensors";
const COLOURS = [[0.9, 0.1, 0.1], [0.1, 0.45, 0.95], [0.95, 0.6, 0], [0.55, 0.2, 0.85], [0, 0.6, 0.5]];
const GOLDEN = (Math.sqrt(5) - 1) / 2; // turns of hue from one id to the next: close ids get different hues
const FRONT = 0.5; // the line of the heading ends this far in front of the box, as a part of the box's length
const WITH_VELOCITY = 9; // numbers of a box

export const isBoxes = ({ name }) => name.toLowerCase().endsWith(ENDING);

// The boxes of 0001.bin are in 0001.safetensors or 0001.ANY.safetensors.
export const areFor = (boxes, scan) => boxes.name.startsWith(scan.name.replace(/\.[^.]*$/, "."));

// The lines of a box, each [x, y, z, x, y, z]. The line of its velocity spans the way of one second.
function linesOf([x, y, z, dx, dy, dz, heading, vx, vy]) {
  const cos = Math.cos(heading), sin = Math.sin(heading);
  const place = ([u, v, w]) => [x + u * dx * cos - v * dy * sin, y + u * dx * sin + v * dy * cos, z + w * dz];
  const corners = edges.map((corner) => corner.map((one) => one - 0.5));
  const ends = [...corners, [0.5, 0, 0], [0.5 + FRONT, 0, 0]].map(place);
  if (vx || vy) ends.push([x, y, z], [x + vx, y + vy, z]);
  return ends.flatMap((end, i) => (i % 2 ? [[...ends[i - 1], ...end]] : []));
}

const refusal = (detail) => new Refusal(null, { title: "No boxes", detail });

// `names`: of the labels. Null if there is no tensor `boxes` of floats [N,7 or more].
export function foundOf({ boxes, labels, scores, track_ids: tracks }, names = []) {
  const [number, columns] = boxes?.shape ?? [];
  const isReal = boxes?.data instanceof Float32Array || boxes?.data instanceof Float64Array;
  if (!isReal || !(columns >= 7) || boxes.data.length !== number * columns) return null;
  return {
    number, columns, names, boxes: boxes.data, labels: labels?.data, scores: scores?.data, tracks: tracks?.data,
  };
}

export function parseBoxes(name, buffer) {
  let tensors;
  try {
    ({ tensors } = parseSafetensors(buffer));
  } catch {
    throw refusal(`${name} is not a safetensors file of float32, float64, int32 or int64`);
  }
  const found = foundOf(tensors);
  if (!found) throw refusal(`${name} has no tensor boxes [N, 7]`);
  return found;
}

// A track has the same colour in all sweeps.
function colourOfTrack(id) {
  const hue = Number(id) * GOLDEN;
  return [0, 1, 2].map((part) => 0.5 + 0.4 * Math.cos(2 * Math.PI * (hue + part / 3)));
}

// Drops boxes with a number that is not finite, or with a score below `least`.
export function drawn({ number, columns, boxes, labels, scores, tracks, names }, least) {
  const list = [];
  for (let i = 0; i < number; i++) {
    const numbers = columns === WITH_VELOCITY ? WITH_VELOCITY : 7;
    const box = boxes.subarray(i * columns, i * columns + numbers), score = scores?.[i];
    if (score < least || !box.every(Number.isFinite)) continue;
    const label = Math.trunc(Number(labels?.[i])) || 0;
    const track = tracks?.[i], name = names[label] ?? `label ${label}`;
    const colour = track === undefined
      ? COLOURS[((label % COLOURS.length) + COLOURS.length) % COLOURS.length] : colourOfTrack(track);
    list.push({ name, label, score, track, colour, box });
  }
  return list;
}

// [{ name, label, colour, boxes }] for each label that occurs; `boxes` is their number. `colour` is null for tracks.
export function groupsOf(list) {
  const groups = new Map();
  for (const { name, label, colour, track } of list) {
    if (!groups.has(name)) groups.set(name, { name, label, colour: track === undefined ? colour : null, boxes: 0 });
    groups.get(name).boxes++;
  }
  return [...groups.values()].sort((a, b) => a.label - b.label);
}

// Rows of nine numbers for Scene.setBoxes.
export const rowsOfLines = (list) => Float32Array.from(list.flatMap(({ box, colour }) =>
  linesOf(box).flatMap((line) => [...line, ...colour])));

// The text at a box, and its place above the box's middle.
export function labelOf({ name, score, track, box: [x, y, z, , , height, heading, vx, vy] }) {
  const degrees = Math.round((180 / Math.PI) * Math.atan2(Math.sin(heading), Math.cos(heading)));
  const named = track === undefined ? name : `${name} #${track}`;
  const parts = [named, ...(score === undefined ? [] : [score.toFixed(2)]), `${degrees}°`];
  if (vx !== undefined) parts.push(`${Math.hypot(vx, vy).toFixed(1)} m/s`);
  return { text: parts.join(" · "), place: [x, y, z + height / 2], score: score ?? 0 };
}
