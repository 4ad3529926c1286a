"""Models that are broken, slow, replaced or gone, and a missing library. The reason for a broken model names the file
and the field at fault. The other models serve."""

import json
import os
import shutil
import signal
import tempfile
import threading
import unittest

import models
from client import Daemon, rows, wait_until

NO_LIBRARY = "/nowhere/libonnxruntime.so"
SCAN = rows(500)
DETECT = "/v1/detect?model="
JSON = {"Accept": "application/json"}


def with_part(part, **members):
    """A description with other members in its object `part`. None removes a member."""
    described = models.description()
    described[part] = {name: value for name, value in {**described[part], **members}.items() if value is not None}
    return described


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, lines=(), model=None, tensors=None, network=None):
        network = models.standin(lines=lines) if network is None else network
        return models.write(self.folder, name, network, model, tensors)

    def start(self, *args, library=models.STANDIN):
        daemon = Daemon("--models-dir", self.folder, "--onnxruntime", library, "--workers", "1", *args)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def stop(self, daemon):
        daemon.assert_quiet()
        daemon.stop()

    def reload(self, daemon):
        told = len(daemon.logged("what=models"))
        os.kill(daemon.pid(), signal.SIGHUP)
        wait_until(lambda: daemon.times_logged("what=models") > told, "a reload of the models")

    def fault(self, daemon, name):
        """The reason why a model does not serve. Checks that /v1/detect and the index show it, and that the
        model's pages of KServe answer 503."""
        reason = daemon.get(f"/v1/models/{name}").json()["reason"]
        refused = daemon.post(DETECT + name, SCAN)
        self.assertEqual((refused.status, refused.json()["type"]), (503, "urn:voxeld:problem:model-failed"), refused)
        self.assertIn(reason[:300], refused.json()["detail"])
        index = {entry["name"]: entry for entry in daemon.post("/v2/repository/index").json()}
        self.assertEqual(index[name]["state"], "UNAVAILABLE")
        self.assertIn(reason[:300], index[name]["reason"])
        for path in (f"/v2/models/{name}", f"/v2/models/{name}/config", f"/v2/models/{name}/ready"):
            self.assertEqual(daemon.get(path).status, 503, path)
        self.assertEqual(daemon.post(f"/v2/models/{name}/infer", b"{}").status, 503)
        return reason

    def assert_serves(self, daemon, name="good"):
        reply = daemon.post(DETECT + name, SCAN)
        self.assertEqual(reply.status, 200, reply)
        self.assertTrue(daemon.get(f"/v1/models/{name}").json()["ready"])
        return reply


class Files(Models):
    DOCUMENTS = {
        "no object": ([], "model.json: it is not an object"),
        "format": ({"format": 2}, "model.json: format is not 1"),
        "member": (models.description(colour="red"), "model.json: it has a member 'colour' that has no meaning there"),
        "description": (
            models.description(description=""),
            "model.json: description is not a string of 1 to 511 bytes",
        ),
        "version": (
            models.description(version="1/2"),
            "model.json: version is neither a whole number nor a string of 1 to 63 letters, digits, dots, _ and -",
        ),
        "real version": (models.description(version=1.5), "model.json: version is neither a whole number nor a string"),
        "no version": (models.description(version=""), "model.json: version is neither a whole number nor a string"),
        "long version": (models.description(version="1" * 64), "model.json: version is neither a whole number"),
        "names": (models.description(class_names=[1]), "model.json: class_names[0] is not a string"),
        "no names": (models.description(class_names="Car"), "model.json: class_names is not a list of names"),
        "classes": (
            models.description(class_names=["Car"]),
            "network.onnx: network.outputs: the input cls_preds has 3 classes; class_names has 1",
        ),
        "no encoder": (models.description(encoder=None), "model.json: encoder is not an object"),
        "features": (
            with_part("encoder", features="pillar9"),
            "model.json: encoder.features is 'pillar9'; with voxelize.num_features = 4 it must be 'pillar10'",
        ),
        "width": (with_part("encoder", width=4097), "model.json: encoder.width is not a whole number from 1 to 4096"),
        "layers": (with_part("encoder", layers=5), "model.json: encoder.layers is not a whole number from 1 to 4"),
        "second": (with_part("encoder", layers=2), "encoder.safetensors: it has no tensor weight_1"),
        "columns": (
            with_part("encoder", width=9),
            "encoder.safetensors: tensor weight has 8 columns; encoder.width is 9",
        ),
        "path": (with_part("encoder", file="../x"), "model.json: encoder.file is '../x'; allowed: the name of a file"),
        "voxelize": (with_part("voxelize", voxel_size=[1, 1, 0]), "model.json: voxelize: voxel_size along z is 0"),
        "columns expected": (
            with_part("voxelize", columns=["x", "y", "z"]),
            "model.json: voxelize: columns has 3 names; num_features is 4",
        ),
        "region": (
            with_part("voxelize", output_region="a,0,1"),
            "model.json: voxelize: output_region is not allowed in a model",
        ),
        "fps": (with_part("voxelize", fps=5), "model.json: voxelize: fps is given; a model does not sample"),
        "layout": (with_part("network", layout="chw"), "model.json: network.layout is 'chw'; allowed: nhwc, nchw"),
        "input": (with_part("network", input=None), "model.json: network.input is not a string of 1 to 127 bytes"),
        "outputs": (with_part("network", outputs={}), "model.json: network.outputs has no cls_preds"),
        "map": (with_part("network", outputs={"hm": "x"}), "network.outputs has 'hm', which is not an input of decode"),
        "head": (with_part("decode", head="hat"), "model.json: decode.head is 'hat'; allowed: anchor, center"),
        "decode": (with_part("decode", anchor_bottoms=[1]), "model.json: decode: anchor_bottoms has 1 numbers for 3"),
    }
    NETWORKS = {
        "none": ({"network": b"no network"}, "network.onnx: onnxruntime: Load model failed"),
        "two inputs": (
            {"lines": ["input more 1 3"]},
            "must be map (network.input); it has 2 inputs; voxeld-convert onnx cuts the file after the scatter",
        ),
        "another input": (
            {"model": with_part("network", input="points")},
            "network.onnx: its only input must be points (network.input); it has 1 input of another name",
        ),
        "no output": (
            {"model": with_part("network", outputs={"cls_preds": "cls", "box_preds": "box"})},
            "network.onnx: it has no output cls (network.outputs.cls_preds)",
        ),
        "no batch": ({"network": models.standin(batch=0)}, "network.onnx: network.input is for 0 clouds; allowed: any"),
        "batch": ({"network": models.standin(batch=2)}, "network.onnx: network.input is for 2 clouds; allowed: any"),
        "grid": (
            {"model": with_part("voxelize", voxel_size=[1, 0.5, 4])},
            "network.onnx: network.input (map) is F32 [-1,8,32,32]; expected F32 [-1,8,32,16]",
        ),
        "half": (
            {"model": with_part("voxelize", feature_dtype="float16")},
            "network.onnx: network.input (map) is F32 [-1,8,32,32]; expected F16 [-1,8,32,32]",
        ),
        "layout": ({"model": models.description("nchw")}, "network.onnx: network.outputs: "),
        "open map": (
            {"network": models.standin().replace(b"-1 32 32 18", b"-1 -1 -1 18")},
            "(out_cls_preds) has no fixed height, width and channels",
        ),
        "integers": (
            {"network": models.standin().replace(b"out_box_preds 1", b"out_box_preds 6")},
            "network.onnx: network.outputs.box_preds (out_box_preds) is I32 [-1,32,32,42]; expected F32 or F16 [",
        ),
        "channels": (
            {"network": models.standin().replace(b"-1 32 32 42", b"-1 32 32 41")},
            "network.onnx: network.outputs: the input box_preds has the shape [1,32,32,41]; allowed: [1,32,32,42]",
        ),
    }

    def check(self, cases):
        """Writes a good model, and a bad model for each case. Checks the reasons."""
        cases = {"bad_" + name.replace(" ", "_"): case for name, case in cases.items()}
        self.write("good")
        for name, (parts, _) in cases.items():
            self.write(name, **parts)
        daemon = self.start()
        for name, (_, reason) in cases.items():
            with self.subTest(name):
                self.assertIn(reason, self.fault(daemon, name))
        self.assert_serves(daemon)
        self.stop(daemon)

    def test_model_json(self):
        self.check({name: ({"model": model}, reason) for name, (model, reason) in self.DOCUMENTS.items() if model})
        path = self.write("list")
        for text, reason in (("[]", self.DOCUMENTS["no object"][1]), ('{"a":\n', "model.json: line")):
            with open(os.path.join(path, "model.json"), "w", encoding="utf-8") as file:
                file.write(text)
            daemon = self.start()
            self.assertIn(reason, self.fault(daemon, "list"))
            self.stop(daemon)

    def test_weights(self):
        good = models.weights()
        (rows_, columns), weight = good["weight"]
        cases = {
            "no bias": ({"weight": good["weight"]}, "encoder.safetensors: it has no tensor bias"),
            "extra": (
                {**good, "weight_1": good["weight"]},
                "encoder.safetensors: it has a tensor weight_1, which no layer uses",
            ),
            "half": (
                {**good, "weight": ([rows_, columns], weight[: len(weight) // 2], "F16")},
                "encoder.safetensors: tensor weight has the dtype F16; allowed: F32",
            ),
            "narrow": (
                {**good, "weight": ([columns, rows_], weight)},
                "encoder.safetensors: tensor weight does not have the shape [10, width]",
            ),
            "endless": (
                {**good, "bias": ([columns], b"\0\0\x80\x7f" * columns)},
                "encoder.safetensors: tensor bias has values that are not finite",
            ),
        }
        self.check({name: ({"tensors": tensors}, reason) for name, (tensors, reason) in cases.items()})

    def test_backbones(self):
        """tests/unit/api/test_detector_backbone.c tests faults of layers."""
        layers = {**models.sparse_description()["backbone"]}
        narrow = {**models.VOXELIZE, "voxel_size": models.SPARSE_SIZE, "feature_dtype": "float16"}
        tensors = models.backbone_weights()
        extra = {**tensors, "down.1.bias": tensors["down.bias"]}
        del tensors["down.bias"]
        sparse = lambda network=models.sparse_standin(), tensors=None, **parts: {
            "network": network, "model": models.sparse_description(**parts), "tensors": tensors
        }
        self.check({
            "both": (sparse(encoder={}), "model.json: it has an encoder and a backbone; allowed: only one of the two"),
            "no object": (sparse(backbone=[1]), "model.json: backbone is not an object"),
            "layer": (
                sparse(backbone={**layers, "layers": [{**models.SPARSE_LAYERS[0], "kernel": [2, 3, 3]}]}),
                "model.json: layer 0 of the backbone has a kernel of 2 along z",
            ),
            "grid": (
                sparse(voxelize=models.VOXELIZE),
                "model.json: backbone.shape is [9,32,32]; with these voxels it must be [2,32,32]",
            ),
            "float16": (
                sparse(voxelize=narrow), "model.json: voxelize.feature_dtype is float16; a backbone takes float32"
            ),
            "path": (sparse(backbone={**layers, "file": "../x"}), "model.json: backbone.file is '../x'; allowed: the"),
            "file": (sparse(backbone={**layers, "file": "gone"}), "gone: No such file"),
            "tensor": (sparse(tensors=tensors), "backbone.safetensors: it has no tensor down.bias"),
            "extra": (sparse(tensors=extra), "it has a tensor down.1.bias, which no layer uses"),
            "map": (
                sparse(models.standin()),
                "network.onnx: network.input (map) is F32 [-1,8,32,32]; expected F32 [-1,32,16,16]",
            ),
        })

    def test_files_that_are_missing_or_no_tensors(self):
        for name in ("model.json", "encoder.safetensors", "network.onnx"):
            os.remove(os.path.join(self.write(name.replace(".", "_")), name))
        with open(os.path.join(self.write("short"), "encoder.safetensors"), "wb") as file:
            file.write(b"short")
        daemon = self.start()
        for name in ("model.json", "encoder.safetensors", "network.onnx"):
            self.assertIn(f"{name}: No such file", self.fault(daemon, name.replace(".", "_")))
        reason = "encoder.safetensors: the file is not a safetensors file: it has less than 8 bytes"
        self.assertIn(reason, self.fault(daemon, "short"))
        self.stop(daemon)

    def test_files_that_never_end_are_not_read(self):
        for name in ("model.json", "encoder.safetensors", "network.onnx"):
            for kind, make in (("fifo", os.mkfifo), ("zeros", lambda path: os.symlink("/dev/zero", path))):
                path = os.path.join(self.write(f"{kind}_{name}"), name)
                os.remove(path)
                make(path)
        daemon = self.start()
        for model in daemon.get("/v1/models").json()["models"]:
            self.assertIn(": it is not a regular file", self.fault(daemon, model["name"]))
        self.stop(daemon)

    def test_networks(self):
        self.check(self.NETWORKS)

    def test_a_network_whose_outputs_are_for_one_cloud_gets_one_by_one(self):
        self.write("one", network=models.standin().replace(b"-1 32 32 18", b"1 32 32 18"))
        daemon = self.start()
        middle = len(SCAN) // 2
        whole, *parts = (
            daemon.post(f"{DETECT}one&outputs=cls_preds&point_counts={counts}", points)
            for counts, points in (("250,250", SCAN), ("250", SCAN[:middle]), ("250", SCAN[middle:]))
        )
        self.assertEqual(whole.status, 200, whole)
        self.assertEqual(whole.tensors()[1], b"".join(part.tensors()[1] for part in parts))
        self.stop(daemon)


class Library(Models):
    def test_without_the_library_the_rest_serves(self):
        self.write("good")
        daemon = self.start(library=NO_LIBRARY)
        self.assertIn(NO_LIBRARY, self.fault(daemon, "good"))
        self.assertEqual(daemon.post("/v1/voxelize?preset=kitti_second", SCAN).status, 200)
        self.stop(daemon)

    def test_without_models_there_is_nothing_to_detect_with(self):
        daemon = Daemon("--onnxruntime", NO_LIBRARY)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        self.assertEqual(daemon.get("/v1/models").json(), {"models": []})
        self.assertEqual(daemon.get("/v1/models/good").status, 404)
        for query, reason in (("", "model is missing"), ("?model=good", "there is no model 'good'")):
            reply = daemon.post("/v1/detect" + query, SCAN)
            self.assertEqual((reply.status, reply.json()["parameter"]), (400, "model"), reply)
            self.assertIn(reason, reply.json()["detail"])
        self.stop(daemon)


class Reload(Models):
    def test_models_come_change_and_go(self):
        self.write("good")
        daemon = self.start()
        first = self.assert_serves(daemon).tensors()
        self.write("good", tensors=models.weights(seed=2))
        self.write("more", model=models.description(format=3))
        self.assertEqual(self.assert_serves(daemon).tensors(), first)
        self.reload(daemon)
        self.assertNotEqual(self.assert_serves(daemon).tensors(), first)
        self.assertIn("format is not 1", self.fault(daemon, "more"))
        shutil.rmtree(os.path.join(self.folder, "good"))
        self.write("more")
        self.reload(daemon)
        self.assertEqual(daemon.post(DETECT + "good", SCAN).status, 400)
        self.assert_serves(daemon, "more")
        self.stop(daemon)

    def test_a_job_ends_with_the_model_that_it_began_with(self):
        self.write("slow", lines=["wait 1500"])
        daemon = self.start()
        replies = []
        asker = threading.Thread(target=lambda: replies.append(daemon.post(DETECT + "slow", SCAN)))
        asker.start()
        wait_until(lambda: daemon.status()["detection_workers"]["running"] == 1, "a detection that runs")
        shutil.rmtree(os.path.join(self.folder, "slow"))
        self.reload(daemon)
        self.assertEqual(daemon.post(DETECT + "slow", SCAN).status, 400)
        asker.join()
        self.assertEqual(replies[0].status, 200, replies[0])
        self.stop(daemon)

    def test_a_job_tells_the_version_that_it_began_with(self):
        described = models.description(version="2024.1-a")
        self.write("slow", lines=["wait 1500"], model=described)
        daemon = self.start()
        replies = []
        asker = threading.Thread(target=lambda: replies.append(daemon.post(DETECT + "slow", SCAN, JSON)))
        asker.start()
        wait_until(lambda: daemon.status()["detection_workers"]["running"] == 1, "a detection that runs")
        self.write("slow", model={**described, "version": 7})
        self.reload(daemon)
        self.assertEqual(daemon.get("/v1/models/slow").json()["version"], "7")
        self.assertEqual(daemon.post(DETECT + "slow", SCAN, JSON).json()["model_version"], "7")
        asker.join()
        self.assertEqual(replies[0].json()["model_version"], "2024.1-a")
        self.stop(daemon)

    def test_a_folder_that_is_gone_changes_nothing(self):
        self.write("good")
        daemon = self.start()
        shutil.rmtree(self.folder)
        self.reload(daemon)
        self.assertIn("No such file", daemon.logged("what=models")[0])
        self.assert_serves(daemon)
        os.mkdir(self.folder)
        self.stop(daemon)


class Running(Models):
    def test_a_network_that_fails(self):
        self.write("good")
        self.write("bad", lines=["fail 2"])  # the first run, which warms up, succeeds
        daemon = self.start("--detection-workers", "1")
        for _ in range(2):
            reply = daemon.post(DETECT + "bad", SCAN)
            self.assertEqual((reply.status, reply.json()["type"]), (503, "urn:voxeld:problem:model-failed"))
            self.assertIn("onnxruntime: Non-zero status code", reply.json()["detail"])
        self.assertTrue(daemon.get("/v1/models/bad").json()["ready"])
        self.assert_serves(daemon)
        self.stop(daemon)

    def test_a_network_whose_first_run_fails_is_refused(self):
        self.write("good")
        self.write("bad", lines=["fail"])
        daemon = self.start()
        reason = "the network does not run: onnxruntime: Non-zero status code"
        self.assertIn(reason, self.fault(daemon, "bad"))
        self.assertFalse(daemon.get("/v1/models/bad").json()["ready"])
        (line,) = daemon.logged('msg="a model does not serve"')
        for part in ("level=warning", "model=bad", reason):
            self.assertIn(part, line)
        metrics = daemon.get("/metrics").body.decode()
        for state, count in (("ready", 1), ("failed", 1), ("outdated", 0)):
            self.assertIn(f'voxeld_models{{state="{state}"}} {count}', metrics)
        self.assert_serves(daemon)
        self.write("bad")
        self.reload(daemon)
        self.assert_serves(daemon, "bad")
        self.stop(daemon)

    def test_requests_during_the_first_run_see_why_a_network_is_refused(self):
        self.write("bad", lines=["wait 300", "fail"])
        arguments = ("--models-dir", self.folder, "--onnxruntime", models.STANDIN, "--workers", "1")
        told = []

        class Asking(Daemon):
            """Asks for the model until the daemon is ready."""

            def _is_ready(self):
                told.append((self.get("/v1/models/bad").json(), self.post(DETECT + "bad", SCAN)))
                return super()._is_ready()

        daemon = Asking(*arguments)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        self.assertTrue(any(shown["ready"] for shown, _ in told))
        for _, reply in told:
            self.assertEqual((reply.status, reply.json()["type"]), (503, "urn:voxeld:problem:model-failed"), reply)
        self.fault(daemon, "bad")
        self.stop(daemon)

    def test_a_deadline_ends_a_detection_between_its_stages(self):
        self.write("slow", lines=["wait 1200"])
        daemon = self.start()
        reply = daemon.post(DETECT + "slow&timeout_ms=300", SCAN)
        self.assertEqual(reply.status, 504, reply)
        self.assertIn("ended before boxes were made", reply.json()["detail"])
        self.assertEqual(daemon.post(DETECT + "slow&timeout_ms=60000", SCAN).status, 200)
        self.stop(daemon)

    def test_other_jobs_do_not_wait_for_detections(self):
        self.write("slow", lines=["wait 2000"])
        daemon = self.start("--detection-workers", "1")
        askers = [threading.Thread(target=daemon.post, args=(DETECT + "slow", SCAN)) for _ in range(2)]
        for asker in askers:
            asker.start()

        def both():
            status = daemon.status()
            return status["detection_workers"]["running"], status["detection_queue"]["depth"]

        wait_until(lambda: both() == (1, 1), "a detection that runs and one that waits")
        self.assertEqual(daemon.post("/v1/voxelize?preset=kitti_second", SCAN).status, 200)
        self.assertEqual(both()[0], 1)  # a detection still runs
        for asker in askers:
            asker.join()
        self.stop(daemon)

    def test_a_drain_lets_a_detection_end(self):
        self.write("slow", lines=["wait 1500"])
        daemon = self.start()
        replies = []
        asker = threading.Thread(target=lambda: replies.append(daemon.post(DETECT + "slow", SCAN)))
        asker.start()
        wait_until(lambda: daemon.status()["detection_workers"]["running"] == 1, "a detection that runs")
        daemon.stop()
        asker.join()
        self.assertEqual(replies[0].status, 200, replies[0])

    def test_stages_have_times_and_metrics(self):
        self.write("good")
        daemon = self.start("--detection-workers", "2", "--gpu-detection-streams", "2")
        reply = self.assert_serves(daemon)
        for stage in ("voxelize", "encoder", "scatter", "network", "decode", "nms"):
            self.assertIn(f"{stage};dur=", reply.headers["Server-Timing"])
        metrics = daemon.get("/metrics").body.decode()
        self.assertIn('stage="network"', metrics)
        self.assertIn('voxeld_workers{lanes="detect"} 2', metrics)
        self.stop(daemon)


class Memory(Models):
    LIMIT = 1000000

    def start(self, *args, limit=LIMIT, **parts):
        return super().start("--network-host-memory-bytes", str(limit), "--detection-workers", "1", *args, **parts)

    def batch(self, daemon, clouds, name="good"):
        counts = ",".join(["10"] * clouds)
        return daemon.post(f"{DETECT}{name}&point_counts={counts}", rows(10 * clouds))

    def test_a_batch_that_needs_more_is_refused_and_others_serve(self):
        self.write("good", lines=["memory 1000 100000"])
        daemon = self.start()
        self.assertEqual(daemon.get("/v1/models/good").json()["network"]["memory_limit_bytes"], self.LIMIT)
        for clouds in (1, 4, 8, 9, 5, 1):  # the network keeps the memory of runs, until a run lacks memory
            self.assertEqual(self.batch(daemon, clouds).status, 200)
            reply = self.batch(daemon, 10)
            self.assertEqual((reply.status, reply.json()["type"]), (503, "urn:voxeld:problem:memory-full"), reply)
            self.assertIn("onnxruntime: out of memory: Available memory of", reply.json()["detail"])
            self.assertIn("Retry-After", reply.headers)
        self.assertTrue(daemon.get("/v1/models/good").json()["ready"])
        self.stop(daemon)

    def test_a_model_whose_map_is_over_the_whole_budget_is_refused(self):
        self.write("good")
        fine = {**models.VOXELIZE, "voxel_size": [0.01, 0.01, 4]}
        self.write("fine", model=models.description(voxelize=fine), network=models.standin(cells=1600))
        budget = ("--memory-budget-bytes", str(32 << 20), "--max-response-bytes", str(1 << 20))
        daemon = self.start(*budget, "--max-body-bytes", str(1 << 20), limit=1 << 30)
        self.assertIn("bytes of scratch are over the limit", self.fault(daemon, "fine"))
        self.assert_serves(daemon)
        self.stop(daemon)

    def test_a_network_without_room_for_one_cloud_is_refused(self):
        self.write("good")
        self.write("hungry", lines=[f"memory 0 {self.LIMIT + 1}"])
        self.write("heavy", lines=[f"memory {self.LIMIT + 1} 0"])
        daemon = self.start()
        self.assertIn("the network does not run: onnxruntime: out of memory", self.fault(daemon, "hungry"))
        reason = "network.onnx: its weights take more than its limit of 1000000 bytes"
        self.assertIn(reason, self.fault(daemon, "heavy"))
        self.assert_serves(daemon)
        self.stop(daemon)

    def test_a_network_is_not_refused_for_want_of_memory_that_requests_have(self):
        self.write("first", lines=["wait 400"])  # while this model warms up, the batches begin
        self.write("good", lines=["memory 0 100000", "wait 200"])
        case, over = self, threading.Event()
        statuses, threads = [], []

        class Asking(Daemon):
            """Keeps the memory of the network `good` in use by batches, until the daemon is ready."""

            def _is_ready(self):
                if not threads:
                    threads.extend(threading.Thread(target=self.ask) for _ in range(4))
                    for thread in threads:
                        thread.start()
                ready = super()._is_ready()
                if ready:
                    over.set()
                    for thread in threads:
                        thread.join()
                return ready

            def ask(self):
                while not over.is_set():
                    statuses.append(case.batch(self, 10).status)

        self.addCleanup(over.set)
        limit = ("--network-host-memory-bytes", str(self.LIMIT), "--detection-workers", "2")
        daemon = Asking("--models-dir", self.folder, "--onnxruntime", models.STANDIN, "--workers", "1", *limit)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        self.assertIn(200, statuses)
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertTrue(daemon.get("/v1/models/good").json()["ready"])
        self.assert_serves(daemon)
        self.stop(daemon)

    def test_without_a_limit_none_is_refused(self):
        self.write("hungry", lines=[f"memory {self.LIMIT + 1} {self.LIMIT + 1}"])
        daemon = self.start(limit=0)
        self.assertEqual(daemon.get("/v1/models/hungry").json()["network"]["memory_limit_bytes"], 0)
        self.assertEqual(self.batch(daemon, 10, "hungry").status, 200)
        self.stop(daemon)


class Choices(Models):
    def refused(self, daemon, query, parameter, reason):
        with self.subTest(query):
            reply = daemon.post(DETECT + query, SCAN)
            self.assertEqual((reply.status, reply.json()["parameter"]), (400, parameter), reply)
            self.assertIn(reason, reply.json()["detail"])

    def test_what_the_head_has_no_use_for_is_refused(self):
        centers = models.description(decode={**models.CENTER_DECODE, "nms": "circle", "min_radius": [1]})
        self.write("anchors")
        self.write("centers", model=centers, network=models.standin(center=True))
        daemon = self.start()
        self.refused(daemon, "anchors&max_objects=5", "max_objects", "the model anchors has no such")
        self.refused(daemon, "centers&nms_threshold=0.5", "nms_threshold", "the model centers has no such")
        self.refused(daemon, "anchors&outputs=heatmap", "outputs", "names heatmap, which the model anchors does not")
        self.refused(daemon, "centers&outputs=cls_preds", "outputs", "which the model centers does not have")
        self.refused(daemon, "centers&voxel_size=1,1,1", "voxel_size", "there is no parameter 'voxel_size' here")
        for query, allowed in (
            ("score_threshold=1.5", "a number from 0 to 1"),
            ("nms_threshold=-1", "a number from 0 to 1"),
            ("nms_pre_max=0", "a whole number from 1 to 1048576"),
            ("nms_post_max=1048577", "a whole number from 1 to 1048576"),
            ("class_agnostic=maybe", "no or yes"),
        ):
            self.refused(daemon, f"anchors&{query}", query.split("=")[0], f"allowed: {allowed}")
        used = daemon.post(DETECT + "centers", SCAN, JSON).json()["parameters"]
        self.assertNotIn("nms_threshold", used)
        self.assertEqual(used["max_objects"], 40)
        self.stop(daemon)

    def test_maps_of_float16_are_sent_as_bytes_alone(self):
        described = models.description(voxelize={**models.VOXELIZE, "feature_dtype": "float16"})
        self.write("half", model=described, network=models.standin(halves=("map", "box_preds")))
        daemon = self.start()
        points = {"name": "points", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 1.0, 0.0, 0.5]}
        for name in ("bev_features", "box_preds"):
            asked = {"inputs": [points], "outputs": [{"name": name}]}
            refused = daemon.post("/v2/models/half/infer", json.dumps(asked))
            self.assertEqual(refused.status, 400, refused)
            self.assertIn("float16 outputs are served only as binary data", refused.json()["detail"])
            asked["outputs"][0]["parameters"] = {"binary_data": True}
            reply = daemon.post("/v2/models/half/infer", json.dumps(asked))
            head = int(reply.headers["Inference-Header-Content-Length"])
            self.assertEqual(json.loads(reply.body[:head])["outputs"][0]["datatype"], "FP16")
        outputs = daemon.get("/v1/models/half").json()["network"]["outputs"]
        types = {tensor["name"]: tensor["dtype"] for tensor in outputs}
        self.assertEqual(types, {"out_cls_preds": "F32", "out_box_preds": "F16", "out_dir_cls_preds": "F32"})
        self.stop(daemon)


class KServe(Models):
    def test_a_model_has_the_version_of_its_file(self):
        self.write("good", model=models.description(version="2.1"))
        self.write("broken", model=models.description(version=4, decode={"head": "hat"}))
        daemon = self.start()
        self.assertEqual(daemon.get("/v2/models/good").json()["versions"], ["2.1"])
        self.assertEqual(daemon.get("/v2/models/voxelize").json()["versions"], ["1"])
        self.assertEqual(daemon.get("/v2/models/good/stats").json()["model_stats"][0]["version"], "2.1")
        index = {entry["name"]: entry["version"] for entry in daemon.post("/v2/repository/index").json()}
        self.assertEqual((index["good"], index["broken"], index["voxelize"]), ("2.1", "4", "1"))
        points = {"name": "points", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 1.0, 0.0, 0.5]}
        for version, status in (("2.1", 200), ("1", 404), ("2", 404)):
            with self.subTest(version):
                place = f"/v2/models/good/versions/{version}"
                self.assertEqual(daemon.get(place + "/ready").status, status)
                reply = daemon.post(place + "/infer", json.dumps({"inputs": [points]}))
                self.assertEqual(reply.status, status, reply)
                if status == 200:
                    self.assertEqual(reply.json()["model_version"], version)
                    self.assertEqual(json.loads(reply.json()["parameters"]["metadata"])["model_version"], version)
                else:
                    self.assertIn(f"there is no model 'good' of version {version}", reply.json()["detail"])
        self.stop(daemon)

    def test_a_model_takes_requests_by_its_name(self):
        self.write("good")
        daemon = self.start()
        self.assertIn("good", daemon.get("/v2/models").json()["models"])
        self.assertNotIn("detect", daemon.get("/v2/models").json()["models"])
        outputs = [tensor["name"] for tensor in daemon.get("/v2/models/good").json()["outputs"]]
        self.assertEqual(outputs, ["boxes", "scores", "labels", "box_counts"])
        points = {"name": "points", "datatype": "FP32", "shape": [3, 4], "data": [1.0, 1.0, 0.0, 0.5] * 3}
        reply = daemon.post("/v2/models/good/infer", json.dumps({"inputs": [points]}))
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual([tensor["name"] for tensor in reply.json()["outputs"]], outputs)
        chosen = {"inputs": [points], "parameters": {"score_threshold": 0.75, "nms_post_max": 2}}
        told = daemon.post("/v2/models/good/infer", json.dumps(chosen)).json()["parameters"]
        used = json.loads(told["metadata"])["parameters"]
        self.assertEqual((used["score_threshold"], used["nms_post_max"], used["nms_pre_max"]), (0.75, 2, 4096))
        refused = daemon.post(
            "/v2/models/good/infer", json.dumps({"inputs": [points], "parameters": {"model": "other"}})
        )
        self.assertEqual(refused.status, 400, refused)
        self.stop(daemon)


if __name__ == "__main__":
    unittest.main()
