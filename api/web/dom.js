// Pieces of a page that more than one module makes.

export const byId = (id) => document.getElementById(id);
export const whole = (number) => number.toLocaleString("en");
export const words = (name) => name.replaceAll("_", " ");

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// A row of a table: its head, as a list of nodes and texts, and its values.
export function rowOf(head, ...values) {
  const cells = values.map((value) => element("td", {}, value));
  return element("tr", {}, element("th", { scope: "row" }, ...head), ...cells);
}

// Shows a refusal of api.js; null hides the last one.
export function showError(refusal) {
  const box = byId("error");
  box.hidden = !refusal;
  if (refusal) box.replaceChildren(element("strong", { textContent: refusal.title ?? "Error" }), refusal.message);
  else box.replaceChildren();
}
