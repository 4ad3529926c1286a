"""The training of the sample models, in a tiny form: it runs, its pillars equal voxeld's, and the converted models
compute the same. Skipped without torch."""

import contextlib
import io
import json
import pathlib
import runpy
import sys
import tempfile
import unittest

import numpy as np
import yaml

from daemon import ROOT, SCAN, Daemon
from encoding import encode

try:
    import onnxruntime
    import torch
    from safetensors.numpy import load_file
except ImportError as reason:
    print(f"skipped: {reason}")
    sys.exit(77)

import models
import voxeld
from rude_server import url_of
from voxeld.convert.main import main as convert

TRAINING = ROOT / "training"
sys.path.insert(0, str(TRAINING))
import configurations
import convolution
import learning
import scenes
import streets
from network import PointPillar


def tiny_config():
    config = yaml.safe_load((TRAINING / "simulated_pointpillar.yaml").read_text(encoding="utf-8"))
    config["DATA_CONFIG"]["POINT_CLOUD_RANGE"] = [-5.76, -11.52, -3, 5.76, 11.52, 2]
    config["MODEL"]["BACKBONE_2D"].update(LAYER_NUMS=[1, 1, 1], NUM_FILTERS=[8, 16, 32])
    return config


def write_tiny_second(path):
    """simulated_second.py with a smaller grid."""
    bounds = [-6.4, -12.8, -3, 6.4, 12.8, 2]
    config = runpy.run_path(str(TRAINING / "simulated_second.py"))
    config["model"]["data_preprocessor"]["voxel_layer"]["point_cloud_range"] = bounds
    config["model"]["middle_encoder"]["sparse_shape"] = [21, 128, 64]
    config["model"]["bbox_head"]["anchor_generator"]["ranges"] = [[*bounds[:2], -1.73, *bounds[3:5], -1.73]]
    names = ("class_names", "model", "test_dataloader")
    path.write_text("".join(f"{name} = {config[name]!r}\n" for name in names), encoding="utf-8")


def train(config, folder, *more):
    arguments = ["--config", str(config), "--output", str(folder), "--voxel-scan", SCAN]
    arguments += ["--scenes", "2", "--unseen", "1", "--steps", "2", "--batch", "2", "--device", "cpu", *more]
    before, sys.argv = sys.argv, ["train", *arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(TRAINING / "train"), run_name="__main__")
    sys.argv = before


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.config = tiny_config()
        (cls.folder / "tiny.yaml").write_text(yaml.safe_dump(cls.config), encoding="utf-8")
        cls.pillars = scenes.Pillars(cls.config)
        cls.scene = scenes.simulate(SCAN, 5, cls.config["CLASS_NAMES"])
        train(cls.folder / "tiny.yaml", cls.folder)

    def network(self):
        network = PointPillar(self.config, self.pillars.cells[:2])
        state = load_file(self.folder / "state.safetensors")
        network.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        return network.eval()

    def test_the_report_has_each_class(self):
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(list(report["by_least_score"]), self.config["CLASS_NAMES"])
        self.assertEqual(report["scenes"], 1)

    def test_the_state_is_converted_to_what_the_network_computes(self):
        network = self.network()
        torch.save({"model_state": network.state_dict()}, self.folder / "state.pth")
        config = str(self.folder / "tiny.yaml")
        for checkpoint in ("state.pth", "state.safetensors"):
            model = self.folder / f"model_{checkpoint}"
            with self.subTest(checkpoint), contextlib.redirect_stdout(io.StringIO()):
                arguments = ["openpcdet", str(self.folder / checkpoint), "--config", config]
                self.assertEqual(convert([*arguments, "--output", str(model)]), 0)
        features, cells = self.pillars.of([self.scene.points])
        with torch.no_grad():
            expected = [part.numpy() for part in network(features, cells, 1)]
        layers = load_file(model / "encoder.safetensors")
        num_points = (features != 0).any(2).sum(1).numpy()
        encoded = encode(features.numpy(), num_points, (layers["weight"], layers["bias"]))
        nx, ny = self.pillars.cells[:2]
        canvas = np.zeros((ny * nx, encoded.shape[1]), np.float32)
        canvas[cells.numpy()] = encoded
        bev = np.ascontiguousarray(canvas.reshape(1, ny, nx, -1).transpose(0, 3, 1, 2))
        session = onnxruntime.InferenceSession(model / "network.onnx")
        found = session.run(["cls_preds", "box_preds", "dir_cls_preds"], {"bev_features": bev})
        for one, other in zip(found, expected):
            self.assertLess(np.abs(one - other).max(), 2e-5 * max(1, np.abs(other).max()))

    def test_its_pillars_are_those_of_the_service(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        step = self.config["DATA_CONFIG"]["DATA_PROCESSOR"][0]
        with voxeld.Client(url_of(daemon)) as client:
            result = client.voxelize(
                self.scene.points.numpy(),
                point_cloud_range=self.pillars.range,
                voxel_size=step["VOXEL_SIZE"],
                max_points_per_voxel=step["MAX_POINTS_PER_VOXEL"],
                feature="pillar",
                order="key",
            )
        features, cells = self.pillars.of([self.scene.points])
        nx = self.pillars.cells[0]
        order = np.lexsort((cells // nx, cells % nx))  # by x, then y
        coords = result["voxel_coords"]
        np.testing.assert_array_equal(coords[:, 2] * nx + coords[:, 3], cells.numpy()[order])
        np.testing.assert_allclose(result["pillar_features"], features.numpy()[order], rtol=0, atol=1e-5)

    def test_boxes_survive_their_coding(self):
        anchors = learning.Anchors(self.config, self.pillars.range, "cpu")
        labels, owners = learning.assign(anchors, self.scene)
        found = torch.nonzero(labels > 0).squeeze(1)
        self.assertGreater(len(found), 0)
        truth, chosen = self.scene.boxes[owners[found]], anchors.boxes[found]
        again = learning.decode(learning.encode(truth, chosen), chosen)
        self.assertLess((again - truth).abs().max().item(), 1e-3)
        self.assertTrue((self.scene.labels[owners[found]] == labels[found] - 1).all())

    def test_a_turned_scene_turns_its_boxes(self):
        turned = scenes.augmented(self.scene, np.random.default_rng(2))
        for scene in (self.scene, turned):
            for box in scene.boxes[scene.seen]:
                moved = scene.points[:, :2] - box[:2]
                ahead = moved @ torch.stack((torch.cos(box[6]), torch.sin(box[6])))
                left = moved @ torch.stack((-torch.sin(box[6]), torch.cos(box[6])))
                near = (ahead.abs() <= box[3] / 2 + 0.1) & (left.abs() <= box[4] / 2 + 0.1)
                near &= (scene.points[:, 2] - box[2]).abs() <= box[5] / 2 + 0.1
                self.assertGreaterEqual(int(near.sum()), streets.LEAST_POINTS)


class Second(unittest.TestCase):
    def test_the_service_computes_what_the_network_computes(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = folder / "tiny.py"
        write_tiny_second(config)
        train(config, folder)
        state = folder / "state.safetensors"
        arguments = ["mmdet3d", str(state), "--config", str(config), "--output", str(folder / "models" / "tiny")]
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(convert(arguments), 0)
        words, means, network = configurations.read(config)
        stored = load_file(state)
        for name, value in network.state().items():
            value.copy_(torch.from_numpy(stored[name]))
        points = scenes.simulate(SCAN, 5, words["CLASS_NAMES"]).points
        with torch.no_grad():
            expected = [part.numpy() for part in network.eval()(*means.of([points]), 1)]
        daemon = Daemon("--models-dir", str(folder / "models"), "--onnxruntime", models.library())
        self.addCleanup(daemon.stop)
        maps = ("cls_preds", "box_preds", "dir_cls_preds")
        with voxeld.Client(url_of(daemon)) as client:
            found = client.detect(points.numpy(), "tiny", outputs=",".join(maps))
        for name, other in zip(maps, expected):
            self.assertLess(np.abs(found[name] - other).max(), 1e-4 * max(1, np.abs(other).max()), name)

    def test_bfloat16_gives_nearly_the_same_gradients(self):
        random = torch.Generator().manual_seed(3)
        at = torch.cat([torch.zeros(40, 1), torch.randint(0, 6, (40, 3), generator=random)], 1).unique(dim=0).int()
        rule = convolution.Rule(convolution.Cells(at, 1, (6, 6, 6)), (3, 3, 3))
        rows = torch.randn(len(at), 16, generator=random, requires_grad=True)
        layer, found = convolution.SparseConv(16, 32, (3, 3, 3)), []
        for kind in (torch.float32, torch.bfloat16):
            made = layer(rows, rule, kind)
            found.append((made, *torch.autograd.grad(made.square().sum(), (rows, layer.weight))))
        for exact, rounded in zip(*found):
            self.assertEqual(rounded.dtype, torch.float32)
            error = ((exact - rounded).abs().max() / exact.abs().max()).item()
            self.assertTrue(0 < error < 0.02, error)

    def test_training_in_bfloat16(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        write_tiny_second(folder / "tiny.py")
        train(folder / "tiny.py", folder, "--bfloat16")
        values = load_file(folder / "state.safetensors").values()
        self.assertTrue(all(np.isfinite(value).all() for value in values))


if __name__ == "__main__":
    unittest.main()
