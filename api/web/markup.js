// Turns texts of openapi.yaml into elements: paragraphs, tables, code (indented by four spaces) and `code`.
import { element } from "./dom.js";

// Words in backquotes are code.
export const wordsOf = (text) => text.split("`").map((part, i) =>
  i % 2 ? element("code", { textContent: part }) : part);

const cellsOf = (line) => line.slice(1, -1).split(" | ").map((cell) => cell.trim());

export function tableOf(heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col", textContent: text })));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((nodes) => element("td", {}, ...nodes))));
  return element("div", { className: "scroll" },
                 element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function blockOf(text) {
  if (text.startsWith("    ")) return element("pre", { textContent: text.replace(/^ {4}/gm, "") });
  if (!text.startsWith("|")) return element("p", {}, ...wordsOf(text.replaceAll("\n", " ")));
  const [heads, , ...rows] = text.split("\n").map(cellsOf);
  return tableOf(heads, rows.map((cells) => cells.map(wordsOf)));
}

export const blocksOf = (text = "") => text.trimEnd().split(/\n{2,}/).filter(Boolean).map(blockOf);
