"""Writes the formats of torch.save without torch: the zip file, and the format before torch 1.6."""

import io
import pickle
import struct
import zipfile

import numpy as np

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
STORAGES = {"f4": "Float", "f8": "Double", "f2": "Half", "i8": "Long", "i4": "Int", "i1": "Char", "u1": "Byte"}


class Ref:
    """A reference to a name of a module, as in a pickle."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Made:
    """An object that unpickling makes by a call; `state` is for the opcode BUILD."""

    def __init__(self, function, *arguments, state=None, items=()):
        self.function, self.arguments, self.state, self.items = function, arguments, state, items


class Storage:
    def __init__(self, values, kind=None):
        self.values = values
        self.kind = kind or STORAGES[values.dtype.str[1:]]


class Pickler(pickle._Pickler):
    """Pickles Ref and Made: names that this Python cannot import, and calls of them."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, storages):
        super().__init__(file, 2)
        self.storages = storages

    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        if thing not in self.storages:
            self.storages.append(thing)
        key, kind = str(self.storages.index(thing)), Ref("torch", f"{thing.kind}Storage")
        return ("storage", kind, key, "cpu", thing.values.size)

    def save_ref(self, ref):
        self.write(b"c" + f"{ref.module}\n{ref.name}\n".encode())

    def save_made(self, made):
        self.save(made.function)
        self.save(made.arguments)
        self.write(pickle.REDUCE)
        for key, value in dict(made.items).items():
            self.save(key)
            self.save(value)
            self.write(pickle.SETITEM)
        if made.state is not None:
            self.save(made.state)
            self.write(pickle.BUILD)

    dispatch[Ref], dispatch[Made] = save_ref, save_made


def ordered(items=()):
    return Made(Ref("collections", "OrderedDict"), state={"_metadata": {}}, items=items)


def tensor(values, kind=None, offset=0, shape=None, strides=None):
    values = np.asarray(values)
    shape = values.shape if shape is None else shape
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    storage = Storage(np.ascontiguousarray(values).reshape(-1), kind)
    return Made(Ref("torch._utils", "_rebuild_tensor_v2"), storage, offset, tuple(shape), strides, False, ordered())


def state_of(tensors):
    return ordered({name: tensor(values) for name, values in tensors.items()})


def pickled(document, storages):
    file = io.BytesIO()
    Pickler(file, storages).dump(document)
    return file.getvalue()


def save_new(path, document, data=None, compression=zipfile.ZIP_STORED, byteorder=None):
    """The zip file of torch 1.6 and later. `data` replaces the pickle of the document."""
    storages = []
    data = pickled(document, storages) if data is None else data
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", data)
        if byteorder:
            archive.writestr("archive/byteorder", byteorder)
        for number, storage in enumerate(storages):
            values = storage.values.astype(storage.values.dtype.newbyteorder(">")) if byteorder == "big" else None
            archive.writestr(f"archive/data/{number}", (storage.values if values is None else values).tobytes())
        archive.writestr("archive/version", "3\n")


def save_old(path, document, data=None):
    storages = []
    data = pickled(document, storages) if data is None else data
    with open(path, "wb") as file:
        for part in (MAGIC, PROTOCOL, {"little_endian": True, "protocol_version": PROTOCOL, "type_sizes": {}}):
            pickle.dump(part, file, 2)
        file.write(data)
        pickle.dump([str(number) for number in range(len(storages))], file, 2)
        for storage in storages:
            file.write(struct.pack("<q", storage.values.size) + storage.values.tobytes())
