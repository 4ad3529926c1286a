// The form of parameters, made from the service's description.
import { element } from "./dom.js";
import { parseSteps, textOfSteps } from "./steps.js";

// Parameters without a field: the page chooses the outputs, and each frame is one cloud without a stream.
const POSES = ["pose", "poses", "mount", "time", "times", "time_column"];
const STREAMS = ["stream", "streams", "sweeps", ...POSES, "remove_close"];
const OWN = ["outputs", "point_counts", "latest", "timeout_ms", "points_region", "output_region", ...STREAMS];
const GRID = ["point_cloud_range", "voxel_size", "max_points_per_voxel", "max_voxels"];
const FIRST = ["preset", ...GRID, "fps", "steps"];

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
  // `parameters`, `types`: the rows of voxelize and of steps in GET /v1/describe. changed(name) is called after each
  // change by the user. A change of preset empties the fields of the grid, which the preset has.
  constructor(form, parameters, types, presets, changed) {
    this.form = form;
    this.presets = presets;
    this.types = types;
    this.changed = changed;
    this.rows = this.fixed = parameters.filter(({ name }) => !OWN.includes(name)); // `rows` also gets those of steps
    this.adder = element("select", { ariaLabel: "Add a step" }, new Option("Add a step", ""),
                         ...types.map(({ name }) => new Option(name, name)));
    this.list = element("div"); // the fields of the steps
    const more = element("details", {}, element("summary", { textContent: "More parameters" }));
    form.replaceChildren();
    for (const name of FIRST) form.append(...field(this.fixed.find((row) => row.name === name), presets));
    for (const row of this.fixed) if (!FIRST.includes(row.name)) more.append(...field(row, presets));
    form.append(this.adder, this.list, more);
    form.onsubmit = (event) => event.preventDefault();
    form.onchange = ({ target }) => {
      if (target === this.adder) this.add(target.value);
      if (target.name === "preset") for (const name of GRID) this.input(name).value = "";
      this.set({});
      changed(target.name);
    };
    this.set({});
  }

  input(name) {
    return this.form.elements.namedItem(name);
  }

  preset() {
    return this.presets.find(({ name }) => name === this.input("preset").value)?.parameters ?? {};
  }

  // The steps of the list or, if it is empty, of the preset: { tag, op, given }. `given`: the preset's parameters.
  steps() {
    const list = this.input("steps").value.trim();
    if (list) return parseSteps(list);
    return (this.preset().steps ?? []).map(({ op, tag = op, ...given }) => ({ tag, op, given }));
  }

  // Replaces the steps by arrange(steps). Values that the preset gave to the steps become values of the form.
  arrange(arrange) {
    const steps = this.steps(), values = this.values();
    for (const { tag, given = {} } of steps)
      for (const [name, value] of Object.entries(given)) values[`${tag}.${name}`] ??= textOf(value);
    this.set({ ...values, steps: textOfSteps(arrange(steps)) || (this.preset().steps ? "none" : "") });
  }

  add(op) {
    const steps = this.steps();
    this.added = op;
    for (let number = 2; steps.some(({ tag }) => tag === this.added); number++) this.added = `${op}${number}`;
    this.adder.value = "";
    this.arrange(() => [...steps, { tag: this.added, op }]);
    this.detailsOf(this.added).open = true;
  }

  moveUp(moved) {
    this.arrange((steps) => {
      const at = steps.findIndex(({ tag }) => tag === moved);
      return [...steps.slice(0, at - 1), steps[at], steps[at - 1], ...steps.slice(at + 1)];
    });
    this.detailsOf(moved).querySelector("button:enabled").focus();
    this.changed();
  }

  remove(removed) {
    this.arrange((steps) => steps.filter(({ tag }) => tag !== removed));
    this.adder.focus();
    this.changed();
  }

  // What the user must still type, as a text; "" if nothing. A step that was just added needs a value.
  needs() {
    for (const { dataset: { tag } } of this.list.children) {
      const own = this.rows.filter(({ name }) => name.startsWith(`${tag}.`));
      const empty = own.filter(({ name, default: otherwise }) => !this.input(name).value.trim() && otherwise == null);
      const names = empty.filter(({ required }) => required).map(({ name }) => name);
      if (names.length) return names.join(" and ");
      if (tag === this.added && own.every(({ name }) => !this.input(name).value.trim())) return `a value of ${tag}`;
    }
    return "";
  }

  detailsOf(tag) {
    return [...this.list.children].find(({ dataset }) => dataset.tag === tag);
  }

  makeSteps() {
    const open = [...this.list.children].filter((details) => details.open).map(({ dataset }) => dataset.tag);
    this.rows = [...this.fixed];
    const made = [];
    for (const { tag, op, given = {} } of this.steps()) {
      const type = this.types.find(({ name }) => name === op);
      if (!type || made.some(({ dataset }) => dataset.tag === tag)) continue; // the service refuses the list
      const rows = type.parameters.map((row) =>
        ({ ...row, name: `${tag}.${row.name}`, default: given[row.name] ?? row.default }));
      const button = (text, does, act, disabled) => element("button", {
        type: "button", textContent: text, title: `${does} ${tag}`, ariaLabel: `${does} ${tag}`, onclick: act, disabled,
      });
      const summary = element("summary", {}, element("span", { textContent: tag }),
                              button("↑", "Move up", () => this.moveUp(tag), !made.length),
                              button("×", "Remove", () => this.remove(tag), false));
      const details = element("details", { open: open.includes(tag) }, summary, ...rows.flatMap((row) => field(row)));
      details.dataset.tag = tag;
      made.push(details);
      this.rows.push(...rows);
    }
    this.list.replaceChildren(...made);
  }

  // An empty field shows the preset's value, else the service's default.
  placeholders() {
    const { steps, ...preset } = this.preset();
    if (steps) preset.steps = textOfSteps(steps);
    for (const { name, default: otherwise } of this.rows) {
      const input = this.input(name);
      const value = textOf(preset[name] ?? otherwise);
      if (input.tagName === "INPUT") input.placeholder = value;
      else if (name !== "preset") input.options[0].text = value && `${value} (as it is)`;
    }
  }

  // As texts.
  values() {
    const values = {};
    for (const { name } of this.rows) {
      const value = this.input(name).value.trim();
      if (value) values[name] = value;
    }
    return values;
  }

  // Changes some of the values.
  set(values) {
    const all = { ...this.values(), ...values };
    const fill = (rows) => rows.forEach(({ name }) => name in all && this.fill(this.input(name), all[name]));
    fill(this.fixed);
    this.makeSteps();
    fill(this.rows);
    this.placeholders();
  }

  // A value that a select lacks, such as an unknown preset, becomes an option: the service's refusal then names it.
  fill(input, value) {
    input.value = value;
    if (input.options && input.value !== value) input.append(new Option(value, value, false, true));
  }

  // The number of columns of the scan's rows.
  columns() {
    const { fields, num_features } = this.values();
    const columns = fields ? fields.split(",").length : Number(num_features ?? this.preset().num_features ?? 4);
    return Number.isInteger(columns) && columns >= 3 && columns <= 64 ? columns : 4;
  }

  // Marks the field that was refused; without a name, no field.
  mark(name) {
    for (const row of this.rows) this.input(row.name).setAttribute("aria-invalid", String(row.name === name));
    const input = name && this.input(name);
    if (!input) return;
    const details = input.closest("details");
    if (details) details.open = true;
    input.scrollIntoView({ block: "nearest" });
  }
}
