"""Points that reach a GPU ahead of their job (server/jobs/ahead.h), with the stand-in, which ends the daemon if they
are not those of the job: bodies that pause, end early, lose their memory or meet others, and GPUs that fail amid."""

import os
import re
import tempfile
import threading
import time
import unittest

from client import VOXELIZE, Daemon, Raw, head, many_rows, wait_until
from test_devices import STAND_IN

POINTS = 1 << 16
BODY = many_rows(POINTS * 4 // 3 + 1)[: POINTS * 16]  # 1 MiB: rows of 4 columns
PARAMETERS = VOXELIZE + "&outputs=voxel_coords,voxel_features"
AWAKE = ("--busy-poll-us", "1000000")


def upload(path, length):
    return head("POST", path, f"Content-Length: {length}")


@unittest.skipUnless(STAND_IN, "needs a stand-in for GPUs, which the sanitizer builds have")
class Ahead(unittest.TestCase):
    def start(self, *args, devices=1, env=()):
        env = {"VOXELD_STANDIN_DEVICES": str(devices), **dict(env)}
        daemon = Daemon("--backend", "cuda", *(args or AWAKE), env=env)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def end(self, daemon):
        daemon.assert_alive()
        daemon.assert_quiet()
        daemon.stop()

    def found(self, daemon):
        text = daemon.get("/metrics").body.decode()
        return int(float(re.search(r"^voxeld_ahead_bytes_total (\S+)$", text, re.MULTILINE)[1]))

    def begin(self, daemon, part, body=BODY, path=PARAMETERS, source=None):
        """A request with so much of its body sent, and time for a worker to see that."""
        raw = Raw(daemon, source=source)
        raw.send(upload(path, len(body)) + body[:part])
        time.sleep(0.03)
        return raw

    def ask_in_parts(self, daemon, *parts, body=BODY, path=PARAMETERS):
        raw = self.begin(daemon, parts[0], body, path)
        for begin, end in zip(parts, (*parts[1:], len(body))):
            raw.send(body[begin:end])
            time.sleep(0.01)
        reply = raw.read()
        raw.close()
        self.assertEqual(reply.status, 200, reply)
        return reply.tensors()

    def right(self, path=PARAMETERS, body=BODY):
        daemon = Daemon("--backend", "cpu")
        tensors = daemon.post(path, body).tensors()
        daemon.stop()
        return tensors

    def test_what_has_come_is_on_the_device(self):
        right = self.right()
        daemon = self.start()
        self.assertEqual(self.ask_in_parts(daemon, len(BODY) // 2), right)
        first = self.found(daemon)
        self.assertGreaterEqual(first, len(BODY) // 4)
        self.assertLess(first, len(BODY))
        self.assertEqual(self.ask_in_parts(daemon, 300000, 300001, 600000, 900000), right)
        self.assertGreater(self.found(daemon), first + 600000)
        self.end(daemon)

    def test_every_kind_of_points(self):
        half = BODY[: len(BODY) // 2]
        moved = "/v1/transform?crop=0,0,0,4,4,4"
        cases = [(PARAMETERS + "&dtype=float16", BODY), (moved, BODY), (PARAMETERS + "&num_features=8", BODY),
                 (PARAMETERS + "&point_counts=30000,35536", BODY), (PARAMETERS, half)]  # fmt: skip
        daemon = self.start()
        for path, body in cases:
            before = self.found(daemon)
            self.assertEqual(self.ask_in_parts(daemon, 300000, body=body, path=path), self.right(path, body), path)
            self.assertGreater(self.found(daemon), before, path)
        self.end(daemon)

    def test_bodies_that_others_may_change_are_not_shown(self):
        scaled = PARAMETERS + "&fields=x,y,z,intensity&intensity_scale=0.5"
        streamed = PARAMETERS + "&stream=roof&sweeps=2&time=1&pose=0,0,0,1,0,0,0"
        sampled = "/v1/fps?num_samples=16"
        daemon = self.start()
        for path in (scaled, streamed, sampled):
            self.ask_in_parts(daemon, len(BODY) // 2, path=path)
            self.assertEqual(self.found(daemon), 0, path)
        self.ask_in_parts(daemon, 100000, body=BODY[:200000])
        self.assertEqual(self.found(daemon), 0)
        daemon.request("DELETE", "/v1/streams/roof")
        self.end(daemon)

    def test_a_worker_that_never_waits_awake_copies_nothing(self):
        daemon = self.start("--busy-poll-us", "0")
        self.assertEqual(self.ask_in_parts(daemon, len(BODY) // 2), self.right())
        self.assertEqual(self.found(daemon), 0)
        self.end(daemon)

    def test_bodies_that_stall_or_are_slow_hold_up_none(self):
        daemon = self.start()
        stalled, slow = self.begin(daemon, 700000), self.begin(daemon, 1000)
        self.ask_in_parts(daemon, 700000)
        self.assertGreater(self.found(daemon), 500000)
        for begin in range(1000, 301000, 100000):  # the first part takes too long
            slow.send(BODY[begin : begin + 100000])
            time.sleep(0.02)
        before = self.found(daemon)
        for raw, rest in ((slow, 301000), (stalled, 700000)):
            raw.send(BODY[rest:])
            self.assertEqual(raw.read().status, 200)
            raw.close()
        self.assertEqual(self.found(daemon), before)
        self.end(daemon)

    def test_clients_that_vanish(self):
        right = self.right()
        daemon = self.start()
        for i in range(40):
            raw = Raw(daemon)
            raw.send(upload(PARAMETERS, len(BODY)) + BODY[: 150000 + 20000 * i])
            time.sleep(0.002 * (i % 7))
            (raw.reset if i % 2 else raw.close)()
        self.assertEqual(self.ask_in_parts(daemon, len(BODY) // 2), right)
        self.end(daemon)

    def test_bodies_beside_each_other(self):
        right = self.right()
        daemon = self.start(devices=2)
        wrong = []

        def client(number):
            for i in range(12):
                parts = sorted({1 + (number * 7919 + i * 104729 + k * 350003) % (len(BODY) - 1) for k in range(3)})
                if self.ask_in_parts(daemon, *parts) != right:
                    wrong.append((number, i))

        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.end(daemon)

    def test_another_job_in_between(self):
        """It may get the worker that has copied, and the body's job another."""
        right = self.right()
        daemon = self.start()
        for _ in range(10):
            raw = self.begin(daemon, 700000)
            self.assertEqual(daemon.post(PARAMETERS, BODY).tensors(), right)
            raw.send(BODY[700000:])
            self.assertEqual(raw.read().tensors(), right)
            raw.close()
        self.end(daemon)

    def test_memory_that_is_taken_away(self):
        """The slow body gives its memory to those who have bytes, while its points are on a device."""
        daemon = self.start(*AWAKE, "--memory-budget-bytes", str(6 << 20), "--max-body-bytes", str(2 << 20),
                            "--max-response-bytes", str(2 << 20))  # fmt: skip
        right = self.right()
        slow = self.begin(daemon, 700000, source="127.0.0.9")
        time.sleep(4)
        answers = []

        def client():
            answers.append(daemon.post(PARAMETERS, BODY))

        threads = [threading.Thread(target=client) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIn(right, [answer.tensors() for answer in answers if answer.status == 200])
        slow.close()
        self.end(daemon)

    def test_a_gpu_that_fails_meanwhile(self):
        right = self.right()
        with tempfile.TemporaryDirectory() as folder:
            request = os.path.join(folder, "inject")
            daemon = self.start(env={"VOXELD_INJECT": request})
            for text in ("refused@1", "memory@1", "refused@2", "memory@2", "lost@1"):
                with open(request + ".draft", "w", encoding="utf-8") as file:
                    file.write(text)
                os.rename(request + ".draft", request)
                raw = self.begin(daemon, 500000)
                raw.send(BODY[500000:])
                self.assertEqual(raw.read().tensors(), right, text)
                raw.close()
            wait_until(lambda: not os.path.exists(request), "the fault")
            self.end(daemon)

    def test_the_end_of_the_daemon(self):
        for _ in range(3):
            daemon = self.start()
            raw = self.begin(daemon, 700000)
            daemon.terminate()
            time.sleep(0.05)
            raw.close()
            self.assertEqual(daemon.wait(), 0)


if __name__ == "__main__":
    unittest.main()
