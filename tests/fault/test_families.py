"""Each family of /metrics changes when its event happens. Each family needs a deed, which makes its event happen."""

import contextlib
import pathlib
import tempfile
import time
import unittest

import models
from client import HEAVY, LONG, LONG_POINTS, MB, VOXELIZE, Bystander, Daemon, Raw
from client import counters, head, heavy_rows, many_rows, post, rows, tensor_file, tiled_rows, wait_until
from client import with_long_steps
from events import Subscriber
from neighbours import SLOW, Neighbours
from shared import Memory
from tables import describe, voxeld
from test_devices import STAND_IN
from test_log import Shelved
from test_metrics import Metrics
from test_page_listener import PagesDaemon, ToPages

NO_GPU = "" if STAND_IN else "there is no stand-in for GPUs in this build"
GPUS = {"VOXELD_STANDIN_DEVICES": "2"}
SHARED = ("--allow-shared-memory", "yes")
ON_CPU = ("--backend", "cpu")
GREW = lambda new, old: new > old
DEEDS = {}  # family: (labels of its sample, test for a change, reason to skip it here, deed)


def deed(*samples, changed=GREW, lacking=""):
    """Registers a generator function as the deed for these samples (family, labels...). It makes the event happen,
    yields the daemon whose metrics show it, and cleans up."""

    def note(does):
        for family, *labels in samples:
            assert family not in DEEDS, family
            DEEDS[family] = (labels, changed, lacking, contextlib.contextmanager(does))
        return does

    return note


def by(least):
    return lambda new, old: new >= old + least


# ---- requests -------------------------------------------------------------------------------------------------------


@deed(
    ("voxeld_requests_total", "/v1/voxelize", "200"),
    ("voxeld_request_duration_seconds", "/v1/voxelize"),
    ("voxeld_received_bytes_total",),
    ("voxeld_sent_bytes_total",),
    ("voxeld_jobs_total", "cpu"),
    ("voxeld_points_total", "kept"),
    ("voxeld_voxels_total", "kept"),
    ("voxeld_stage_duration_seconds", "voxelize"),
)
def voxelize(daemon):
    assert daemon.post(VOXELIZE, rows(100)).status == 200
    yield daemon


@deed(("voxeld_small_jobs_total",))
def voxelize_few_points(_):
    with Daemon("--small-job-points", "100") as daemon:
        yield from voxelize(daemon)


@deed(("voxeld_warnings_total", "max_voxels"))
def voxelize_into_too_few(daemon):
    assert daemon.post(VOXELIZE + "&max_voxels=1", rows(100)).status == 200
    yield daemon


@deed(("voxeld_streams",), ("voxeld_stream_sweeps",), ("voxeld_stream_bytes",), ("voxeld_stream_sweeps_total", "kept"))
def keep_a_sweep(daemon):
    query = "&stream=roof&sweeps=2&time=1&pose=0,0,0,1,0,0,0"
    assert daemon.post(VOXELIZE + query, rows(100)).status == 200
    yield daemon
    assert daemon.request("DELETE", "/v1/streams/roof").status == 200


@deed(("voxeld_stream_subscribers",), ("voxeld_stream_events_total", "told"))
def subscribe(daemon):
    with Subscriber(daemon, "/v1/events") as subscriber:
        assert subscriber.next()[0] == "open"
        yield daemon


@deed(("voxeld_step_points_total", "transform", "kept"), ("voxeld_step_duration_seconds", "transform"))
def take_a_step(daemon):
    assert daemon.post("/v1/points?steps=transform", rows(100)).status == 200
    yield daemon


@deed(("voxeld_samples_total",))
def sample(daemon):
    assert daemon.post("/v1/fps?num_samples=3", rows(100)).status == 200
    yield daemon


@deed(("voxeld_anchors_total", "kept"))
def decode(daemon):
    path = "/v1/decode?point_cloud_range=0,0,0,4,4,4&anchor_sizes=4,2,1&anchor_bottoms=0&anchor_rotations=0"
    maps = tensor_file(cls_preds=((1, 1, 1), bytes(4)), box_preds=((1, 1, 7), bytes(28)))
    assert daemon.post(path, maps).status == 200
    yield daemon


@deed(("voxeld_scattered_voxels_total", "kept"))
def scatter(daemon):
    row = tensor_file(features=((1, 2), bytes(8)), voxel_coords=((1, 4), bytes(16), "I32"))
    assert daemon.post("/v1/scatter?grid_size=1,1,1", row).status == 200
    yield daemon


@deed(("voxeld_candidates_total", "kept"))
def decode_center(daemon):
    path = "/v1/decode?head=center&point_cloud_range=0,0,0,4,4,4&voxel_size=1,1,1&feature_map_stride=1"
    channels = {"heatmap": 1, "center": 2, "height": 1, "dim": 3, "rot": 2}
    maps = tensor_file(**{name: ((1, 1, count), bytes(4 * count)) for name, count in channels.items()})
    assert daemon.post(path, maps).status == 200
    yield daemon


@deed(("voxeld_boxes_total", "kept"))
def suppress(daemon):
    assert daemon.post("/v1/nms", tensor_file(boxes=((1, 7), bytes(28)), scores=((1,), bytes(4)))).status == 200
    yield daemon


@deed(("voxeld_refusals_total", "bad-parameter"))
def refused(daemon):
    assert daemon.post(VOXELIZE + "&max_voxels=0", rows(1)).status == 400
    yield daemon


@deed(("voxeld_requests_unparsed_total", "431"))
def unparsed(daemon):
    with Raw(daemon) as connection:
        connection.send_some(head("GET", "/healthz", *(f"X-{n}: {1000 * 'x'}" for n in range(400))))
        yield daemon


@deed(("voxeld_requests_aborted_total", "upload"))
def left(daemon):
    with Raw(daemon).send(post(rows(1000))[:-1]):
        wait_until(lambda: daemon.status()["requests"]["active"] > 0, "an upload")
    yield daemon


@deed(
    ("process_resident_memory_bytes",),
    ("process_virtual_memory_bytes",),
    ("voxeld_buffer_bytes", "in_use"),
    changed=by(32 * MB),
)
@deed(("voxeld_queue_slots", "quick"), ("voxeld_requests_active",))
def upload(daemon):
    body = tiled_rows(48 * MB)
    with Raw(daemon).send(post(body)[:-1]):
        yield daemon


@deed(("voxeld_uploads_preempted_total",))
def outpace_slow_uploads(_):
    limits = (
        "--memory-budget-bytes",
        str(64 * MB),
        "--max-body-bytes",
        str(4 * MB),
        "--max-response-bytes",
        str(8 * MB),
    )
    with Daemon(*limits) as daemon, Neighbours(daemon, SLOW, 40):
        body = tiled_rows(2 * MB)
        ended = lambda: counters(daemon, "voxeld_uploads_preempted_total")[""]
        wait_until(lambda: daemon.post(VOXELIZE, body) and ended(), "an upload to give way")
        yield daemon


@deed(("voxeld_jobs_running", "long"), ("voxeld_queue_depth", "long"))
def long_jobs(daemon):
    asked = post(many_rows(LONG_POINTS), LONG)
    runs, waits = Raw(daemon).send(asked), Raw(daemon).send(asked)
    yield daemon
    runs.reset()
    waits.reset()


@contextlib.contextmanager
def samplings(clouds, points, lengthen=str):
    """Yields a daemon with a long job of samplings and an idle worker that may help."""
    path = f"/v1/fps?num_features=3&outputs=sampled_indices&num_samples={points * 9 // 10}"
    path = lengthen(f"{path}&point_counts={','.join([str(points)] * clouds)}")
    limits = ("--workers", "2", "--long-workers", "1", "--max-sampling-work", str(10**13))
    with Daemon(*ON_CPU, *limits) as daemon, Raw(daemon).send(post(many_rows(clouds * points), path)) as asked:
        yield daemon
        asked.reset()


@deed(("voxeld_workers_helping",))
def help_with_samplings(_):
    with samplings(8, 100_000, with_long_steps) as daemon:
        wait_until(lambda: counters(daemon, "voxeld_workers_helping")[""], "a worker that helps")
        yield daemon


@deed(("voxeld_tasks_given_up_total",))
def leave_a_sampling(_):
    with samplings(2, 1_000_000) as daemon:  # each needs more scratch than a helper may have
        wait_until(lambda: counters(daemon, "voxeld_tasks_given_up_total")[""], "a task that is given up")
        yield daemon


@deed(("voxeld_tasks_total", "helper"))
def help_with_voxels(_):
    with Daemon(*ON_CPU, "--workers", "2") as daemon:
        path = f"{VOXELIZE}&point_counts={','.join(['100'] * 100)}"
        helped = lambda: counters(daemon, "voxeld_tasks_total")['by="helper"']
        wait_until(lambda: daemon.post(path, rows(10_000)).status == 200 and helped(), "help")
        yield daemon


@deed(("voxeld_gate_waiting",))
def wait_at_the_gate(_):
    # Requests wait at the gate while another client is served. One is admitted every 50 ms: 300 take 15 s. They come
    # from an address of their own, since the request for the counters would wait behind them.
    with Daemon("--client-requests", "1") as daemon, Bystander(daemon, pace=0.1), contextlib.ExitStack() as kept:
        for _ in range(300):
            connection = kept.enter_context(Raw(daemon, source="127.0.0.78"))
            connection.send(head("POST", VOXELIZE, f"Content-Length: {MB}"))
        yield daemon


# ---- connections and the process ------------------------------------------------------------------------------------


@deed(("voxeld_connections",), ("process_open_fds",), ("voxeld_clients",), changed=by(10))
def connect(daemon):
    with contextlib.ExitStack() as kept:
        for number in range(12):
            kept.enter_context(Raw(daemon, source=f"127.0.1.{1 + number}")).send(head("GET", "/healthz")).read()
        yield daemon


@deed(("voxeld_page_connections",), ("voxeld_page_connections_limit",))
def connect_for_pages(_):
    with PagesDaemon() as daemon, Raw(ToPages(daemon)) as kept:
        kept.send(head("GET", "/healthz")).read()
        yield daemon


@deed(("voxeld_connections_ended_total", "no_request"))
def connect_for_nothing(daemon):
    with Raw(daemon):
        pass
    yield daemon


@deed(("process_cpu_seconds_total",), changed=by(0.05))
def compute(daemon):
    assert daemon.post(HEAVY, heavy_rows()).status == 200
    yield daemon


@deed(("voxeld_log_lines_dropped_total",))
def leave_the_log_unread(_):
    daemon = Shelved()
    try:
        daemon.fill()
        yield daemon
    finally:
        daemon.read_on.set()
        daemon.stop()


@deed(("voxeld_ready",), changed=lambda new, old: new < old)
def drain(_):
    daemon = Daemon("--drain-delay-s", "86400")
    try:
        daemon.terminate()
        yield daemon
    finally:
        daemon.kill()


# ---- what a daemon has ----------------------------------------------------------------------------------------------


@deed(
    ("voxeld_workers", "quick"),
    ("voxeld_queue_limit",),
    ("voxeld_connections_limit",),
    ("voxeld_buffer_budget_bytes",),
)
def set_options(_):
    given = ("--workers", "9", "--queue-depth", "2000", "--max-connections", "1001", "--memory-budget-bytes")
    with Daemon(*ON_CPU, *given, str(1 << 32)) as daemon:
        yield daemon


@deed(("process_start_time_seconds",))
def start_later(daemon):
    began = time.time()
    wait_until(lambda: time.time() > began + 1.5, "another second, also of the coarse clock that time() reads")
    with Daemon() as daemon:
        yield daemon


class Limited(Daemon):
    def command(self, args):
        return ["sh", "-c", 'ulimit -n 3000 && exec "$0" "$@"', *super().command(args)]


@deed(("process_max_fds",), changed=lambda new, old: new == 3000 != old)
def limit_files(_):
    with Limited() as daemon:
        yield daemon


@deed(("voxeld_build_info", voxeld("--version").split()[1]), changed=lambda new, old: new == 1)
def build(daemon):
    yield daemon


@contextlib.contextmanager
def read_points_of_a_region(daemon):
    points = rows(100)
    with Memory(len(points)) as memory:
        memory.write(points)
        assert memory.register(daemon, "points").status == 200
        assert daemon.post(f"{VOXELIZE}&points_region=points,0,{len(points)}").status == 200
        yield daemon


@deed(("voxeld_regions", "system"), ("voxeld_region_parts_total", "copied"))
def share_memory(_):
    with Daemon(*ON_CPU, *SHARED) as daemon, read_points_of_a_region(daemon):
        yield daemon


# ---- GPUs -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def with_gpus(*args, **env):
    with Daemon("--backend", "cuda", *args, env={**GPUS, **env}) as daemon:
        yield daemon


@contextlib.contextmanager
def failing_gpus(*args):
    """A daemon whose GPUs refuse every call."""
    with tempfile.TemporaryDirectory() as folder:
        request = pathlib.Path(folder, "inject")
        with with_gpus(*args, VOXELD_INJECT=str(request)) as daemon:
            draft = request.with_suffix(".draft")
            draft.write_text("refused@1%")
            draft.rename(request)
            yield daemon


@deed(("voxeld_gpus", "working"), ("voxeld_gpu_memory_bytes",), lacking=NO_GPU)
def have_gpus(_):
    with with_gpus() as daemon:
        yield daemon


@deed(("voxeld_models", "ready"))
def serve_a_model(_):
    with tempfile.TemporaryDirectory() as folder:
        models.write(folder, "good", models.standin())
        with Daemon(*ON_CPU, "--models-dir", folder, "--onnxruntime", models.STANDIN) as daemon:
            yield daemon


@deed(("voxeld_gpu_network_sessions",), ("voxeld_gpu_network_memory_limit_bytes",), lacking=NO_GPU)
def open_a_session(_):
    with tempfile.TemporaryDirectory() as folder:
        models.write(folder, "good", models.standin())
        with with_gpus("--models-dir", folder, "--onnxruntime", models.STANDIN) as daemon:
            yield daemon


@deed(("voxeld_gpu_jobs_total",), lacking=NO_GPU)
def compute_on_a_gpu(_):
    with with_gpus() as daemon:
        yield from voxelize(daemon)


@deed(("voxeld_gpu_jobs_running",), lacking=NO_GPU)
def compute_long_on_a_gpu(_):
    with with_gpus("--max-sampling-work", str(10**13)) as daemon:
        yield from long_jobs(daemon)


@deed(("voxeld_regions_pinned_bytes",), lacking=NO_GPU)
def pin_a_region(_):
    with with_gpus(*SHARED) as daemon, read_points_of_a_region(daemon):
        yield daemon


@deed(("voxeld_region_pin_failures_total",), lacking=NO_GPU)
def fail_to_pin_a_region(_):
    with failing_gpus(*SHARED) as daemon, read_points_of_a_region(daemon):
        yield daemon


@deed(("voxeld_reruns_total", "refused"), lacking=NO_GPU)
def fail_on_a_gpu(_):
    with failing_gpus() as daemon:
        yield from voxelize(daemon)


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.families = {metric["name"]: metric["type"] for metric in describe()["metrics"]}

    def test_each_has_a_deed(self):
        self.assertEqual(set(self.families), set(DEEDS))

    def check(self, family):
        labels, changed, lacking, does = DEEDS[family]
        if lacking:
            self.skipTest(lacking)
        sample = family + ("_count" if self.families[family] == "histogram" else "")
        with Daemon(*ON_CPU, "--workers", "1", "--long-workers", "1", "--max-sampling-work", str(10**13)) as daemon:
            daemon.await_accounts()
            before = Metrics(daemon).sum(sample, *labels)
            with does(daemon) as looked_at:
                now = lambda: Metrics(looked_at).sum(sample, *labels)
                wait_until(lambda: changed(now(), before), lambda: f"{sample} {labels} to change from {before}")
            daemon.assert_quiet()


for _family in DEEDS:
    setattr(Families, f"test_{_family}", lambda self, family=_family: self.check(family))


if __name__ == "__main__":
    unittest.main()
