// Values of points and voxels, and the colours for them.
import { words } from "./dom.js";
import { quantiles } from "./spread.js";

// The fates of points, with their colours. Points that are not finite cannot be drawn.
export const FATES = [
  ["kept", [60, 155, 80]],
  ["over max_points_per_voxel", [200, 130, 0]],
  ["in range, but its voxel was dropped", [170, 90, 200]],
  ["out of range", [130, 130, 140]],
];

// Colours for the fates that steps give, used in turn.
const OF_STEPS = [[70, 130, 200], [215, 80, 80], [225, 110, 170], [165, 110, 60], [20, 160, 170], [140, 150, 40]];
const BANDS = [...FATES.map(([, colour]) => colour), ...OF_STEPS];

// From a place in fatesWith() to a place in BANDS.
const bandOf = (fate) => fate < FATES.length ? fate : FATES.length + ((fate - FATES.length) % OF_STEPS.length);

// FATES, and the fates that steps give, by their names.
export const fatesWith = (names) =>
  [...FATES, ...names.map((name, i) => [words(name), BANDS[bandOf(FATES.length + i)]])];

// [name, text]; a third entry limits the row to scans or to streams.
export const COLOURS = [
  ["age", "age of the sweep in s", "stream"],
  ["height", "height"],
  ["intensity", "intensity (column 4)"],
  ["fifth", "ring or time (column 5)"],
  ["distance", "distance"],
  ["count", "points of the voxel", "scan"],
  ["fate", "what became of the point", "scan"],
  ...["z", "z-trans", "hilbert", "hilbert-trans"].map((curve) => [`order-${curve}`, `place along ${curve}`, "scan"]),
];

// The curve of /v1/serialize that a colour needs, or undefined.
export const curveOf = (colour) => colour.match(/^order-(.*)/)?.[1];

// From blue to yellow. Brightness rises all the way, so that nobody needs to tell hues apart. Contrast to the
// background: `dark` 3:1 or more, `light` 2:1 or more.
const STOPS = {
  light: [[52, 42, 110], [44, 93, 152], [30, 130, 138], [58, 158, 84], [140, 168, 36], [220, 166, 16]],
  dark: [[112, 100, 214], [78, 128, 214], [44, 160, 170], [78, 194, 118], [168, 222, 78], [252, 234, 80]],
};
const STEPS = 256;

function ramp(stops) {
  const bytes = new Uint8Array(4 * STEPS);
  for (let step = 0; step < STEPS; step++) {
    const place = (step / (STEPS - 1)) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(place));
    const colour = stops[stop].map((from, i) => from + (place - stop) * (stops[stop + 1][i] - from));
    bytes.set([...colour, 255], 4 * step);
  }
  return bytes;
}

function bands(colours) {
  const bytes = new Uint8Array(4 * STEPS);
  for (let step = 0; step < STEPS; step++)
    bytes.set([...colours[Math.floor((step * colours.length) / STEPS)], 255], 4 * step);
  return bytes;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const fates = bands(BANDS);
const ramps = Object.fromEntries(Object.entries(STOPS).map(([scheme, stops]) => [scheme, ramp(stops)]));
const backwards = ramp([...STOPS.dark].reverse());

// 256 colours, four bytes each. The newest sweep has the highest contrast.
export function rampOf(name) {
  if (name === "fate") return fates;
  return dark.matches ? (name === "age" ? backwards : ramps.dark) : ramps.light;
}

// [low, high] without the lowest and the highest 2 %.
function spread(values) {
  const [low, high] = quantiles(values.length, (i) => values[i], [0.02, 0.98]);
  return high > low ? [low, high] : [low, low + 1];
}

function wholeRange(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return high > low ? [low, high] : [Math.min(low, 0), Math.max(high, 0) || 1];
}

// The colour value of each point, and of each voxel: the mean of its points, or its count.
export function paint(name, { points, columns, ids, voxels, fates, ages, places }) {
  if (name === "age") return { ofPoints: ages, ofVoxels: new Float32Array(), range: wholeRange(ages) };
  const number = points.length / columns;
  const ofPoints = new Float32Array(number);
  const column = { height: 2, intensity: 3, fifth: 4 }[name];
  for (let i = 0, row = 0; i < number; i++, row += columns) {
    if (curveOf(name)) ofPoints[i] = places?.[i] ?? 0;
    else if (column !== undefined) ofPoints[i] = column < columns ? points[row + column] : 0;
    else if (name === "distance") ofPoints[i] = Math.hypot(points[row], points[row + 1]);
    else if (name === "count") ofPoints[i] = ids[i] >= 0 ? voxels.counts[ids[i]] : 0;
    else ofPoints[i] = (bandOf(fates[i]) + 0.5) / BANDS.length;
  }
  const ofVoxels = new Float32Array(voxels.counts.length);
  if (name === "count") ofVoxels.set(voxels.counts);
  else if (name !== "fate") {
    const seen = new Uint32Array(ofVoxels.length);
    for (let i = 0; i < number; i++) {
      if (ids[i] < 0) continue;
      ofVoxels[ids[i]] += ofPoints[i];
      seen[ids[i]]++;
    }
    for (let v = 0; v < seen.length; v++) ofVoxels[v] /= seen[v] || 1;
  }
  const range = name === "fate" ? [0, 1] : spread(ofVoxels.length && name === "count" ? ofVoxels : ofPoints);
  return { ofPoints, ofVoxels, range };
}
