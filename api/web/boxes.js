// Boxes of a detection, as /v1/detect and /v1/decode answer them: `boxes` [N, 7 or more] (x, y, z, dx, dy, dz, heading,
// ...) and, if they are there, `labels` [N] and `scores` [N].
import { parseSafetensors, Refusal } from "./api.js";
import { edges } from "./scene.js";

const ENDING = ".safetensors";
const COLOURS = [[0.9, 0.1, 0.1], [0.1, 0.45, 0.95], [0.95, 0.6, 0], [0.55, 0.2, 0.85], [0, 0.6, 0.5]];
const FRONT = 0.5; // of a box's length: how far the line of its heading extends in front of it

export const isBoxes = ({ name }) => name.toLowerCase().endsWith(ENDING);

// A file of boxes belongs to a scan if its name begins with the scan's name without the ending.
export const areFor = (boxes, scan) => boxes.name.startsWith(scan.name.replace(/\.[^.]*$/, "."));

// The lines of one box, x, y, z of both ends of each.
function linesOf([x, y, z, dx, dy, dz, heading]) {
  const cos = Math.cos(heading), sin = Math.sin(heading);
  const place = ([u, v, w]) => [x + u * dx * cos - v * dy * sin, y + u * dx * sin + v * dy * cos, z + w * dz];
  const corners = edges.map((corner) => corner.map((one) => one - 0.5));
  return [...corners, [0.5, 0, 0], [0.5 + FRONT, 0, 0]].flatMap(place);
}

const refusal = (detail) => new Refusal(null, { title: "No boxes", detail });

// The boxes of a detection, from its tensors; `names` are the names of the labels. Null if there are no boxes.
export function foundOf({ boxes, labels, scores }, names = []) {
  const [number, columns] = boxes?.shape ?? [];
  const isReal = boxes?.data instanceof Float32Array || boxes?.data instanceof Float64Array;
  if (!isReal || !(columns >= 7) || boxes.data.length !== number * columns) return null;
  return { number, columns, boxes: boxes.data, labels: labels?.data, scores: scores?.data, names };
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

// [{ name, boxes, colour, lines }] for each label that occurs. Skips boxes with a lower score than `least`.
// `boxes` is their number, `lines` a Float32Array.
export function groupsOf({ number, columns, boxes, labels, scores, names }, least) {
  const groups = new Map();
  for (let i = 0; i < number; i++) {
    if (scores?.[i] < least) continue;
    const label = Math.trunc(Number(labels?.[i])) || 0;
    if (!groups.has(label)) groups.set(label, []);
    const lines = linesOf(boxes.subarray(i * columns));
    if (lines.every(Number.isFinite)) groups.get(label).push(...lines);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([label, lines]) => ({
    name: names[label] ?? `label ${label}`, lines: new Float32Array(lines),
    boxes: lines.length / (3 * (edges.length + 2)),
    colour: COLOURS[((label % COLOURS.length) + COLOURS.length) % COLOURS.length],
  }));
}
