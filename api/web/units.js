// Numbers as text.

const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

export const plain = (value) => (value === undefined ? "–" : digits(value));

export function seconds(value) {
  if (value === undefined) return "–";
  if (value >= 1) return `${digits(value)} s`;
  return value >= 0.001 ? `${digits(value * 1e3)} ms` : `${digits(value * 1e6)} µs`;
}

export function bytes(value) {
  if (value === undefined) return "–";
  const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return `${digits(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

// In the two greatest units.
export function duration(total) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, parts.findIndex(([length]) => total >= length));
  const [[length, unit], next] = [total >= 1 ? parts[first] : parts[3], total >= 1 && parts[first + 1]];
  const rest = next ? ` ${Math.floor((total % length) / next[0])} ${next[1]}` : "";
  return `${Math.floor(total / length)} ${unit}${rest}`;
}
