"""The Python client against a server that refuses, breaks off, stalls and lies. The tests do not wait for pauses."""

import contextlib
import json
import pickle
import re
import resource
import select
import socket
import threading
import unittest
from unittest import mock

import numpy as np

import voxeld
from older_python import TIMEOUTS
from rude_server import (
    DATE,
    GRID,
    INTERIM,
    LASTING,
    PASSING,
    RETRY_AFTER,
    RudeServer,
    Talk,
    answer,
    bad_chunks,
    chunked,
    last,
    no_answers,
    of_nobody,
    problem,
    status_document,
    torn,
    url_of,
)
from voxeld import connection as connections

LARGE = 64 << 20  # bytes: more than sockets buffer
WHOLE = status_document('{"state":"' + "x" * 1000 + '"}')


def cut(number):
    """Sends an answer without its last `number` bytes, then closes."""
    return last(WHOLE[:-number])


def vanish(talk):
    return True


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if length is None:
        text += b" " * (-(8 + len(text)) % 64)
        length = len(text)
    return length.to_bytes(8, "little") + text + data


def entry(shape, first, last, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


META = {"__metadata__": {"voxeld": '{"request_id":"r"}'}}
HUGE = json.dumps({**META, "a": entry(["SIZES"], 0, 0)}).replace('"SIZES"', ",".join(["7" * 4000] * 4000)).encode()
EIGHT = {"a": entry([2], 0, 8)}
# Answers that each break one rule of the format; the last answer breaks none.
DAMAGED = {
    "empty": b"",
    "seven bytes": bytes(7),
    "header longer than the file": safetensors(META, length=1 << 20),
    "header of 2^63 bytes": safetensors(META, length=1 << 63),
    "header no JSON": safetensors(b"{" + b" " * 55),
    "header a list": safetensors(b"[]" + b" " * 54),
    "no metadata": safetensors(EIGHT, bytes(8)),
    "metadata no string": safetensors({"__metadata__": {"voxeld": 1}}),
    "metadata no JSON": safetensors({"__metadata__": {"voxeld": "{"}}),
    "a name twice": safetensors(b'{"__metadata__":{"voxeld":"{}"},"a":1,"a":2}'),
    "unknown type": safetensors({**META, "a": entry([2], 0, 8, "F33")}, bytes(8)),
    "type no string": safetensors({**META, "a": entry([2], 0, 8, ["F32"])}, bytes(8)),
    "another key": safetensors({**META, "a": {**entry([2], 0, 8), "b": 1}}, bytes(8)),
    "an entry no object": safetensors({**META, "a": [1]}, bytes(8)),
    "shape and size differ": safetensors({**META, "a": entry([3], 0, 8)}, bytes(8)),
    "negative shape": safetensors({**META, "a": entry([-2], 0, 8)}, bytes(8)),
    "boolean shape": safetensors({**META, "a": entry([True, 2], 0, 8)}, bytes(8)),
    "huge shape": safetensors({**META, "a": entry([0, 1 << 70], 0, 0)}),
    "large shape": safetensors({**META, "a": entry([0, 1 << 48], 0, 0)}),
    "nine axes": safetensors({**META, "a": entry([1] * 9, 0, 4)}, bytes(4)),
    "huge sizes": safetensors(HUGE),
    "a header of 16 MiB": safetensors({"__metadata__": {"voxeld": "{}", "more": "x" * (1 << 24)}}),
    "many axes": safetensors({**META, "a": entry([1] * 100, 0, 4)}, bytes(4)),
    "three offsets": safetensors({**META, "a": {**entry([2], 0, 8), "data_offsets": [0, 8, 8]}}, bytes(8)),
    "end before start": safetensors({**META, "a": entry([2], 8, 0)}, bytes(8)),
    "beyond the end": safetensors({**META, **EIGHT}, bytes(4)),
    "bytes behind": safetensors({**META, **EIGHT}, bytes(12)),
    "overlap": safetensors({**META, **EIGHT, "b": entry([2], 4, 12)}, bytes(12)),
    "hole": safetensors({**META, **EIGHT, "b": entry([2], 64, 72)}, bytes(72)),
    "not aligned": safetensors({**META, **EIGHT, "b": entry([2], 8, 16)}, bytes(16)),
    "none": safetensors(
        {**META, "_padding_0": entry([56], 8, 64, "U8"), **EIGHT, "b": entry([1], 64, 68, "I32")}, bytes(68)
    ),
}


class RudeCase(unittest.TestCase):
    def talk(self, *acts, **options):
        """A server with these acts, and a client that lists its pauses in self.pauses instead of waiting."""
        server = self.enterContext(RudeServer(*acts))
        client = self.enterContext(voxeld.Client(url_of(server), **options))
        sleep = self.enterContext(mock.patch("voxeld.transport.time.sleep"))
        self.pauses = []
        sleep.side_effect = self.pauses.append
        return server, client

    def refused(self, client, kind=voxeld.Problem, ask=voxeld.Client.status):
        with self.assertRaises(kind) as caught:
            ask(client)
        return caught.exception


class Retries(RudeCase):
    def test_until_it_is_served_and_never_before_retry_after(self):
        refusals = [problem(503, {"Retry-After": "3"}), problem(429, {"Retry-After": "7"}), answer(503)]
        server, client = self.talk(*refusals, status_document(), backoff=0.5)
        self.assertEqual(client.status(), {"state": "ready"})
        self.assertEqual(len(server.heads), 4)
        floors = [(3, 0.5), (7, 1.0), (0, 2.0)]
        self.assertEqual(len(self.pauses), len(floors))
        for pause, (floor, backoff) in zip(self.pauses, floors):
            self.assertTrue(floor + backoff / 2 <= pause <= floor + backoff, self.pauses)

    def test_pauses_are_random(self):
        _, client = self.talk(answer(503), retries=20, deadline=1e6)
        self.refused(client)
        self.assertEqual(len(set(self.pauses)), 20)
        self.assertLessEqual(max(self.pauses), 10)

    def test_the_largest_numbers(self):
        server, client = self.talk(*[answer(503)] * 1100, WHOLE, retries=5000, timeout=1e6, deadline=1e6)
        client.status()
        self.assertEqual(len(server.heads), 1101)

    def test_retry_after_by_the_clock_of_the_server(self):
        for text, seconds in RETRY_AFTER.items():
            _, client = self.talk(problem(503, {"Retry-After": text, "Date": DATE}), retries=0)
            self.assertEqual(self.refused(client).retry_after, seconds, text)

    def test_no_more_than_retries(self):
        server, client = self.talk(problem(503, type="urn:voxeld:problem:queue-full"), retries=3)
        refusal = self.refused(client)
        self.assertEqual((refusal.kind, refusal.attempts, len(server.heads)), ("queue-full", 4, 4))

    def test_not_of_the_latest(self):
        """A repeated request would supersede the requests sent since its first attempt."""
        ask = lambda client: client.voxelize(np.zeros((1, 4), np.float32), latest="roof", **GRID)
        server, client = self.talk(problem(503))
        self.assertEqual(self.refused(client, ask=ask).attempts, 1)
        server, client = self.talk(problem(409, type="urn:voxeld:problem:superseded", detail="after 7 ms"))
        refusal = pickle.loads(pickle.dumps(self.refused(client, voxeld.Superseded, ask)))
        self.assertEqual((type(refusal), refusal.status, refusal.detail), (voxeld.Superseded, 409, "after 7 ms"))
        self.assertIn("latest=roof", server.heads[0])

    def test_of_points_that_are_too_old(self):
        ask = lambda client: client.voxelize(np.zeros((1, 4), np.float32), time=7.5, max_age_ms=100, **GRID)
        server, client = self.talk(problem(409, type="urn:voxeld:problem:too-old", detail="900 ms old"))
        refusal = pickle.loads(pickle.dumps(self.refused(client, voxeld.TooOld, ask)))
        self.assertEqual((type(refusal), refusal.status, refusal.detail), (voxeld.TooOld, 409, "900 ms old"))
        self.assertEqual(len(server.heads), 1)
        self.assertTrue({"max_age_ms=100", "time=7.5"} <= set(re.split("[?& ]", server.heads[0])), server.heads)

    def test_not_past_the_deadline(self):
        server, client = self.talk(problem(503, {"Retry-After": "3600"}))
        self.assertEqual(self.refused(client).retry_after, 3600)
        self.assertEqual((len(server.heads), self.pauses), (1, []))

    def test_only_of_what_may_do_better(self):
        for act in LASTING:
            server, client = self.talk(act, status_document())
            self.refused(client)
            self.assertEqual(len(server.heads), 1, act)
        for act in PASSING:
            server, client = self.talk(act, status_document())
            client.status()
            self.assertEqual(len(server.heads), 2, act)

    def test_after_broken_connections(self):
        for act in (vanish, Talk.reset, cut(1), cut(1000), *map(cut, range(len(WHOLE) - 60, len(WHOLE), 7))):
            with self.subTest(act):
                server, client = self.talk(act, WHOLE)
                client.status()
                self.assertEqual((len(server.heads), server.connections, len(self.pauses)), (2, 2, 1))

    def test_a_whole_body_again(self):
        bodies = []

        def record(talk):
            bodies.append(talk.read_body())
            talk.socket.sendall(
                problem(503) if len(bodies) == 1 else answer(200, {"Content-Type": "application/json"}, b"{}")
            )

        _, client = self.talk(record)
        points = np.arange(4_000_000, dtype=np.float32).reshape(-1, 4)
        client.voxelize([points[:10], points[10:]], metadata_only=True)
        self.assertEqual([body == points.tobytes() for body in bodies], [True, True])

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = "{}:{}".format(*listener.getsockname())
        client = self.enterContext(voxeld.Client(f"http://{address}", retries=2))
        with mock.patch("voxeld.transport.time.sleep") as sleep:
            error = self.refused(client, voxeld.TransportError)
            self.assertFalse(client.ready())
        self.assertIsInstance(error.__cause__, ConnectionRefusedError)
        self.assertEqual((error.attempts, sleep.call_count), (1, 0))
        self.assertRegex(str(error), f"^http://{address}: nobody listens there; `voxeld --listen {address}` starts")

    def test_nobody_listens_at_the_path_of_a_socket(self):
        client = self.enterContext(voxeld.Client("unix:/tmp/there is no socket"))
        error = self.refused(client, voxeld.TransportError)
        self.assertIsInstance(error.__cause__, FileNotFoundError)
        self.assertRegex(str(error), "^unix:/tmp/there is no socket: nobody listens there; `voxeld --listen unix:")

    def test_nobody_listens_on_another_machine(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = "http://{}:{}".format(*listener.getsockname())
        client = self.enterContext(voxeld.Client(url, retries=2))
        with mock.patch("voxeld.connection.LOOPBACK", ()), mock.patch("voxeld.transport.time.sleep") as sleep:
            error = self.refused(client, voxeld.TransportError)
        self.assertEqual((error.attempts, sleep.call_count), (3, 2))
        self.assertRegex(str(error), f"^{url}: nobody listens there; is the URL right")

    def test_nobody_listens_any_more(self):
        with RudeServer(status_document()) as server:
            client = self.enterContext(voxeld.Client(url_of(server), retries=2))
            client.status()
        with mock.patch("voxeld.transport.time.sleep") as sleep:
            error = self.refused(client, voxeld.TransportError)
        self.assertEqual((error.attempts, sleep.call_count), (3, 2))
        self.assertIn(url_of(server), str(error))

    def test_every_error_counts_them(self):
        damaged = answer(200, {"Content-Type": "application/vnd.safetensors"}, DAMAGED["overlap"])
        for kind, act in (
            (voxeld.Problem, problem(400)),
            (voxeld.TransportError, vanish),
            (voxeld.BadAnswer, b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
            (voxeld.BadAnswer, damaged),
        ):
            for ask in (lambda client: client.voxelize(b""), voxeld.Client.status):
                _, client = self.talk(problem(503), problem(503), act, retries=2)
                self.assertEqual(self.refused(client, kind, ask).attempts, 3, act)


class KeptConnections(RudeCase):
    def test_one_that_was_closed_meanwhile_is_replaced_at_once(self):
        server, client = self.talk(last(WHOLE), retries=0)
        for _ in range(5):
            client.status()
        self.assertEqual((server.connections, self.pauses), (5, []))

    def test_one_that_closes_under_the_request_is_replaced_at_once(self):
        for ending in (vanish, Talk.reset):
            server, client = self.talk(WHOLE, ending, WHOLE, retries=0)
            client.status()
            client.status()
            self.assertEqual((server.connections, len(server.heads), self.pauses), (2, 3, []))

    def test_only_whole_answers_leave_one(self):
        def unasked(talk):
            talk.socket.sendall(WHOLE + status_document('{"state":"of another"}'))

        def close(talk):
            talk.socket.sendall(answer(200, {"Content-Type": "application/json", "Connection": "close"}, b"{}"))

        def unasked_behind_much(talk):
            much = json.dumps({"state": "ready", "rest": "x" * (2 * connections.READ_AHEAD)})
            talk.socket.sendall(status_document(much) + status_document('{"state":"of another"}'))

        for act in (unasked, unasked_behind_much, close):
            server, client = self.talk(act, WHOLE, retries=0)
            client.status()
            self.assertNotIn("another", client.status()["state"])
            self.assertEqual(server.connections, 2, act)

    def test_the_answer_comes_after_all_interim_answers(self):
        """A client that took an interim answer for the final one would give the final one to its next request."""

        def hint(talk):
            for piece in (INTERIM, status_document('{"state":"first"}')):
                talk.socket.sendall(piece)

        server, client = self.talk(hint, WHOLE, retries=0)
        self.assertEqual(client.status(), {"state": "first"})
        self.assertNotEqual(client.status(), {"state": "first"})
        self.assertEqual(server.connections, 1)
        _, client = self.talk(INTERIM + problem(503), retries=0)
        self.assertIsNone(self.refused(client).retry_after)

    def test_what_comes_behind_an_answer_answers_nothing(self):
        own = answer(200, {"Content-Type": "application/json"}, b'{"own":1}')
        for name, act in of_nobody("application/json", b"{}").items():
            with self.subTest(name):
                _, client = self.talk(act, own, retries=0)
                self.assertEqual([client.status() for _ in range(3)], [{}, {"own": 1}, {"own": 1}])

    def test_an_interrupt_in_mid_answer_leaves_none(self):
        def echo(talk):
            talk.socket.sendall(status_document(json.dumps({"asked": talk.target, "rest": "x" * 2000})))

        _, client = self.talk(echo)
        receive = connections.Connection.receive_into
        for spoiled in (0, 1, 2):  # calls that succeed before the interrupt
            calls = []

            def interrupted(self, room):
                calls.append(len(room))
                if len(calls) > spoiled:
                    raise KeyboardInterrupt
                return receive(self, room[:500])

            with mock.patch.object(connections.Connection, "receive_into", interrupted):
                with self.assertRaises(KeyboardInterrupt):
                    client.preset("first")
            self.assertEqual(client.preset("second")["asked"], "/v1/presets/second")

    def test_no_more_than_idle_connections_are_kept(self):
        server, client = self.talk(WHOLE, idle_connections=0)
        client.status()
        client.status()
        self.assertEqual(server.connections, 2)


class Uploads(RudeCase):
    def ask(self, client):
        return client.voxelize(bytes(LARGE))

    def test_a_refusal_in_mid_upload_arrives(self):
        def linger(talk):  # like a polite server: reads on until the client has stopped sending
            talk.socket.sendall(problem(413, type="urn:voxeld:problem:body-too-large"))
            talk.socket.shutdown(socket.SHUT_WR)
            while talk.socket.recv(1 << 16):
                pass
            return True

        def stop_reading(talk):
            talk.socket.sendall(problem(413, type="urn:voxeld:problem:body-too-large"))

        def close(talk):
            talk.socket.sendall(problem(413, type="urn:voxeld:problem:body-too-large"))
            return True

        for act in (linger, stop_reading, close):
            with self.subTest(act.__name__):
                server, client = self.talk(act, WHOLE, retries=0, timeout=20)
                self.assertEqual(self.refused(client, ask=self.ask).kind, "body-too-large")
                client.status()
                self.assertEqual(server.connections, 2)

    def test_an_interim_answer_ends_no_upload(self):
        def go_on(talk):
            for _ in range(3):
                talk.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            got = len(talk.read_body())
            talk.socket.sendall(answer(200, {"Content-Type": "application/json"}, f'{{"got":{got}}}'.encode()))

        server, client = self.talk(go_on, retries=0)
        for _ in range(2):
            self.assertEqual(client.voxelize(bytes(LARGE), metadata_only=True).metadata, {"got": LARGE})
        self.assertEqual(server.connections, 1)

    def test_it_waits_for_room_as_long_as_the_timeout_says(self):
        waits = []

        def poll():
            real = select.poll()
            wait = lambda milliseconds: waits.append(milliseconds) or real.poll(milliseconds)
            return mock.Mock(register=real.register, poll=wait)

        def take(talk):
            talk.read_body()
            talk.socket.sendall(answer(200, {"Content-Type": "application/json"}, b"{}"))

        _, client = self.talk(take, retries=0, timeout=1000, deadline=2000)
        with mock.patch("voxeld.connection.select", POLLIN=select.POLLIN, POLLOUT=select.POLLOUT, poll=poll):
            client.voxelize(bytes(LARGE), metadata_only=True)
        self.assertTrue(waits)
        self.assertEqual(set(waits), {1000 * 1000})

    def test_a_service_that_takes_nothing(self):
        def stall(talk):
            over.wait(60)
            return True

        over = threading.Event()

        _, client = self.talk(stall, retries=0, timeout=0.2)
        self.addCleanup(over.set)  # before the server waits for its threads
        self.assertIsInstance(self.refused(client, voxeld.TransportError, self.ask).__cause__, TIMEOUTS)


class Slowness(RudeCase):
    def drip(self, talk):
        for byte in WHOLE * 100:
            talk.socket.sendall(bytes([byte]))
            talk.socket.settimeout(0.01)
            with contextlib.suppress(*TIMEOUTS):
                if not talk.socket.recv(1):
                    return True
            talk.socket.settimeout(None)
        return True

    def test_an_answer_that_does_not_come(self):
        server, client = self.talk(lambda talk: not talk.socket.recv(1), timeout=0.2, retries=1)
        error = self.refused(client, voxeld.TransportError)
        self.assertIsInstance(error.__cause__, TIMEOUTS)
        self.assertEqual((error.attempts, server.connections), (2, 2))

    def test_an_answer_that_drips_ends_at_the_deadline(self):
        _, client = self.talk(self.drip, timeout=60, deadline=0.5)
        self.assertIsInstance(self.refused(client, voxeld.TransportError).__cause__, TIMEOUTS)


class Probes(RudeCase):
    ASKED = {voxeld.Client.healthy: ("ok",), voxeld.Client.ready: ("ready", "degraded")}

    def test_true_for_the_services_own_pages_alone(self):
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        others = [answer(200, plain, text) for text in (b"", b"fine\n", b"not ready\n", b"\xff")]
        others += [
            answer(200, {"Content-Type": "text/html"}, b"ok"),
            status_document(),
            answer(204),
            b"SSH-2.0\r\n\r\n",
        ]
        others += [problem(503), vanish]
        for ask, words in self.ASKED.items():
            for act, expected in (
                *((answer(200, plain, word.encode() + b"\n"), True) for word in words),
                *((other, False) for other in others),
            ):
                with self.subTest(ask.__name__, act=act):
                    server, client = self.talk(act)
                    self.assertIs(ask(client), expected)
                    self.assertEqual(len(server.heads), 1)

    def test_false_for_an_unknown_host(self):
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        client = self.enterContext(voxeld.Client("http://voxeld.invalid"))
        with mock.patch("socket.getaddrinfo", side_effect=unknown):
            for ask in self.ASKED:
                self.assertFalse(ask(client))
            self.assertEqual(self.refused(client, voxeld.TransportError).attempts, 1)

    def test_lasting_refusals_are_raised(self):
        for ask in self.ASKED:
            _, client = self.talk(problem(404))
            self.refused(client, ask=ask)


class Rubbish(RudeCase):
    def test_what_is_no_answer(self):
        answers = {
            **no_answers("application/json", b"{}"),
            "an endless line": b"HTTP/1.1 200 " + b"x" * 100_000,
            "other content": answer(200, {"Content-Type": "text/html"}, b"<html>"),
            "no content type": answer(200, body=b"{}"),
            "no JSON": status_document("{"),
            "no UTF-8": answer(200, {"Content-Type": "application/json"}, b'{"a":"\xff"}'),
            "no object": status_document("[]"),
            "deep JSON": status_document("[" * 100_000),
            "nothing": answer(204),
        }
        for name, act in answers.items():
            with self.subTest(name):
                server, client = self.talk(act, retries=5)
                self.refused(client, voxeld.BadAnswer)
                self.assertEqual(len(server.heads), 1)

    def test_answers_that_are_torn(self):
        for name, act in torn("application/json", b'{"a":1}').items():
            with self.subTest(name):
                server, client = self.talk(act, WHOLE)
                client.status()
                self.assertEqual(len(server.heads), 2)

    def test_chunks_that_are_none(self):
        for name, act in bad_chunks("application/json", b'{"a":1}').items():
            with self.subTest(name):
                _, client = self.talk(act, retries=0)
                self.refused(client, voxeld.Error)

    def test_documents_of_another_shape(self):
        texts = ["{}", '{"presets":null}', '{"presets":{"a":1}}', '{"presets":"abc"}', '{"presets":[{},1]}']
        cases = [(voxeld.Client.presets, status_document(text)) for text in texts]
        cases.append((voxeld.Client.metrics, answer(200, {"Content-Type": "text/plain"}, b"up \xff")))
        cases.append((voxeld.Client.metrics, answer(200, {"Content-Type": "text/html"}, b"<html>")))
        for ask, act in cases:
            with self.subTest(act):
                _, client = self.talk(act)
                self.refused(client, voxeld.BadAnswer, ask)

    def test_metadata_of_another_shape(self):
        for text in ('{"request_id":7,"timing_us":[]}', '{"request_id":null,"timing_us":"abc"}'):
            _, client = self.talk(status_document(text))
            result = client.voxelize(b"", metadata_only=True)
            for ask in (lambda result: result.request_id, lambda result: result.timing):
                self.refused(result, voxeld.BadAnswer, ask)

    def test_warnings_of_another_shape(self):
        for told in (
            "null",
            "7",
            '"max_voxels"',
            "[null]",
            '["max_voxels"]',
            '[{"kind":"a"}]',
            '[{"kind":1,"detail":""}]',
        ):
            _, client = self.talk(status_document(f'{{"warnings":{told}}}'))
            self.refused(client, voxeld.BadAnswer, lambda client: client.voxelize(b"", metadata_only=True))

    def test_a_service_that_knows_no_warnings(self):
        _, client = self.talk(status_document("{}"))
        self.assertEqual(client.voxelize(b"", metadata_only=True).warnings, [])

    def test_an_answer_larger_than_the_memory(self):
        _, hard = limits = resource.getrlimit(resource.RLIMIT_AS)
        for status in (200, 500):
            _, client = self.talk(answer(status, {"Content-Length": str(60 << 30)}))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_AS, limits)
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, hard))
            self.refused(client, voxeld.BadAnswer)

    def test_problems_without_a_sound_document(self):
        cases = {
            "a page": (answer(502, {"Content-Type": "text/html"}, b"<h1>no server</h1>", "Bad Gateway"), "Bad Gateway"),
            "nothing": (answer(500, reason="Oh"), "Oh"),
            "no JSON": (answer(500, {"Content-Type": "application/problem+json"}, b"{", "Oh"), "Oh"),
            "a list": (answer(500, {"Content-Type": "application/problem+json"}, b"[1]", "Oh"), "Oh"),
            "numbers": (
                answer(500, {"Content-Type": "application/problem+json"}, b'{"title":1,"type":[]}', "Oh"),
                "Oh",
            ),
        }
        for name, (act, title) in cases.items():
            with self.subTest(name):
                _, client = self.talk(act, retries=0)
                refusal = self.refused(client)
                self.assertEqual((refusal.title, refusal.type, refusal.kind), (title, "about:blank", ""))
        self.assertEqual(self.refused(self.talk(cases["a page"][0])[1]).detail, "<h1>no server</h1>")

    def test_errors_cross_processes(self):
        _, client = self.talk(problem(503, {"Retry-After": "3"}, detail="later", parameter="fps"), retries=0)
        refusal = self.refused(client)
        copy = pickle.loads(pickle.dumps(refusal))
        self.assertEqual((str(copy), vars(copy)), (str(refusal), vars(refusal)))
        _, client = self.talk(lambda talk: True, retries=0)
        error = self.refused(client, voxeld.TransportError)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(copy), copy.temporary), (str(error), True))

    def test_an_answer_in_chunks(self):
        body = b'{"state":"%s"}' % (b"x" * 70_000)
        parts = body[:1], body[1:60_000], body[60_000:]
        _, client = self.talk(chunked("application/json", *parts), retries=0)
        self.assertEqual(len(client.status()["state"]), 70_000)
        _, client = self.talk(last(chunked("application/json", *parts, end=b"")), retries=0)
        self.refused(client, voxeld.TransportError)

    def test_damaged_tensors(self):
        for name, body in DAMAGED.items():
            with self.subTest(name):
                _, client = self.talk(answer(200, {"Content-Type": "application/vnd.safetensors"}, body))
                if name == "none":
                    self.assertEqual(set(client.voxelize(b"")), {"a", "b"})
                else:
                    self.refused(client, voxeld.BadAnswer, lambda client: client.voxelize(b""))


if __name__ == "__main__":
    unittest.main()
