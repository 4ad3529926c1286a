"""Writes voxeld/operations.py from the tables of the daemon:

    $ build/bin/voxeld --describe | python3 api/python/generate.py > api/python/voxeld/operations.py

The tests compare that file with what this program writes. black leaves the file as it is. A parameter of a new type
needs a row of TYPES."""

import json
import re
import sys
import textwrap

COLUMNS = 120
MANY = 6  # a parameter with more words than this gets a named type
QUOTES = '"""'
HEAD = '''\
"""The operations of the service: steps, parameters, results, methods of Client. Written by generate.py; do not edit.

To write this file again, run in the repository:

    $ build/bin/voxeld --describe | python3 api/python/generate.py > api/python/voxeld/operations.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, Sequence, Type, TypedDict, Union, overload

import numpy as np
from numpy.typing import NDArray

from .parameters import Flag, Ints, Numbers, Parameter
from .points import Points, Tensor
from .result import Result
from .steps import Step, Steps
from .stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .calls import Calls
'''
SWEEP = ("stream", "streams", "sweeps", "pose", "poses", "mount", "time", "times")  # parameters that Stream sets
TYPES = {  # the types of values in Python, by the types of rows
    "boxes": ["Numbers"],
    "float": ["float"],
    "float or floats": ["float", "Numbers"],
    "float or string": ["float", "str"],
    "floats": ["Numbers"],
    "int": ["int"],
    "int or ints": ["int", "Ints"],
    "ints": ["Ints"],
    "list": ["Sequence[str]"],
    "steps": ["Steps"],
    "rows": ["Numbers", "str"],
    "string": ["str"],
}
POINTS = """\
points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list of such arrays
or one array [B, N, C], which also gives point_counts; or bytes, which the parameters describe: rows as the service
takes them or, with format, a file. Arrays are numpy arrays, objects in CPU memory with __array__ or __dlpack__, or
buffers of such numbers."""
STEPS = """\
what happens to the points before the operation, as a list of steps in their order: [RingOutlier("ring"),
Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters of the preset's or the model's steps
instead. "none" or an empty list leaves them out. A text, for all steps or for one, goes to the service as it is."""
HEADERS = ("request_id: Optional[str] = None", "traceparent: Optional[str] = None")
TAG = "tag: the step's name in the request and in the metadata; without it the name of its type"
OUT = """\
out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points may then also be
arrays on that GPU"""
OUT_OF_TENSORS = """\
out: "cuda" leaves the tensors on the GPU of the arrays, else on GPU 0; "cuda:1" names the GPU; arrays may then also be
on that GPU, from which they are copied"""
TERMS = (
    "metadata_only: make no tensors",
    "request_id: id of the request in the service's log; without it, the service makes one",
    "traceparent: W3C trace context of the request, for the service's log",
)
RAISES = """\
Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and TypeError
or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's or the model's value
counts, else the default."""
OPERATIONS = '''\
class Operations:
    """The methods of Client that compute."""

    _calls: Calls
'''
FILE = '''\
        """The bytes of a file with the answer of an operation on points: an array of uint8, not a Result. The kind of
        the file is `media_type`: application/vnd.safetensors, application/x-npz or application/x-mcap. The other
        arguments are those of the operation. No warnings are shown."""
'''
STREAM = '''\
        """A sensor's stream. send() joins a sweep with earlier sweeps, `sweeps` in all, and computes the result.

        Args:
            name: the stream
            sweeps: number of sweeps to join from each stream, the newest first
            operation: what is computed of the joined points; the other arguments are its parameters, such as preset,
                time_column=True or remove_close=1
            streams: several sensors' streams, of which this is one, to join in the frame of the first
            mount: transform from the sensor's frame to the vehicle's, in any form of a pose
            keep: older sweeps stay here too, as copies, and are sent again if the service has lost them; points must
                then be arrays
        """
        results: Dict[str, Type[Result]] = {
RESULTS        }
        if operation not in results:
            raise ValueError(f"operation is {operation!r}; expected {', '.join(results)}")
        result = results[operation]
        return Stream(self._calls, operation, result, name, sweeps, streams, mount, keep, parameters)
'''


def literal(text, indent):
    """A Python string literal, over several lines if needed."""
    if text is None:
        return "None"
    if len(text) + indent + 4 <= COLUMNS:
        return quoted(text)
    lines = textwrap.wrap(text, COLUMNS - indent - 7, drop_whitespace=False, break_long_words=False)
    pad = " " * indent
    return "(\n" + "".join(f"{pad}    {quoted(line)}\n" for line in lines) + f"{pad})"


def quoted(text):
    return "'" + text + "'" if '"' in text and "'" not in text else json.dumps(text)


def wrapped(text, indent, hang=0, before=""):
    """The lines of a paragraph; `before` precedes its first word."""
    return textwrap.wrap(
        " ".join(text.split()),
        COLUMNS - len(QUOTES),
        initial_indent=" " * indent + before,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )


def docstring(lines, indent):
    """The first line already has the opening quotes."""
    pad = " " * indent
    if len(lines) == 1 and len(lines[0]) + 3 <= COLUMNS:
        return lines[0] + '"""\n'
    return "\n".join(line.rstrip() for line in lines) + f'\n{pad}"""\n'


def union(kinds):
    return kinds[0] if len(kinds) == 1 else f"Union[{', '.join(kinds)}]"


def title_of(name):
    return "".join(word.title() for word in name.split("_"))


def shape_of(tensor):
    return f"[{', '.join(tensor['shape'])}] {' or '.join(tensor['dtypes'])}"


class Table:
    """A table of parameters, as types and as arguments."""

    def __init__(self, name, parameters):
        self.name, self.title, self.parameters = name, title_of(name), parameters

    def words(self, row):
        """The name of the type of the row's words; None: the type has no name."""
        named = row["values"] and (row["type"] == "list" or len(row["values"]) > MANY)
        return self.title + title_of(row["name"]) if named else None

    def type_of(self, row):
        words = self.words(row)
        if words:
            kinds = [words, f"Sequence[{words}]"] if row["type"] == "list" else [words]
        elif row["values"] == ["no", "yes"]:
            kinds = ["Flag"]
        elif row["values"]:
            kinds = [f"Literal[{', '.join(map(quoted, row['values']))}]"]
        else:
            kinds = TYPES[row["type"]]
        return union(['Literal["off"]', *kinds] if row["default"] == "off" else kinds)

    def lists(self):
        for row in filter(self.words, self.parameters):
            words = "".join(f"\n    {quoted(word)}," for word in row["values"]) + "\n"
            yield f"{self.words(row)} = Literal[{words if len(row['values']) > 1 else quoted(*row['values'])}]\n"

    def fields(self, name, base, doc, sweeps):
        """A type for dicts of parameters: either those of sweeps or the others."""
        rows = [row for row in self.parameters if (row["name"] in SWEEP) == sweeps]
        fields = "".join(f"    {row['name']}: Optional[{self.type_of(row)}]\n" for row in rows)
        return f'class {name}({base}, total=False):\n    """{doc}"""\n\n{fields}'

    def keyword(self, row):
        kind = self.type_of(row)
        return f"{row['name']}: " + (kind if row["required"] else f"Optional[{kind}] = None")

    def documentation(self, indent):
        for row in self.parameters:
            if row["type"] == "steps":
                yield from wrapped(f"{row['name']}: {STEPS}", indent, 4)
                continue
            told = [row["unit"], row["doc"], not row["values"] and f"allowed: {row['allowed']}"]
            told.append(row["default"] and f"default: {row['default']}")
            yield from wrapped(f"{row['name']}: {'; '.join(part for part in told if part)}", indent, 4)


class Step(Table):
    """A class for a type of step."""

    def __init__(self, row):
        super().__init__(row["name"], row["parameters"])
        self.doc = row["doc"]

    def arguments(self):
        yield "self"
        for number, row in enumerate(self.parameters):
            if number == 1:
                yield "*"
            yield self.keyword(row)
        yield "tag: Optional[str] = None"

    def text(self):
        lines = [*wrapped(f"A step that {self.doc}.", 4, before=QUOTES), "", "    Args:", *self.documentation(8)]
        lines += wrapped(TAG, 8, 4)
        head = function("__init__", self.arguments(), "None")
        return (
            f"class {self.title}(Step):\n{docstring(lines, 4)}\n    op = {quoted(self.name)}\n\n"
            f"{head}\n        Step.__init__(self, locals())\n"
        )


class Endpoint(Table):
    """A method of the client. If its path has several operations, the parameter `head` chooses one."""

    def __init__(self, path, rows, doc):
        parameters = [row for row in self.merged(rows, "parameters") if row["type"] != "region"]
        super().__init__(path.rsplit("/", 1)[-1], parameters)
        self.doc = doc
        self.on_points = rows[0]["body"] == "raw"
        self.one_head = len(rows) == 1
        self.inputs = self.merged(rows, "inputs")
        self.tensors = self.merged(rows, "tensors")

    @staticmethod
    def merged(rows, member):
        found = {}
        for row in rows:
            for one in row[member]:
                found.setdefault(one["name"], one)
        return list(found.values())

    def settings(self):
        own = f"{self.title}Parameters"
        yield self.fields(own, "TypedDict", f"The parameters of {self.name}, without those of sweeps.", False)
        yield (
            f"class {self.title}SweepParameters({own}, SweepParameters, total=False):\n"
            f'    """The parameters of {self.name}."""\n'
        )

    def result(self, sizes):
        used = {word for tensor in self.tensors for size in tensor["shape"] for word in re.findall("[A-Za-z]+", size)}
        legend = "; ".join(f"{size['name']} {size['doc']}" for size in sizes if size["name"] in used)
        lines = [
            *wrapped(f"The tensors of {self.name}.", 4, before=QUOTES),
            "",
            *wrapped(f"Sizes: {legend}.", 4),
        ]
        return f"class {self.title}Result(Result):\n{docstring(lines, 4)}" + "".join(map(self.tensor, self.tensors))

    @staticmethod
    def tensor(tensor):
        kind = f"NDArray[{union([f'np.{dtype}' for dtype in tensor['dtypes']])}]"
        text = f"{shape_of(tensor)}: {tensor['doc']}"
        if tensor["when"]:
            kind, text = f"Optional[{kind}]", f"{text}. Only {tensor['when']}, else None"
            body = f"self.tensors.get({quoted(tensor['name'])})"
        else:
            body = f"self._tensor({quoted(tensor['name'])})"
        doc = docstring(wrapped(text + ".", 8, before=QUOTES), 8)
        return f"\n    @property\n    def {tensor['name']}(self) -> {kind}:\n{doc}        return {body}\n"

    def arguments(self):
        """Points or inputs, then parameters. With one head, the first parameter may be positional."""
        yield "self"
        if self.on_points:
            yield "points: Points"
        elif not self.one_head:
            yield "*"
        for tensor in self.inputs if not self.on_points else ():
            optional = tensor["optional"] or not self.one_head
            yield f"{tensor['name']}: " + ("Optional[Tensor] = None" if optional else "Tensor")
        for number, row in enumerate(self.parameters):
            if number == 1 and self.one_head:
                yield "*"
            yield self.keyword(row)
        yield from ("out: Optional[str] = None", "metadata_only: bool = False", *HEADERS)

    def method(self):
        lines = [*wrapped(self.doc[0].upper() + self.doc[1:] + ".", 8, before=QUOTES), "", "        Args:"]
        if self.on_points:
            lines += wrapped(POINTS, 12, 4)
        for tensor in self.inputs if not self.on_points else ():
            text = f"{tensor['name']}: {shape_of(tensor)}"
            lines += wrapped(text + ("; may be left out" if tensor["optional"] else ""), 12, 4)
        lines += self.documentation(12)
        terms = [OUT if self.on_points else OUT_OF_TENSORS, *TERMS]
        lines += [line for term in terms for line in wrapped(term, 12, 4)]
        lines += ["", "        Returns the tensors, as attributes and as a mapping:"]
        for tensor in self.tensors:
            text = f"{tensor['name']}: {shape_of(tensor)}; {tensor['doc']}"
            lines += wrapped(text + (f"; only {tensor['when']}" if tensor["when"] else ""), 12, 4)
        lines += ["", *wrapped(RAISES, 8)]
        if self.on_points:
            call = f"points({quoted(self.name)}, {self.title}Result, locals())"
        else:
            call = f"tensors({quoted(self.name)}, {self.title}Result, {self.name.upper()}, locals())"
        head = function(self.name, self.arguments(), f"{self.title}Result")
        return f"{head}\n{docstring(lines, 8)}        return self._calls.{call}\n"

    def dtypes(self):
        rows = "".join(
            f"    {quoted(tensor['name'])}: [{', '.join(map(quoted, tensor['dtypes']))}],\n" for tensor in self.inputs
        )
        return f"{self.name.upper()}: Dict[str, List[str]] = {{\n{rows}}}\n"


def function(name, arguments, returned):
    lines = "".join(f"        {line},\n" for line in arguments)
    return f"    def {name}(\n{lines}    ) -> {returned}:"


def endpoints_of(tables):
    docs = {row["path"]: row["doc"] for row in tables["endpoints"] if row["method"] == "POST"}
    paths = {}
    for row in tables["operations"]:
        paths.setdefault(row["path"], []).append(row)
    return [Endpoint(path, rows, docs[path]) for path, rows in paths.items()]


def rows_of(endpoints, steps):
    """The parameters of operations on points and of their steps. A row that several operations share is there once."""
    of_steps = [{**row, "name": f"{step.name}.{row['name']}"} for step in steps for row in step.parameters]
    found = {}
    for endpoint in endpoints:
        has_steps = any(row["type"] == "steps" for row in endpoint.parameters)
        for row in endpoint.parameters + (of_steps if has_steps else []):
            told = tuple(row[member] for member in ("name", "type", "unit", "default", "allowed", "doc"))
            found.setdefault(told, []).append(endpoint.name)
    text = ""
    for (name, *told), operations in found.items():
        whose = ", ".join(map(quoted, operations)) + ("," if len(operations) == 1 else "")
        cells = [quoted(name), f"({whose})", *(literal(cell, 8) for cell in told)]
        text += "    Parameter(\n" + "".join(f"        {cell},\n" for cell in cells) + "    ),\n"
    return f"PARAMETERS: List[Parameter] = [\n{text}]\n"


def file_bytes_method(endpoints):
    """file_bytes() takes the parameters of any operation on points."""

    def head(operation, parameters):
        media = 'media_type: str = "application/vnd.safetensors"'
        given = [f"operation: {operation}", "points: Points", media, "*", *HEADERS, f"**parameters: {parameters}"]
        return function("file_bytes", ["self", *given], "NDArray[np.uint8]")

    kinds = ((f"Literal[{quoted(one.name)}]", f"Unpack[{one.title}SweepParameters]") for one in endpoints)
    overloads = "".join(f"    @overload\n{head(*kind)} ...\n" for kind in kinds)
    body = f"{FILE}        return self._calls.file_bytes(operation, media_type, locals())\n"
    return f"{overloads}{head('str', 'Any')}\n{body}"


def stream_method(endpoints):
    """stream() takes the parameters of any operation on points, except those of sweeps."""

    def head(operation, parameters, result):
        own = ["streams: Optional[Sequence[str]] = None", "mount: Optional[Numbers] = None", "keep: bool = False"]
        given = ["name: str", "sweeps: int", "*", f"operation: {operation}", *own, f"**parameters: {parameters}"]
        return function("stream", ["self", *given], f"Stream[{result}]")

    overloads = ""
    for one in endpoints:
        operation = f"Literal[{quoted(one.name)}]" + (' = "voxelize"' if one.name == "voxelize" else "")
        overloads += f"    @overload\n{head(operation, f'Unpack[{one.title}Parameters]', f'{one.title}Result')} ...\n"
    results = "".join(f"            {quoted(one.name)}: {one.title}Result,\n" for one in endpoints)
    body = STREAM.replace("RESULTS", results)
    head_of_all = head('str = "voxelize"', "Any", "Any")
    return f"{overloads}{head_of_all}\n{body}"


def write(tables):
    endpoints = endpoints_of(tables)
    on_points = [one for one in endpoints if one.on_points]
    steps = [Step(row) for row in tables["steps"]]
    names = ["SweepParameters", *(f"{one.title}Result" for one in endpoints), *(step.title for step in steps)]
    names += [f"{one.title}{part}" for one in on_points for part in ("Parameters", "SweepParameters")]
    public = "__all__ = [\n" + "".join(f"    {quoted(name)},\n" for name in sorted(names)) + "]\n"
    constants = [text for one in [*steps, *endpoints] for text in one.lists()]
    constants += [one.dtypes() for one in endpoints if not one.on_points]
    doc = "The parameters of sweeps, which operations on points have."
    classes = [step.text() for step in steps]
    classes += [on_points[0].fields("SweepParameters", "TypedDict", doc, True)]
    classes += [text for one in on_points for text in one.settings()]
    classes += [one.result(tables["sizes"]) for one in endpoints]
    methods = [*(one.method() for one in endpoints), file_bytes_method(on_points), stream_method(on_points)]
    classes += ["\n".join([OPERATIONS, *methods])]
    text = "\n".join([HEAD, public, *constants, rows_of(on_points, steps)])
    text = "\n\n".join([text, *classes])
    longest = max(text.splitlines(), key=len)
    if len(longest) > COLUMNS:
        raise SystemExit(f"a line has {len(longest)} columns: {longest}")
    return text


if __name__ == "__main__":
    sys.stdout.write(write(json.load(sys.stdin)))
