// Values of points and voxels, and the colours for them.

// The fates of points, with their colours. Points without finite coordinates cannot be drawn.
export const FATES = [
  ["kept", [70, 160, 90]],
  ["over max_points_per_voxel", [225, 165, 40]],
  ["in range, but its voxel was dropped", [170, 90, 200]],
  ["out of range", [130, 130, 140]],
];

// A third entry limits the row to scans or to streams.
export const COLOURS = [
  ["age", "age of the sweep in s", "stream"],
  ["height", "height"],
  ["intensity", "intensity (column 4)"],
  ["fifth", "ring or time (column 5)"],
  ["distance", "distance"],
  ["count", "points of the voxel", "scan"],
  ["fate", "what became of the point", "scan"],
];

// Dark blue to yellow, by way of green: brightness rises all the way, so it reads without telling hues apart.
const STOPS = [[52, 42, 110], [44, 93, 152], [33, 142, 141], [70, 185, 110], [160, 215, 70], [250, 230, 60]];
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

const ramps = { values: ramp(STOPS), fates: bands(FATES.map(([, colour]) => colour)) };

// 256 colours, four bytes each.
export const rampOf = (name) => (name === "fate" ? ramps.fates : ramps.values);

// The range of the values without the lowest and the highest 2 %, as [low, high]. Samples some thousands of values.
function spread(values) {
  const step = Math.max(1, Math.floor(values.length / 5000));
  const some = [];
  for (let i = 0; i < values.length; i += step) if (Number.isFinite(values[i])) some.push(values[i]);
  some.sort((a, b) => a - b);
  const low = some[Math.floor(0.02 * some.length)] ?? 0;
  const high = some[Math.floor(0.98 * some.length)] ?? 1;
  return high > low ? [low, high] : [low, low + 1];
}

function wholeRange(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return high > low ? [low, high] : [Math.min(low, 0), Math.max(high, 0) || 1];
}

// A value for each point of the scene, and for each voxel: the mean over its points, or its count.
export function paint(name, { points, columns, ids, voxels, fates, ages }) {
  if (name === "age") return { ofPoints: ages, ofVoxels: new Float32Array(), range: wholeRange(ages) };
  const number = points.length / columns;
  const ofPoints = new Float32Array(number);
  const column = { height: 2, intensity: 3, fifth: 4 }[name];
  for (let i = 0, row = 0; i < number; i++, row += columns) {
    if (column !== undefined) ofPoints[i] = column < columns ? points[row + column] : 0;
    else if (name === "distance") ofPoints[i] = Math.hypot(points[row], points[row + 1]);
    else if (name === "count") ofPoints[i] = ids[i] >= 0 ? voxels.counts[ids[i]] : 0;
    else ofPoints[i] = (fates[i] + 0.5) / FATES.length;
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
