"""Writes voxeld/operations.py from what the daemon says of its operations:

    $ build/bin/voxeld --describe | python3 api/python/generate.py > api/python/voxeld/operations.py

The tests compare that file with what this program writes. black leaves the file as it is.
"""

import json
import re
import sys
import textwrap

COLUMNS = 120
QUOTES = '"""'
HEAD = '''\
"""The operations of the service: parameters, results, and the methods of Client. Written by generate.py; do not edit.

To write this file again, run in the repository:

    $ build/bin/voxeld --describe | python3 api/python/generate.py > api/python/voxeld/operations.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, Sequence, Type, TypedDict, Union, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .parameters import Flag, Ints, Numbers, Parameter
from .points import Points
from .result import Result
from .stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .calls import Calls
'''
SWEEP = ("stream", "streams", "sweeps", "pose", "poses", "mount", "time", "times")  # parameters that Stream sets
TYPES = {
    "boxes": "Numbers",
    "float": "float",
    "floats": "Numbers",
    "int": "int",
    "int or ints": "Union[int, Ints]",
    "ints": "Ints",
    "list": "Sequence[str]",
    "string": "str",
}
POINTS = """\
points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list of such arrays
or one array [B, N, C], which also gives point_counts; or bytes: rows as the service takes them or, with format, a file,
described by the parameters. Arrays are numpy arrays, objects in CPU memory with __array__ or __dlpack__, or buffers of
such numbers."""
TERMS = (
    "metadata_only: make no tensors",
    "request_id: id of the request in the service's log; without it, the service makes one",
    "traceparent: W3C trace context of the request, for the service's log",
)
RAISES = """\
Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and TypeError
or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's value counts, else the
default."""
FILE = """\
        \"\"\"The answer of an operation on points as the bytes of a file, whose kind is `media_type`:
        application/vnd.safetensors, application/x-npz or application/x-mcap. The other arguments are those of the
        operation. No warnings are shown.\"\"\"
"""
STREAM = """\
        \"\"\"A sensor's stream. send() joins a sweep with earlier sweeps, `sweeps` in all, and computes the result.

        Args:
            name: the stream
            sweeps: number of sweeps to join from each stream, the newest first
            operation: what is computed of the joined points; the other arguments are its parameters, such as preset,
                time_column=True or remove_close=1
            streams: several sensors' streams, of which this is one, to join in the frame of the first
            mount: transform from the sensor's frame to the vehicle's, in any form of a pose
            keep: older sweeps stay here too, as copies, and are sent again if the service has lost them; points must
                then be arrays
        \"\"\"
"""


def literal(text, indent):
    """A string of Python, in several lines if one is too short."""
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
    """A paragraph in lines of a docstring; `before` stands before its first word."""
    return textwrap.wrap(
        " ".join(text.split()),
        COLUMNS - len(QUOTES),
        initial_indent=" " * indent + before,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )


def docstring(lines, indent):
    """A docstring of such lines, of which the first begins it."""
    pad = " " * indent
    if len(lines) == 1 and len(lines[0]) + 3 <= COLUMNS:
        return lines[0] + '"""\n'
    return "\n".join(line.rstrip() for line in lines) + f'\n{pad}"""\n'


def shape_of(tensor):
    return f"[{', '.join(tensor['shape'])}]"


class Endpoint:
    """A method of the client: the operations of one path, between which the parameter `head` may choose."""

    def __init__(self, path, rows, doc):
        self.name, self.doc = path.rsplit("/", 1)[-1], doc
        self.title = "".join(word.title() for word in self.name.split("_"))
        self.on_points = rows[0]["body"] == "raw"
        self.one_head = len(rows) == 1
        self.inputs = self.merged(rows, "inputs")
        self.tensors = self.merged(rows, "tensors")
        self.parameters = [row for row in self.merged(rows, "parameters") if row["type"] != "region"]

    @staticmethod
    def merged(rows, member):
        found = {}
        for row in rows:
            for one in row[member]:
                found.setdefault(one["name"], one)
        return list(found.values())

    def words(self, row):
        """The name of the type of one word of a list."""
        return self.title + "".join(part.title() for part in row["name"].split("_"))

    def type_of(self, row):
        if row["values"] == ["no", "yes"]:
            return "Flag"
        if row["values"] and row["type"] == "list":
            kinds = [self.words(row), f"Sequence[{self.words(row)}]"]
        elif row["values"]:
            kinds = [f"Literal[{', '.join(map(quoted, row['values']))}]"]
        else:
            kinds = [TYPES[row["type"]]]
        if row["default"] == "off":
            kinds = ['Literal["off"]', *re.sub(r"^Union\[(.*)\]$", r"\1", ", ".join(kinds)).split(", ", 1)]
        return kinds[0] if len(kinds) == 1 else f"Union[{', '.join(kinds)}]"

    def lists(self):
        """The types of words in lists."""
        for row in self.parameters:
            if row["values"] and row["type"] == "list":
                words = "".join(f"\n    {quoted(word)}," for word in row["values"]) + "\n"
                yield f"{self.words(row)} = Literal[{words if len(row['values']) > 1 else quoted(*row['values'])}]\n"

    def settings(self):
        """The parameters as dicts."""
        if not self.on_points:
            return
        fields = "".join(
            f"    {row['name']}: Optional[{self.type_of(row)}]\n" for row in self.parameters if row["name"] not in SWEEP
        )
        yield (
            f"class {self.title}Parameters(TypedDict, total=False):\n"
            f'    """The parameters of {self.name}, without those of sweeps."""\n\n{fields}'
        )
        yield (
            f"class {self.title}SweepParameters({self.title}Parameters, SweepParameters, total=False):\n"
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
        kinds = [f"np.{dtype}" for dtype in tensor["dtypes"]]
        kind = f"NDArray[{kinds[0] if len(kinds) == 1 else f'Union[{chr(44).join(kinds)}]'.replace(',', ', ')}]"
        text = f"{shape_of(tensor)} {' or '.join(tensor['dtypes'])}: {tensor['doc']}"
        if tensor["when"]:
            kind, text = f"Optional[{kind}]", f"{text}. Only {tensor['when']}, else None"
            body = f"self.tensors.get({quoted(tensor['name'])})"
        else:
            body = f"self._tensor({quoted(tensor['name'])})"
        doc = docstring(wrapped(text + ".", 8, before=QUOTES), 8)
        return f"\n    @property\n    def {tensor['name']}(self) -> {kind}:\n{doc}        return {body}\n"

    def arguments(self):
        """Of the method: its bodies, then its parameters; the first of these may be given by its place."""
        if self.on_points:
            yield "points: Points"
        elif self.one_head:
            for tensor in self.inputs:
                yield f"{tensor['name']}: " + ("Optional[ArrayLike] = None" if tensor["optional"] else "ArrayLike")
        else:
            yield "*"
            for tensor in self.inputs:
                yield f"{tensor['name']}: Optional[ArrayLike] = None"
        for number, row in enumerate(self.parameters):
            if number == 1 and self.one_head:
                yield "*"
            kind = self.type_of(row)
            yield f"{row['name']}: " + (kind if row["required"] else f"Optional[{kind}] = None")
        yield "metadata_only: bool = False"
        yield "request_id: Optional[str] = None"
        yield "traceparent: Optional[str] = None"

    def method(self):
        lines = [*wrapped(self.doc[0].upper() + self.doc[1:] + ".", 8, before=QUOTES), "", "        Args:"]
        if self.on_points:
            lines += wrapped(POINTS, 12, 4)
        else:
            for tensor in self.inputs:
                text = f"{tensor['name']}: {shape_of(tensor)} {' or '.join(tensor['dtypes'])}"
                lines += wrapped(text + ("; may be left out" if tensor["optional"] else ""), 12, 4)
        for row in self.parameters:
            told = [row["unit"], row["doc"], not row["values"] and f"allowed: {row['allowed']}"]
            told.append(row["default"] and f"default: {row['default']}")
            lines += wrapped(f"{row['name']}: {'; '.join(part for part in told if part)}", 12, 4)
        lines += [line for term in TERMS for line in wrapped(term, 12, 4)]
        lines += ["", "        Returns the tensors, as attributes and as a mapping:"]
        for tensor in self.tensors:
            text = f"{tensor['name']}: {shape_of(tensor)} {' or '.join(tensor['dtypes'])}; {tensor['doc']}"
            lines += wrapped(text + (f"; only {tensor['when']}" if tensor["when"] else ""), 12, 4)
        lines += ["", *wrapped(RAISES, 8)]
        arguments = "".join(f"        {one},\n" for one in ("self", *self.arguments()))
        if self.on_points:
            call = f"points({quoted(self.name)}, {self.title}Result, locals())"
        else:
            call = f"tensors({quoted(self.name)}, {self.title}Result, {self.name.upper()}, locals())"
        return (
            f"    def {self.name}(\n{arguments}    ) -> {self.title}Result:\n"
            f"{docstring(lines, 8)}        return self._calls.{call}\n"
        )

    def dtypes(self):
        """The types that each input may have."""
        rows = "".join(
            f"    {quoted(tensor['name'])}: [{', '.join(map(quoted, tensor['dtypes']))}],\n" for tensor in self.inputs
        )
        return f"{self.name.upper()}: Dict[str, List[str]] = {{\n{rows}}}\n"


def endpoints_of(tables):
    docs = {row["path"]: row["doc"] for row in tables["endpoints"] if row["method"] == "POST"}
    paths = {}
    for row in tables["operations"]:
        paths.setdefault(row["path"], []).append(row)
    return [Endpoint(path, rows, docs[path]) for path, rows in paths.items()]


def sweep_parameters(endpoint):
    fields = "".join(
        f"    {row['name']}: Optional[{endpoint.type_of(row)}]\n" for row in endpoint.parameters if row["name"] in SWEEP
    )
    return (
        "class SweepParameters(TypedDict, total=False):\n"
        f'    """The parameters of sweeps, which operations on points have."""\n\n{fields}'
    )


def rows_of(endpoints):
    """The parameters of operations on points; a row that several operations share is there once."""
    found = {}
    for endpoint in endpoints:
        for row in endpoint.parameters:
            told = tuple(row[member] for member in ("name", "type", "unit", "default", "allowed", "doc"))
            found.setdefault(told, []).append(endpoint.name)
    text = ""
    for (name, *told), operations in found.items():
        whose = ", ".join(map(quoted, operations)) + ("," if len(operations) == 1 else "")
        cells = [quoted(name), f"({whose})", *(literal(cell, 8) for cell in told)]
        text += "    Parameter(\n" + "".join(f"        {cell},\n" for cell in cells) + "    ),\n"
    return f"PARAMETERS: List[Parameter] = [\n{text}]\n"


def overloads(endpoints):
    """file() and stream(), which take the parameters of any operation on points."""
    names = [endpoint for endpoint in endpoints if endpoint.on_points]
    media = 'media_type: str = "application/vnd.safetensors"'
    terms = ["request_id: Optional[str] = None", "traceparent: Optional[str] = None"]
    file = ["self", "operation: {}", "points: Points", media, "*", *terms, "**parameters: {}"]
    own = ["streams: Optional[Sequence[str]] = None", "mount: Optional[Numbers] = None", "keep: bool = False"]
    stream = ["self", "name: str", "sweeps: int", "*", "operation: {}", *own, "**parameters: {}"]

    def head(name, arguments, operation, parameters, returned):
        lines = "".join(f"        {line},\n" for line in arguments)
        return f"    def {name}(\n{lines.format(operation, parameters)}    ) -> {returned}:"

    for one in names:
        kind = f"Unpack[{one.title}SweepParameters]"
        body = head("file", file, f"Literal[{quoted(one.name)}]", kind, "NDArray[np.uint8]")
        yield f"    @overload\n{body} ...\n"
    body = head("file", file, "str", "Any", "NDArray[np.uint8]")
    yield f"{body}\n{FILE}        return self._calls.file(operation, media_type, locals())\n"
    for one in names:
        default = ' = "voxelize"' if one.name == "voxelize" else ""
        kind = f"Unpack[{one.title}Parameters]"
        body = head("stream", stream, f"Literal[{quoted(one.name)}]{default}", kind, f"Stream[{one.title}Result]")
        yield f"    @overload\n{body} ...\n"
    body = head("stream", stream, 'str = "voxelize"', "Any", "Stream[Any]")
    results = "".join(f"            {quoted(one.name)}: {one.title}Result,\n" for one in names)
    yield (
        f"{body}\n{STREAM}        results: Dict[str, Type[Result]] = {{\n{results}        }}\n"
        "        if operation not in results:\n"
        "            raise ValueError(f\"operation is {operation!r}; expected {', '.join(results)}\")\n"
        "        result = results[operation]\n"
        "        return Stream(self._calls, operation, result, name, sweeps, streams, mount, keep, parameters)\n"
    )


def write(tables):
    endpoints = endpoints_of(tables)
    points = next(endpoint for endpoint in endpoints if endpoint.on_points)
    constants = [text for endpoint in endpoints for text in endpoint.lists()]
    constants += [endpoint.dtypes() for endpoint in endpoints if not endpoint.on_points]
    classes = [sweep_parameters(points)]
    classes += [text for endpoint in endpoints for text in endpoint.settings()]
    classes += [endpoint.result(tables["sizes"]) for endpoint in endpoints]
    methods = [*(endpoint.method() for endpoint in endpoints), *overloads(endpoints)]
    body = (
        "\n".join(methods)
        .replace("...\n\n    @overload", "...\n    @overload")
        .replace("...\n\n    def", "...\n    def")
    )
    operations = 'class Operations:\n    """The methods of Client that compute."""\n\n    _calls: Calls\n\n' + body
    on_points = [one for one in endpoints if one.on_points]
    names = ["SweepParameters", *(f"{one.title}Result" for one in endpoints)]
    names += [f"{one.title}{part}" for one in on_points for part in ("Parameters", "SweepParameters")]
    public = "__all__ = [\n" + "".join(f"    {quoted(name)},\n" for name in sorted(names)) + "]\n"
    text = "\n".join([HEAD, public, *constants, rows_of(on_points)])
    text = "\n\n".join([text, *classes, operations])
    longest = max(text.splitlines(), key=len)
    if len(longest) > COLUMNS:
        raise SystemExit(f"a line has {len(longest)} columns: {longest}")
    return text


if __name__ == "__main__":
    sys.stdout.write(write(json.load(sys.stdin)))
