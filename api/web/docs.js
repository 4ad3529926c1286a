// The page at /docs: a reference made from openapi.yaml.
import { getText, setToken } from "./api.js";
import { byId, element, showError } from "./dom.js";
import { blocksOf, tableOf, wordsOf } from "./markup.js";
import { parseYaml } from "./yaml.js";

let api; // parsed openapi.yaml

const nameOf = ($ref) => $ref.split("/").at(-1);
const resolve = (part) => part.$ref ? part.$ref.slice(2).split("/").reduce((inner, key) => inner[key], api) : part;
const schemaLink = ($ref) => element("a", { href: `#schema-${nameOf($ref)}`, textContent: nameOf($ref) });
const joined = (lists, between) => lists.flatMap((nodes, i) => (i ? [between, ...nodes] : nodes));

// --- schemas ---

function bounds({ minimum, exclusiveMinimum, maximum, minItems, maxItems, pattern }) {
  const words = [];
  if (minimum !== undefined && maximum !== undefined) words.push(`${minimum} to ${maximum}`);
  else if (minimum !== undefined) words.push(`${minimum} or more`);
  else if (maximum !== undefined) words.push(`up to ${maximum}`);
  if (exclusiveMinimum !== undefined) words.push(`above ${exclusiveMinimum}`);
  if (minItems && minItems === maxItems) words.push(`${minItems} of them`);
  else if (maxItems) words.push(`${minItems ?? 0} to ${maxItems} of them`);
  if (pattern) words.push(`matches ${pattern}`);
  return words.length ? [`, ${words.join(", ")}`] : [];
}

// Texts and links.
function typeOf(schema) {
  if (schema.$ref) return [schemaLink(schema.$ref)];
  for (const [key, between] of Object.entries({ anyOf: " or ", oneOf: " or ", allOf: " with " }))
    if (schema[key]) return joined(schema[key].map(typeOf), between);
  if (schema.enum) return [schema.enum.join(" | ")];
  if ("const" in schema) return [String(schema.const)];
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items ?? {}), ...bounds(schema)];
  return [[schema.type ?? "any"].flat().join(" or "), ...bounds(schema)];
}

// Rows of name, type and description. The name of an inner member is a path: stream.sweeps[].time.
function membersOf(schema, around = "") {
  if (schema.$ref) return [];
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const optional = schema.required?.includes(name) ? [] : [", optional"];
    const row = [[around + name], [...typeOf(member), ...optional], wordsOf(member.description ?? "")];
    return [row, ...membersOf(member, `${around}${name}.`)];
  });
  const inner = [schema.items, schema.additionalProperties].filter((part) => part instanceof Object);
  const others = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return [...own, ...inner.flatMap((part) => membersOf(part, around.replace(/\.$/, "[].") || "[].")),
          ...others.flatMap((part) => membersOf(part, around))];
}

function schemaOf(schema) {
  const rows = membersOf(schema);
  return [...blocksOf(schema.description), ...(rows.length ? [tableOf(["member", "type", "what"], rows)] : [])];
}

// --- operations ---

const titled = (title, nodes) => nodes.length ? [element("h4", { textContent: title }), ...nodes] : [];

function parametersOf(list = []) {
  const rows = list.map(resolve).map(({ name, in: place, required, description = "", schema = {}, example }) => [
    [name], [place],
    [...typeOf(schema), required ? ", required" : "", "default" in schema ? `, default ${schema.default}` : ""],
    [...wordsOf(description), ...(example === undefined ? [] : [`; example: ${example}`])],
  ]);
  return rows.length ? [tableOf(["name", "in", "type", "what"], rows)] : [];
}

const contentOf = (content = {}) => Object.entries(content).flatMap(([type, { schema = {} }]) => [
  element("p", {}, element("code", { textContent: type }), " ", ...typeOf(schema)), ...schemaOf(schema)]);

// A row for each text, with all its statuses; then the contents of the successful answers.
function responsesOf(responses) {
  const rows = new Map(), contents = [];
  for (const [status, response] of Object.entries(responses)) {
    const { description, content } = resolve(response);
    if (!rows.has(description)) rows.set(description, []);
    rows.get(description).push(status);
    if (status < 300) contents.push(...contentOf(content));
  }
  const texts = [...rows].map(([description, statuses]) => [[statuses.join(", ")], wordsOf(description)]);
  return [tableOf(["status", "what"], texts), ...contents];
}

function operationOf(path, method, { operationId, summary = "", description, parameters, requestBody, responses }) {
  const body = requestBody && resolve(requestBody);
  return element("section", { id: operationId },
                 element("h3", {}, element("span", { className: "method", textContent: method.toUpperCase() }), path),
                 element("p", {}, ...wordsOf(summary)), ...blocksOf(description),
                 ...titled("Parameters", parametersOf(parameters)),
                 ...titled("Body", body ? [...blocksOf(body.description), ...contentOf(body.content)] : []),
                 ...titled("Answers", responsesOf(responses)));
}

// --- the page ---

const linkTo = (id, ...nodes) => element("a", { href: `#${id}` }, ...nodes);

function show() {
  const { info, paths, components: { schemas } } = api;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [path, method, operation]));
  byId("contents").append(
    ...operations.map(([path, method, { operationId }]) =>
      linkTo(operationId, element("span", { className: "method", textContent: method.toUpperCase() }), path)),
    element("h3", { textContent: "Schemas" }), ...Object.keys(schemas).map((name) => linkTo(`schema-${name}`, name)));
  byId("reference").replaceChildren(
    element("p", {}, ...wordsOf(info.summary)), ...blocksOf(info.description),
    element("p", {}, "The same as a file: ", element("a", { href: "/openapi.yaml", textContent: "openapi.yaml" })),
    ...operations.map((operation) => operationOf(...operation)),
    element("h2", { textContent: "Schemas" }),
    ...Object.entries(schemas).map(([name, schema]) =>
      element("section", { id: `schema-${name}` }, element("h3", { textContent: name }),
              element("p", {}, ...typeOf(schema)), ...schemaOf(schema))));
  byId("state").textContent = `version ${info.version}, ${operations.length} operations`;
  if (location.hash) byId(location.hash.slice(1))?.scrollIntoView();
}

async function ask() {
  try {
    api = parseYaml(await getText("/openapi.yaml"));
    showError(null);
    show();
  } catch (refusal) {
    if (!("status" in refusal)) console.error(refusal); // a defect of this page
    showError(refusal);
    byId("state").textContent = refusal.status === 401 ? "the service wants a token" : refusal.title ?? "error";
  }
}

const narrow = matchMedia("(max-width: 900px)");
byId("contents").open = !narrow.matches;
byId("contents").addEventListener("click", ({ target }) => {
  if (narrow.matches && target.closest("a")) byId("contents").open = false;
});
byId("token").onchange = ({ target }) => (setToken(target.value), ask());
ask();
