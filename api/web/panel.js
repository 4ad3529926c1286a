// The panels about an answer: counts, times, the picked voxel, and commands that repeat the request.
import { pathOf } from "./api.js";
import { fatesWith, rampOf } from "./colours.js";
import { byId, element, rowOf, whole, words } from "./dom.js";
import { rowsOf } from "./scan.js";
import { countsOf, fatesOf, parseSteps } from "./steps.js";

// Colours of stages.
const PIECES = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999999", "#ee7733", "#44aa99",
                "#6655cc", "#8b5a2b", "#a8c545", "#882255", "#e0a0d0"];

function swatch(colour) {
  const made = element("span", { className: "swatch" });
  made.style.backgroundColor = colour;
  return made;
}

const swatchOfBytes = (colour) => swatch(`rgb(${colour})`);
const swatchOf = (colour) => colour ? swatch(`rgb(${colour.map((part) => 255 * part)})`) : "";

// The points that each step kept, and the fates of the others.
function tableOfSteps(steps) {
  const colours = new Map(fatesWith(fatesOf(steps)));
  const rows = steps.map(countsOf).flatMap(({ tag, op, kept, fates }) => [
    rowOf([tag === op ? tag : `${tag} (${op})`], whole(kept)),
    ...fates.map(([name, number]) => {
      const colour = colours.get(words(name));
      return rowOf([colour ? swatchOfBytes(colour) : "", words(name)], `−${whole(number)}`);
    }),
  ]);
  return element("table", { id: "steps" }, element("caption", { textContent: "Points after each step" }), ...rows);
}

const rowsOfBoxes = (groups) => groups.map(({ name, colour, boxes }) =>
  rowOf([swatchOf(colour), `boxes of ${name}`], whole(boxes)));

export function showCounts({ points, voxels, samples, grid_size, backend, steps = [] }, boxes) {
  const rows = [], told = new Set(steps.flatMap((step) => Object.keys(step))); // names in the table of steps
  for (const [name, value] of Object.entries(points))
    if (value || !told.has(name) || name === "kept") rows.push(rowOf([`points ${words(name)}`], whole(value)));
  for (const [name, value] of Object.entries(voxels)) rows.push(rowOf([`voxels ${words(name)}`], whole(value)));
  if (samples) rows.push(rowOf(["samples"], whole(samples.chosen)));
  rows.push(...rowsOfBoxes(boxes));
  rows.push(rowOf(["grid x, y, z"], grid_size.map(whole).join(" × ")), rowOf(["backend"], backend));
  const tables = [element("table", {}, ...rows), ...(steps.length ? [tableOfSteps(steps)] : [])];
  byId("counts").replaceChildren(...tables);
}

const secondsOf = (milliseconds) => `${(milliseconds / 1000).toFixed(1)} s`;

// Seconds since the sweep of the shown frame came.
export function showAge(came) {
  const cell = byId("came");
  if (cell) cell.textContent = secondsOf(performance.now() - came);
}

// The sweeps of a live frame, newest first, its boxes, and how many frames were shown or skipped.
export function showSweeps({ stream: { time, sweeps }, came, late }, live, boxes) {
  const sums = new Map();
  const rows = sweeps.map(({ age_s, points }) => {
    for (const [name, value] of Object.entries(points)) sums.set(name, (sums.get(name) ?? 0) + value);
    return rowOf([`${+age_s.toFixed(3)} s`], whole(points.joined));
  });
  const totals = [
    rowOf(["time of the sweep"], `${+time.toFixed(3)} s`),
    rowOf(["since it came"], element("span", { id: "came" })),
    rowOf(["drawn after"], `${Math.round(late)} ms`),
    ...["frames shown", "frames skipped", "sweeps superseded", "sweeps dropped"]
      .map((name) => rowOf([name], whole(live[name.split(" ")[1]]))),
    ...[...sums].map(([name, value]) => rowOf([`points ${words(name)}`], whole(value))),
    ...rowsOfBoxes(boxes),
  ];
  byId("counts").replaceChildren(element("table", {}, ...totals),
    element("table", {}, element("caption", { textContent: "Points by age of the sweep" }), ...rows));
  showAge(came);
}

const OF_STEP = "step-"; // prefix of the times of single steps, which the time of `steps` includes

function timesOf(caption, { total, ...stages }) {
  const bar = element("div", { className: "bar" });
  bar.setAttribute("aria-hidden", "true");
  const rowOfTime = (head, value) => rowOf(head, `${value.toFixed(0)} µs`);
  const all = Object.entries(stages);
  const ofSteps = all.filter(([name]) => name.startsWith(OF_STEP));
  const rows = all.filter((stage) => !ofSteps.includes(stage)).flatMap(([name, value], i) => {
    const piece = element("span", { title: `${name} ${value} µs` });
    piece.style.backgroundColor = PIECES[i % PIECES.length];
    piece.style.width = `${(100 * value) / (total || 1)}%`;
    bar.append(piece);
    const parts = name === "steps" ? ofSteps : [];
    return [rowOfTime([swatch(PIECES[i % PIECES.length]), words(name)], value),
            ...parts.map(([part, time]) => rowOfTime([`– ${part.slice(OF_STEP.length)}`], time))];
  });
  return [caption, bar, element("table", {}, ...rows, rowOf(["total"], `${total.toFixed(0)} µs`))];
}

// `answers`: name of the operation -> its times.
export function showTiming(answers) {
  const many = Object.keys(answers).length > 1;
  const parts = Object.entries(answers).flatMap(([name, times]) => timesOf(many ? name : "", times));
  byId("timing").replaceChildren(...parts);
}

export function showClasses(groups) {
  const rows = groups.map(({ name, colour, boxes }) => element("div", {}, swatchOf(colour), `${name} ${whole(boxes)}`));
  byId("classes").replaceChildren(...rows);
}

export function showLegend(colour, label, [low, high], steps) {
  if (colour === "fate") {
    const rows = fatesWith(fatesOf(steps)).map(([name, rgb]) => element("div", {}, swatchOfBytes(rgb), name));
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

// Quote text.
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const python = (text) => JSON.stringify(text);

// The argument `steps` of the Python client.
function pythonOfSteps({ steps, ...given }) {
  const all = Object.entries(given).filter(([name]) => name.includes("."));
  if (steps === undefined) {
    const items = all.map(([name, value]) => `${python(name)}: ${python(value)}`);
    return items.length ? `, steps={${items.join(", ")}}` : "";
  }
  const made = parseSteps(steps).map(({ tag, op }) => {
    const type = op.split("_").map((word) => word[0].toUpperCase() + word.slice(1)).join("");
    const own = all.filter(([name]) => name.startsWith(`${tag}.`))
      .map(([name, value]) => [name.slice(tag.length + 1), value]);
    if (tag !== op) own.push(["tag", tag]);
    return `voxeld.${type}(${own.map(([name, value]) => `${name}=${python(value)}`).join(", ")})`;
  });
  return `, steps=[${made.join(", ")}]`;
}

// `image`: the parameters of a range image. `model` and `image` may be missing.
export function showCommands(name, parameters, columns, token, model, image) {
  const address = location.origin;
  const secret = token ? " -H \"Authorization: Bearer $TOKEN\"" : "";
  const curl = (output, path) => `curl --fail-with-body${secret} --data-binary ${shell(`@${name}`)} \\\n`
    + `  -o ${output}.safetensors ${shell(address + path)}`;
  const written = rowsOf({ ...parameters, num_features: columns });
  byId("curl").textContent = curl("voxels", pathOf("voxelize", parameters))
    + (model ? `\n${curl("boxes", pathOf("detect", { model, ...written }))}` : "")
    + (image ? `\n${curl("image", pathOf("range_image", { ...written, ...image }))}` : "");
  // The Python client reads the number of columns and the type from an array.
  const isArray = !parameters.format && (parameters.dtype ?? "float32") === "float32" && !parameters.filter;
  const rows = isArray ? `numpy.fromfile(${python(name)}, "<f4").reshape(-1, ${columns})`
    : `open(${python(name)}, "rb").read()`;
  const named = (given) => Object.entries(given)
    .filter(([key]) => key !== "steps" && !key.includes(".") && (!isArray || !["num_features", "dtype"].includes(key)))
    .map(([key, value]) => `, ${key}=${python(value)}`).join("") + pythonOfSteps(given);
  byId("python").textContent = `import numpy, voxeld\n\npoints = ${rows}\n`
    + `with voxeld.Client(${python(address)}${token ? ", token=TOKEN" : ""}) as client:\n`
    + `    result = client.voxelize(points${named(parameters)})\n`
    + (model ? `    found = client.detect(points, ${python(model)}${named(written)})\n` : "")
    + (image ? `    image = client.range_image(points${named({ ...written, ...image })})\n` : "")
    + `print(result["voxel_coords"].shape)${image ? "\nprint(image[\"range_image\"].shape)" : ""}`
    + `${model ? "\nprint(found[\"boxes\"].shape)" : ""}`;
}
