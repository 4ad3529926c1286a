// The service's models: lists them, keeps the user's choice, and asks the model for boxes.
import { getJson, post, Refusal } from "./api.js";
import { foundOf } from "./boxes.js";
import { byId } from "./dom.js";
import { rowsOf } from "./scan.js";

let models = [];

const reasonOf = ({ reason, refused }) => reason ?? refused?.reason ?? "";

// Shows the reason why a model cannot be used.
export async function listModels() {
  ({ models } = await getJson("/v1/models"));
  const select = byId("model"), before = select.value;
  select.replaceChildren(new Option("none", ""), ...models.map((model) => {
    const { name, ready } = model, option = new Option(ready ? name : `${name} (cannot be used)`, name);
    return Object.assign(option, { disabled: !ready, title: reasonOf(model) });
  }));
  choose(before);
}

// Chooses none if there is no such model or it cannot be used.
export function choose(name) {
  const model = models.find((each) => each.name === name && each.ready);
  byId("model").value = model ? name : "";
  const broken = models.find(({ ready }) => !ready);
  byId("model-doc").textContent = model ? model.description
    : !models.length ? "The service has no models." : broken ? `${broken.name}: ${reasonOf(broken)}` : "";
}

export const chosen = () => byId("model").value;

// The model's boxes for a scan. `used`: the parameters in the answer of voxelize, which describe the scan's bytes.
export async function detect(bytes, model, used, more = {}) {
  const { tensors, metadata } = await post("detect", { model, ...rowsOf(used), ...more }, bytes);
  const found = foundOf(tensors, metadata.class_names);
  if (!found) throw new Refusal(null, { title: "No boxes", detail: `the answer of ${model} has none` });
  return Object.assign(found, { metadata });
}
