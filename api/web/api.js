// Sends requests to the service, with the user's token, and reads the answers.

let token = "";

export function setToken(value) {
  token = value.trim();
}

// A refusal. `parameter`: the refused parameter, if the service named it.
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.title = problem.title || `Status ${status}`;
    this.parameter = problem.parameter;
  }
}

const unreachable = () => new Refusal(0, { title: "No answer", detail: "the service cannot be reached" });

// Rejects with a Refusal.
const from = (promise) => promise.catch(() => { throw unreachable(); });

async function send(path, options = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await from(fetch(path, { ...options, headers, cache: "no-store" }));
  if (response.ok) return response;
  throw new Refusal(response.status, await response.json().catch(() => ({})));
}

// `kind` is how the body is read: json, text or arrayBuffer.
const ask = async (path, kind, options) => from((await send(path, options))[kind]());

export const getJson = (path) => ask(path, "json");
export const getText = (path) => ask(path, "text");
export const remove = (path) => send(path, { method: "DELETE", keepalive: true }); // even if the page is left
export const getTensors = async (path) => parseSafetensors(await ask(path, "arrayBuffer"));

// Yields each server-sent event, { name, data }, until the service ends them. Calls `heard` for all that arrives.
// EventSource cannot send the token.
export async function* follow(path, signal, heard) {
  const { body } = await send(path, { signal });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await from(reader.read());
    if (done) return;
    heard();
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/, 2)));
      if (fields.event) yield { name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

const arrays = { F32: Float32Array, F64: Float64Array, I32: Int32Array, I64: BigInt64Array, U8: Uint8Array };

// { tensors: { name: { shape, data } }, metadata }. `data` is a view of the buffer, or a copy if it is not aligned.
export function parseSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    if (name === "__metadata__" || name.startsWith("_padding_")) continue;
    const type = arrays[dtype];
    const [first, last] = data_offsets.map((offset) => 8 + length + offset);
    const data = first % type.BYTES_PER_ELEMENT
      ? new type(buffer.slice(first, last)) : new type(buffer, first, (last - first) / type.BYTES_PER_ELEMENT);
    tensors[name] = { shape, data };
  }
  return { tensors, metadata: JSON.parse(header.__metadata__?.voxeld ?? "{}") };
}

// The path and query of a request. `parameters` { name: text }. Commas stay readable.
export function pathOf(operation, parameters) {
  const query = new URLSearchParams(parameters).toString().replaceAll("%2C", ",");
  return `/v1/${operation}${query && "?"}${query}`;
}

export async function post(operation, parameters, body) {
  return parseSafetensors(await ask(pathOf(operation, parameters), "arrayBuffer", { method: "POST", body }));
}
