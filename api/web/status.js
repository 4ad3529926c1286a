// The page at /status: asks the service regularly, and shows its state.
import { getJson, getText, setToken } from "./api.js";
import { Chart } from "./chart.js";
import { byId, element, rowOf, showError, whole, words } from "./dom.js";
import { quantiles, rates, Scrape, total } from "./scrape.js";
import { bytes, duration, plain, seconds } from "./units.js";

const WINDOW = 5; // scrapes that a rate or a quantile spans
const OWN = ["/metrics", "/v1/status"]; // requests of this page, left out
const STAGES = "voxeld_stage_duration_seconds";
const LANES = { quick: "", long: " (long)", detect: " (detection)" };

function withoutOwn(map) {
  for (const path of OWN) map.delete(path);
  return map;
}

function ofLanes(scrape, names) {
  const found = new Map();
  for (const [name, family] of Object.entries(names))
    for (const [lanes, value] of scrape.sums(family, "lanes")) found.set(name + LANES[lanes], value);
  return found;
}

const named = (map, prefix) => new Map([...map].map(([key, value]) => [prefix + key, value]));

// `read(now, before)`: the values of a chart. A function with one argument needs no earlier scrape.
const CHARTS = [
  { id: "requests", title: "Requests", unit: "each second, by endpoint", format: plain, sparse: true,
    read: (now, before) => withoutOwn(rates(before, now, "voxeld_requests_total", "endpoint")) },
  { id: "refusals", title: "Refusals", unit: "each second, by reason", format: plain, sparse: true,
    read: (now, before) => rates(before, now, "voxeld_refusals_total", "reason") },
  { id: "p50", title: "Stages, p50", unit: "half take no longer", format: seconds, log: true,
    read: (now, before) => quantiles(before, now, STAGES, "stage", 0.5) },
  { id: "p99", title: "Stages, p99", unit: "99 of 100 take no longer", format: seconds, log: true,
    read: (now, before) => quantiles(before, now, STAGES, "stage", 0.99) },
  { id: "queue", title: "Queue", unit: "jobs and requests", format: plain,
    read: (now) => ofLanes(now, { waiting: "voxeld_queue_depth", running: "voxeld_jobs_running" })
      .set("waiting for the same client", now.value("voxeld_gate_waiting")) },
  { id: "memory", title: "Memory", unit: "of buffers, and of the process", format: bytes, binary: true,
    read: (now) => new Map([["in use", now.value("voxeld_buffer_bytes", "state", "in_use")],
                            ["kept for reuse", now.value("voxeld_buffer_bytes", "state", "free")],
                            ["process, resident", now.value("process_resident_memory_bytes")]]) },
  { id: "clients", title: "Clients", unit: "and what they have open", format: plain,
    read: (now) => new Map([["clients", now.value("voxeld_clients")], ["connections", now.value("voxeld_connections")],
                            ["requests of jobs", now.value("voxeld_requests_active")]]) },
  { id: "jobs", title: "Jobs", unit: "each second, by backend and GPU", format: plain, sparse: true,
    read: (now, before) => new Map([...rates(before, now, "voxeld_jobs_total", "backend"),
                                    ...named(rates(before, now, "voxeld_gpu_jobs_total", "gpu"), "GPU ")]) },
].map((row) => ({ chart: new Chart(row), read: row.read }));

let scrapes = []; // the last WINDOW, oldest first
let round = 0, timer = 0, paused = false;

// --- what is shown ---

function showNow(now, before, status) {
  const rate = before && total(withoutOwn(rates(before, now, "voxeld_requests_total", "endpoint")));
  const refused = before && total(rates(before, now, "voxeld_refusals_total", "reason"));
  const p99 = before && quantiles(before, now, STAGES, "stage", 0.99).get("total");
  const { buffers, clients, connections, requests } = status;
  const queues = [status.queue, status.long_queue, status.detection_queue];
  const sum = (key) => whole(queues.reduce((all, queue) => all + queue[key], 0));
  const rows = {
    "State": status.state,
    "Requests a second": plain(rate),
    "Refusals a second": plain(refused),
    "p99 of jobs": seconds(p99),
    "Jobs waiting": `${sum("depth")} of ${sum("limit")}`,
    "Memory": `${bytes(buffers.in_use_bytes)} of ${bytes(buffers.budget_bytes)}`,
    "Clients": whole(clients.present),
    "Connections": `${whole(connections.open)} of ${whole(connections.limit)}`,
    "Answered since the start": whole(requests.answered),
    "Refused since the start": whole(requests.refused),
    "Up for": duration(status.uptime_s),
    "Version": status.version,
  };
  const tiles = Object.entries(rows).map(([name, value]) =>
    element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value })));
  byId("now").replaceChildren(...tiles);
}

function share(amount, limit, format, label) {
  const bar = element("meter", { max: Math.max(1, limit), value: amount, ariaLabel: label });
  return element("span", {}, `${format(amount)} of ${format(limit)} `, bar);
}

function showClients({ greediest, limits }) {
  const rows = greediest.map(({ number, name = `client ${number}`, ...held }) =>
    rowOf([name], ...Object.entries(held).map(([kind, amount]) =>
      share(amount, limits[kind], kind === "buffer_bytes" ? bytes : whole, `${words(kind)} of ${name}`))));
  byId("shares").replaceChildren(...(rows.length ? rows : [rowOf(["none"])]));
}

function showDevices({ name: backend, devices }) {
  byId("devices").replaceChildren(...devices.map(({ index, name, state, running, answered, memory_bytes, reason }) =>
    rowOf([backend === "cpu" ? name : `${index}: ${name}`], reason ? `${state}: ${reason}` : state, whole(running),
          whole(answered), memory_bytes ? bytes(memory_bytes) : "the host's")));
}

function showState(text) {
  if (byId("state").textContent !== text) byId("state").textContent = text; // each change is read aloud
}

function show(now, status) {
  if (scrapes.length && !now.follows(scrapes.at(-1))) scrapes = []; // the service has restarted
  const before = scrapes[0];
  scrapes = [...scrapes, now].slice(-WINDOW);
  for (const { chart, read } of CHARTS) chart.add(now.time, read.length < 2 || before ? read(now, before) : new Map());
  showNow(now, before, status);
  showClients(status.clients);
  showDevices(status.backend);
  showState(status.state);
  showError(null);
}

// --- asking ---

async function ask() {
  const mine = ++round; // a later round makes this round stale
  clearTimeout(timer);
  try {
    const [text, status] = await Promise.all([getText("/metrics"), getJson("/v1/status")]);
    if (mine !== round) return;
    show(new Scrape(performance.now() / 1000, text), status);
  } catch (refusal) {
    if (mine !== round) return;
    if (!("status" in refusal)) console.error(refusal); // a defect of the page
    showError(refusal);
    for (const { chart } of CHARTS) if (chart.points.length) chart.add(performance.now() / 1000, new Map());
    showState(refusal.status === 401 ? "the service wants a token" : refusal.title ?? "error");
    if (refusal.status === 401) return; // the next request would fail too
  }
  if (!paused) timer = setTimeout(ask, 1000 * Number(byId("every").value));
}

function pause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (paused) clearTimeout(timer);
  else ask();
}

byId("token").onchange = ({ target }) => (setToken(target.value), ask());
byId("every").onchange = () => paused || ask();
byId("pause").onclick = pause;
ask();
