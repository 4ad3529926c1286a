"""Checkpoints: files of torch.save, .safetensors and .npz, told apart by their bytes.

A file of torch.save is a pickle, a program for a stack machine. Python's own machine calls whatever the pickle names,
and even a pickle that names nothing can take gigabytes or crash Python. The machine here knows a handful of names,
which make tensors and dicts; objects of other classes are empty shells."""

from __future__ import annotations

import io
import math
import pathlib
import pickletools
import zipfile
import zlib
from typing import Any, BinaryIO, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from .state import Array, ConvertError, State

MOST_STEPS = 20_000_000
MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a file that torch.save wrote before torch 1.6
STATES = ("model_state", "state_dict", "model")  # keys of OpenPCDet, of mmdetection3d and det3d, of others
BFLOAT16 = "bfloat16"
STORAGES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "BFloat16Storage": BFLOAT16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
SAFETENSORS = {"F32": "f4", "F64": "f8", "F16": "f2", "BF16": BFLOAT16, "I64": "i8", "I32": "i4", "I16": "i2"}
SAFETENSORS.update({"I8": "i1", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "BOOL": "?"})
OTHERS = {  # the first bytes of other files -> their kind
    b"version https://git-lfs": "a Git LFS pointer: git lfs pull fetches the file",
    b"\x89HDF": "an HDF5 file",
    b"<!DOCTYPE": "a page of HTML",
    b"<html": "a page of HTML",
    b"\x1f\x8b": "a gzip file",
    b"ftrt": "a TensorRT engine",
}


def read_state(path: pathlib.Path) -> State:
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as reason:
        raise ConvertError(f"cannot read {path}: {reason.strerror or reason}") from None
    except MemoryError:
        raise ConvertError(f"cannot read {path}: not enough memory") from None


def _read(path: pathlib.Path, file: BinaryIO) -> State:
    start = file.read(16)
    file.seek(0)
    if start[:2] == b"PK":
        return _read_zip(path, file)
    if start[8:9] == b"{" or path.suffix == ".safetensors":
        return State(_read_safetensors(path, file))
    if start[:1] == b"\x80":
        return _state(path, _read_old(path, file))
    for begin, what in OTHERS.items():
        if start.startswith(begin[:16]):
            raise ConvertError(f"{path} is {what}, not a checkpoint")
    if start[:1] == b"\x08" and _is_onnx(file.read()):
        raise ConvertError(f"{path} is an ONNX file, not a checkpoint: give onnx as the source")
    raise ConvertError(f"cannot read {path}: it is neither a file of torch.save, nor .safetensors, nor .npz")


def _is_onnx(data: bytes) -> bool:
    import onnx  # type: ignore[import-not-found,unused-ignore]

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # the error's class depends on the version of protobuf
        return False
    return bool(model.ir_version and model.graph.node)


def _read_safetensors(path: pathlib.Path, file: BinaryIO) -> Dict[str, Array]:
    try:
        from safetensors import deserialize  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        raise ConvertError("reading .safetensors needs the package safetensors: pip install safetensors") from None
    try:
        parts = deserialize(file.read())  # type: ignore[no-untyped-call,unused-ignore]
    except Exception as reason:  # the class of the error is the library's own
        raise ConvertError(f"cannot read {path}: {str(reason).splitlines()[0]}") from None
    tensors = {}
    for name, part in parts:
        if part["dtype"] not in SAFETENSORS:
            raise ConvertError(f"{path}: {name} is of the type {part['dtype']}, which cannot be read")
        tensors[name] = _numbers(bytes(part["data"]), SAFETENSORS[part["dtype"]]).reshape(part["shape"])
    return tensors


def _numbers(data: bytes, kind: str, order: str = "<") -> Array:
    """bfloat16 becomes float32, of which bfloat16 is the upper half."""
    if kind != BFLOAT16:
        return np.frombuffer(data, np.dtype(order + kind))
    halves = np.frombuffer(data, np.dtype(order + "u2")).astype(np.uint32)
    return (halves << 16).view(np.float32)


def _width(kind: str) -> int:
    return 2 if kind == BFLOAT16 else np.dtype(kind).itemsize


def _read_zip(path: pathlib.Path, file: BinaryIO) -> State:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            pickles = [name for name in names if name.endswith("/data.pkl")]
            if any(name.endswith("/constants.pkl") for name in names):
                raise ConvertError(f"{path} is a TorchScript file, not a checkpoint: save the state_dict of the model")
            if pickles:
                return _state(path, _read_new(path, archive, pickles[0].removesuffix("data.pkl")))
            if names and all(name.endswith(".npy") for name in names):
                file.seek(0)
                with np.load(file, allow_pickle=False) as arrays:
                    return State({name: arrays[name] for name in arrays.files})
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError) as reason:
        raise ConvertError(f"cannot read {path}: {reason}") from None
    raise ConvertError(f"{path} is a zip file, but torch.save did not write it, and not all of its files are .npy")


def _read_new(path: pathlib.Path, archive: zipfile.ZipFile, folder: str) -> Any:
    """The files of torch 1.6 and later: a pickle, and a file for each storage."""

    def data(name: str) -> bytes:
        info = archive.getinfo(folder + name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise ConvertError(f"cannot read {path}: {info.filename} is compressed, which torch.save does not do")
        return archive.read(info)

    big = f"{folder}byteorder" in archive.namelist() and data("byteorder") == b"big"
    storages: Dict[str, Array] = {}

    def storage(kind: str, key: str, count: int) -> Array:
        if key not in storages:
            storages[key] = _numbers(data(f"data/{key}"), kind, ">" if big else "<")
        return storages[key]

    try:
        return _Machine(path, storage).run(io.BytesIO(data("data.pkl")))
    except KeyError as reason:
        raise ConvertError(f"cannot read {path}: {reason.args[0]}") from None


class _Rest:
    """A read returns at most the rest of the file, whatever length the pickle gives."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self.readline, self.tell = file, size, file.readline, file.tell

    def read(self, count: int) -> bytes:
        return self._file.read(min(count, self._size - self._file.tell()))


def _read_old(path: pathlib.Path, whole_file: BinaryIO) -> Any:
    """The files of older torch: five pickles, then the storages in the order of the last pickle."""
    file: Any = _Rest(whole_file, path.stat().st_size)
    document = _Machine(path, lambda kind, key, count: None).run(file)
    if document != MAGIC:
        what = document.name if isinstance(document, Shell) else f"a {type(document).__name__}"
        raise ConvertError(f"{path} is a plain pickle of {what}; torch.save did not write it")
    for _ in ("version", "system"):
        _Machine(path, lambda kind, key, count: None).run(file)
    kinds: Dict[str, str] = {}
    whole: Dict[str, Array] = {}

    def storage(kind: str, key: str, count: int) -> Array:
        if key not in whole:
            room = path.stat().st_size - sum(whole[other].size * _width(kinds[other]) for other in whole)
            if not 0 <= count * _width(kind) <= room:
                raise ConvertError(f"cannot read {path}: a storage of {count} numbers does not fit into the file")
            whole[key] = np.empty(count, "f4" if kind == BFLOAT16 else kind)
            kinds[key] = kind
        return whole[key]

    document = _Machine(path, storage).run(file)
    keys = _Machine(path, storage).run(file)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ConvertError(f"cannot read {path}: its list of storages is damaged")
    for key in keys:
        kind = kinds.get(key)
        count = int.from_bytes(file.read(8), "little")
        if kind is None or count != whole[key].size:
            raise ConvertError(f"cannot read {path}: the storage {key} is not the one that the pickle names")
        data = file.read(count * _width(kind))
        if len(data) != count * _width(kind):
            raise ConvertError(f"cannot read {path}: the file ends in the middle of the storage {key}")
        whole[key][:] = _numbers(data, kind)
    return document


# ---- the machine ----------------------------------------------------------------------------------------------------


class Name(NamedTuple):
    """A class or function that the pickle names."""

    name: str


class Shell:
    """An object of a class that the machine does not know."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Mark:
    pass


Storage = Callable[[str, str, int], Any]
PUSHED: Dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": lambda: Shell("set"),
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """Runs one pickle. `storage` gives the numbers of a storage, by kind, key and count."""

    def __init__(self, path: pathlib.Path, storage: Storage) -> None:
        self._path, self._storage = path, storage
        self._stack: List[Any] = []
        self._memo: Dict[int, Any] = {}

    def run(self, file: Any) -> Any:
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
                if count >= MOST_STEPS:
                    raise ConvertError(f"cannot read {self._path}: its pickle has more than {MOST_STEPS} steps")
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._step(opcode, argument)
        except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as reason:
            raise ConvertError(f"cannot read {self._path}: its pickle is damaged: {reason}") from None
        return None

    def _step(self, opcode: Any, argument: Any) -> None:
        step = getattr(self, f"_{opcode.name.lower()}", None)
        if step:
            step(argument)
        elif opcode.name in PUSHED:
            self._stack.append(PUSHED[opcode.name]())
        elif opcode.name in TUPLES:
            count = TUPLES[opcode.name]
            self._stack[-count:] = [tuple(self._stack[-count:])]
        elif opcode.arg is not None and not opcode.stack_before and opcode.stack_after != [pickletools.anyobject]:
            self._stack.append(argument)  # a number, a text or bytes
        else:
            raise ValueError(f"{opcode.name} is not supported")

    def _marked(self) -> List[Any]:
        """Takes the values above the topmost mark from the stack."""
        items: List[Any] = []
        while True:
            item = self._stack.pop()
            if isinstance(item, _Mark):
                return items[::-1]
            items.append(item)

    def _proto(self, _: Any) -> None:
        pass

    _frame = _proto

    def _mark(self, _: Any) -> None:
        self._stack.append(_Mark())

    def _pop(self, _: Any) -> None:
        self._stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._marked()

    # ---- the memo

    def _put(self, number: int) -> None:
        self._memo[number] = self._stack[-1]

    _binput = _long_binput = _put

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, number: int) -> None:
        self._stack.append(self._memo[number])

    _binget = _long_binget = _get

    # ---- containers

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._marked()))

    def _frozenset(self, _: Any) -> None:
        self._marked()
        self._stack.append(Shell("set"))

    def _append(self, _: Any) -> None:
        self._extend([self._stack.pop()])

    def _appends(self, _: Any) -> None:
        self._extend(self._marked())

    def _extend(self, items: List[Any]) -> None:
        if isinstance(self._stack[-1], list):
            self._stack[-1].extend(items)

    _additems = _pop_mark

    def _setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._update([key, value])

    def _setitems(self, _: Any) -> None:
        self._update(self._marked())

    def _update(self, items: List[Any]) -> None:
        if isinstance(self._stack[-1], dict):
            self._stack[-1].update(_dict_of(list(zip(items[::2], items[1::2]))))

    # ---- names and objects

    def _global(self, names: str) -> None:
        self._stack.append(Name(names.replace(" ", ".")))

    def _stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(Name(f"{module}.{name}"))

    def _reduce(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._stack.append(self._made(function, arguments))

    _newobj = _reduce

    def _newobj_ex(self, _: Any) -> None:
        self._stack.pop()
        self._reduce(_)

    def _build(self, _: Any) -> None:
        self._stack.pop()  # drops the state of an object: a Shell has none

    def _made(self, function: Any, arguments: Any) -> Any:
        name = function.name if isinstance(function, (Name, Shell)) else type(function).__name__
        make = MAKERS.get(name) if isinstance(function, Name) else None
        if make is None or not isinstance(arguments, tuple):
            return Shell(name)
        made = make(*arguments)
        return self._made(*made.arguments) if isinstance(made, _Call) else made

    def _binpersid(self, _: Any) -> None:
        """Pushes a storage. In old files a reference may also name the class of a module and the class's source code:
        pushes the class alone."""
        kind, *rest = self._stack.pop()
        if kind != "storage":
            self._stack.append(rest[0] if rest else Shell(str(kind)))
            return
        storage, key, _, count = rest[:4]
        name = storage.name if isinstance(storage, Name) else "torch.storage"
        numbers = STORAGES.get(name.removeprefix("torch.").removeprefix("cuda."))
        self._stack.append(Shell(name) if numbers is None else self._storage(numbers, str(key), int(count)))


class _Call(NamedTuple):
    arguments: Tuple[Any, Any]


def _tensor(storage: Any, offset: int, shape: Tuple[int, ...], strides: Tuple[int, ...], *_: Any) -> Any:
    """A view of the storage. Refuses values outside it."""
    if not isinstance(storage, np.ndarray):
        return storage if isinstance(storage, Shell) else Shell("torch.Tensor")
    numbers = [offset, *shape, *strides]
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
        raise ValueError("a tensor with an invalid shape")
    if len(shape) != len(strides) or len(shape) > 16:
        raise ValueError("a tensor with an invalid shape")
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides))
    if 0 in shape:
        return np.empty(shape, storage.dtype)
    if last >= storage.size or math.prod(shape) > storage.size:
        raise ValueError("a tensor beyond its storage")
    steps = [stride * storage.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps, writeable=False)


def _dict_of(pairs: Any = (), *_: Any) -> Any:
    """A key that is no text or number becomes a Shell: its hash could take any time and any depth."""
    plain = (str, bytes, int, float, type(None))
    pairs = pairs if isinstance(pairs, list) else []
    return {key if isinstance(key, plain) else Shell("key"): value for key, value in pairs}


MAKERS: Mapping[str, Callable[..., Any]] = {
    "collections.OrderedDict": _dict_of,
    "collections.defaultdict": lambda *_: {},
    "builtins.dict": _dict_of,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": lambda *arguments: Shell(getattr(arguments[6], "name", "torch.Tensor")),
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
    "torch._tensor._rebuild_from_type_v2": lambda function, _, arguments, *__: _Call((function, arguments)),
}


# ---- the state of a document ----------------------------------------------------------------------------------------


def _state(path: pathlib.Path, document: Any) -> State:
    place = ""
    for key in STATES:
        if isinstance(document, dict) and isinstance(document.get(key), (dict, Shell)):
            place = f" under {key}"
            state = document[key]
            break
    else:
        state = document
    if isinstance(state, Shell):
        raise ConvertError(
            f"{path} has an object {state.name}{place}, not the object's state: save model.state_dict() instead"
        )
    tensors: Dict[str, Array] = {}
    for name, value in state.items() if isinstance(state, dict) else ():
        if isinstance(value, Shell) and value.name.startswith("torch."):
            raise ConvertError(f"{path}: {name} is of the type {value.name}, which cannot be read")
        if isinstance(value, np.ndarray) and isinstance(name, str):
            tensors[name] = value
    if not tensors:
        wanted = ", ".join(STATES)
        raise ConvertError(f"{path} has no state: expected a dict of tensors, or one under {wanted}")
    return State(tensors, _versions(document))


def _versions(document: Any) -> Dict[str, str]:
    """The versions of the programs that wrote the checkpoint, by program, from `meta`."""
    meta: Optional[Any] = document.get("meta") if isinstance(document, dict) else None
    pairs = meta.items() if isinstance(meta, dict) else ()
    return {
        key.removesuffix("_version"): value
        for key, value in pairs
        if isinstance(key, str) and key.endswith("_version") and isinstance(value, str)
    }
