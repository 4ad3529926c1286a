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

// The distance along the ray to the box; Infinity if the ray misses it.
function meet(direction, [x, y, length, width, height]) {
  const centre = [x, y, height / 2 - HEIGHT], half = [length / 2, width / 2, height / 2];
  let near = 0, far = Infinity;
  for (let axis = 0; axis < 3; axis++) {
    const one = (centre[axis] - half[axis]) / direction[axis], other = (centre[axis] + half[axis]) / direction[axis];
    near = Math.max(near, Math.min(one, other));
    far = Math.min(far, Math.max(one, other));
  }
  return near < far ? near : Infinity;
}

// Rows of `columns` float32: x, y, z, intensity, beam, then zeros.
export function sampleScan(columns) {
  const noise = random(7);
  const rows = [];
  for (let step = 0; step < STEPS; step++) {
    const angle = (2 * Math.PI * (step + 0.5)) / STEPS;
    for (let beam = 0; beam < BEAMS; beam++) {
      const slope = ((LOWEST + ((HIGHEST - LOWEST) * beam) / (BEAMS - 1)) * Math.PI) / 180;
      const direction = [Math.cos(angle) * Math.cos(slope), Math.sin(angle) * Math.cos(slope), Math.sin(slope)];
      let distance = direction[2] < 0 ? -HEIGHT / direction[2] : Infinity;
      let intensity = 0.15;
      for (const box of BOXES) {
        const met = meet(direction, box);
        if (met < distance) [distance, intensity] = [met, box[5]];
      }
      const noisy = distance + 0.04 * (noise() - 0.5), bright = intensity * (0.8 + 0.2 * noise());
      if (!(noisy < FARTHEST)) continue;
      rows.push(...direction.map((part) => part * noisy), bright, beam);
      for (let column = 5; column < columns; column++) rows.push(0);
      if (columns < 5) rows.length -= 5 - columns;
    }
  }
  return new Float32Array(rows);
}
