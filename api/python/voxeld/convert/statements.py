"""Reads configurations in Python without executing them, and finds the values that mmengine finds by executing them.

Statements and expressions are followed one by one: assignments, updates of dicts and lists, arithmetic, `if`, `for`,
members of bases. Only the functions in FUNCTIONS, IMPORTED and METHODS are called. Another statement is refused with
file and line, and so is another call that could change a dict or a list. Any other expression that is not followed
gives an unknown value, whose use is an error with file and line."""

from __future__ import annotations

import ast
import copy
import json
import math
import operator
import pathlib
import re
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Tuple, Union

from .state import ConvertError

BASE, DELETE = "_base_", "_delete_"
LONGEST = 10_000  # items of a list, characters of a text, bits of a whole number
MOST_TURNS = 100_000  # of all loops of a file
MOST_VALUES = 1_000_000  # of a configuration
WHOLE = "mmengine's Config.fromfile(FILE).dump('whole.json') writes JSON that the converter reads"

BINARY: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARED: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
UNARY: Dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
FUNCTIONS: Dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (abs, bool, dict, enumerate, float, int, len, list, max, min, range, reversed, round, sorted)
    + (str, sum, tuple, zip)
}


def _downsample_factor(model: Dict[str, Any]) -> int:
    """det3d's get_downsample_factor: the stride of the head's maps."""
    model = model.get("first_stage_cfg", model)
    neck = model["neck"]
    up = [*neck.get("us_layer_strides", []), 1][-1 - bool(neck.get("us_layer_strides"))]
    return int(math.prod(neck.get("ds_layer_strides", [1])) / up * model["backbone"]["ds_factor"])


IMPORTED: Dict[str, Callable[..., Any]] = {  # functions of modules that change nothing that they get
    "copy.deepcopy": copy.deepcopy,
    "copy.copy": copy.copy,
    "itertools.chain": lambda *lists: [item for items in lists for item in items],
    "det3d.utils.config_tool.get_downsample_factor": _downsample_factor,
}
METHODS: Dict[type, Tuple[str, ...]] = {
    dict: ("clear", "copy", "get", "items", "keys", "merge", "pop", "setdefault", "update", "values"),
    list: ("append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse"),
    tuple: ("count", "index"),
    str: ("endswith", "join", "lower", "replace", "split", "startswith", "strip", "upper"),
}


class Unread:
    """An unknown value, and where its expression is."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __repr__(self) -> str:
        return f"an expression that is not read ({self._where})"


class Imported:
    """A module, or a name in a module or in Python itself, which the converter does not import."""

    def __init__(self, name: str, python: bool = False) -> None:
        self.name, self.python = name, python  # python: the file uses the name without an import

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    def __deepcopy__(self, memo: Any) -> Imported:
        return self


class Merging(Dict[Any, Any]):
    """A dict of a base. An update also updates the dicts below, as in mmengine."""

    def __init__(self, values: Dict[Any, Any]) -> None:
        super().__init__({key: merging(value) for key, value in values.items()})

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, merging(value))

    def update(self, *others: Any, **more: Any) -> None:
        for key, value in {**dict(*others), **more}.items():
            if isinstance(self.get(key), dict) and isinstance(value, dict):
                self[key].update(value)
            else:
                self[key] = value

    def merge(self, other: Dict[Any, Any]) -> None:
        whole = merged(dict(self), other)
        self.clear()
        self.update(whole)

    def copy(self) -> Merging:
        return Merging(self)


def merging(value: Any) -> Any:
    if isinstance(value, dict):
        return value if isinstance(value, Merging) else Merging(value)
    return type(value)(map(merging, value)) if type(value) in (list, tuple) else value


def merged(base: Any, over: Any) -> Any:
    """Merges dicts key by key, unless `over` has _delete_."""
    if not isinstance(base, dict) or not isinstance(over, dict) or over.get(DELETE):
        return {key: value for key, value in over.items() if key != DELETE} if isinstance(over, dict) else over
    return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}


def read(path: pathlib.Path) -> Dict[str, Any]:
    try:
        names = _File(path, ()).names
        return dict(plain({name: value for name, value in names.items() if not isinstance(value, Imported)}))
    except RecursionError:
        raise ConvertError(f"cannot read {path}: a dict or list has itself as a part") from None


def plain(whole: Any) -> Any:
    """Copies dicts and lists, so that no two keys share one; a class becomes its name."""
    count = 0

    def copied(value: Any) -> Any:
        nonlocal count
        count += 1
        if count > MOST_VALUES:
            raise ConvertError(f"the configuration has more than {MOST_VALUES} values")
        if isinstance(value, dict):
            items = {key: copied(item) for key, item in value.items()}
            if isinstance(items.get("type"), str):
                items["type"] = items["type"].removeprefix("mmdet3d.")
            return items
        if isinstance(value, (list, tuple)):
            return [copied(item) for item in value]
        return value.last if isinstance(value, Imported) else value

    return copied(whole)


def _size(value: Any) -> int:
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, (str, list, tuple, dict, range)) else 0


class _File:
    def __init__(self, path: pathlib.Path, above: Tuple[pathlib.Path, ...]) -> None:
        self.path, self._above = path, (*above, path.resolve())
        self.names: Dict[str, Any] = {}
        self._scope: Dict[str, Any] = self.names
        self._turns = 0
        if path.resolve() in above:
            raise ConvertError(f"{path} is a base of itself")
        try:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".json":
                self.names = dict(json.loads(text).items())
                return
            tree = ast.parse(self._substituted(text), str(path))
        except OSError as reason:
            raise ConvertError(f"cannot read {path}: {reason.strerror or reason}") from None
        except (ValueError, SyntaxError, RecursionError, AttributeError) as reason:
            raise ConvertError(f"cannot read {path}: {reason}") from None
        base = self._bases(tree)
        self._scope = self.names
        if base is not None:
            self.names[BASE] = base
        self._body(tree.body)
        self.names.pop(BASE, None)
        over = {name: value for name, value in self.names.items() if not name.startswith("__")}
        self.names = merged(base, over) if base is not None else over

    # ---- bases ------------------------------------------------------------------------------------------------------

    def _substituted(self, text: str) -> str:
        """{{_base_.name}} is a value of a base; {{fileDirname}} and the like are parts of the file's name."""
        own = {"Dirname": self.path.parent, "Basename": self.path.name, "Extname": self.path.suffix}
        for name, value in {**own, "BasenameNoExtension": self.path.stem}.items():
            text = re.sub(rf"\{{\{{\s*file{name}\s*\}}\}}", lambda _, value=value: str(value), text)  # type: ignore
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"\{\{[^}]*\$", line):
                raise ConvertError(f"{self.path}:{number}: the converter reads no environment variables; {WHOLE}")
        return re.sub(r"\{\{\s*(_base_\.[\w.]+)\s*\}\}", r"\1", text)

    def _bases(self, tree: ast.Module) -> Optional[Merging]:
        """The names that the files in _base_ assign; None without _base_. Removes this assignment from the tree."""
        for statement in tree.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if any(isinstance(target, ast.Name) and target.id == BASE for target in targets):
                tree.body.remove(statement)
                self._scope = {}
                files = self._value(statement.value)  # type: ignore[attr-defined]
                files = [files] if isinstance(files, str) else files
                if not isinstance(files, (list, tuple)) or not all(isinstance(file, str) for file in files):
                    self._refuse(statement, "_base_ is not a list of files")
                return self._joined(statement, list(files))
        return None

    def _joined(self, node: ast.AST, files: List[str]) -> Merging:
        whole: Dict[str, Any] = {}
        for file in files:
            if "::" in file:
                self._refuse(node, f"the base {file} is of an installed package")
            names = _File(self._existing(node, self.path.parent / file), self._above).names
            double = sorted(whole.keys() & names.keys())
            if double:
                self._refuse(node, f"two bases have {', '.join(double)}")
            whole.update({name: value for name, value in names.items() if not isinstance(value, Imported)})
        return Merging(whole)

    def _existing(self, node: ast.AST, path: pathlib.Path) -> pathlib.Path:
        if not path.is_file():
            self._refuse(node, f"there is no base {path}")
        return path

    def _with(self, node: ast.With) -> None:
        """`with read_base(): from .file import *`."""
        calls = [item.context_expr for item in node.items]
        function = calls[0].func if len(calls) == 1 and isinstance(calls[0], ast.Call) else None
        if not isinstance(function, ast.Name) or function.id != "read_base":
            self._refuse(node)
        for statement in node.body:
            if not isinstance(statement, ast.ImportFrom) or not statement.level or not statement.module:
                self._refuse(statement)
            folder = self.path.parent.joinpath(*[".."] * (statement.level - 1))
            file = folder.joinpath(*statement.module.split(".")).with_suffix(".py")
            names = merging(_File(self._existing(statement, file), self._above).names)
            for name in statement.names:
                if name.name == "*":
                    self.names.update({key: value for key, value in names.items() if not key.startswith("_")})
                elif name.name in names:
                    self.names[name.asname or name.name] = names[name.name]
                else:
                    self._refuse(statement, f"{file} has no {name.name}")

    # ---- statements -------------------------------------------------------------------------------------------------

    def _refuse(self, node: ast.AST, why: str = "") -> NoReturn:
        what = "call" if isinstance(node, ast.Call) else "expression" if isinstance(node, ast.expr) else "statement"
        why = why or f"the converter does not follow this {what}; {WHOLE}"
        raise ConvertError(f"{self._where(node)}: {why}")

    def _where(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', '?')}"

    def _body(self, statements: List[ast.stmt]) -> None:
        for statement in statements:
            follow = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if follow is None:
                self._refuse(statement)
            try:
                follow(statement)
            except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as reason:
                self._refuse(statement, f"{type(reason).__name__}: {reason}")

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _expr(self, node: ast.Expr) -> None:
        self._value(node.value)

    def _assert(self, node: ast.Assert) -> None:
        self._value(node.test)

    def _import(self, node: ast.Import) -> None:
        for name in node.names:
            self.names[name.asname or name.name.partition(".")[0]] = Imported(
                name.name if name.asname else name.name.partition(".")[0]
            )

    def _importfrom(self, node: ast.ImportFrom) -> None:
        if any(name.name == "*" for name in node.names):
            self._refuse(node)
        for name in node.names:
            self.names[name.asname or name.name] = Imported(f"{node.module}.{name.name}")

    def _assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._set(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self._set(node.target, self._value(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        old, new = self._value(node.target), self._value(node.value)
        if isinstance(old, list) and isinstance(node.op, ast.Add) and isinstance(new, (list, tuple)):
            old.extend(new)  # in place: other names of the list see the change
        elif isinstance(old, (list, dict)):
            self._refuse(node)
        else:
            self._set(node.target, self._binary(node, node.op, old, new))

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                del self._scope[target.id]
            else:
                place, key = self._place(target)
                del place[key]

    def _if(self, node: ast.If) -> None:
        test = self._value(node.test)
        if self._is_unread(test):
            self._refuse(node)
        self._body(node.body if test else node.orelse)

    def _for(self, node: ast.For) -> None:
        if node.orelse or any(isinstance(below, (ast.Break, ast.Continue)) for below in ast.walk(node)):
            self._refuse(node)
        for item in self._items(node.iter):
            self._set(node.target, item)
            self._body(node.body)

    def _set(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (list, tuple)) or len(value) != len(target.elts):
                self._refuse(target)
            for part, item in zip(target.elts, value):
                self._set(part, item)
        else:
            place, key = self._place(target)
            place[key] = value

    def _place(self, target: ast.expr) -> Tuple[Any, Any]:
        if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
            place, key = self._value(target.value), self._value(target.slice)
            if isinstance(place, (dict, list)) and not self._is_unread(key):
                return place, key
        if isinstance(target, ast.Attribute):
            place = self._value(target.value)
            if isinstance(place, dict):
                return place, target.attr
        return self._refuse(target)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _is_unread(self, value: Any) -> bool:
        return isinstance(value, (Unread, Imported))

    def _unread(self, node: ast.AST) -> Unread:
        return Unread(self._where(node))

    def _value(self, node: ast.expr) -> Any:
        follow = getattr(self, f"_value_{type(node).__name__.lower()}", None)
        if follow:
            value = follow(node)
            if not isinstance(node, ast.Constant) and _size(value) > LONGEST:
                self._refuse(node, f"a value of more than {LONGEST} items, characters, bits or turns")
            return value
        if any(isinstance(below, (ast.Call, ast.NamedExpr, ast.Await)) for below in ast.walk(node)):
            self._refuse(node)
        return self._unread(node)

    def _value_constant(self, node: ast.Constant) -> Any:
        return node.value

    def _value_name(self, node: ast.Name) -> Any:
        for scope in (self._scope, self.names):
            if node.id in scope:
                return scope[node.id]
        return Imported(node.id, python=True)

    def _value_list(self, node: ast.List) -> Any:
        return self._elements(node.elts, node)

    def _value_tuple(self, node: ast.Tuple) -> Any:
        items = self._elements(node.elts, node)
        return tuple(items) if isinstance(items, list) else items

    def _elements(self, nodes: List[ast.expr], whole: ast.AST) -> Any:
        items: List[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                more = self._value(node.value)
                if not isinstance(more, (list, tuple, dict, range)):
                    return self._unread(whole)
                items += more
            else:
                items.append(self._value(node))
        return items

    def _value_dict(self, node: ast.Dict) -> Any:
        whole: Dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                more = self._value(value)
                if not isinstance(more, dict):
                    return self._unread(node)
                whole.update(more)
            else:
                name = self._value(key)
                if self._is_unread(name):
                    return self._unread(node)
                whole[name] = self._value(value)
        return whole

    def _value_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self._value(node.operand)
        function = UNARY.get(type(node.op))
        return self._unread(node) if self._is_unread(value) or function is None else function(value)

    def _value_binop(self, node: ast.BinOp) -> Any:
        return self._binary(node, node.op, self._value(node.left), self._value(node.right))

    def _binary(self, node: ast.AST, kind: ast.operator, left: Any, right: Any) -> Any:
        function = BINARY.get(type(kind))
        if function is None or self._is_unread(left) or self._is_unread(right):
            return self._unread(node)
        sizes = [len(side) if isinstance(side, (str, list, tuple)) else side for side in (left, right)]
        numbers = [abs(size) for size in sizes if isinstance(size, (int, float))]
        if isinstance(kind, ast.Pow) and (len(numbers) < 2 or numbers[1] > 64 or numbers[0] > LONGEST):
            return self._unread(node)
        if sizes != [left, right] and isinstance(kind, ast.Mult) and math.prod(numbers) > LONGEST:
            return self._unread(node)
        if isinstance(left, str) and isinstance(kind, ast.Mod):
            return self._unread(node)
        return function(left, right)

    def _value_boolop(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for part in node.values:
            value = self._value(part)
            if self._is_unread(value):
                return self._unread(node)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value

    def _value_compare(self, node: ast.Compare) -> Any:
        left = self._value(node.left)
        for kind, part in zip(node.ops, node.comparators):
            right = self._value(part)
            if self._is_unread(left) or self._is_unread(right):
                return self._unread(node)
            if not COMPARED[type(kind)](left, right):
                return False
            left = right
        return True

    def _value_ifexp(self, node: ast.IfExp) -> Any:
        test = self._value(node.test)
        if self._is_unread(test):
            self._refuse(node)
        return self._value(node.body if test else node.orelse)

    def _value_joinedstr(self, node: ast.JoinedStr) -> Any:
        texts = []
        for part in node.values:
            value = self._value(part.value if isinstance(part, ast.FormattedValue) else part)
            formatted = isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion != -1)
            if formatted or not isinstance(value, (str, int, float, pathlib.Path)):
                return self._unread(node)
            texts.append(str(value))
        return "".join(texts)

    def _value_subscript(self, node: ast.Subscript) -> Any:
        value = self._value(node.value)
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            ends = [None if bound is None else self._value(bound) for bound in bounds]
            known = all(end is None or isinstance(end, int) for end in ends)
            return value[slice(*ends)] if known and isinstance(value, (list, tuple, str)) else self._unread(node)
        key = self._value(node.slice)
        if self._is_unread(value) or self._is_unread(key):
            return self._unread(node)
        return value[key]

    def _value_attribute(self, node: ast.Attribute) -> Any:
        value = self._value(node.value)
        if isinstance(value, dict) and node.attr in value:
            return value[node.attr]
        if isinstance(value, Imported):
            number = getattr(math, node.attr, None) if value.name in ("math", "np", "numpy") else None
            return number if isinstance(number, float) else Imported(f"{value.name}.{node.attr}")
        return self._unread(node)

    def _value_listcomp(self, node: Union[ast.ListComp, ast.GeneratorExp]) -> Any:
        return list(self._comprehended(node.generators, node.elt))

    _value_generatorexp = _value_listcomp

    def _value_dictcomp(self, node: ast.DictComp) -> Any:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        return dict(self._comprehended(node.generators, pair))

    def _comprehended(self, loops: List[ast.comprehension], element: ast.expr) -> Iterator[Any]:
        outer = self._scope
        self._scope = dict(outer)
        try:
            yield from self._loop(loops, element)
        finally:
            self._scope = outer

    def _loop(self, loops: List[ast.comprehension], element: ast.expr) -> Iterator[Any]:
        if not loops:
            yield self._value(element)
            return
        for item in self._items(loops[0].iter):
            self._set(loops[0].target, item)
            tests = [self._value(test) for test in loops[0].ifs]
            if any(self._is_unread(test) for test in tests):
                self._refuse(element)
            if all(tests):
                yield from self._loop(loops[1:], element)

    def _items(self, node: ast.expr) -> List[Any]:
        value = self._value(node)
        if self._is_unread(value):
            self._refuse(node)
        items = list(value)
        self._turns += len(items)
        if self._turns > MOST_TURNS:
            self._refuse(node, f"more than {MOST_TURNS} turns")
        return items

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _value_call(self, node: ast.Call) -> Any:
        values = self._elements(node.args, node)
        words = {word.arg: self._value(word.value) for word in node.keywords if word.arg}
        for word in node.keywords:
            if not word.arg:
                more = self._value(word.value)
                values, words = (values, {**words, **more}) if isinstance(more, dict) else (self._unread(node), words)
        if isinstance(values, Unread):
            self._refuse(node)
        if isinstance(node.func, ast.Attribute):
            place = self._value(node.func.value)
            for kind, methods in METHODS.items():
                if isinstance(place, kind) and node.func.attr in methods:
                    return self._method(node, place, node.func.attr, values, words)
            if isinstance(place, str) or (isinstance(place, Imported) and place.name == "__file__"):
                return self._unread(node)
        return self._function(node, self._value(node.func), values, words)

    def _method(self, node: ast.Call, place: Any, name: str, values: List[Any], words: Dict[str, Any]) -> Any:
        if any(isinstance(value, Unread) for value in values) and not (isinstance(place, list) and name == "append"):
            if isinstance(place, str):
                return self._unread(node)
            self._refuse(node)
        result = getattr(place, name)(*values, **words)
        return list(result) if name in ("items", "keys", "values") else result

    def _function(self, node: ast.Call, function: Any, values: List[Any], words: Dict[str, Any]) -> Any:
        every = [*values, *words.values()]
        if isinstance(function, Imported):
            if function.name in IMPORTED and not any(self._is_unread(value) for value in every):
                return IMPORTED[function.name](*values, **words)
            known = FUNCTIONS.get(function.name)
            if known is dict and not any(isinstance(value, Unread) for value in values):
                return dict(*values, **words)
            if known is str and any(isinstance(value, (dict, list, tuple)) for value in every):
                return self._unread(node)
            if known and not any(self._is_unread(value) for value in every):
                result = known(*values, **words)
                return list(result) if known in (enumerate, reversed, zip) else result
            if not function.python and not any(isinstance(value, (dict, list)) for value in every):
                return self._unread(node)  # a function of a module can change only what it gets
        return self._refuse(node)
