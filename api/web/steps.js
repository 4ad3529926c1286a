// Steps before the operation: the list of a request, and the effect on the points of a scan.

// [{ tag, op }] of a list such as "downsample,far:transform".
export const parseSteps = (text) => (text === "none" ? [] : text.split(",").filter(Boolean)).map((item) => {
  const [tag, op = tag] = item.split(":");
  return { tag, op };
});

// The list as a text. In lists of presets and answers tags may be missing.
export const textOfSteps = (steps) =>
  steps.map(({ tag = "", op }) => tag && tag !== op ? `${tag}:${op}` : op).join(",");

// A step in an answer: { tag, op, came, kept, fates }. `came`: points before the step. `fates`: [[name, points]].
export function countsOf({ tag, op, in: came, kept, ...fates }) {
  return { tag, op, came, kept, fates: Object.entries(fates).filter(([, number]) => number) };
}

// Names of the fates that steps gave, without not_finite: such points cannot be drawn.
export const fatesOf = (steps = []) => [...new Set(steps.flatMap((step) => countsOf(step).fates.map(([name]) => name)))]
  .filter((name) => name !== "not_finite");

function moved([x, y, z], matrix) {
  return [0, 4, 8].map((row) => matrix[row] * x + matrix[row + 1] * y + matrix[row + 2] * z + matrix[row + 3]);
}

// Moves the points of a scene to where steps left or dropped them. Dropped points belong to no voxel.
export function takeSteps(scene, tensors, steps) {
  const { columns, ids } = scene, left = tensors.points.data;
  const dropped = tensors.point_steps.data, rows = tensors.point_rows.data;
  scene.points = scene.points.slice(); // the points may be a view of the scan's bytes
  for (let i = 0, at = 0; i < dropped.length; i++, at += columns) {
    const row = rows[i] * columns;
    if (!dropped[i]) {
      scene.points.set(left.subarray(row, row + columns), at);
      continue;
    }
    ids[i] = -1;
    for (const { matrix } of steps.slice(0, dropped[i]))
      if (matrix) scene.points.set(moved(scene.points.subarray(at, at + 3), matrix), at);
  }
}
