// What the page says about an answer: counts, warnings, times, the voxel that was picked, and how to ask by oneself.
import { pathOf } from "./api.js";
import { element } from "./form.js";
import { FATES, rampOf } from "./colours.js";

const PIECES = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999999"];
const byId = (id) => document.getElementById(id);
const whole = (number) => number.toLocaleString("en");
const words = (name) => name.replaceAll("_", " ");

function swatch(colour) {
  const made = element("span", { className: "swatch" });
  made.style.backgroundColor = colour;
  return made;
}

function rowOf(head, value) {
  return element("tr", {}, element("th", { scope: "row" }, ...head), element("td", { textContent: value }));
}

export function showCounts({ points, voxels, samples, grid_size, warnings, backend }, boxes) {
  const rows = [];
  for (const [name, value] of Object.entries(points)) rows.push(rowOf([`points ${words(name)}`], whole(value)));
  for (const [name, value] of Object.entries(voxels)) rows.push(rowOf([`voxels ${words(name)}`], whole(value)));
  if (samples) rows.push(rowOf(["samples"], whole(samples.chosen)));
  for (const { label, colour, boxes: number } of boxes)
    rows.push(rowOf([swatch(`rgb(${colour.map((part) => 255 * part)})`), `boxes of label ${label}`], whole(number)));
  rows.push(rowOf(["grid x, y, z"], grid_size.map(whole).join(" × ")), rowOf(["backend"], backend));
  const notes = warnings.map((warning) =>
    element("p", { className: "warning", textContent: warning.detail }));
  byId("counts").replaceChildren(...notes, element("table", {}, ...rows));
}

export function showTiming({ total, ...stages }) {
  const bar = element("div", { className: "bar" });
  bar.setAttribute("aria-hidden", "true");
  const rows = Object.entries(stages).map(([name, value], i) => {
    const piece = element("span", { title: `${name} ${value} µs` });
    piece.style.backgroundColor = PIECES[i % PIECES.length];
    piece.style.width = `${(100 * value) / (total || 1)}%`;
    bar.append(piece);
    return rowOf([swatch(PIECES[i % PIECES.length]), words(name)], `${value.toFixed(0)} µs`);
  });
  byId("timing").replaceChildren(bar, element("table", {}, ...rows, rowOf(["total"], `${total.toFixed(0)} µs`)));
}

export function showLegend(colour, label, [low, high]) {
  if (colour === "fate") {
    const rows = FATES.map(([name, rgb]) => element("div", {}, swatch(`rgb(${rgb})`), name));
    return byId("legend").replaceChildren(...rows);
  }
  const ramp = rampOf(colour);
  const canvas = element("canvas", { width: ramp.length / 4, height: 1 });
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(ramp), ramp.length / 4, 1), 0, 0);
  canvas.setAttribute("aria-hidden", "true");
  const ends = element("div", { className: "ends" });
  ends.append(...[low, high].map((value) => element("span", { textContent: +value.toPrecision(3) })));
  byId("legend").replaceChildren(label, canvas, ends);
}

export function showVoxel(voxel) {
  if (!voxel) return byId("voxel").replaceChildren("Click one.");
  const { number, cell, count, points } = voxel;
  const rows = points.map(({ row, values }) =>
    rowOf([`point ${whole(row)}`], values.map((value) => +value.toPrecision(4)).join(", ")));
  byId("voxel").replaceChildren(element("table", {}, rowOf(["row"], whole(number)), rowOf(["x, y, z"], cell.join(", ")),
                                        rowOf(["points kept"], whole(count)), ...rows));
}

// Words of a shell, and of Python: what the user typed must not end the text.
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const python = (text) => JSON.stringify(text);

export function showCommands(name, parameters, columns, token) {
  const address = location.origin;
  const secret = token ? " -H \"Authorization: Bearer $TOKEN\"" : "";
  byId("curl").textContent = `curl${secret} --data-binary ${shell(`@${name}`)} -o voxels.safetensors \\\n`
    + `  ${shell(address + pathOf("voxelize", parameters))}`;
  const { num_features, ...others } = parameters;
  const rows = others.format || others.dtype === "float16"
    ? `open(${python(name)}, "rb").read()`
    : `numpy.fromfile(${python(name)}, "<f4").reshape(-1, ${columns})`;
  const given = Object.entries(others.format || others.dtype === "float16" ? parameters : others);
  const named = given.map(([key, value]) => `, ${key}=${python(value)}`).join("");
  byId("python").textContent = `import numpy, voxeld\n\npoints = ${rows}\n`
    + `with voxeld.Client(${python(address)}${token ? ", token=TOKEN" : ""}) as client:\n`
    + `    result = client.voxelize(points${named})\nprint(result["voxel_coords"].shape)`;
}

export function showError(refusal) {
  const box = byId("error");
  box.hidden = !refusal;
  if (refusal) box.replaceChildren(element("strong", { textContent: refusal.title ?? "Error" }), refusal.message);
  else box.replaceChildren();
}
