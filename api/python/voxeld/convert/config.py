"""Configurations of OpenPCDet and Autoware (YAML) and of mmdetection3d (Python, which is read but not run)."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, Iterable, List, Optional, Tuple

from . import statements
from .state import ConvertError

OPENPCDET_BASE = "_BASE_CONFIG_"
LARGEST = 1e30


class Config:
    """A dict of a configuration. `path` is where it is, for errors."""

    def __init__(self, values: Any, path: str = "") -> None:
        if not isinstance(values, dict):
            raise ConvertError(f"{path or 'the configuration'} is not a dict")
        self.values, self.path = values, path

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any) -> Any:
        return self.value(key, object) if key in self.values else default

    def value(self, key: str, kind: type) -> Any:
        if key not in self.values:
            raise ConvertError(f"the configuration has no {self._path(key)}")
        value = self.values[key]
        if isinstance(value, statements.Unread) or not isinstance(value, kind):
            raise ConvertError(f"{self._path(key)} is {value!r}; expected a {kind.__name__}")
        return value

    def at(self, key: str) -> Config:
        return Config(self.value(key, dict), self._path(key))

    def items(self, key: str) -> List[Config]:
        return [Config(item, f"{self._path(key)}[{i}]") for i, item in enumerate(self.value(key, list))]

    def text(self, key: str) -> str:
        return str(self.value(key, str))

    def names(self, key: str) -> List[str]:
        names = list(self.value(key, list)) if key in self.values else []
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ConvertError(f"{self._path(key)} is not a list of names, each once")
        return names

    def number(self, key: str, default: Any = None) -> Any:
        return self.numbers_of(key, [self.value(key, object) if default is None else self.get(key, default)])[0]

    def whole(self, key: str, default: Any = None) -> int:
        return self._whole(key, self.number(key, default))

    def last(self, key: str) -> int:
        """If the key has numbers for training and for tests, the last of them."""
        values = self.value(key, object)
        return self._whole(key, self.numbers_of(key, values if isinstance(values, list) and values else [values])[-1])

    def _whole(self, key: str, number: Any) -> int:
        if number != int(number) or number < 1:
            raise ConvertError(f"{self._path(key)} is {number}; expected a whole number above 0")
        return int(number)

    def numbers(self, key: str, count: Optional[int] = None) -> List[Any]:
        values = self.value(key, object)
        if not isinstance(values, (list, tuple)) or (count is not None and len(values) != count):
            raise ConvertError(f"{self._path(key)} is {values!r}; expected {count or 'a list of'} numbers")
        return self.numbers_of(key, values)

    def lists(self, key: str) -> List[List[Any]]:
        lists = self.value(key, list)
        if not lists or not all(isinstance(each, list) for each in lists):
            raise ConvertError(f"{self._path(key)} is {lists!r}; expected a list of lists")
        return list(lists)

    def integers(self, key: str) -> List[int]:
        values = self.numbers(key)
        if any(value != int(value) or value < 0 for value in values):
            raise ConvertError(f"{self._path(key)} is {values!r}; expected whole numbers")
        return [int(value) for value in values]

    def numbers_of(self, key: str, values: Iterable[Any]) -> List[Any]:
        numbers = list(values)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) < LARGEST:
                raise ConvertError(f"{self._path(key)} has {number!r}; expected a number")
        return numbers

    def agree(self, key: str, *values: Any, default: Any = None) -> None:
        """Checks that the key agrees with the file's voxelization: it has one of `values`. `default`: what the project
        that reads the file, such as mmdetection3d, takes if the key is absent."""
        given = self.numbers(key) if key in self.values else default
        if given is not None and list(given) not in [list(value) for value in values]:
            told = str(list(given)) if key in self.values else f"absent, so it is {list(given)} by default"
            raise ConvertError(f"{self._path(key)} is {told}, but voxelization has {list(values[0])}")

    def expect(self, key: str, value: Any) -> None:
        self.choice(key, (value,))

    def choice(self, key: str, allowed: Iterable[Any]) -> Any:
        value = self.value(key, object)
        allowed = list(allowed)
        if value not in allowed:
            words = " or ".join(str(word) for word in allowed)
            raise ConvertError(f"{self._path(key)} is {value}; only {words} can be converted")
        return value

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def read_yaml(path: pathlib.Path) -> Config:
    """A dict may name a file that it extends (_BASE_CONFIG_). This file is looked for in the folders above, because its
    path begins at OpenPCDet's tools/."""
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ConvertError("reading YAML needs the package PyYAML: pip install PyYAML") from None

    def load(file: pathlib.Path) -> Any:
        try:
            return yaml.safe_load(file.read_text(encoding="utf-8"))
        except OSError as reason:
            raise ConvertError(f"cannot read {file}: {reason.strerror or reason}") from None
        except (ValueError, yaml.YAMLError) as reason:
            raise ConvertError(f"cannot read {file}: {' '.join(str(reason).split())}") from None

    def with_base(values: Any, above: Tuple[str, ...]) -> Any:
        if not isinstance(values, dict):
            return values
        whole = {key: with_base(value, above) for key, value in values.items() if key != OPENPCDET_BASE}
        if OPENPCDET_BASE not in values:
            return whole
        base = str(values[OPENPCDET_BASE])
        if base in above:
            raise ConvertError(f"{path}: {OPENPCDET_BASE} {base} is a base of itself")
        found = [folder / base for folder in path.resolve().parents if (folder / base).is_file()]
        if not found:
            raise ConvertError(f"{path}: there is no {OPENPCDET_BASE} {base} in any folder above the configuration")
        return statements.merged(with_base(load(found[0]), (*above, base)), whole)

    try:
        values = statements.plain(load(path))
        if not isinstance(values, dict):
            raise ConvertError(f"{path} has no keys; expected a configuration of OpenPCDet, or parameters of Autoware")
        return Config(with_base(values, ()))
    except RecursionError:
        raise ConvertError(f"cannot read {path}: a dict or list has itself as a part, or is too deep") from None


def read_python(path: pathlib.Path) -> Config:
    """A file of mmdetection3d, with its bases, or the same as JSON."""
    return Config(statements.read(path))
