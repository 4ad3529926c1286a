// How values are spread.

const SOME = 5000; // values that are looked at

// The quantiles `parts` of the finite values among of(0) to of(number - 1). Without any value each is 0.
export function quantiles(number, of, parts) {
  const step = Math.max(1, Math.floor(number / SOME)), some = [];
  for (let i = 0; i < number; i += step) if (Number.isFinite(of(i))) some.push(of(i));
  some.sort((a, b) => a - b);
  return parts.map((part) => some[Math.round(part * (some.length - 1))] ?? 0);
}
