// A scan: its bytes, its points, and the service's answer for them.
import { post } from "./api.js";
import { FATES } from "./colours.js";
import { fatesOf as fatesOfSteps, takeSteps } from "./steps.js";
import { quantiles } from "./spread.js";

const FORMATS = { pcd: "pcd", ply: "ply" };

export function formatOf(name) {
  // nuScenes' .pcd.bin files are raw rows
  return FORMATS[name.split(".").pop().toLowerCase()] ?? null;
}

// The parameters that describe the bytes of a scan.
export function rowsOf({ dtype, scale, filter, format, intensity_scale, fields, num_features }) {
  const given = Object.entries({ dtype, scale, filter, format, intensity_scale }).filter(([, value]) => value);
  return { ...Object.fromEntries(given), ...(fields ? { fields: String(fields) } : { num_features }) };
}

// The points as rows of float32. An identity transform by the service reads other formats; it drops points that are not
// finite, which get rows of NaN here. `used`: the parameters in the service's answer.
async function pointsOf(bytes, used) {
  const columns = used.num_features;
  const raw = (used.format ?? "raw") === "raw" && used.dtype === "float32";
  if (raw && !used.scale && !used.filter && !used.intensity_scale)
    return { points: new Float32Array(bytes, 0, Math.floor(bytes.byteLength / (4 * columns)) * columns), columns };
  const { tensors, metadata } = await post("transform", rowsOf(used), bytes);
  const { data, shape: [kept, width] } = tensors.points;
  const points = new Float32Array(metadata.points.received * width).fill(NaN);
  const rows = tensors.point_indices.data;
  for (let i = 0; i < kept; i++) points.set(data.subarray(i * width, (i + 1) * width), rows[i] * width);
  return { points, columns: width };
}

// The place of each point's fate in fatesWith(). `dropped`: the result of droppedBy() if there are steps, else false.
// A voxel's points after the first `cap` count as over its cap. With max_points_by=random the service may have dropped
// other points of the voxel, but as many.
function fatesOf({ points, columns, ids }, { max_points_per_voxel: cap }, low, high, voxels, dropped) {
  const fates = new Uint8Array(ids.length);
  const seen = new Uint32Array(voxels);
  for (let i = 0; i < ids.length; i++) {
    if (dropped?.[i]) fates[i] = dropped[i];
    else if (ids[i] >= 0) fates[i] = cap && seen[ids[i]]++ >= cap ? 1 : 0;
    else fates[i] = [0, 1, 2].every((axis) => points[i * columns + axis] >= low[axis] &&
                                              points[i * columns + axis] < high[axis]) ? 2 : 3;
  }
  return fates;
}

// For each point: the place in fatesWith() of the fate that a step gave it, or 0.
function droppedBy({ tensors, metadata: { fate_names: names, steps } }) {
  const numbers = names.map((name) => FATES.length + fatesOfSteps(steps).indexOf(name));
  return tensors.point_fates.data.map((fate) => fate && numbers[fate]);
}

// Asks for the voxels of a scan. `stepped`: the request has steps, or its preset does.
export async function voxelize(bytes, parameters, stepped) {
  const outputs = ["voxel_coords", "voxel_num_points", "point_voxel_ids"];
  if (parameters.fps && parameters.fps !== "off") outputs.push("sampled_points");
  if (stepped) outputs.push("points", "point_rows", "point_fates", "point_steps");
  const answer = await post("voxelize", { ...parameters, outputs: outputs.join(",") }, bytes);
  const { tensors, metadata } = answer;
  const used = metadata.parameters;
  const scene = await pointsOf(bytes, used);
  scene.ids = tensors.point_voxel_ids.data;
  scene.voxels = { cells: tensors.voxel_coords.data, counts: tensors.voxel_num_points.data };
  if (stepped) takeSteps(scene, tensors, used.steps);
  const range = metadata.effective_range;
  Object.assign(scene, { low: range.slice(0, 3), high: range.slice(3), size: used.voxel_size, metadata });
  scene.fates = fatesOf(scene, used, scene.low, scene.high, scene.voxels.counts.length,
                        stepped && droppedBy(answer));
  scene.samples = tensors.sampled_points?.data ?? new Float32Array();
  return scene;
}

const CURVE_CELL = 0.05; // metres, as in Point Transformer V3's configurations

// Each point's place on a curve; 0 for points without one. `used`: the parameters in the answer of voxelize, which
// describe the scan's bytes.
export async function placesOf(bytes, used, curve) {
  const asked = { ...rowsOf(used), voxel_size: CURVE_CELL, orders: curve, outputs: "serialized_inverse,point_indices" };
  const { tensors, metadata } = await post("serialize", asked, bytes);
  const places = new Float32Array(metadata.points.received);
  const { serialized_inverse: { data: inverse }, point_indices: { data: rows } } = tensors;
  for (let i = 0; i < rows.length; i++) places[rows[i]] = inverse[i];
  return places;
}

const USUAL = [3, 4, 5]; // numbers of columns: x, y, z; also intensity; also a ring or a time

// Numbers usually have bytes that text does not have.
const isText = (bytes) => new Uint8Array(bytes, 0, Math.min(bytes.byteLength, 256)).every((byte) =>
  (byte >= 32 && byte < 127) || [9, 10, 13].includes(byte));

// For a refused file of raw float32 rows: other usual numbers of columns that fit its size.
export function columnsThatFit(bytes, columns) {
  const { byteLength: size } = bytes, fits = (number) => size % (4 * number) === 0;
  return size && !fits(columns) && !isText(bytes) ? USUAL.filter(fits) : [];
}

// [middle, distance to look from]; they show most of a scene's voxels or, without voxels, most of its points.
export function middleOf({ voxels: { cells }, points, columns, low, high, size }) {
  const number = cells.length / 4;
  const of = (axis) => number ? (i) => low[axis] + (cells[4 * i + 3 - axis] + 0.5) * size[axis]
    : (i) => points[i * columns + axis];
  const spreads = [0, 1, 2].map((axis) => quantiles(number || points.length / columns, of(axis), [0.1, 0.9]));
  const wide = Math.hypot(...spreads.map(([first, last]) => last - first)) + (number && 10 * Math.hypot(...size));
  const whole = Math.hypot(...high.map((value, axis) => value - low[axis]));
  return [spreads.map(([first, last]) => (first + last) / 2), wide || whole];
}

// The row of the nearest voxel on a ray, or -1.
export function pick({ voxels: { cells }, low, size }, { from, along }) {
  let nearest = Infinity, picked = -1;
  for (let row = 0; row < cells.length; row += 4) {
    let near = 0, far = Infinity;
    for (let axis = 0; axis < 3; axis++) {
      const begin = low[axis] + cells[row + 3 - axis] * size[axis] - from[axis];
      const one = begin / along[axis], other = (begin + size[axis]) / along[axis];
      near = Math.max(near, Math.min(one, other));
      far = Math.min(far, Math.max(one, other));
    }
    if (near < far && near < nearest) [nearest, picked] = [near, row / 4];
  }
  return picked;
}

// [{ row, values }] of a voxel's first points, at most `most`.
export function pointsOfVoxel({ points, columns, ids }, voxel, most) {
  const rows = [];
  for (let i = 0; i < ids.length && rows.length < most; i++)
    if (ids[i] === voxel) rows.push({ row: i, values: [...points.subarray(i * columns, (i + 1) * columns)] });
  return rows;
}
