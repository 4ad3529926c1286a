// Reads the YAML of openapi.yaml: maps and lists by indentation, or in brackets on one line; plain and quoted words;
// texts after |; comments. Other YAML is an error.

const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'{[\]}#&*!|>%@-](?:.*?[^\s])??|-[^\s].*?):(?: +(.*))?$/;
const NUMBER = /^[-+]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const WORDS = { "": null, "null": null, "~": null, "true": true, "false": false };

const indentOf = (line) => line.length - line.trimStart().length;
const scalar = (word) => word in WORDS ? WORDS[word] : NUMBER.test(word) ? Number(word) : word;

// A value on one line.
class Line {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail() {
    throw new Error(`cannot read this YAML from column ${this.at}: ${this.text}`);
  }

  // Takes a match of the sticky pattern.
  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found?.[0];
  }

  quoted() {
    const double = this.take(/"(?:[^"\\]|\\.)*"/y);
    if (double) return JSON.parse(double);
    return this.take(/'(?:[^']|'')*'/y)?.slice(1, -1).replaceAll("''", "'");
  }

  // one() reads an item. `end`: the closing bracket.
  items(end, one) {
    while (!this.take(end)) {
      one();
      this.take(/ */y);
      if (!this.take(/, */y) && this.text[this.at] !== end.source.at(-1)) this.fail();
    }
  }

  // `word` matches a plain word; by default, up to a comma or a bracket.
  value(word = /(?:[^,\]}\s]| (?![,\]}]))+/y) {
    if (this.take(/\{ */y)) {
      const map = {};
      this.items(/\}/y, () => {
        const key = this.quoted() ?? this.take(/[^:,\]}]+/y) ?? this.fail();
        if (!this.take(/: */y)) this.fail();
        map[key] = this.value();
      });
      return map;
    }
    if (this.take(/\[ */y)) {
      const list = [];
      this.items(/\]/y, () => list.push(this.value()));
      return list;
    }
    if (/[&*!|>%@]/.test(this.text[this.at])) this.fail();
    return this.quoted() ?? scalar(this.take(word) ?? "");
  }

  whole() {
    const value = this.value(/(?:(?! +#| *$).)+/y);
    this.take(/(?: +#.*| *)$/y);
    return this.at === this.text.length ? value : this.fail();
  }
}

const inline = (text) => new Line(text).whole();

class Reader {
  constructor(text) {
    this.lines = text.split("\n");
    this.at = 0;
  }

  // The next line that is neither empty nor a comment; "" if there is none.
  peek() {
    while (this.at < this.lines.length && /^\s*(?:#.*)?$/.test(this.lines[this.at])) this.at++;
    return this.lines[this.at] ?? "";
  }

  // Lines with a greater indent, without the indent of the first.
  text(indent) {
    const lines = [];
    for (; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at];
      if (line.trim() && indentOf(line) <= indent) break;
      lines.push(line);
    }
    const first = indentOf(lines[0] ?? "");
    return `${lines.map((line) => line.slice(first)).join("\n").trimEnd()}\n`;
  }

  // The map or the list whose lines have this indent.
  block(indent) {
    const isList = this.peek().trimStart().startsWith("- ");
    const made = isList ? [] : {};
    for (;;) {
      const line = this.peek();
      if (!line || indentOf(line) !== indent || line.trimStart().startsWith("- ") !== isList) return made;
      if (isList) made.push(this.item(line, indent));
      else this.entry(line, indent, made);
    }
  }

  item(line, indent) {
    const rest = line.slice(indent + 2);
    if (KEY.test(rest)) { // a map that begins after the dash
      this.lines[this.at] = `${" ".repeat(indent + 2)}${rest}`;
      return this.block(indent + 2);
    }
    this.at++;
    return inline(rest);
  }

  entry(line, indent, map) {
    const [, key, rest = ""] = KEY.exec(line.slice(indent)) ?? new Line(line).fail();
    this.at++;
    const isInner = !rest || rest.startsWith("#");
    map[inline(key)] = isInner ? this.inner(indent) : rest === "|" ? this.text(indent) : inline(rest);
  }

  // The value under a key; a list may have the key's indent.
  inner(indent) {
    const next = this.peek(), deeper = indentOf(next);
    const isInner = next && (deeper > indent || (deeper === indent && next.trimStart().startsWith("- ")));
    return isInner ? this.block(deeper) : null;
  }
}

export function parseYaml(text) {
  const reader = new Reader(text);
  const value = reader.block(0);
  if (reader.peek()) new Line(reader.peek()).fail();
  return value;
}
