// How values are spread.

const SOME = 5000; // of a larger number of values, at least this many and less than twice as many are looked at

// Quantiles of the finite values among of(0) to of(number - 1). `parts` lists the quantiles, from 0 to 1. Each is 0 if
// no value is finite.
export function quantiles(number, of, parts) {
  const step = Math.max(1, Math.floor(number / SOME)), some = [];
  for (let i = 0; i < number; i += step) if (Number.isFinite(of(i))) some.push(of(i));
  some.sort((a, b) => a - b);
  return parts.map((part) => some[Math.round(part * (some.length - 1))] ?? 0);
}
