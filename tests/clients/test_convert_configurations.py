"""Configurations of voxeld-convert: every key has a rule, every statement of Python is followed or refused.

configurations.json has the keys and values of the projects' own configurations of pillars, and of voxels with sparse
convolutions: OpenPCDet 8caccce, mmdetection3d fe25f7a and CenterPoint 3cf7d87. Keys about training or files have no
values there (null).
"""

import json
import math
import pathlib
import re
import tempfile
import textwrap
import unittest

from voxeld.convert import det3d, keys, mmdet3d, openpcdet, statements
from voxeld.convert.config import Config, read_yaml
from voxeld.convert.model import Voxels
from voxeld.convert.state import ConvertError

TABLES = {"openpcdet": keys.OPENPCDET, "mmdet3d": keys.MMDET3D, "det3d": keys.DET3D}
KNOWN = json.loads((pathlib.Path(__file__).parent / "configurations.json").read_text(encoding="utf-8"))
CONVERTED = {  # configurations without a refused key; the types of their parts may be refused
    "openpcdet": {
        "custom_models/second.yaml",
        "kitti_models/pointpillar.yaml",
        "kitti_models/pointpillar_newaugs.yaml",
        "kitti_models/pointpillar_pyramid_aug.yaml",
        "kitti_models/second.yaml",
        "kitti_models/second_multihead.yaml",
        "lyft_models/cbgs_second-nores_multihead.yaml",
        "lyft_models/cbgs_second_multihead.yaml",
        "nuscenes_models/cbgs_dyn_pp_centerpoint.yaml",
        "nuscenes_models/cbgs_pp_multihead.yaml",
        "nuscenes_models/cbgs_second_multihead.yaml",
        "nuscenes_models/cbgs_voxel0075_res3d_centerpoint.yaml",
        "nuscenes_models/cbgs_voxel01_res3d_centerpoint.yaml",
        "once_models/centerpoint.yaml",
        "once_models/pointpillar.yaml",
        "once_models/second.yaml",
        "waymo_models/centerpoint.yaml",
        "waymo_models/centerpoint_4frames.yaml",
        "waymo_models/centerpoint_dyn_pillar_1x.yaml",
        "waymo_models/centerpoint_pillar_1x.yaml",
        "waymo_models/centerpoint_without_resnet.yaml",
        "waymo_models/pointpillar_1x.yaml",
        "waymo_models/second.yaml",
    },
    "mmdet3d": {
        "benchmark/hv_pointpillars_secfpn_3x8_100e_det3d_kitti-3d-car.py",
        "benchmark/hv_pointpillars_secfpn_4x8_80e_pcdet_kitti-3d-3class.py",
        "benchmark/hv_second_secfpn_4x8_80e_pcdet_kitti-3d-3class.py",
        "centerpoint/centerpoint_pillar02_second_secfpn_8xb4-cyclic-20e_nus-3d.py",
        "centerpoint/centerpoint_pillar02_second_secfpn_head-circlenms_8xb4-cyclic-20e_nus-3d.py",
        "centerpoint/centerpoint_voxel0075_second_secfpn_8xb4-cyclic-20e_nus-3d.py",
        "centerpoint/centerpoint_voxel0075_second_secfpn_head-circlenms_8xb4-cyclic-20e_nus-3d.py",
        "centerpoint/centerpoint_voxel01_second_secfpn_8xb4-cyclic-20e_nus-3d.py",
        "centerpoint/centerpoint_voxel01_second_secfpn_head-circlenms_8xb4-cyclic-20e_nus-3d.py",
        "pointpillars/pointpillars_hv_secfpn_8xb6-160e_kitti-3d-3class.py",
        "pointpillars/pointpillars_hv_secfpn_8xb6-160e_kitti-3d-car.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_16xb2-2x_waymo-3d-3class.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_16xb2-2x_waymo-3d-car.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_16xb2-2x_waymoD5-3d-3class.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_16xb2-2x_waymoD5-3d-car.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_8xb2-2x_lyft-3d-range100.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_8xb2-2x_lyft-3d.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_8xb2-amp-2x_nus-3d.py",
        "pointpillars/pointpillars_hv_secfpn_sbn-all_8xb4-2x_nus-3d.py",
        "second/second_hv_secfpn_8xb6-80e_kitti-3d-3class.py",
        "second/second_hv_secfpn_8xb6-80e_kitti-3d-car.py",
        "second/second_hv_secfpn_8xb6-amp-80e_kitti-3d-3class.py",
        "second/second_hv_secfpn_8xb6-amp-80e_kitti-3d-car.py",
        "second/second_hv_secfpn_sbn-all_16xb2-2x_waymoD5-3d-3class.py",
    },
    "det3d": {
        "mvp/nusc_centerpoint_pp_fix_bn_z_scale.py",
        "mvp/nusc_centerpoint_voxelnet_0075voxel_fix_bn_z_scale.py",
        "mvp/nusc_centerpoint_voxelnet_0075voxel_fix_bn_z_scale_debug.py",
        "nusc/pp/nusc_centerpoint_pp_02voxel_two_pfn_10sweep.py",
        "nusc/pp/nusc_centerpoint_pp_02voxel_two_pfn_10sweep_circular_nms.py",
        "nusc/pp/nusc_centerpoint_pp_02voxel_two_pfn_10sweep_demo.py",
        "nusc/voxelnet/nusc_centerpoint_voxelnet_0075voxel_fix_bn_z.py",
        "nusc/voxelnet/nusc_centerpoint_voxelnet_01voxel.py",
        "waymo/pp/waymo_centerpoint_pp_two_cls_two_pfn_stride1_3x.py",
        "waymo/pp/waymo_centerpoint_pp_two_pfn_stride1_3x.py",
        "waymo/voxelnet/waymo_centerpoint_voxelnet_1x.py",
        "waymo/voxelnet/waymo_centerpoint_voxelnet_3epoch.py",
        "waymo/voxelnet/waymo_centerpoint_voxelnet_3x.py",
        "waymo/voxelnet/waymo_centerpoint_voxelnet_6epoch.py",
        "waymo/voxelnet/waymo_centerpoint_voxelnet_two_sweeps_3x_with_velo.py",
    },
}


class Tables(unittest.TestCase):
    def test_every_key_of_every_configuration_has_a_rule(self):
        for project, known in KNOWN.items():
            for path in known["keys"]:
                with self.subTest(f"{project} {path}"):
                    keys.rule_of(TABLES[project], path)

    def test_which_configurations_have_refused_keys(self):
        for project, known in KNOWN.items():
            names, refused = known["configurations"], set()
            for path, values in known["keys"].items():
                for value, where in values:
                    if value is not None and keys.refusal(keys.rule_of(TABLES[project], path), path, value):
                        refused |= set(names) if where == "*" else {names[number] for number in where}
            self.assertEqual(set(names) - refused, CONVERTED[project])

    def test_what_is_taken_is_read(self):
        """The converter's code contains each key that the table calls TAKEN."""
        for project, table in TABLES.items():
            code = (pathlib.Path(keys.__file__).parent / f"{project}.py").read_text(encoding="utf-8")
            for path, rule in table.items():
                if rule is keys.TAKEN:
                    with self.subTest(f"{project} {path}"):
                        self.assertIn(path.rpartition(".")[2], re.findall(r"\w+", code))

    def test_unknown_keys_are_refused(self):
        cases = {
            "openpcdet": (
                "DATA_CONFIG.DATA_PROCESSOR.NEW",
                "MODEL.VFE.NEW",
                "MODEL.DENSE_HEAD.LOSSES",
                "MODEL.X",
                "NEW",
                "MODEL.POST_PROCESSING.NMS.A",
            ),
            "mmdet3d": (
                "model.new",
                "model.data_preprocessor.voxel_layer.new",
                "model.pts_backbone.with_cp",
                "model.test_cfg.fuse",
                "model.pts_bbox_head.a.b",
            ),
            "det3d": ("model.reader.new", "test_cfg.new", "voxel_generator.new"),
        }
        for project, paths in cases.items():
            for path in paths:
                with self.subTest(path), self.assertRaisesRegex(ConvertError, path.replace(".", r"\.")):
                    keys.rule_of(TABLES[project], path)

    def test_keys_of_points_are_noted(self):
        for key in ("POINT_PAINTING", "LIDAR_DEVICE", "POINTS_TANH_DIM", "MAX_SWEEPS"):
            (note,) = keys.check(keys.OPENPCDET, Config({"DATA_CONFIG": {key: 1}}))
            self.assertIn(f"DATA_CONFIG.{key} is 1", note)

    def test_names_of_the_file_are_not_keys(self):
        for path in ("my_scale", "train_pipeline.x.y", "optim_wrapper.optimizer.lr", "model_wrapper_cfg.type"):
            self.assertEqual(keys.rule_of(keys.MMDET3D, path), keys.HARMLESS)

    def test_the_walk_reaches_dicts_in_lists(self):
        values = {"a": [{"b": 1}, {"b": (2, 3)}], "c": {}, "d": {"type": "T", "A": 4}}
        self.assertEqual(list(keys.walk(values)), [("a.b", 1), ("a.b", [2, 3]), ("d.type", "T"), ("d.A", 4)])


class Points(unittest.TestCase):
    """What a configuration says of the points goes into `voxelize` of model.json."""

    def check(self, points, count, columns="", intensity_range=None, ground_z=None):
        whole = {"columns": columns.split(), "intensity_range": intensity_range, "ground_z": ground_z}
        expected = {name: value for name, value in whole.items() if value not in (None, [])}
        self.assertEqual(points.parameters(count), expected)

    def test_openpcdet(self):
        def points(kind, used=None, **more):
            encoding = {"POINT_FEATURE_ENCODING": {"used_feature_list": used.split()}} if used else {}
            return openpcdet.points(Config({"DATASET": kind, **encoding, **more}))

        self.check(points("KittiDataset", "x y z intensity"), 4, "x y z intensity", [0, 1], -1.73)
        self.check(points("KittiDataset", "x y z"), 3, "x y z", None, -1.73)
        self.check(points("KittiDataset", "x y z intensity"), 5, ground_z=-1.73)
        self.check(points("KittiDataset", "intensity z y x"), 4, "x y z intensity", [0, 1], -1.73)
        times = "x y z intensity time"
        self.check(points("NuScenesDataset", "x y z intensity timestamp"), 5, times, [0, 255], -1.84)
        waymo = "x y z intensity elongation"
        self.check(points("WaymoDataset", waymo), 5, waymo, [0, 1], 0)
        self.check(points("WaymoDataset", waymo, POINTS_TANH_DIM=[3, 4]), 5, waymo, [0, 1], 0)
        self.check(points("WaymoDataset", waymo, POINTS_TANH_DIM=[4]), 5, waymo, None, 0)
        self.check(points("CustomDataset", "x y z intensity"), 4, "x y z intensity")
        self.check(points(["KittiDataset"]), 4)

    def test_mmdet3d(self):
        def points(kind, *steps):
            return mmdet3d.points(Config({"test_dataloader": {"dataset": {"type": kind, "pipeline": list(steps)}}}))

        def load(use, **more):
            return {"type": "LoadPointsFromFile", "load_dim": 6, "use_dim": use, **more}

        sweeps = {"type": "LoadPointsFromMultiSweeps", "sweeps_num": 10}
        self.check(points("KittiDataset", load(4)), 4, "x y z intensity", [0, 1], -1.73)
        self.check(points("KittiDataset", load([0, 1, 2])), 3, "x y z", None, -1.73)
        self.check(points("KittiDataset", {"type": "LoadPointsFromFile"}), 3, "x y z", None, -1.73)
        self.check(points("KittiDataset", load([1, 0, 2, 3])), 4, ground_z=-1.73)
        self.check(points("NuScenesDataset", load(4)), 4, "x y z intensity", [0, 255], -1.84)
        self.check(points("NuScenesDataset", load(4, norm_intensity=True)), 4, "x y z intensity", [0, 1], -1.84)
        self.check(points("NuScenesDataset", load(5), sweeps), 4, "x y z time", None, -1.84)
        whole = dict(sweeps, use_dim=[0, 1, 2, 3, 4])
        self.check(points("NuScenesDataset", load(5), whole), 5, "x y z intensity time", [0, 255], -1.84)
        waymo = "x y z intensity elongation"
        self.check(points("WaymoDataset", load(5, norm_intensity=True)), 5, waymo, [0, 1], 0)
        self.check(points("WaymoDataset", load(5)), 5, waymo, None, 0)
        self.check(points("WaymoDataset", load(6)), 6, ground_z=0)
        self.check(points("LyftDataset", load(4)), 4)
        old = {"data": {"test": {"type": "KittiDataset", "pipeline": [load(4)]}}}
        self.check(mmdet3d.points(Config(old)), 4, "x y z intensity", [0, 1], -1.73)
        for unknown in (statements.Unread("x"), None, {"dataset": 1}, {"dataset": {"type": [], "pipeline": [1]}}):
            self.check(mmdet3d.points(Config({"test_dataloader": unknown})), 4)

    def test_det3d(self):
        def points(kind, **more):
            return det3d.points(Config({"data": {"test": {"type": kind}}, **more}))

        self.check(points("NuScenesDataset", nsweeps=10), 5, "x y z intensity time", [0, 255], -1.84)
        self.check(points("NuScenesDataset"), 5, "x y z intensity time", [0, 255], -1.84)
        self.check(points("WaymoDataset", nsweeps=1), 5, "x y z intensity elongation", [0, 1], 0)
        self.check(points("WaymoDataset", nsweeps=2), 6, "x y z intensity elongation time", [0, 1], 0)
        self.check(points("Other"), 5)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def read(self, text, name="config.py"):
        return statements.read(self.write(name, text))

    def refuse(self, text, line, *reasons):
        path = self.write("config.py", text)
        with self.assertRaises(ConvertError) as refused:
            statements.read(path)
        for reason in (f"{path}:{line}:", *reasons):
            self.assertIn(reason, str(refused.exception))


class Statements(Files):
    def test_changes_after_the_assignment(self):
        for change, expected in {
            "m['a']['x'] = 5": {"a": {"x": 5}, "b": [1, 2]},
            "m['a'].update(x=5, y=6)": {"a": {"x": 5, "y": 6}, "b": [1, 2]},
            "m.update({'a': 7})": {"a": 7, "b": [1, 2]},
            "m['b'] += [3]": {"a": {"x": 1}, "b": [1, 2, 3]},
            "m['a']['x'] += 1": {"a": {"x": 2}, "b": [1, 2]},
            "alias = m['b']; alias += (3,)": {"a": {"x": 1}, "b": [1, 2, 3]},
            "m['b'].append(3)": {"a": {"x": 1}, "b": [1, 2, 3]},
            "m['b'][0] = 9": {"a": {"x": 1}, "b": [9, 2]},
            "del m['a']": {"b": [1, 2]},
            "m['a'].pop('x')": {"a": {}, "b": [1, 2]},
            "m['a'].setdefault('x', 3)": {"a": {"x": 1}, "b": [1, 2]},
            "m = dict(m, b=0)": {"a": {"x": 1}, "b": 0},
            "m = {**m, 'b': 0}": {"a": {"x": 1}, "b": 0},
            "m, n = dict(b=1), 2": {"b": 1},
            "m: dict = {}": {},
            "if len(m['b']) == 2:\n    m = {'c': 1}\nelse:\n    m = {}": {"c": 1},
            "for k in ('a', 'b'):\n    m[k] = k * 2": {"a": "aa", "b": "bb"},
            "for i, k in enumerate(m):\n    m[k] = i": {"a": 0, "b": 1},
            "m = dict(**{k: 1 for k in m})": {"a": 1, "b": 1},
            "import copy\nn = copy.deepcopy(m)\nn['a']['x'] = 9": {"a": {"x": 1}, "b": [1, 2]},
            "n = m.copy(); n['a']['x'] = 9": {"a": {"x": 9}, "b": [1, 2]},
        }.items():
            with self.subTest(change):
                self.assertEqual(self.read("m = dict(a=dict(x=1), b=[1, 2])\n" + change)["m"], expected)

    def test_expressions(self):
        for text, expected in {
            "2 ** 3 - 7 // 2": 5,
            "-1.5 * 2": -3.0,
            "sum([128, 128])": 256,
            "[0, 1, 2, 3][:2]": [0, 1],
            "[4, 5][-1]": 5,
            "[1] * 3 + [2]": [1, 1, 1, 2],
            "int(8 / 2)": 4,
            "[x * 2 for x in range(4) if x % 2]": [2, 6],
            "f'{1 + 1}x'": "2x",
            "1 if [] else 2": 2,
            "not (1 < 2 <= 2)": False,
            "None or 3": 3,
            "[*(1, 2), 3]": [1, 2, 3],
            "'/'.join(['a', 'b'])": "a/b",
            "round(12.8 / 0.2)": 64,
        }.items():
            with self.subTest(text):
                self.assertEqual(self.read(f"x = {text}")["x"], expected)
        self.assertEqual(self.read("import numpy as np\nx = -np.pi / 2")["x"], -math.pi / 2)

    def test_bases(self):
        self.write("one.py", "a = dict(x=dict(y=1, z=2), l=[1])\nn = 3")
        self.write("two.py", "b = dict(x=1)")
        bases = "_base_ = ['./one.py', 'two.py']\n"
        for text, expected in {
            "a = dict(x=dict(y=5))": {"x": {"y": 5, "z": 2}, "l": [1]},
            "a = dict(x=dict(_delete_=True, y=5))": {"x": {"y": 5}, "l": [1]},
            "_base_.a.x.y = 5": {"x": {"y": 5, "z": 2}, "l": [1]},
            "_base_['a']['x'].update(dict(y=6))": {"x": {"y": 6, "z": 2}, "l": [1]},
            "_base_.a.update(x=dict(y=6))": {"x": {"y": 6, "z": 2}, "l": [1]},
            "a = dict(l=[_base_.n, 4])": {"x": {"y": 1, "z": 2}, "l": [3, 4]},
            "a = dict(l={{_base_.n}})": {"x": {"y": 1, "z": 2}, "l": 3},
            "a = dict(x=dict(z={{ _base_.b.x }}))": {"x": {"y": 1, "z": 1}, "l": [1]},
            "del _base_.a['x']": {"l": [1]},
            "a = _base_.a\na.x.y = 7": {"x": {"y": 7, "z": 2}, "l": [1]},
            "_base_.a.pop('x')": {"l": [1]},
        }.items():
            with self.subTest(text):
                self.assertEqual(self.read(bases + text)["a"], expected)
        self.assertEqual(self.read("_base_ = 'one.py'\nd = '{{ fileBasenameNoExtension }}'")["d"], "config")

    def test_read_base(self):
        self.write("base/one.py", "from mmdet3d.models import VoxelNet\nmodel = dict(type=VoxelNet, x=dict(y=1, z=2))")
        text = """
            from mmengine.config import read_base
            with read_base():
                from .base.one import *
            model.update(dict(x=dict(y=3)))
            model.merge(dict(v=4))
        """
        self.assertEqual(self.read(text)["model"], {"type": "VoxelNet", "x": {"y": 3, "z": 2}, "v": 4})
        self.refuse(
            "from mmengine.config import read_base\nwith read_base():\n    from .no import *", 3, "there is no base"
        )

    def test_dumps_of_mmengine(self):
        """Config.dump writes JSON; types may have their scope, as in mmdet3d.VoxelNet."""
        path = self.write("whole.json", json.dumps({"model": {"type": "mmdet3d.VoxelNet"}}))
        self.assertEqual(statements.read(path), {"model": {"type": "VoxelNet"}})
        with self.assertRaisesRegex(ConvertError, "cannot read"):
            statements.read(self.write("list.json", "[1]"))

    def test_what_is_not_followed_is_refused_by_file_and_line(self):
        start = "import os, random\nm = dict(a=1)\n"
        for text in (
            "def f():\n    m['a'] = 2",
            "class C:\n    m['a'] = 2",
            "while m:\n    m.clear()",
            "try:\n    m['a'] = 2\nexcept KeyError:\n    pass",
            "with open('x') as f:\n    pass",
            "change(m)",
            "x = change(m)",
            "x = change(a=[m])",
            "x = change(**m)",
            "random.shuffle([m])",
            "exec('m.update(a=2)')",
            "x = eval('m')",
            "setattr(m, 'a', 2)",
            "globals()['m'] = 2",
            "vars().update(m=2)",
            "[m][os.getpid()]['a'] = 2",
            "x = [m][os.getpid()]\nx['a'] = 2",
            "x = [m][os.getpid()].update(a=2)",
            "if os.environ.get('A'):\n    m = {}",
            "x = 1 if os.getpid() else m.clear()",
            "for x in os.listdir('.'):\n    m[x] = 1",
            "for x in (1, 2):\n    break",
            "m[os.getpid()] = 1",
            "m.update([os.getpid()])",
            "x = [y for y in (1, 2) if os.getpid()]",
            "(lambda: m.clear())()",
            "x = (m := {})",
            "m['a'] += m['b']",
            "m['b']",
            "1 / 0",
            "m.nothing()",
            "m += 1",
            "from os import *",
            "a, b = 1",
            "async def f(): pass",
        ):
            with self.subTest(text):
                with self.assertRaisesRegex(ConvertError, r"config\.py:[345]: "):
                    self.read(start + text)

    def test_unknown_values_are_refused_where_they_are_taken(self):
        path = self.write("c.py", "import os\nm = dict(\n    a=os.getpid(),\n    b=2)\nlr = os.getpid() * 2\n")
        config = Config(statements.read(path)).at("m")
        self.assertEqual(config.number("b"), 2)
        for read in (config.number, lambda key: config.get(key, 1), config.text, config.numbers):
            with self.assertRaisesRegex(ConvertError, rf"m\.a is an expression that is not read \({path}:3\)"):
                read("a")

    def test_work_is_bounded(self):
        for text in ("x = 9 ** 9 ** 9", "x = 'a' * 10 ** 9", "x = [0] * 10 ** 9", "x = 10 ** 9 * [0]"):
            with self.subTest(text):
                self.assertIsInstance(self.read(text)["x"], statements.Unread)
        self.refuse("x = 1\ny = " + "1 + " * 900 + "1", 2, "RecursionError")
        self.refuse("for i in range(10 ** 9):\n    x = 1", 1, "turns")
        self.refuse("x = [1 for i in range(9999) for j in range(9999)]", 1, "more than 100000 turns")
        for text in ("x + x", "[*x, *x]", "x[:] + x"):
            with self.subTest(text):
                self.refuse(f"x = [1]\nfor i in range(40):\n    x = {text}", 3, "more than 10000 items")
        self.refuse("x = 2\nfor i in range(40):\n    x = x * x", 3, "bits")
        self.refuse("x = sum(range(10 ** 12))", 1, "more than 10000 items")
        text = "x = 1\nfor i in range(40):\n    x = "
        for pair in ("[x, x]", "dict(a=x, b=x)"):
            with self.subTest(pair), self.assertRaisesRegex(ConvertError, "more than 1000000 values"):
                self.read(text + pair)
        self.assertIsInstance(self.read(f"{text}[x, x]\ny = str(x)\nx = 1")["y"], statements.Unread)

    def test_faults_of_bases(self):
        self.refuse("x = 1\ny = '{{$NAME:value}}'", 2, "the converter reads no environment variables")
        self.refuse("_base_ = 'no.py'", 1, "there is no base", "no.py")
        self.refuse("x = 1\n_base_ = ['mmdet3d::_base_/x.py']", 2, "of an installed package")
        self.refuse("import os\n_base_ = os.listdir('.')", 2, "_base_ is not a list of files")
        self.write("a.py", "x = 1")
        self.write("b.py", "x = 2")
        self.refuse("_base_ = ['a.py', 'b.py']", 1, "two bases have x")
        with self.assertRaisesRegex(ConvertError, "has itself as a part"):
            self.read("x = {}\nx['x'] = [x]")
        with self.assertRaisesRegex(ConvertError, "is a base of itself"):
            self.read("_base_ = 'config.py'")
        with self.assertRaisesRegex(ConvertError, "cannot read .*config.py"):
            self.read("x = (")


class Yaml(Files):
    def test_a_base_is_found_in_the_folders_above(self):
        text = "A: {_BASE_CONFIG_: cfgs/base.yaml, X: 1}\n"
        path = self.write("tools/cfgs/models/m.yaml", text)
        with self.assertRaisesRegex(ConvertError, "there is no _BASE_CONFIG_ cfgs/base.yaml"):
            read_yaml(path)
        self.write("tools/cfgs/base.yaml", "X: 0\nY: {Z: 2}\n")
        self.assertEqual(read_yaml(path).values, {"A": {"X": 1, "Y": {"Z": 2}}})

    def test_what_is_no_configuration(self):
        pairs = "".join(f"a{i + 1}: &a{i + 1} {{k: *a{i}, l: *a{i}}}\n" for i in range(40))
        for text, reason in {
            "A: {_BASE_CONFIG_: m.yaml}": "m.yaml is a base of itself",
            "a: &a\n  b: *a\n": "has itself as a part",
            "a: " + "[" * 3000 + "]" * 3000: "too deep",
            f"a0: &a0 {{k: 1}}\n{pairs}": "more than 1000000 values",
            "": "has no keys",
            "- 1": "has no keys",
            "a = dict(\n    b=1)\nc: d: e": "mapping values are not allowed here in",
        }.items():
            with self.subTest(text[:40]):
                path = self.write("m.yaml", text)
                with self.assertRaises(ConvertError) as refused:
                    read_yaml(path)
                self.assertIn(reason, str(refused.exception))
                self.assertIn("m.yaml" if "values" not in reason else "", str(refused.exception))
                self.assertNotIn("\n", str(refused.exception))
        for folder in (self.folder, self.folder / "none.yaml"):
            with self.assertRaisesRegex(ConvertError, f"cannot read {folder}: [INa-z ]+$"):
                read_yaml(folder)


class Values(unittest.TestCase):
    def test_other_kinds_of_values_are_refused_by_their_key(self):
        odd = (None, True, "x", [], {}, [[]], [None], math.inf, math.nan, 10**400, statements.Unread("f:1"))
        takers = {
            "last": lambda config: config.last("key"),
            "whole": lambda config: config.whole("key"),
            "numbers": lambda config: config.numbers("key", 3),
            "lists": lambda config: [config.numbers_of("key", each)[0] for each in config.lists("key") if each != []],
            "choice": lambda config: config.choice("key", {"a": 1}),
        }
        for name, take in takers.items():
            for value in odd:
                if (name, value) != ("lists", [[]]):
                    with self.subTest(f"{name} {type(value)}"), self.assertRaisesRegex(ConvertError, "a.key"):
                        take(Config({"key": value}, "a"))
        self.assertEqual(Config({"key": [3, 4]}).last("key"), 4)

    def test_ranges_that_have_no_grid(self):
        for size in (0, -1, 1e-320):
            for bounds in ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0]):
                with self.subTest(f"{size} {bounds}"), self.assertRaisesRegex(ConvertError, "cannot be divided"):
                    Voxels(bounds, [0.5, 0.5, size], 1, 1)


if __name__ == "__main__":
    unittest.main()
