"""The service's tables, as `voxeld --describe` prints them, and their rows in README.md, docs/ and the manual page.

Run as a program, this file prints the tables in Markdown and the rows of the manual page, ready to paste.
"""

import json
import os
import re
import subprocess

from daemon import voxeld_binary

# Operations that take points.
ON_POINTS = ["voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"]
HEADS = {"decode_center": "decode"}  # operation chosen by `head`: operation with the endpoint
ONE_HEAD = {"decode": "decode, anchor head", "decode_center": "decode, centre head"}
AFTER_DRAIN = 9  # seconds at most from the end of drain_timeout_s to the exit; see server/daemon/drain.c


def voxeld(*arguments):
    """The output of the program, without VOXELD_... variables in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOXELD_")}
    return subprocess.run(
        [voxeld_binary(), *arguments], env=environment, check=True, capture_output=True, text=True
    ).stdout


def describe():
    return json.loads(voxeld("--describe"))


def meaning(parameter):
    """`UNIT; DOC` of a parameter."""
    return "; ".join(part for part in (parameter["unit"], parameter["doc"]) if part)


def shape_of(tensor):
    """`[SHAPE] TYPE or TYPE` of a tensor."""
    return f"[{', '.join(tensor['shape'])}] {' or '.join(tensor['dtypes'])}"


def row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def code(text):
    return f"`{text}`" if text else ""


def path_of(endpoint):
    """The path with {name} in place of *."""
    return endpoint["path"].replace("*", "{name}")


def takers(names, operations):
    """(operations in the heading of a parameter's table, text that the parameter's row adds)."""
    for title, group in (("all", list(operations)), (", ".join(ON_POINTS), ON_POINTS)):
        missing = [name for name in group if name not in names]
        if set(names) <= set(group) and len(missing) <= 2:
            return title, f" (not {', '.join(missing)})" if missing else ""
    if not set(ONE_HEAD) <= set(names):
        names = [ONE_HEAD.get(name, name) for name in names]
    home, *others = [name for name in names if name not in HEADS]
    return home, f" (also {', '.join(others)})" if others else ""


def parameters(tables):
    """One entry for each meaning of each parameter. `takers` makes its `of` and `added`."""
    found = {}
    for operation in tables["operations"]:
        for entry in operation["parameters"]:
            same = tuple(entry[key] for key in ("name", "allowed", "unit", "doc"))
            first, names = found.setdefault(same, (entry, []))
            assert entry["default"] in (first["default"], None), entry
            names.append(operation["name"])
    operations = [operation["name"] for operation in tables["operations"]]
    return [{**entry, **dict(zip(("of", "added"), takers(names, operations)))} for entry, names in found.values()]


# Table name: (header cells, function that makes the cells of one row).
PAGE_TABLES = {
    "endpoints": (("endpoint", "what"), lambda r: (code(f"{r['method']} {path_of(r)}"), r["doc"])),
    "kserve_endpoints": (("KServe v2 endpoint", "what"), lambda r: (code(f"{r['method']} {path_of(r)}"), r["doc"])),
    "parameters": (
        ("parameter of {of}", "default", "allowed", "meaning"),
        lambda r: (code(r["name"]) + r["added"], code(r["default"]), r["allowed"], meaning(r)),
    ),
    "steps": (
        ("parameter of a step", "default", "allowed", "meaning"),
        lambda r: (code(f"{r['step']}.{r['name']}"), code(r["default"]), r["allowed"], meaning(r)),
    ),
    "options": (
        ("option", "default", "allowed", "meaning"),
        lambda r: (code("--" + r["name"].replace("_", "-")), code(r["default"]), r["allowed"], r["doc"]),
    ),
    "problems": (("status", "problem"), lambda r: (r["status"], code(r["name"]))),
    "answers": (("media type", "what"), lambda r: (code(r["media_type"]), r["doc"])),
    "warnings": (("warning", "when"), lambda r: (code(r["kind"]), r["doc"])),
    "metrics": (("metric", "type", "meaning"), lambda r: (code(r["name"]), r["type"], r["doc"])),
}


def operation_of(name, tables):
    (found,) = [row for row in tables["operations"] if row["name"] == name]
    return found


def page_tables(name, tables):
    """{header row: rows}"""
    header, cells = PAGE_TABLES[name]
    if name == "parameters":
        entries = parameters(tables)
    elif name == "steps":
        operations = {operation["name"] for operation in tables["operations"]}  # these have their own tables
        steps = [step for step in tables["steps"] if step["name"] not in operations]
        entries = [{**entry, "step": step["name"]} for step in steps for entry in step["parameters"]]
    else:
        entries = tables[name.removeprefix("kserve_")]
    if name.endswith("endpoints"):
        entries = [entry for entry in entries if entry["path"].startswith("/v2") == name.startswith("kserve_")]
    found = {}
    for entry in entries:
        found.setdefault(row(*header).format(**entry), []).append(row(*cells(entry)))
    return found


def man_text(text):
    """The text with groff's special characters escaped."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def man_rows(tables):
    """The text after .TP of each option in packaging/voxeld.8, in order."""
    return [
        man_text(
            f".B --{option['name'].replace('_', '-')}\n{option['doc']}.\nAllowed: {option['allowed']}; default: "
            f"{option['default'] or 'none'}."
        )
        for option in tables["options"]
    ]


def alerts(text):
    """(expression, duration, severity, meaning) of each row of the table of alerts."""
    rows = text[text.index("| expression | for | severity | what it tells |") :].split("\n\n")[0].splitlines()[2:]
    found = [re.match(r"\| `(.*?)` \| (.*?) \| (.*?) \| (.*) \|$", row).groups() for row in rows]
    return [(expression.replace("\\|", "|"), *cells) for expression, *cells in found]


def same_rows(test, expected, shown, where):
    """Fails the test for each row that only the program or only the text has."""
    for line in expected:
        with test.subTest(f"in the program, not in {where}: {line}"):
            test.assertTrue(line in shown)
    for line in shown:
        with test.subTest(f"in {where}, not in the program: {line}"):
            test.assertTrue(line in expected)


def normal(line):
    return re.sub(r"\s*\|\s*", " | ", line.strip()).strip()


if __name__ == "__main__":
    described = describe()
    for table in PAGE_TABLES:
        for header, rows in page_tables(table, described).items():
            print("", header, row(*["---"] * len(PAGE_TABLES[table][0])), *rows, sep="\n")
    print("", *(f".TP\n{text}" for text in man_rows(described)), sep="\n")
