// A chart: lines over the last minutes, drawn as SVG, with a table of values below.
//
// All charts share a cursor, a time that the pointer or the arrow keys choose. The tables show the values at the cursor
// or, without one, the latest values.
import { byId, element, rowOf } from "./dom.js";

const KEPT = 600; // seconds of values
const SHORTEST = 60; // seconds that a chart spans, at least
const STEPS = [15, 30, 60, 120]; // seconds between marks of the time axis: the first that needs at most five marks
const WIDTH = 600, HEIGHT = 120; // of the drawing, which the page stretches
const COLOURS = 8; // in status.css; later lines are dashed

const charts = [];
let cursor = null; // seconds; null: none

function setCursor(time) {
  cursor = time;
  for (const chart of charts) chart.draw();
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// 45 -> "−45 s", 120 -> "−2 min".
function ago(seconds) {
  if (seconds < 0.5) return "now";
  return seconds % 60 ? `−${Math.round(seconds)} s` : `−${seconds / 60} min`;
}

// To 1, 2 or 5 times a power of 10; if `binary`, to a power of 2.
function roundUp(value, binary) {
  if (binary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * (1 - 1e-9));
}

export class Chart {
  // `format` writes a value. `log`: the scale is logarithmic. `binary`: it ends at a power of 2. `sparse`: lines
  // without a value above 0 are left out.
  constructor({ id, title, unit, format, log = false, binary = false, sparse = false }) {
    Object.assign(this, { title, format, log, binary, sparse });
    this.points = []; // { time, values }, oldest first; values: Map of name to number
    this.slots = new Map(); // name -> number, which gives its colour
    const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
    this.drawing = svg("svg", { viewBox, preserveAspectRatio: "none", role: "img", tabindex: 0 });
    this.top = element("span", { className: "top" });
    this.bottom = element("span", { className: "bottom" });
    this.axis = element("div", { className: "axis" });
    this.axis.setAttribute("aria-hidden", "true");
    this.table = element("table");
    const caption = element("figcaption", {}, element("h3", {}, title, element("small", { textContent: unit })));
    const plot = element("div", { className: "plot" }, this.drawing, this.top, this.bottom);
    byId("charts").append(element("figure", { id }, caption, plot, this.axis, this.table));
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => setCursor(null));
    this.drawing.addEventListener("keydown", (event) => this.key(event));
    charts.push(this);
    this.draw();
  }

  // An empty Map makes a gap.
  add(time, values) {
    this.points.push({ time, values });
    while (this.points[0].time < time - KEPT) this.points.shift();
    for (const name of values.keys()) if (!this.slots.has(name)) this.slots.set(name, this.slots.size);
    this.draw();
  }

  end() {
    return this.points.at(-1)?.time ?? 0;
  }

  // Seconds.
  span() {
    return Math.max(SHORTEST, this.end() - (this.points[0]?.time ?? 0));
  }

  nearest(time) {
    const distance = (point) => Math.abs(point.time - time);
    return this.points.reduce((best, point) => (distance(point) < distance(best) ? point : best), this.points[0]);
  }

  point({ clientX }) {
    const { left, width } = this.drawing.getBoundingClientRect();
    if (this.points.length) setCursor(this.nearest(this.end() - this.span() * (1 - (clientX - left) / width)).time);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!this.points.length || (!step && event.key !== "Escape")) return;
    event.preventDefault();
    if (!step) return setCursor(null);
    const at = this.points.indexOf(this.nearest(cursor ?? this.end()));
    setCursor(this.points[Math.min(this.points.length - 1, Math.max(0, at + step))].time);
  }

  names() {
    const shows = (name) => !this.sparse || this.points.some(({ values }) => values.get(name) > 0);
    return [...this.slots.keys()].filter(shows);
  }

  // [lowest, highest]
  scale() {
    const values = this.points.flatMap(({ values }) => [...values.values()]);
    const positive = values.filter((value) => value > 0);
    if (!positive.length) return [this.log ? 1e-6 : 0, 1];
    const most = Math.max(...positive);
    if (!this.log) return [0, roundUp(most, this.binary)];
    const low = 10 ** Math.floor(Math.log10(Math.min(...positive)));
    return [low, Math.max(10 * low, 10 ** Math.ceil(Math.log10(most)))];
  }

  y(value, [low, high]) {
    const clipped = Math.max(low, value);
    const part = this.log ? Math.log(clipped / low) / Math.log(high / low) : (clipped - low) / (high - low);
    return HEIGHT * (1 - part);
  }

  x(time) {
    return WIDTH * (1 + (time - this.end()) / this.span());
  }

  path(name, scale) {
    let text = "", pen = "M";
    for (const { time, values } of this.points) {
      const value = values.get(name);
      if (value !== undefined) text += `${pen}${this.x(time).toFixed(1)} ${this.y(value, scale).toFixed(1)}h.1`;
      pen = value === undefined ? "M" : "L";
    }
    return text;
  }

  // Seconds before now to mark: the cursor's time, or regular times.
  marks(pointed) {
    if (pointed) return [this.end() - pointed.time];
    const step = STEPS.find((each) => this.span() <= 5 * each) ?? STEPS.at(-1);
    return Array.from({ length: Math.ceil(this.span() / step) }, (_, i) => i * step);
  }

  // Stays within the ends of the axis.
  label(before) {
    const part = 100 * (1 - before / this.span());
    const label = element("span", { textContent: ago(before) });
    Object.assign(label.style, { left: `${part}%`, transform: `translateX(-${part}%)` });
    return label;
  }

  draw() {
    const names = this.names(), scale = this.scale();
    const pointed = cursor !== null && this.points.length ? this.nearest(cursor) : null;
    const shown = pointed ?? this.points.at(-1);
    const value = (name) => this.format(shown?.values.get(name));
    const colour = (name) => `series-${this.slots.get(name) % COLOURS}`;
    const dashed = (name) => (this.slots.get(name) >= COLOURS ? " dashed" : "");
    const lines = names.map((name) => svg("path", { d: this.path(name, scale), class: colour(name) + dashed(name) }));
    const middle = svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "grid" });
    const marks = this.marks(pointed);
    const times = marks.map((before) => this.x(this.end() - before)).map((x) =>
      svg("line", { x1: x, x2: x, y1: 0, y2: HEIGHT, class: pointed ? "cursor" : "grid" }));
    this.drawing.replaceChildren(middle, ...times, ...lines);
    this.axis.replaceChildren(...marks.map((before) => this.label(before)));
    const told = names.map((name) => `${name} ${value(name)}`).join(", ") || "nothing yet";
    this.drawing.setAttribute("aria-label", `${this.title}: ${told}`);
    [this.bottom.textContent, this.top.textContent] = scale.map(this.format);
    const swatch = (name) => element("span", { className: `swatch ${colour(name)}${dashed(name)}` });
    const rows = names.map((name) => Object.assign(rowOf([swatch(name), name], value(name)), { title: name }));
    this.table.replaceChildren(...(rows.length ? rows : [rowOf(["none"], "")]));
  }
}
