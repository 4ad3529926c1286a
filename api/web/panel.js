// The panels about an answer: counts, warnings, times, the picked voxel, and commands that repeat the request.
import { pathOf } from "./api.js";
import { FATES, rampOf } from "./colours.js";
import { byId, element, rowOf, whole, words } from "./dom.js";
import { rowsOf } from "./scan.js";

const PIECES = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999999"];

function swatch(colour) {
  const made = element("span", { className: "swatch" });
  made.style.backgroundColor = colour;
  return made;
}

const swatchOf = (colour) => swatch(`rgb(${colour.map((part) => 255 * part)})`);

export function showCounts({ points, voxels, samples, grid_size, warnings, backend }, boxes) {
  const rows = [];
  for (const [name, value] of Object.entries(points)) rows.push(rowOf([`points ${words(name)}`], whole(value)));
  for (const [name, value] of Object.entries(voxels)) rows.push(rowOf([`voxels ${words(name)}`], whole(value)));
  if (samples) rows.push(rowOf(["samples"], whole(samples.chosen)));
  for (const { name, colour, boxes: number } of boxes)
    rows.push(rowOf([swatchOf(colour), `boxes of ${name}`], whole(number)));
  rows.push(rowOf(["grid x, y, z"], grid_size.map(whole).join(" × ")), rowOf(["backend"], backend));
  const notes = warnings.map((warning) =>
    element("p", { className: "warning", textContent: warning.detail }));
  byId("counts").replaceChildren(...notes, element("table", {}, ...rows));
}

// The sweeps of a live stream, newest first, and how many of its frames were shown.
export function showSweeps({ sweeps }, { shown, skipped }) {
  const sums = new Map();
  const rows = sweeps.map(({ age_s, points }) => {
    for (const [name, value] of Object.entries(points)) sums.set(name, (sums.get(name) ?? 0) + value);
    return rowOf([`${+age_s.toFixed(3)} s`], whole(points.joined));
  });
  const totals = [...sums].map(([name, value]) => rowOf([`points ${words(name)}`], whole(value)));
  byId("counts").replaceChildren(
    element("table", {}, rowOf(["frames shown"], whole(shown)), rowOf(["frames skipped"], whole(skipped)), ...totals),
    element("table", {}, element("caption", { textContent: "Points by age of the sweep" }), ...rows));
}

function timesOf(caption, { total, ...stages }) {
  const bar = element("div", { className: "bar" });
  bar.setAttribute("aria-hidden", "true");
  const rows = Object.entries(stages).map(([name, value], i) => {
    const piece = element("span", { title: `${name} ${value} µs` });
    piece.style.backgroundColor = PIECES[i % PIECES.length];
    piece.style.width = `${(100 * value) / (total || 1)}%`;
    bar.append(piece);
    return rowOf([swatch(PIECES[i % PIECES.length]), words(name)], `${value.toFixed(0)} µs`);
  });
  return [caption, bar, element("table", {}, ...rows, rowOf(["total"], `${total.toFixed(0)} µs`))];
}

// The stage times of each answer, by what was asked for.
export function showTiming(answers) {
  const many = Object.keys(answers).length > 1;
  const parts = Object.entries(answers).flatMap(([name, times]) => timesOf(many ? name : "", times));
  byId("timing").replaceChildren(...parts);
}

// The classes of the boxes that are drawn.
export function showClasses(groups) {
  const rows = groups.map(({ name, colour, boxes }) => element("div", {}, swatchOf(colour), `${name} ${whole(boxes)}`));
  byId("classes").replaceChildren(...rows);
}

export function showLegend(colour, label, [low, high]) {
  if (colour === "fate") {
    const rows = FATES.map(([name, rgb]) => element("div", {}, swatch(`rgb(${rgb})`), name));
    return byId("ramp").replaceChildren(...rows);
  }
  const ramp = rampOf(colour);
  const canvas = element("canvas", { width: ramp.length / 4, height: 1 });
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(ramp), ramp.length / 4, 1), 0, 0);
  canvas.setAttribute("aria-hidden", "true");
  const ends = element("div", { className: "ends" });
  ends.append(...[low, high].map((value) => element("span", { textContent: +value.toPrecision(3) })));
  byId("ramp").replaceChildren(label, canvas, ends);
}

export function showVoxel(voxel) {
  if (!voxel) return byId("voxel").replaceChildren("Choose one.");
  const { number, cell, count, points } = voxel;
  const rows = points.map(({ row, values }) =>
    rowOf([`point ${whole(row)}`], values.map((value) => +value.toPrecision(4)).join(", ")));
  byId("voxel").replaceChildren(element("table", {}, rowOf(["row"], whole(number)), rowOf(["x, y, z"], cell.join(", ")),
                                        rowOf(["points kept"], whole(count)), ...rows));
}

export function showStreamCommands(name, token) {
  const path = `${location.origin}/v1/streams/${name}`;
  const secret = token ? " -H \"Authorization: Bearer $TOKEN\"" : "";
  const header = token ? ", headers={\"Authorization\": f\"Bearer {TOKEN}\"}" : "";
  byId("curl").textContent = `curl --fail-with-body${secret} -o last.safetensors ${shell(`${path}/last`)}\n`
    + `curl${secret} -N ${shell(`${path}/events`)}`;
  byId("python").textContent = "import urllib.request\nimport safetensors.numpy\n\n"
    + `request = urllib.request.Request(${python(`${path}/last`)}${header})\n`
    + "file = urllib.request.urlopen(request).read()\nprint(safetensors.numpy.load(file)[\"points\"].shape)";
}

// Quotes text for a shell and for Python.
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const python = (text) => JSON.stringify(text);

export function showCommands(name, parameters, columns, token, model) {
  const address = location.origin;
  const secret = token ? " -H \"Authorization: Bearer $TOKEN\"" : "";
  const curl = (output, path) => `curl --fail-with-body${secret} --data-binary ${shell(`@${name}`)} \\\n`
    + `  -o ${output}.safetensors ${shell(address + path)}`;
  const written = rowsOf({ ...parameters, num_features: columns });
  byId("curl").textContent = curl("voxels", pathOf("voxelize", parameters))
    + (model ? `\n${curl("boxes", pathOf("detect", { model, ...written }))}` : "");
  // An array knows its number of columns and its type.
  const isArray = !parameters.format && parameters.dtype !== "float16";
  const rows = isArray ? `numpy.fromfile(${python(name)}, "<f4").reshape(-1, ${columns})`
    : `open(${python(name)}, "rb").read()`;
  const named = (given) => Object.entries(given)
    .filter(([key]) => !isArray || !["num_features", "dtype"].includes(key))
    .map(([key, value]) => `, ${key}=${python(value)}`).join("");
  byId("python").textContent = `import numpy, voxeld\n\npoints = ${rows}\n`
    + `with voxeld.Client(${python(address)}${token ? ", token=TOKEN" : ""}) as client:\n`
    + `    result = client.voxelize(points${named(parameters)})\n`
    + (model ? `    found = client.detect(points, ${python(model)}${named(written)})\n` : "")
    + `print(result["voxel_coords"].shape)${model ? "\nprint(found[\"boxes\"].shape)" : ""}`;
}
