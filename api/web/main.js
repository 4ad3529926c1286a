// The page at /: sends the user's choices to the service, and shows the answers in the scene and the panels.
import { getJson, setToken } from "./api.js";
import { areFor, drawn, groupsOf, isBoxes, labelOf, parseBoxes, rowsOfLines } from "./boxes.js";
import { Camera } from "./camera.js";
import { COLOURS, curveOf, paint, rampOf } from "./colours.js";
import { byId, counted, element, showError } from "./dom.js";
import { Form } from "./form.js";
import { watchCanvas } from "./gestures.js";
import { askImage, chooseImage, image, imageParameters, listImages, showImage } from "./image.js";
import { Labels } from "./labels.js";
import { listStreams, Live, rangeOf, Tracks } from "./live.js";
import { choose, chosen, detect, listModels } from "./models.js";
import * as panel from "./panel.js";
import { sampleScan } from "./sample.js";
import { columnsThatFit, formatOf, middleOf, pick, placesOf, pointsOfVoxel, voxelize } from "./scan.js";
import { Scene } from "./scene.js";

const LAYERS = {
  points: "points", faces: "voxels", edges: "wireframe", samples: "samples", boxes: "boxes", box: "range",
};
const OF_STREAMS = ["points", "boxes", "box"]; // layers of streams too
const REFUSED = [400, 413, 415, 422]; // statuses of a refused file or value
const FIRST = "preset=kitti_second&voxel_size=0.3,0.3,0.2"; // parameters, if the address has none
const PLAY_PAUSE = 100; // milliseconds between frames
const POINTS_OF_VOXEL = 10;
const SLOW = 50; // milliseconds; if a picture takes longer, it is coarse while the camera moves
const AGES = 500; // milliseconds between updates of the age of a stream's frame
const REST = 250; // milliseconds without a move until the fine picture is drawn

const canvas = byId("canvas");
const camera = new Camera();
const labels = new Labels(byId("labels"));
let scene, form, shown; // shown: the answer to a scan, or a frame of a stream; shown.found: its boxes
let frames = []; // { name, read() }; read returns the bytes
let boxFiles = []; // that the user opened
let frame = 0, playing = false, picture = 0, slow, resting = 0;
let framed = false; // the camera was placed for these frames or this stream
let round = 0; // number of the last call of play()
let range = null; // of the live stream's first frame, from rangeOf()
let missing = null; // the scan for which the address was made, until the user opens a scan

// --- drawing ---

const aspect = () => canvas.clientWidth / canvas.clientHeight;

const placeLabels = () => labels.draw((place) => scene.show.boxes ? camera.project(place, aspect()) : null);

function draw(coarse) {
  scene.draw(camera, coarse);
  placeLabels();
}

function redraw() {
  cancelAnimationFrame(picture);
  picture = requestAnimationFrame(() => draw(false));
}

function redrawMoving() {
  if (!slow) return redraw();
  cancelAnimationFrame(picture);
  picture = requestAnimationFrame(() => draw(true));
  clearTimeout(resting);
  resting = setTimeout(redraw, REST);
}

function theme() {
  const colour = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).slice(0, 3);
  scene.background = colour.map((part) => part / 255);
  repaint();
  showImage();
  redraw();
}

function repaint() {
  if (!shown) return;
  const colour = byId("colour").value;
  const painted = paint(colour, shown);
  scene.setValues(painted, rampOf(colour));
  panel.showLegend(colour, byId("colour").selectedOptions[0].text, painted.range, shown.metadata?.steps);
  redraw();
}

function hand() {
  if (!shown) return;
  camera.frame(...middleOf(shown), !framed);
  framed = true;
  scene.setPoints(shown.points, shown.columns);
  scene.setVoxels(shown.voxels.cells, shown.low, shown.size);
  scene.setSamples(shown.samples, shown.columns);
  scene.setBox(shown.low, shown.high);
  handBoxes();
  repaint();
  if (slow === undefined) scene.measure(camera, true); // the first picture compiles the shaders
  slow = scene.measure(camera) > SLOW;
  cancelAnimationFrame(picture); // the measured picture is shown
  placeLabels();
}

function handBoxes() {
  if (!shown) return;
  const boxes = shown.found.flatMap((each) => drawn(each, Number(byId("least").value))), groups = groupsOf(boxes);
  scene.setBoxes(rowsOfLines(boxes));
  labels.set(boxes.map(labelOf));
  panel.showClasses(groups);
  if (shown.stream) panel.showSweeps(shown, live, groups);
  else panel.showCounts(shown.metadata, groups);
  redraw();
}

// --- asking ---

function refuse(refusal, state, refused) {
  showError(refusal, refused);
  byId("state").textContent = state;
}

// Hides what an earlier request showed.
function settle() {
  showError(null);
  byId("notes").replaceChildren();
  document.body.classList.remove("old");
}

// Adds a note over the view, with a button for each of the `numbers` of columns.
function note(text, numbers = []) {
  byId("notes").append(element("p", {}, `${text} `, ...numbers.map((number) => {
    const onclick = () => (form.set({ fields: "", num_features: String(number) }), refresh());
    return element("button", { type: "button", textContent: `Use ${number} columns`, onclick });
  })));
}

function noteWarnings({ warnings }, prefix = "") {
  const isOther = warnings.some(({ kind }) => kind === "format"); // no raw rows, so numbers of columns mean nothing
  for (const { kind, detail } of warnings)
    note(prefix + detail, kind === "num_features" && !isOther ? detail.match(/(?<=look like )\d+/g) : []);
}

// The form's values, and the format of the file.
function parametersFor({ name }) {
  const values = form.values();
  const format = formatOf(name);
  return format && !values.format ? { ...values, format } : values;
}

let asking = false, again = false;

// Shows the current frame, one request at a time; changes meanwhile cause one more.
async function refresh() {
  saveState();
  if (!frames.length || !form || followed()) return;
  if (form.needs()) {
    settle();
    document.body.classList.add("old");
    byId("state").textContent = `type ${form.needs()}`;
    return;
  }
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  do {
    again = false;
    await askOnce(frames[frame]);
  } while (again);
  asking = false;
}

async function askOnce(one) {
  byId("state").textContent = `asking for ${one.name}`;
  const parameters = parametersFor(one);
  let bytes;
  try {
    byId("sample-file").hidden = !one.sample;
    panel.showCommands(one.name, parameters, form.columns(), byId("token").value, chosen(), imageParameters());
    const found = await boxesOf(one), curve = curveOf(byId("colour").value);
    bytes = await one.read();
    const answer = await voxelize(bytes, parameters, form.steps().length > 0);
    const places = curve && await placesOf(bytes, answer.metadata.parameters, curve);
    if (followed()) return;
    take(one.name, Object.assign(answer, { found, curve, places }));
  } catch (refusal) {
    if (followed()) return;
    document.body.classList.add("old");
    const isRaw = !parameters.format && !parameters.dtype && refusal.status === 400 && !refusal.parameter;
    const others = isRaw ? columnsThatFit(bytes, form.columns()) : [];
    byId("notes").replaceChildren();
    if (others.length) note("The size of the file fits other rows.", others);
    return tell(refusal, one.name, parameters);
  }
  if (chosen()) await askModel(chosen(), bytes, parameters);
  if (image()) await askForImage(bytes, parameters);
}

function take(name, answer) {
  const { metadata } = shown = answer;
  settle();
  form.mark(null);
  if (missing) note(`This is the sample scan: the address was made with ${missing}. Open that file to see it.`);
  noteWarnings(metadata);
  hand();
  panel.showVoxel(null);
  panel.showTiming({ voxelize: metadata.timing_us });
  const { points, voxels } = metadata;
  byId("state").textContent = `${name}: ${counted(points.received, "point")}, `
    + `${counted(voxels.kept, "voxel")} in ${milliseconds(metadata)}`;
}

// `name`: what is refused if no parameter is.
function tell(refusal, name, parameters) {
  const { status, parameter } = refusal;
  const value = parameters[parameter] === undefined ? "" : `=${parameters[parameter]}`;
  form.mark(parameter);
  if (!("status" in refusal)) console.error(refusal); // a defect of the page
  refuse(refusal, "refused", parameter ? parameter + value : REFUSED.includes(status) ? name : null);
  stop();
}

const milliseconds = ({ timing_us: { total } }) => `${(total / 1000).toFixed(1)} ms`;
const countedBoxes = ({ number }) => counted(number, "box", "boxes");

async function askModel(model, bytes, parameters) {
  const { metadata } = shown, said = byId("state").textContent;
  byId("state").textContent = `${said}; asking ${model}`;
  try {
    const found = await detect(bytes, model, metadata.parameters);
    if (followed()) return;
    shown.found.push(found);
    noteWarnings(found.metadata, `${model}: `);
    handBoxes();
    panel.showTiming({ voxelize: metadata.timing_us, detect: found.metadata.timing_us });
    byId("state").textContent = `${said}; ${countedBoxes(found)} by ${model} in ${milliseconds(found.metadata)}`;
  } catch (refusal) {
    if (!followed()) tell(refusal, model, parameters);
  }
}

async function askForImage(bytes, parameters) {
  try {
    await askImage(bytes, shown.metadata.parameters);
  } catch (refusal) {
    showImage(null);
    if (!followed()) tell(refusal, image(), parameters);
  }
}

// --- streams ---

const followed = () => byId("stream").value; // the name of the chosen stream, or ""

// Adds the model's boxes, or its refusal, to a frame.
async function findIn(frame) {
  const model = chosen(), more = byId("track").checked ? tracks.parameters(frame) : {};
  try {
    if (model) frame.found.push(await detect(frame.points, model, { num_features: frame.columns }, more));
  } catch (refusal) {
    Object.assign(frame, { refusal, model });
  }
}

const tracks = new Tracks();
const live = new Live({
  find: findIn,
  show(frame) {
    range ??= rangeOf(frame);
    const [low, high] = range, { sweeps } = frame.stream;
    shown = Object.assign(frame, { low, high, size: [1, 1, 1] });
    hand();
    settle();
    const [found] = frame.found;
    const boxes = found ? `; ${countedBoxes(found)} by ${chosen()} in ${milliseconds(found.metadata)}` : "";
    byId("state").textContent =
      `${live.name}: ${counted(frame.ages.length, "point")} of ${counted(sweeps.length, "sweep")}, live${boxes}`;
    if (found) noteWarnings(found.metadata, `${chosen()}: `);
    if (frame.refusal) showError(frame.refusal, frame.model);
  },
  say: (text) => (byId("state").textContent = `${live.name}: ${text}`),
  refuse: (refusal) => refuse(refusal, "refused"),
});

// Offers the colours and fields of "scan" or "stream".
function offer(kind, colour = byId("colour").value) {
  document.body.classList.toggle("stream", kind === "stream");
  const select = byId("colour");
  for (const [i, [, , only = kind]] of COLOURS.entries())
    Object.assign(select.options[i], { disabled: only !== kind, hidden: only !== kind });
  select.value = colour;
  if (select.selectedOptions[0].disabled) select.value = kind === "stream" ? "age" : "height";
}

// The chosen stream stays, even if the service no longer has it.
async function offerStreams() {
  const now = followed(), names = await listStreams();
  if (now && !names.includes(now)) names.push(now);
  const select = byId("stream");
  if ([...select.options].map(({ value }) => value).join() === ["", ...names].join()) return;
  select.replaceChildren(new Option("none", ""), ...names.map((name) => new Option(name, name)));
  select.value = now;
}

function followStream(name, colour = "age") {
  stop();
  tracks.end();
  const select = byId("stream");
  if (![...select.options].some(({ value }) => value === name)) select.append(new Option(name, name));
  select.value = name;
  range = null;
  framed = false;
  offer("stream", colour);
  settle();
  live.start(name);
  live.say("asking");
  panel.showStreamCommands(name, byId("token").value);
  saveState();
}

function leaveStream() {
  live.stop();
  tracks.end();
  byId("stream").value = "";
  offer("scan");
}

// --- scans ---

function open(files) {
  if (!files.length) return;
  const named = [...files].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const scans = named.filter((file) => !isBoxes(file));
  boxFiles = named.filter(isBoxes);
  if (scans.length) missing = null;
  if (scans.length) show(scans.map((file) => ({ name: file.name, read: () => file.arrayBuffer() })));
  else refresh();
}

// The boxes for a scan are in the file with its name; a lone scan takes a lone file of any name.
async function boxesOf(one) {
  const lone = frames.length === 1 && boxFiles.length === 1 ? boxFiles[0] : null;
  const file = boxFiles.find((each) => areFor(each, one)) ?? lone;
  return file ? [parseBoxes(file.name, await file.arrayBuffer())] : [];
}

function openSample() {
  show([{ name: "sample.bin", sample: true, read: () => sampleScan(form.columns()).buffer }]);
}

function show(chosen) {
  stop();
  leaveStream();
  openDrawer(null);
  framed = false;
  frames = chosen;
  byId("frames").hidden = frames.length < 2;
  byId("frame").max = frames.length - 1;
  camera.moved &&= !!frames[0].sample;
  return turnTo(0);
}

function turnTo(number) {
  frame = number;
  byId("frame").value = number;
  byId("frame-name").textContent = frames[number].name;
  return refresh();
}

function stop() {
  playing = false;
  byId("play").setAttribute("aria-pressed", "false");
}

async function play() {
  const mine = ++round;
  playing = !playing;
  byId("play").setAttribute("aria-pressed", String(playing));
  while (playing && mine === round) {
    await turnTo((frame + 1) % frames.length);
    await new Promise((resolve) => setTimeout(resolve, PLAY_PAUSE));
  }
}

// --- the state in the URL ---

const ofView = (name) => `view.${name}`;

function saveState() {
  if (!form) return;
  const state = new URLSearchParams(form.values());
  const view = { colour: byId("colour").value, size: byId("point-size").value };
  view.layers = Object.keys(LAYERS).filter((name) => scene.show[name]).join(",");
  if (chosen()) view.model = chosen();
  if (image()) Object.assign(view, { image: image(), channel: byId("channel").value });
  if (image() && byId("image-others").value) view.others = byId("image-others").value;
  if (followed()) view.stream = followed();
  if (byId("track").checked) view.track = "yes";
  const scan = frames[frame]?.sample ? missing : frames[frame]?.name;
  if (scan && !followed()) view.scan = scan;
  if (byId("least").value > 0) view.score = byId("least").value;
  if (camera.moved) view.camera = camera.toString();
  for (const [name, value] of Object.entries(view)) state.set(ofView(name), value);
  history.replaceState(null, "", `${location.pathname}#${state.toString().replaceAll("%2C", ",")}`);
}

function restoreState() {
  const state = new URLSearchParams(location.hash.slice(1));
  if ([...state.keys()].every((name) => name.startsWith(ofView(""))))
    for (const [name, value] of new URLSearchParams(FIRST)) state.set(name, value);
  const query = new URLSearchParams(location.search); // such as /?stream=NAME&model=NAME
  const view = (name) => state.get(ofView(name)) ?? query.get(name);
  form.set({ preset: "", ...Object.fromEntries(state) });
  if (COLOURS.some(([name]) => name === view("colour"))) byId("colour").value = view("colour");
  if (view("size")) byId("point-size").value = view("size");
  scene.pointSize = Number(byId("point-size").value);
  missing = view("scan");
  choose(view("model"));
  byId("track").checked = view("track") === "yes";
  chooseImage(view("image"), view("channel"), view("others"));
  setLeast(view("score") ?? 0);
  if (view("layers") !== null)
    for (const name of Object.keys(LAYERS)) layer(name, view("layers").split(",").includes(name));
  if (view("camera")) camera.restore(view("camera"));
  if (view("stream")) followStream(view("stream"), view("colour") ?? undefined);
  else offer("scan");
}

// --- what the user does ---

function layer(name, visible) {
  scene.show[name] = visible;
  byId(`layer-${name}`).checked = visible;
  redraw();
}

function setLeast(score) {
  byId("least").value = score;
  byId("least-value").textContent = byId("least").value;
  handBoxes();
}

function pickAt(x, y) {
  if (!shown || !(scene.show.faces || scene.show.edges)) return;
  const number = pick(shown, camera.ray(x, y, aspect()));
  scene.picked = number;
  const { voxels: { cells, counts } } = shown;
  panel.showVoxel(number < 0 ? null : {
    number, count: counts[number], cell: [...cells.subarray(4 * number + 1, 4 * number + 4)].reverse(),
    points: pointsOfVoxel(shown, number, POINTS_OF_VOXEL),
  });
  openDrawer(number < 0 ? null : "told");
  byId("voxel").scrollIntoView({ block: "nearest" });
  redraw();
}

// Opens one drawer of a narrow screen; null closes all.
function openDrawer(name) {
  for (const button of document.querySelectorAll("[data-drawer]")) {
    const open = button.dataset.drawer === name;
    button.setAttribute("aria-expanded", String(open));
    byId(button.dataset.drawer).classList.toggle("open", open);
  }
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function savePicture() {
  scene.draw(camera); // the canvas keeps a picture only until the task ends
  canvas.toBlob((blob) => save(blob, "voxeld.png"));
}

async function copy(button) {
  const text = byId(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch { // without https the page cannot use the clipboard: selects the text instead
    getSelection().selectAllChildren(text);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

function listen() {
  for (const [name, label] of COLOURS) byId("colour").append(new Option(label, name));
  byId("stream").append(new Option("none", ""));
  offer("scan");
  for (const [name, label] of Object.entries(LAYERS)) {
    const box = element("input", { type: "checkbox", id: `layer-${name}`, checked: scene.show[name] });
    box.onchange = () => (layer(name, box.checked), saveState());
    const className = OF_STREAMS.includes(name) ? "" : "of-scans";
    byId("layers").append(element("label", { className }, box, ` ${label}`));
  }
  byId("colour").onchange = ({ target: { value } }) =>
    curveOf(value) && curveOf(value) !== shown?.curve ? refresh() : (repaint(), saveState());
  byId("point-size").oninput = ({ target }) => {
    scene.pointSize = Number(target.value);
    redraw();
  };
  byId("point-size").onchange = saveState;
  for (const button of document.querySelectorAll("[data-look]"))
    button.onclick = () => (camera.look(button.dataset.look), redraw(), saveState());
  for (const button of document.querySelectorAll("[data-drawer]"))
    button.onclick = () => openDrawer(button.ariaExpanded === "true" ? null : button.dataset.drawer);
  for (const button of document.querySelectorAll("[data-copy]")) button.onclick = () => copy(button);
  byId("files").onchange = ({ target }) => (open(target.files), (target.value = ""));
  byId("sample").onclick = () => (missing = null, openSample());
  byId("stream").onfocus = () => offerStreams().catch(showError);
  byId("stream").onchange = ({ target: { value } }) =>
    value ? followStream(value) : (leaveStream(), frames.length ? refresh() : openSample());
  byId("frame").oninput = ({ target }) => (stop(), turnTo(Number(target.value)));
  byId("play").onclick = play;
  byId("model").onchange = () => (choose(chosen()), live.again(), refresh());
  byId("track").onchange = () => (tracks.end(), live.again(), saveState());
  const imageChanged = () => (chooseImage(image(), byId("channel").value, byId("image-others").value), refresh());
  byId("image").onchange = byId("image-others").onchange = imageChanged;
  byId("channel").onchange = () => (showImage(), saveState());
  setInterval(() => shown?.stream && panel.showAge(shown.came), AGES);
  byId("least").oninput = ({ target }) => setLeast(target.value);
  byId("least").onchange = saveState;
  byId("png").onclick = savePicture;
  byId("save").onclick = async () => save(new Blob([await frames[frame].read()]), frames[frame].name);
  byId("token").onchange = ({ target }) => (setToken(target.value), begin());
  watchCanvas(canvas, camera, { redraw: redrawMoving, pickAt, done: saveState });
  for (const name of ["dragover", "dragleave", "drop"])
    window.addEventListener(name, (event) => {
      event.preventDefault();
      document.body.classList.toggle("drop", name === "dragover");
      if (name === "drop") open(event.dataTransfer.files);
    });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
  scene.restored = hand;
}

// Makes the form from the service's description, and shows the chosen stream, the frames or the sample scan.
async function begin() {
  try {
    const pages = [getJson("/v1/describe"), getJson("/v1/presets"), listModels()];
    const [{ operations, steps }, { presets }] = await Promise.all(pages);
    await offerStreams();
    if (!form) listImages(presets);
    if (followed()) return followStream(followed(), byId("colour").value);
    if (form) return refresh();
    const { parameters } = operations.find(({ name }) => name === "voxelize");
    const ofVoxels = presets.filter(({ operation }) => !operation); // presets of voxelize
    form = new Form(byId("form"), parameters, steps, ofVoxels, (name) => {
      if (name === "preset") framed = camera.moved = false; // the range may differ
      refresh();
    });
    settle();
    restoreState();
  } catch (refusal) {
    return refuse(refusal, refusal.status === 401 ? "the service wants a token" : "no answer");
  }
  if (followed()) return;
  if (frames.length) return refresh();
  openSample();
}

try {
  scene = new Scene(canvas);
  listen();
  theme();
  begin();
} catch (error) {
  showError(error);
  byId("state").textContent = "cannot draw";
}
