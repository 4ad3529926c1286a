// Parts that several pages or modules make.

export const byId = (id) => document.getElementById(id);
export const whole = (number) => number.toLocaleString("en");

// "1 point", "2 points".
export const counted = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;
export const words = (name) => name.replaceAll("_", " ");

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// A row of a table. `head`: a list of nodes and texts.
export function rowOf(head, ...values) {
  const cells = values.map((value) => element("td", {}, value));
  return element("tr", {}, element("th", { scope: "row" }, ...head), ...cells);
}

// Shows a refusal of api.js and, if given, what was refused; null hides the last one. Status 401 shows the token's
// field.
export function showError(refusal, refused) {
  const box = byId("error");
  box.hidden = !refusal;
  if (!refusal) return box.replaceChildren();
  const head = refused ? `Refused: ${refused}` : refusal.title ?? "Error";
  box.replaceChildren(element("strong", { textContent: head }), refusal.message);
  if (refusal.status !== 401) return;
  byId("token").parentElement.hidden = false;
  byId("token").focus();
}
