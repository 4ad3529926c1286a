// Quantiles of values.

const SOME = 5000; // of more values than this, every n-th is used: at least SOME, fewer than 2 * SOME

// Quantiles of the finite values among of(0) to of(number - 1). `parts`: 0 to 1. All are 0 if no value is finite.
export function quantiles(number, of, parts) {
  const step = Math.max(1, Math.floor(number / SOME)), some = [];
  for (let i = 0; i < number; i += step) if (Number.isFinite(of(i))) some.push(of(i));
  some.sort((a, b) => a - b);
  return parts.map((part) => some[Math.round(part * (some.length - 1))] ?? 0);
}
