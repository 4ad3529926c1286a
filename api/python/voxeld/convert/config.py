"""Configurations of OpenPCDet (YAML) and mmdetection3d (Python, read without running it), and values by their keys."""

from __future__ import annotations

import ast
import json
import math
import pathlib
from typing import Any, Dict, Iterable, List, Optional

from .state import ConvertError

BASE, OPENPCDET_BASE, DELETE = "_base_", "_BASE_CONFIG_", "_delete_"


class Config:
    """A dict of a configuration. `path` is where it is, for errors."""

    def __init__(self, values: Any, path: str = "") -> None:
        if not isinstance(values, dict):
            raise ConvertError(f"{path or 'the configuration'} is not a dict")
        self._values, self.path = values, path

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def get(self, key: str, default: Any) -> Any:
        return self._values.get(key, default)

    def value(self, key: str, kind: type) -> Any:
        if key not in self._values:
            raise ConvertError(f"the configuration has no {self._path(key)}")
        value = self._values[key]
        if not isinstance(value, kind):
            raise ConvertError(f"{self._path(key)} is {value!r}; expected a {kind.__name__}")
        return value

    def at(self, key: str) -> Config:
        return Config(self.value(key, dict), self._path(key))

    def items(self, key: str) -> List[Config]:
        return [Config(item, f"{self._path(key)}[{i}]") for i, item in enumerate(self.value(key, list))]

    def text(self, key: str) -> str:
        return str(self.value(key, str))

    def names(self, key: str) -> List[str]:
        names = list(self._values.get(key) or [])
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ConvertError(f"{self._path(key)} is not a list of names, each once")
        return names

    def number(self, key: str) -> Any:
        return self.numbers_of(key, [self.value(key, object)])[0]

    def numbers(self, key: str, count: Optional[int] = None) -> List[Any]:
        values = self.value(key, object)
        if not isinstance(values, (list, tuple)) or (count is not None and len(values) != count):
            raise ConvertError(f"{self._path(key)} is {values!r}; expected {count or 'a list of'} numbers")
        return self.numbers_of(key, values)

    def integers(self, key: str) -> List[int]:
        values = self.numbers(key)
        if any(value != int(value) or value < 0 for value in values):
            raise ConvertError(f"{self._path(key)} is {values!r}; expected whole numbers")
        return [int(value) for value in values]

    def numbers_of(self, key: str, values: Iterable[Any]) -> List[Any]:
        numbers = list(values)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
                raise ConvertError(f"{self._path(key)} has {number!r}; expected a number")
        return numbers

    def expect(self, key: str, value: Any) -> None:
        self.choice(key, (value,))

    def choice(self, key: str, allowed: Iterable[Any]) -> Any:
        value = self.value(key, object)
        if value not in allowed:
            words = " or ".join(str(word) for word in allowed)
            raise ConvertError(f"{self._path(key)} is {value}; only {words} can be converted")
        return value

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def read_yaml(path: pathlib.Path) -> Config:
    """Reads a file of OpenPCDet. The base of a dict is looked for in the folders above, as it is named from tools/."""
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ConvertError("reading YAML needs the package PyYAML: pip install PyYAML") from None

    def load(file: pathlib.Path) -> Any:
        try:
            return yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as reason:
            raise ConvertError(f"cannot read {file}: {reason}") from None

    def with_base(values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        whole = {key: with_base(value) for key, value in values.items() if key != OPENPCDET_BASE}
        for folder in path.resolve().parents if OPENPCDET_BASE in values else ():
            if (folder / values[OPENPCDET_BASE]).is_file():
                return _merged(with_base(load(folder / values[OPENPCDET_BASE])), whole)
        return whole

    return Config(with_base(load(path)))


def read_python(path: pathlib.Path) -> Config:
    """Reads a file of mmdetection3d, with its bases, or the same as JSON."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return Config(json.loads(text))
        values: Dict[str, Any] = {}
        for statement in ast.parse(text, str(path)).body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    values[target.id] = _evaluate(statement.value, values)
    except (OSError, ValueError, SyntaxError) as reason:
        raise ConvertError(f"cannot read {path}: {reason}") from None
    bases = values.pop(BASE, [])
    whole: Dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        whole = _merged(whole, read_python(path.parent / base)._values)
    return Config(_merged(whole, values))


class _Unknown:
    """A value that a configuration computes. Taking it is an error that shows this text."""

    def __repr__(self) -> str:
        return "an expression that is not read"


def _evaluate(node: ast.expr, names: Dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, _Unknown())
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_evaluate(item, names) for item in node.elts]
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {key.value: _evaluate(value, names) for key, value in zip(node.keys, node.values)}  # type: ignore
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        return {word.arg: _evaluate(word.value, names) for word in node.keywords if word.arg}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _evaluate(node.operand, names)
        return -value if isinstance(value, (int, float)) else _Unknown()
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        value, index = _evaluate(node.value, names), node.slice.value
        return _item(value, index)
    return _Unknown()


def _item(value: Any, index: Any) -> Any:
    try:
        return value[index] if isinstance(value, (list, dict)) else _Unknown()
    except (LookupError, TypeError):
        return _Unknown()


def _merged(base: Any, over: Any) -> Any:
    """Dicts are merged key by key, unless the upper one says otherwise; anything else is replaced."""
    if not isinstance(base, dict) or not isinstance(over, dict) or over.get(DELETE):
        return {key: value for key, value in over.items() if key != DELETE} if isinstance(over, dict) else over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
