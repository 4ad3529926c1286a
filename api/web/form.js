// The form of parameters, made from the service's description of them.
import { element } from "./dom.js";

// The page asks for the outputs that it shows; a frame is one cloud, and no sweep of a stream.
const POSES = ["pose", "poses", "mount", "time", "times", "time_column"];
const STREAMS = ["stream", "streams", "sweeps", ...POSES, "remove_close"];
const OWN = ["outputs", "point_counts", "timeout_ms", "points_region", "output_region", ...STREAMS];
const GRID = ["point_cloud_range", "voxel_size", "max_points_per_voxel", "max_voxels"];
const FIRST = ["preset", ...GRID, "fps"];

const textOf = (value) => (value === undefined || value === null ? "" : String(value));

const choicesOf = ({ type, values }) => (type === "string" ? values : null);
const docOf = ({ unit, doc }) => (unit ? `${unit}; ${doc}` : doc);

function field(row, presets) {
  const words = row.name === "preset" ? presets.map(({ name }) => name) : choicesOf(row);
  const id = `parameter-${row.name}`;
  const doc = element("small", { id: `${id}-doc`, textContent: docOf(row) });
  const input = words
    ? element("select", { id, name: row.name }, new Option("", ""), ...words.map((word) => new Option(word, word)))
    : element("input", { id, name: row.name, title: row.allowed, spellcheck: false });
  input.setAttribute("aria-describedby", doc.id);
  return [element("label", { htmlFor: id, textContent: row.name }), input, doc];
}

export class Form {
  // `parameters` are the rows of GET /v1/describe; changed() is called after each change of the user's. Another preset
  // brings its own grid.
  constructor(form, parameters, presets, changed) {
    this.form = form;
    this.presets = presets;
    this.rows = parameters.filter(({ name }) => !OWN.includes(name));
    const more = element("details", {}, element("summary", { textContent: "More parameters" }));
    form.replaceChildren();
    for (const name of FIRST) form.append(...field(this.rows.find((row) => row.name === name), presets));
    for (const row of this.rows) if (!FIRST.includes(row.name)) more.append(...field(row, presets));
    form.append(more);
    form.onsubmit = (event) => event.preventDefault();
    form.onchange = ({ target }) => {
      if (target.name === "preset") for (const name of GRID) this.input(name).value = "";
      this.placeholders();
      changed();
    };
    this.placeholders();
  }

  input(name) {
    return this.form.elements.namedItem(name);
  }

  preset() {
    return this.presets.find(({ name }) => name === this.input("preset").value)?.parameters ?? {};
  }

  // An empty field shows what the preset or the service takes for it.
  placeholders() {
    const preset = this.preset();
    for (const { name, default: otherwise } of this.rows) {
      const input = this.input(name);
      const value = textOf(preset[name] ?? otherwise);
      if (input.tagName === "INPUT") input.placeholder = value;
      else if (name !== "preset") input.options[0].text = value && `${value} (as it is)`;
    }
  }

  // The user's choices, as texts.
  values() {
    const values = {};
    for (const { name } of this.rows) {
      const value = this.input(name).value.trim();
      if (value) values[name] = value;
    }
    return values;
  }

  set(values) {
    for (const { name } of this.rows) if (name in values) this.input(name).value = values[name];
    this.placeholders();
  }

  // The number of columns of a row, by the form.
  columns() {
    const { fields, num_features } = this.values();
    const columns = fields ? fields.split(",").length : Number(num_features ?? this.preset().num_features ?? 4);
    return Number.isInteger(columns) && columns >= 3 && columns <= 64 ? columns : 4;
  }

  // Marks the field that was refused; without a name marks none.
  mark(name) {
    for (const row of this.rows) this.input(row.name).setAttribute("aria-invalid", String(row.name === name));
    const input = name && this.input(name);
    if (!input) return;
    const details = input.closest("details");
    if (details) details.open = true;
    input.scrollIntoView({ block: "nearest" });
  }
}
