// A live stream: gets an event for each sweep, fetches the points of the last answer, and finds boxes in them. Points
// and boxes of a frame are shown together.
import { follow, getJson, getTensors, remove } from "./api.js";
import { quantiles } from "./spread.js";

const PAUSE = 2000; // milliseconds before the page asks again for events
const SILENCE = 40000; // milliseconds until a silent connection is ended; the service writes every 15 s
const OWN = "page-tracks-"; // prefix of the streams that pages make
const AGAIN = [0, 429, 503]; // statuses after which the page asks again

// The name may come from the page's address, so it may have any characters.
const pathOf = (name, ...what) => ["/v1/streams", encodeURIComponent(name), ...what].join("/");

export const listStreams = async () =>
  (await getJson("/v1/streams")).streams.map(({ name }) => name).filter((name) => !name.startsWith(OWN)).sort();

// [low, high] along x, y, z without the farthest 0.5 % of the points on each side.
export function rangeOf({ points, columns }) {
  const ranges = [0, 1, 2].map((axis) =>
    quantiles(points.length / columns, (i) => points[i * columns + axis], [0.005, 0.995]));
  return [ranges.map(([low]) => low), ranges.map(([, high]) => high)];
}

// A scene without voxels. The points are grouped by sweep; each has the age of its sweep.
function sceneOf({ tensors: { points: { data, shape: [number, columns] } }, metadata: { stream, pose } }) {
  const ages = new Float32Array(number);
  let row = 0;
  for (const { age_s, points: { joined } } of stream.sweeps) ages.fill(age_s, row, row += joined);
  const voxels = { cells: new Int32Array(), counts: new Uint32Array() };
  const ids = new Int32Array(number).fill(-1), samples = new Float32Array();
  return { points: data, columns, ages, ids, voxels, samples, fates: new Uint8Array(number), found: [], stream, pose };
}

// The page's own stream, which numbers the boxes of the frames by track. It keeps one sweep. The page deletes it when
// the user leaves.
export class Tracks {
  constructor() {
    window.addEventListener("pagehide", () => this.end());
  }

  // The parameters that ask for tracks. If time goes back or the columns change, the tracks begin anew.
  parameters({ stream: { time }, pose, columns }) {
    if (time < this.time || columns !== this.columns) this.end();
    this.name ??= OWN + Math.random().toString(36).slice(2);
    Object.assign(this, { time, columns });
    return { stream: this.name, sweeps: 1, time, pose, track: "yes" };
  }

  end() {
    if (this.name) remove(pathOf(this.name)).catch(() => {}); // if this fails, the service drops it later
    this.name = null;
  }
}

export class Live {
  // For each frame, awaits find(scene), then calls show(scene). say(text): other news. refuse(refusal): the stream
  // ended with an error. scene.came: when its event came; scene.late: milliseconds from then to show(scene).
  constructor({ find, show, say, refuse }) {
    Object.assign(this, { find, show, say, refuse, name: "" });
    document.addEventListener("visibilitychange", () => this.load());
    window.addEventListener("pagehide", () => this.connection?.abort()); // a browser may keep the page in memory
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

  // The events of one connection; aborts it after SILENCE.
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

  // Fetches and shows the last points, one request at a time. Sweeps that arrive meanwhile are skipped, but for the
  // last. A hidden page fetches nothing.
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
        // 404: the stream has ended, and an event tells so.
        if (this.is(round) && refusal.status !== 404 && !AGAIN.includes(refusal.status)) this.fail(refusal);
      }
    }
    this.loading = false;
  }

  // Shows the last frame again, with new results of find().
  again() {
    if (!this.name || !this.shown || this.waiting) return;
    this.waiting = 1;
    this.shown--; // counts the frame once
    this.load();
  }

  fail(refusal) {
    this.stop();
    this.refuse(refusal);
  }
}
