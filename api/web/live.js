// A live stream: gets an event for each sweep, fetches the points that the last request joined, and lets its owner find
// boxes in them. Points and boxes of a frame are shown together.
import { follow, getJson, getTensors, remove } from "./api.js";
import { quantiles } from "./spread.js";

const PAUSE = 2000; // milliseconds before the page asks again for events
const SILENCE = 40000; // milliseconds; the service sends something every 15 s
const OWN = "page-tracks-"; // the names of the pages' own streams begin so
const AGAIN = [0, 429, 503]; // statuses of temporary refusals

// The name may come from the address of the page, so it may have any characters.
const pathOf = (name, ...what) => ["/v1/streams", encodeURIComponent(name), ...what].join("/");

export const listStreams = async () =>
  (await getJson("/v1/streams")).streams.map(({ name }) => name).filter((name) => !name.startsWith(OWN)).sort();

// The range of all points but the farthest 0.5 % on each side, as [low, high].
export function rangeOf({ points, columns }) {
  const ranges = [0, 1, 2].map((axis) =>
    quantiles(points.length / columns, (i) => points[i * columns + axis], [0.005, 0.995]));
  return [ranges.map(([low]) => low), ranges.map(([, high]) => high)];
}

// The answer as a scene without voxels. Each point has the age of its sweep; the points are grouped by sweep.
function sceneOf({ tensors: { points: { data, shape: [number, columns] } }, metadata: { stream, pose } }) {
  const ages = new Float32Array(number);
  let row = 0;
  for (const { age_s, points: { joined } } of stream.sweeps) ages.fill(age_s, row, row += joined);
  const voxels = { cells: new Int32Array(), counts: new Uint32Array() };
  const ids = new Int32Array(number).fill(-1), samples = new Float32Array();
  return { points: data, columns, ages, ids, voxels, samples, fates: new Uint8Array(number), found: [], stream, pose };
}

// The page's own stream, in which the service follows the boxes of the frames. The stream keeps only the last frame.
// The page deletes the stream when the user leaves the page.
export class Tracks {
  constructor() {
    window.addEventListener("pagehide", () => this.end());
  }

  // The parameters of the request for the boxes of a scene with their tracks. If the user's stream began anew, so
  // that its times go back or its rows have other columns, the tracks begin anew too.
  parameters({ stream: { time }, pose, columns }) {
    if (time < this.time || columns !== this.columns) this.end();
    this.name ??= OWN + Math.random().toString(36).slice(2);
    Object.assign(this, { time, columns });
    return { stream: this.name, sweeps: 1, time, pose, track: "yes" };
  }

  end() {
    if (this.name) remove(pathOf(this.name)).catch(() => {}); // if this fails, the stream ends after a time
    this.name = null;
  }
}

export class Live {
  // For each answer, awaits find(scene), then calls show(scene). Calls say(text) for other news, and refuse(refusal)
  // when the stream ends with an error. A scene has `came`, the time at which its event came, and `late`, the
  // milliseconds from then until show(scene).
  constructor({ find, show, say, refuse }) {
    Object.assign(this, { find, show, say, refuse, name: "" });
    document.addEventListener("visibilitychange", () => this.load());
    window.addEventListener("pagehide", () => this.connection?.abort()); // a browser may keep a page that was left
  }

  start(name) {
    this.stop();
    Object.assign(this, { name, shown: 0, skipped: 0, waiting: 0, superseded: 0, dropped: 0 });
    this.run(this.round);
  }

  stop() {
    this.round = (this.round ?? 0) + 1;
    this.name = "";
    this.connection?.abort();
  }

  is(round) {
    return this.round === round;
  }

  async run(round) {
    const path = pathOf(this.name, "events");
    while (this.is(round)) {
      let why = "the service has ended the events";
      try {
        for await (const { name, data } of this.events(path)) this.take(name, data);
      } catch (refusal) {
        if (this.is(round) && !AGAIN.includes(refusal.status)) return this.fail(refusal);
        why = refusal.message;
      }
      if (!this.is(round)) return;
      this.say(`${why}; asking again`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }

  // The events of one connection, which ends if the service falls silent.
  async *events(path) {
    const connection = this.connection = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => connection.abort(), SILENCE);
    };
    heard();
    try {
      yield* follow(path, connection.signal, heard);
    } finally {
      clearTimeout(timer);
    }
  }

  take(name, { sweeps, events, superseded = false, dropped = 0 }) {
    if (name === "lost") this.skipped += events;
    this.superseded += superseded;
    this.dropped += dropped;
    if ((name === "sweep" || name === "open") && sweeps) {
      this.waiting++;
      this.came = performance.now();
      this.load();
    } else if (sweeps === 0) {
      this.say(name === "open" ? "waiting for its first sweep" : `the stream has ended: ${name}`);
    }
  }

  // Fetches the last points and shows them. Only one request runs at a time. Of the sweeps that arrive meanwhile, only
  // the last is shown. A hidden page fetches nothing.
  async load() {
    if (this.loading) return;
    this.loading = true;
    while (this.name && this.waiting && !document.hidden) {
      const { round, came } = this;
      this.skipped += this.waiting - 1;
      this.waiting = 0;
      try {
        const scene = sceneOf(await getTensors(pathOf(this.name, "last")));
        if (this.is(round)) await this.find(scene);
        if (!this.is(round)) continue;
        this.shown++;
        this.show(Object.assign(scene, { came, late: performance.now() - came }));
      } catch (refusal) {
        // 404: the stream has just ended; an event reports that
        if (this.is(round) && refusal.status !== 404 && !AGAIN.includes(refusal.status)) this.fail(refusal);
      }
    }
    this.loading = false;
  }

  // Shows the last frame again, with what find() finds now.
  again() {
    if (!this.name || !this.shown || this.waiting) return;
    this.waiting = 1;
    this.shown--; // the frame counts once
    this.load();
  }

  fail(refusal) {
    this.stop();
    this.refuse(refusal);
  }
}
