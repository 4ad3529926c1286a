// A simulated scan of a street, always the same: 64 beams from a car's roof.

const BEAMS = 64, STEPS = 1800, LOWEST = -24.8, HIGHEST = 2; // degrees
const HEIGHT = 1.73; // of the sensor above the road, in metres
const FARTHEST = 80;

// [x, y, length, width, height, intensity]; each stands on the road.
const BOXES = [
  ...[-40, -26, -9, 7, 16, 31, 45].map((x, i) => [x, i % 2 ? 3.4 : -3.6, 4.3, 1.8, 1.5, 0.3 + 0.08 * i]), // cars
  [22, -7.5, 9, 2.5, 3.2, 0.7], // a lorry
  ...[5, 12, 19, 38].map((x, i) => [x, i % 2 ? 7 : -6, 0.6, 0.6, 1.75, 0.5]), // people
  ...[-30, -15, 0, 15, 30, 45, 60].map((x) => [x, 9, 0.3, 0.3, 6, 0.2]), // posts
  ...[-45, -20, 5, 30, 55].map((x, i) => [x, 17, 18, 10, 7 + (i % 3) * 2, 0.4]), // houses
  ...[-38, -12, 14, 40].map((x, i) => [x, -18, 20, 12, 8 + (i % 2) * 3, 0.45]),
];

function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

// The lowest and the highest corner of each box, from the sensor, and how it reflects.
const PLACED = BOXES.map(([x, y, length, width, height, reflects]) => {
  const centre = [x, y, height / 2 - HEIGHT], half = [length / 2, width / 2, height / 2];
  return [centre.map((part, axis) => part - half[axis]), centre.map((part, axis) => part + half[axis]), reflects];
});

// The distance at which a ray from the sensor meets a box, or Infinity. A direction without z leaves heights out.
function meet(direction, low, high) {
  let near = 0, far = Infinity;
  for (let axis = 0; axis < direction.length; axis++) {
    const one = low[axis] / direction[axis], other = high[axis] / direction[axis];
    near = Math.max(near, Math.min(one, other));
    far = Math.min(far, Math.max(one, other));
  }
  return near < far ? near : Infinity;
}

// Rows of `columns` float32: x, y, z, intensity, beam, then zeros.
export function sampleScan(columns) {
  const noise = random(7);
  const rows = new Float32Array(STEPS * BEAMS * columns);
  let end = 0;
  for (let step = 0; step < STEPS; step++) {
    const angle = (2 * Math.PI * (step + 0.5)) / STEPS;
    const flat = [Math.cos(angle), Math.sin(angle)];
    const ahead = PLACED.filter(([low, high]) => meet(flat, low, high) < Infinity);
    for (let beam = 0; beam < BEAMS; beam++) {
      const slope = ((LOWEST + ((HIGHEST - LOWEST) * beam) / (BEAMS - 1)) * Math.PI) / 180;
      const direction = [flat[0] * Math.cos(slope), flat[1] * Math.cos(slope), Math.sin(slope)];
      let distance = direction[2] < 0 ? -HEIGHT / direction[2] : Infinity;
      let intensity = 0.15;
      for (const [low, high, reflects] of ahead) {
        const met = meet(direction, low, high);
        if (met < distance) [distance, intensity] = [met, reflects];
      }
      const noisy = distance + 0.04 * (noise() - 0.5), bright = intensity * (0.8 + 0.2 * noise());
      if (!(noisy < FARTHEST)) continue;
      const row = [direction[0] * noisy, direction[1] * noisy, direction[2] * noisy, bright, beam];
      for (let column = 0; column < columns; column++) rows[end++] = row[column] ?? 0;
    }
  }
  return rows.slice(0, end);
}
