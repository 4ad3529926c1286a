// An answer of /metrics in Prometheus' text format; rates and quantiles between two answers.

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export class Scrape {
  // `time`: in seconds.
  constructor(time, text) {
    this.time = time;
    this.families = new Map(); // name -> [{ labels, value }]
    for (const line of text.split("\n")) {
      const [, name, labels = "", value] = SAMPLE.exec(line) ?? [];
      if (!name) continue;
      if (!this.families.has(name)) this.families.set(name, []);
      const named = [...labels.matchAll(LABEL)].map(([, label, text]) => [label, text]);
      this.families.get(name).push({ labels: Object.fromEntries(named), value: Number(value) });
    }
  }

  // Map: value of the label -> sum of the family's samples. Without a label the key is undefined.
  sums(family, label) {
    const sums = new Map();
    for (const { labels, value } of this.families.get(family) ?? [])
      sums.set(labels[label], (sums.get(labels[label]) ?? 0) + value);
    return sums;
  }

  // The sum of the family's samples or, with a label, of the samples with the label's value `text`.
  value(family, label, text) {
    return this.sums(family, label).get(text) ?? 0;
  }

  // Whether this scrape is a later one of the same process. If so, counters have only grown.
  follows(before) {
    const start = "process_start_time_seconds";
    return this.value(start) === before.value(start) && this.time > before.time;
  }
}

// Growth of counters per second: Map by the label's value. A missing earlier value counts as 0.
export function rates(before, now, family, label) {
  const old = before.sums(family, label);
  const rate = (key, value) => Math.max(0, value - (old.get(key) ?? 0)) / (now.time - before.time);
  return new Map([...now.sums(family, label)].map(([key, value]) => [key, rate(key, value)]));
}

export const total = (map) => [...map.values()].reduce((sum, value) => sum + value, 0);

function bucketsBy(scrape, family, label) {
  const buckets = new Map();
  for (const { labels, value } of scrape.families.get(`${family}_bucket`) ?? []) {
    if (!buckets.has(labels[label])) buckets.set(labels[label], []);
    buckets.get(labels[label]).push({ bound: labels.le === "+Inf" ? Infinity : Number(labels.le), value });
  }
  return buckets;
}

// As Prometheus' histogram_quantile: values are spread evenly within a bucket; a quantile above the highest bound is
// that bound. NaN without observations.
export function quantileOf(buckets, part) {
  const rank = part * buckets.at(-1).value;
  const index = buckets.findIndex(({ value }) => value >= rank);
  const below = index > 0 ? buckets[index - 1] : { bound: 0, value: 0 };
  const { bound, value } = buckets[index];
  if (!(buckets.at(-1).value > 0)) return NaN;
  if (bound === Infinity) return below.bound;
  return below.bound + (bound - below.bound) * ((rank - below.value) / (value - below.value));
}

// Map by the label's value: the quantile `part` of the observations between two scrapes. Values without observations
// are left out.
export function quantiles(before, now, family, label, part) {
  const old = bucketsBy(before, family, label);
  const found = new Map();
  for (const [key, buckets] of bucketsBy(now, family, label)) {
    const grown = buckets.map(({ bound, value }, i) => ({ bound, value: value - (old.get(key)?.[i].value ?? 0) }));
    const quantile = quantileOf(grown, part);
    if (!Number.isNaN(quantile)) found.set(key, quantile);
  }
  return found;
}
