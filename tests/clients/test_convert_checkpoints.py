"""Checkpoints of voxeld-convert: files of training runs, files that are not checkpoints, and malicious files."""

import io
import os
import pathlib
import pickle
import random
import sys
import tempfile
import tracemalloc
import unittest
import zipfile
from unittest import mock

import numpy as np
from safetensors.numpy import save_file

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    print("skipped: there is no onnx for this Python")
    sys.exit(77)

from checkpoints import Made, Ref, Storage, ordered, pickled, save_new, save_old, state_of, tensor
from voxeld.convert import checkpoint
from voxeld.convert.checkpoint import read_state
from voxeld.convert.state import ConvertError

FORMATS = {"new": save_new, "old": save_old}
WEIGHT = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
MOST_MEMORY = 32 << 20


class Harm:
    """An object that a plain unpickler restores by calling `function`."""

    def __init__(self, function, *arguments):
        self._made = function, arguments

    def __reduce__(self):
        return self._made


class Checkpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "model.pth"

    def refuse(self, *reasons):
        with self.assertRaises(ConvertError) as refused:
            read_state(self.path)
        for reason in reasons:
            self.assertIn(reason, str(refused.exception))

    def check_weight(self, name="a.weight"):
        np.testing.assert_array_equal(read_state(self.path).take(name, 2, 3, 4), WEIGHT)

    # ---- what training runs write -----------------------------------------------------------------------------------

    def test_states_of_each_format_and_key(self):
        state = state_of({"a.weight": WEIGHT, "n": np.array(7)})
        documents = {"state": state, **{key: {key: state, "epoch": 3} for key in checkpoint.STATES}}
        for name, save in FORMATS.items():
            for key, document in documents.items():
                with self.subTest(f"{name} {key}"):
                    save(self.path, document)
                    self.check_weight()

    def test_views_share_a_storage(self):
        storage = Storage(np.arange(12, dtype=np.float32))
        call = Ref("torch._utils", "_rebuild_tensor_v2")
        turned = Made(call, storage, 0, (3, 4), (1, 3), False, ordered())
        part = Made(call, storage, 2, (2,), (4,), False, ordered())
        for name, save in FORMATS.items():
            with self.subTest(name):
                save(self.path, ordered({"turned": turned, "part": part}))
                state = read_state(self.path)
                np.testing.assert_array_equal(state.take("turned", 3, 4), np.arange(12).reshape(4, 3).T)
                np.testing.assert_array_equal(state.take("part", 2), [2, 6])

    def test_types_of_numbers(self):
        values = np.array([1.5, -2, 0.25], np.float32)
        halves = (values.view(np.uint32) >> 16).astype(np.uint16)  # these values are exact in bfloat16
        for name, save in FORMATS.items():
            for kind, part in {"bfloat16": tensor(halves, "BFloat16"), "f8": tensor(values.astype("f8"))}.items():
                with self.subTest(f"{name} {kind}"):
                    save(self.path, ordered({"x": part, "h": tensor(values.astype("f2"))}))
                    state = read_state(self.path)
                    np.testing.assert_array_equal(state.take("x", 3), values)
                    np.testing.assert_array_equal(state.take("h", 3), values)
        save_new(self.path, ordered({"x": tensor(values)}), byteorder="big")
        np.testing.assert_array_equal(read_state(self.path).take("x", 3), values)

    def test_bfloat16_of_safetensors(self):
        values = np.array([1.5, -2, 0.25], np.float32)
        halves = (values.view(np.uint32) >> 16).astype(np.uint16)
        head = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
        self.path = self.folder / "model.safetensors"
        self.path.write_bytes(len(head).to_bytes(8, "little") + head + halves.tobytes())
        np.testing.assert_array_equal(read_state(self.path).take("x", 3), values)

    def test_what_training_runs_add(self):
        """Objects of mmengine, numpy, easydict, argparse and datetime; optimizers and parameters."""
        scalar = Made(
            Ref("numpy.core.multiarray", "scalar"), Made(Ref("numpy", "dtype"), "f8", False, True), b"8bytes.."
        )
        array = Made(Ref("numpy.core.multiarray", "_reconstruct"), Ref("numpy", "ndarray"), (0,), b"b", state=(1, (2,)))
        parameter = Made(Ref("torch._utils", "_rebuild_parameter"), tensor(WEIGHT), True, ordered())
        subclass = Made(
            Ref("torch._tensor", "_rebuild_from_type_v2"),
            Ref("torch._utils", "_rebuild_tensor_v2"),
            Ref("torch.nn", "Buffer"),
            tensor(WEIGHT).arguments,
            {},
        )
        document = {
            "state_dict": ordered({"a.weight": parameter, "b.weight": subclass, "best": scalar, "log": array}),
            "optimizer": {"state": {0: {"step": 5, "exp_avg": tensor(WEIGHT)}}, "param_groups": [{"lr": scalar}]},
            "message_hub": {
                "log_scalars": {"loss": Made(Ref("mmengine.logging", "HistoryBuffer"), state={"x": array})}
            },
            "cfg": Made(Ref("easydict", "EasyDict"), items={"MODEL": {"NAME": "x"}}, state={"MODEL": 1}),
            "args": Made(Ref("argparse", "Namespace"), state={"epochs": 80}),
            "time": Made(Ref("datetime", "datetime"), b"\x07\xe6\x01\x01\x00\x00\x00\x00\x00\x00"),
            "meta": {"mmdet3d_version": "1.0.0rc6", "epoch": 80, "seen": {1, 2}, "names": frozenset("ab")},
        }
        for name, save in FORMATS.items():
            with self.subTest(name):
                save(self.path, document)
                self.check_weight()
                self.check_weight("b.weight")
                self.assertEqual(read_state(self.path).versions, {"mmdet3d": "1.0.0rc6"})

    def test_newer_protocols(self):
        """Frames, MEMOIZE and STACK_GLOBAL."""
        save_new(self.path, None, pickle.dumps({"state_dict": {}, "when": pathlib.PurePosixPath("x")}, 4))
        self.refuse("has no state")

    # ---- files that are not checkpoints ------------------------------------------------------------------------------

    def test_other_files_are_named(self):
        node = helper.make_node("Relu", ["x"], ["y"])
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
        model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]))
        module = Made(Ref("pcdet.models.detectors", "PointPillar"), state={"training": False})
        script = io.BytesIO()
        with zipfile.ZipFile(script, "w") as archive:
            archive.writestr("m/constants.pkl", b"")
            archive.writestr("m/data.pkl", b"")
        other = io.BytesIO()
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("readme.txt", "x")
        cases = {
            "is an ONNX file, not a checkpoint": model.SerializeToString(),
            "is a plain pickle of a dict": pickle.dumps({"a.weight": WEIGHT}),
            "is a plain pickle of a list": pickle.dumps([1]),
            "is a TorchScript file": script.getvalue(),
            "is a zip file, but torch.save did not write it": other.getvalue(),
            "is a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "is a page of HTML": b"<!DOCTYPE html><html></html>",
            "is an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(64),
            "neither a file of torch.save": b"\x08\x01 no onnx",
            "neither a file of torch.save,": b"",
        }
        for reason, data in cases.items():
            with self.subTest(reason):
                self.path.write_bytes(data)
                self.refuse(reason)
        for save in FORMATS.values():
            for place, document in (("", module), (" under model", {"model": module})):
                with self.subTest(f"module{place}"):
                    save(self.path, document)
                    self.refuse(f"has an object pcdet.models.detectors.PointPillar{place}", "state_dict()")

    def test_types_that_cannot_be_read_are_named(self):
        call = Ref("torch._utils", "_rebuild_tensor_v3")
        float8 = Made(
            call, Storage(np.zeros(3, "u1"), "Untyped"), 0, (3,), (1,), False, ordered(), Ref("torch", "float8")
        )
        save_new(self.path, ordered({"a": float8}))
        self.refuse("a is of the type torch.float8")
        save_new(self.path, ordered({"a": tensor(np.zeros(3, "f8"), "ComplexFloat")}))
        self.refuse("a is of the type torch.ComplexFloatStorage")

    def test_npz_by_its_bytes(self):
        np.savez(self.folder / "x.npz", **{"a.weight": WEIGHT})
        (self.folder / "x.npz").rename(self.path)
        self.check_weight()
        save_file({"a.weight": WEIGHT}, self.path)
        self.check_weight()

    def test_damaged_files(self):
        for name, save in FORMATS.items():
            save(self.path, state_of({"a.weight": WEIGHT}))
            whole = self.path.read_bytes()
            for length in range(0, len(whole), 7):
                with self.subTest(f"{name} cut at {length}"):
                    self.path.write_bytes(whole[:length])
                    self.refuse("")

    def test_changed_files_are_read_or_refused(self):
        chance = random.Random(5)
        for name, save in FORMATS.items():
            save(self.path, {"state_dict": state_of({"a.weight": WEIGHT}), "meta": {"x": [1, ("y", 2.5)]}})
            whole = self.path.read_bytes()
            for case in range(1500):
                changed = bytearray(whole)
                for _ in range(chance.randint(1, 5)):
                    place = chance.randrange(len(changed))
                    changed[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
                with self.subTest(f"{name} {case}"):
                    self.path.write_bytes(changed)
                    try:
                        read_state(self.path)
                    except ConvertError:
                        pass

    # ---- what means harm --------------------------------------------------------------------------------------------

    def harmless(self, data):
        """With the pickle in each place where a file has one: no file is made, no module is imported."""
        for save in (*FORMATS.values(), lambda path, _, data: path.write_bytes(data)):
            save(self.path, None, data)
            try:
                read_state(self.path)
            except ConvertError:
                pass
        self.assertEqual(os.listdir(self.folder), [self.path.name])
        self.assertNotIn("this", sys.modules)

    def test_nothing_of_a_pickle_runs(self):
        mark = self.folder / "mark"
        code = f"open({str(mark)!r}, 'w')"
        for protocol in range(6):
            for name, harm in {
                "os.system": Harm(os.system, f"touch {mark}"),
                "eval": Harm(eval, code),
                "exec": Harm(exec, code),
                "open": Harm(open, str(mark), "w"),
                "import": Harm(__import__, "this"),
                "map": Harm(list, Harm(map, os.mkdir, [str(mark)])),
            }.items():
                with self.subTest(f"{name}, protocol {protocol}"):
                    self.harmless(pickle.dumps({"state_dict": {"a": harm}, "b": [harm, harm]}, protocol))

    def test_chains_of_calls(self):
        mark = str(self.folder / "mark")
        system = Made(Ref("builtins", "getattr"), Ref("os", ""), "system")
        chains = {
            "getattr": Made(system, f"touch {mark}"),
            "partial": Made(Made(Ref("functools", "partial"), Ref("os", "mkdir"), mark)),
            "of a maker": Made(Ref("torch._tensor", "_rebuild_from_type_v2"), Ref("os", "mkdir"), None, (mark,), {}),
            "build": Made(Ref("x", "y"), state={"__setstate__": Ref("os", "mkdir"), "__class__": Ref("a", "b")}),
            "build with slots": Made(Ref("x", "y"), state=(None, {"__setstate__": Ref("os", "mkdir"), "__call__": 1})),
            "build of a maker": Made(Made(Ref("torch._utils", "_rebuild_tensor_v2"), 1, 2), state={"x": 1}),
            "dotted": Made(Ref("os", "path.os.mkdir"), mark),
            "a maker of strings": Made("os.mkdir", mark),
        }
        for name, made in chains.items():
            with self.subTest(name):
                self.harmless(pickled({"state_dict": {"a": made}}, []))

    def test_raw_opcodes(self):
        mark = str(self.folder / "mark").encode()
        for name, data in {
            "INST": b"(S'" + mark + b"'\nios\nmkdir\n.",
            "OBJ": b"(cos\nmkdir\nS'" + mark + b"'\no.",
            "NEWOBJ": b"\x80\x02cos\nmkdir\nS'" + mark + b"'\n\x85\x81.",
            "NEWOBJ_EX": b"\x80\x04cos\nmkdir\nS'" + mark + b"'\n\x85}\x92.",
            "EXT": b"\x80\x02\x82\x01.",
            "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93S'" + mark + b"'\n\x85R.",
            "PERSID": b"Pos.mkdir\n.",
            "BINPERSID": b"\x80\x02K\x01Q.",
            "buffers": b"\x80\x05\x97.",
            "empty stack": b"\x80\x02R.",
            "no mark": b"\x80\x02t.",
            "no memo": b"\x80\x02h\x07.",
            "a list as key": b"\x80\x02}]K\x01s.",
        }.items():
            with self.subTest(name):
                self.harmless(data if data[:1] == b"\x80" else b"\x80\x00" + data)

    def test_opcodes_that_torch_does_not_write(self):
        for name, data in {
            "EXT1": b"\x82\x01.",
            "PERSID": b"Pos.mkdir\n.",
            "INST": b"(ios\nmkdir\n.",
            "OBJ": b"(cos\nmkdir\no.",
            "DUP": b"N2.",
            "LIST": b"(l.",
            "DICT": b"(d.",
        }.items():
            with self.subTest(name):
                self.path.write_bytes(b"\x80\x02" + data)
                self.refuse(f"its pickle is damaged: {name} is not supported")

    def test_bombs_are_bounded(self):
        deep = b"\x80\x02}(" + b"N" + b"\x85" * 200_000 + b"K\x01u."
        bombs = {
            "memo": b"\x80\x02Nr\xff\xff\xff\xff.",
            "bytes": b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b".",
            "bytearray": b"\x80\x05\x96" + (1 << 36).to_bytes(8, "little") + b".",
            "frame": b"\x80\x04\x95" + (1 << 40).to_bytes(8, "little") + b"N.",
            "long": b"\x80\x02\x8b" + (1 << 30).to_bytes(4, "little") + b".",
            "deep key": deep,
        }
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for name, data in bombs.items():
            with self.subTest(name):
                self.harmless(data)
                self.assertLess(tracemalloc.get_traced_memory()[1], MOST_MEMORY)

    def test_tensors_stay_in_their_storages(self):
        small = np.zeros(4, np.float32)
        cases = {
            "huge": tensor(small, shape=(1 << 40,), strides=(0,)),
            "repeated": tensor(small, shape=(5,), strides=(0,)),
            "behind": tensor(small, offset=1, shape=(4,), strides=(1,)),
            "negative": tensor(small, shape=(2,), strides=(-1,)),
            "offset": tensor(small, offset=-1, shape=(1,), strides=(1,)),
            "ranks": tensor(small, shape=(2, 2), strides=(1,)),
            "empty": tensor(small, shape=(0, 1 << 62, 1 << 62), strides=(1, 1, 1)),
        }
        for name, save in FORMATS.items():
            for case, part in cases.items():
                with self.subTest(f"{name} {case}"):
                    save(self.path, ordered({"a": part}))
                    self.refuse("cannot read")

    def test_a_storage_larger_than_the_file_is_refused(self):
        storage = Storage(np.zeros(4, np.float32))
        storage.values = mock.Mock(size=1 << 40, tobytes=lambda: b"")
        save_old(
            self.path, ordered({"a": Made(Ref("torch._utils", "_rebuild_tensor_v2"), storage, 0, (1,), (1,), 0, 0)})
        )
        self.refuse("does not fit into the file")

    def test_arrays_of_no_numbers_are_refused(self):
        for values in (np.full(3, "a"), np.full(3, 1j), np.zeros(3, "M8[s]"), np.zeros(3, [("a", "f4")])):
            with self.subTest(str(values.dtype)):
                np.savez(self.folder / "x.npz", a=values)
                with self.assertRaisesRegex(ConvertError, "expected numbers"):
                    read_state(self.folder / "x.npz").take("a", 3)

    def test_compressed_files_are_refused(self):
        save_new(self.path, state_of({"a": np.zeros(1 << 16, np.float32)}), compression=zipfile.ZIP_DEFLATED)
        self.refuse("is compressed")

    def test_steps_are_counted(self):
        save_new(self.path, ordered({"a": list(range(200))}))
        with mock.patch.object(checkpoint, "MOST_STEPS", 100):
            self.refuse("more than 100 steps")


if __name__ == "__main__":
    unittest.main()
