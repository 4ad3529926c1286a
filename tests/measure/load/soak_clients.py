"""The soak's clients: processes with some threads each. Every thread has its own random generator, and every process
its own address.

A thread sends requests until it must rest (so that the soak can check a quiet daemon) or end. Each process sends the
sum of its threads' tallies to the soak twice a second.
"""

import collections
import math
import multiprocessing
import random
import socket
import threading
import time

import soak_cases as cases
import soak_shared
import soak_streams
from client import PATIENCE, Closed, Raw, head
from codings import CODERS, answers, decode
from sources import bind_source

RETRIES = 8  # attempts for a request that is refused
STEPS = 8  # buckets of latency per doubling


class Shared:
    def __init__(self, address, good, bad, threads):
        self.address, self.good, self.bad, self.threads = address, good, bad, threads
        self.work, self.stopping, self.over = (multiprocessing.Event() for _ in range(3))  # ask; SIGTERM was sent; end
        self.resting = multiprocessing.Value("i", 0)  # threads
        self.rests = multiprocessing.Value("i", 0)  # how often all have rested
        self.tallies = multiprocessing.Queue()


class Tally:
    """The results of requests. `answers`: by (endpoint, status); `latencies`: of whole answers, by bucket."""

    def __init__(self):
        self.outcomes, self.answers, self.latencies = (collections.Counter() for _ in range(3))
        self.faults = []

    def add(self, other):
        for name in ("outcomes", "answers", "latencies"):
            getattr(self, name).update(getattr(other, name))
        self.faults += other.faults[: 50 - len(self.faults)]

    def fault(self, kind, text):
        self.outcomes[kind] += 1
        self.faults += [f"{kind}: {text}"] if len(self.faults) < 50 else []


class Cut(Closed):
    """The connection ended within an answer."""


class Connection(Raw):
    """A connection from the address `source`. It knows whether an answer has begun."""

    def __init__(self, shared, source, receive_buffer=None):
        self.pending, self.begun = b"", False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        bind_source(self.socket, source)
        self.socket.connect(shared.address)

    def _more(self):
        try:
            super()._more()
        except Closed as end:
            raise Cut(str(end)) if self.begun else end
        self.begun = True

    def read(self, has_body=True):
        reply = super().read(has_body)
        self.begun = bool(self.pending)
        return reply


class Client(soak_shared.Deeds, soak_streams.Deeds):
    def __init__(self, shared, name, source, seed):
        soak_shared.Deeds.__init__(self)
        soak_streams.Deeds.__init__(self)
        self.shared, self.name, self.source = shared, name, source
        self.random = random.Random(seed)
        self.kept = None
        self.tally, self.lock = Tally(), threading.Lock()

    # --- connections ---

    def open(self, receive_buffer=None):
        return Connection(self.shared, self.source, receive_buffer)

    def connection(self):
        """The kept connection or, sometimes, a fresh one to keep."""
        if self.kept and self.random.random() < 0.3:
            self.drop()
        self.kept = self.kept or self.open()
        return self.kept

    def drop(self):
        if self.kept:
            self.kept.close()
        self.kept = None

    # --- one request and its answer ---

    def framed(self, request, *lines):
        """The pieces of a good request: with its length, or in chunks; sometimes encoded."""
        body, lines = request.body, (*request.lines, *lines)
        if self.random.random() < 0.2:
            coding = self.random.choice(list(CODERS))
            body, lines = CODERS[coding](body), (*lines, f"Content-Encoding: {coding}")
        if self.random.random() < 0.7:
            return [head("POST", request.path, f"Content-Length: {len(body)}", *lines), body]
        size = self.random.choice((1000, 65_536, 1_000_000))
        pieces = [head("POST", request.path, "Transfer-Encoding: chunked", *lines)]
        for first in range(0, len(body), size):
            piece = body[first : first + size]
            pieces.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        return [*pieces, b"0\r\n\r\n"]

    def read(self, connection, endpoint, interim=False):
        """One whole answer; with `interim` it may be a 1xx. Counts answers with a request id: libmicrohttpd's own
        answers have none."""
        reply = connection.read() if interim else connection.read_final()
        if "X-Request-Id" in reply.headers:
            with self.lock:
                self.tally.answers[endpoint, reply.status] += 1
        if reply.headers.get("Connection", "").lower() == "close" and connection is self.kept:
            self.drop()
        return reply

    def refused(self, reply):
        """Whether the request was refused and may be sent again. If so, waits for a part of Retry-After, at most 1.5 s,
        and counts the refusal."""
        if reply.status not in (429, 503):
            return False
        wait = int(reply.headers.get("Retry-After", 0))
        if wait < 1:
            raise cases.Wrong(f"a refusal without Retry-After: {reply}")
        with self.lock:
            self.tally.outcomes[f"refused {reply.status} {reply.json()['type'].rpartition(':')[2]}"] += 1
        time.sleep(min(wait, 5) * self.random.uniform(0.05, 0.3))
        return True

    def done(self, outcome, began=None):
        with self.lock:
            self.tally.outcomes[outcome] += 1
            if began:
                self.tally.latencies[round(STEPS * math.log2(max(time.monotonic() - began, 1e-6)))] += 1

    # --- what a client may do ---

    def ask_good(self, send=None, opened=None):
        """`send(connection, pieces)` replaces send_all. `opened` opens a separate connection, which is then closed."""
        request = self.random.choice(self.shared.good)
        (kind,) = self.random.choices(list(cases.FINGERPRINTS), (7, 1, 2, 1, 1))
        lines = [f"Accept-Encoding: {self.random.choice(answers())}"] if self.random.random() < 0.1 else []
        pieces = self.framed(request, f"Accept: {kind}", *lines)
        for _ in range(RETRIES):
            connection = opened() if opened else self.connection()
            began = time.monotonic()
            try:
                (send or send_all)(connection, pieces)
                reply = self.read(connection, request.endpoint)
            finally:
                if opened:
                    connection.close()
            if not self.refused(reply):
                request.verify(decode(reply), kind)
                return self.done("good", None if send else began)
            if self.shared.stopping.is_set():
                return None
        return self.done("given up")

    def ask_bad(self):
        request = self.random.choice(self.shared.bad)
        connection = self.connection() if request.keeps else self.open()
        try:
            connection.send(request.data)
            reply = self.read(connection, request.endpoint)
            if not (request.problem and self.refused(reply)):
                request.verify(reply)
        except (Closed, ConnectionError):
            if request.problem:
                raise
        finally:
            if not request.keeps:
                connection.close()
        self.done("bad")

    def ask_page(self):
        path = self.random.choice(list(cases.PAGES))
        connection = self.connection().send(head("GET", path))
        reply = self.read(connection, path)
        if not (self.shared.stopping.is_set() and reply.status == 503):  # /readyz
            cases.verify_page(path, reply)
        self.done("page")

    def upload_slowly(self):
        def send(connection, pieces):
            data = b"".join(pieces)
            step = len(data) // self.random.randint(2, 6) + 1
            try:
                for first in range(0, len(data), step):
                    connection.send(data[first : first + step])
                    time.sleep(self.random.uniform(0, 0.1))
            except (BrokenPipeError, ConnectionResetError):
                pass  # a faster upload took its place; the answer that has arrived says so

        self.ask_good(send)

    def read_slowly(self):
        def send(connection, pieces):
            send_all(connection, pieces)
            time.sleep(self.random.uniform(0, 0.5))

        self.ask_good(send, lambda: self.open(receive_buffer=4096))

    def close_half(self):
        def send(connection, pieces):
            send_all(connection, pieces)
            connection.finish_sending()

        self.ask_good(send, self.open)

    def expect_continue(self):
        request = self.random.choice(self.shared.good)
        if not request.body:
            return
        connection = self.open()
        try:
            lines = (f"Content-Length: {len(request.body)}", "Expect: 100-continue", *request.lines)
            connection.send(head("POST", request.path, *lines))
            reply = self.read(connection, request.endpoint, interim=True)
            if reply.status == 100:
                connection.send(request.body)
                reply = self.read(connection, request.endpoint)
            if not self.refused(reply):
                request.verify(reply, cases.TENSORS)
        finally:
            connection.close()
        self.done("good")

    def pipeline(self):
        """Sends several requests before the first answer. The answers must come in order, and each must be right."""
        small = [request for request in self.shared.good if len(request.body) < 50_000]
        asked = [self.random.choice([*cases.PAGES, *small]) for _ in range(self.random.randint(2, 5))]
        data = [head("GET", a) if isinstance(a, str) else b"".join(self.framed(a)) for a in asked]
        connection = self.open()
        try:
            connection.send(b"".join(data))
            for request in asked:
                page = isinstance(request, str)
                reply = self.read(connection, request if page else request.endpoint)
                if page and not self.shared.stopping.is_set():
                    cases.verify_page(request, reply)
                elif not page and not self.refused(reply):
                    request.verify(reply, cases.TENSORS)
                if reply.headers.get("Connection", "").lower() == "close":
                    break  # a daemon that is stopping drops later requests
        finally:
            connection.close()
        self.done("pipelined")

    def stall(self):
        """A stalled body gets 408."""
        request = self.random.choice([request for request in self.shared.good if len(request.body) > 1000])
        connection = self.open()
        try:
            pieces = self.framed(request)
            data = b"".join(pieces)
            connection.send(data[: (len(pieces[0]) + len(data)) // 2])
            reply = self.read(connection, request.endpoint)
            if not self.refused(reply):
                if reply.status != 408:
                    raise cases.Wrong(f"{reply.status} to a body that stops coming")
                cases.verify_problem(reply, "body-stalled")
        finally:
            connection.close()
        self.done("stalled")

    def leave(self):
        """Ends the connection, politely or not, at some stage of a request."""
        request = self.random.choice(self.shared.good)
        stage = self.random.choice(("connected", "head", "body", "queued", "running", "answer"))
        pieces = self.framed(request)
        data = b"".join(pieces)
        sent = {"connected": 0, "head": self.random.randint(1, len(pieces[0]) - 1)}
        sent["body"] = self.random.randint(len(pieces[0]), len(data))
        connection = self.open()
        with self.lock:  # the daemon may count this request in any way
            self.tally.outcomes["left"] += 1
        try:
            connection.send(data[: sent.get(stage, len(data))])
            if stage == "running":
                time.sleep(self.random.uniform(0, 0.02))
            elif stage == "answer" and connection.readable(PATIENCE):
                connection.socket.recv(self.random.choice((1, 100, 100_000)))
        finally:
            (connection.reset if self.random.random() < 0.5 else connection.close)()

    # --- the thread ---

    def deed(self):
        weighted = {
            self.ask_good: 40, self.ask_bad: 15, self.ask_page: 12, self.leave: 12, self.pipeline: 6,
            self.upload_slowly: 5, self.read_slowly: 4, self.close_half: 3, self.expect_continue: 3, self.stall: 0.3,
            self.share: 12, self.share_by_kserve: 3, self.share_rudely: 5, self.stream: 12, self.join_sensors: 4,
            self.lie_in_stream: 3, self.come_from_the_future: 1, self.vanish_from_stream: 3, self.drop_in_use: 2,
            self.look_at_stream: 2, self.begin_many_streams: 0.3,
        }  # fmt: skip
        return self.random.choices(list(weighted), list(weighted.values()))[0]

    def once(self):
        deed, stopping = self.deed(), self.shared.stopping.is_set()
        try:
            deed()
        except (AssertionError, TimeoutError) as hang:
            self.fault("hang", deed, hang)
        except Cut as cut:
            self.fault("cut off", deed, cut)
        except (Closed, OSError) as end:
            self.drop()
            if stopping or self.shared.stopping.is_set():
                self.done("not taken any more")
                time.sleep(0.05)
            elif deed not in (self.leave, self.vanish_from_stream):  # these may be refused before they leave
                self.fault("no answer", deed, repr(end))
        except Exception as wrong:  # Wrong, or an unreadable answer
            self.fault("wrong", deed, repr(wrong))

    def fault(self, kind, deed, text):
        self.drop()
        with self.lock:
            self.tally.fault(kind, f"{self.name} {deed.__name__}: {str(text)[:500]}")

    def run(self):
        while not self.shared.over.is_set():
            if not self.shared.work.is_set():
                self.leave_memory()
                self.leave_streams()
                self.drop()
                with self.shared.resting.get_lock():
                    self.shared.resting.value += 1
                while not self.shared.work.wait(0.5) and not self.shared.over.is_set():
                    pass
                with self.shared.resting.get_lock():
                    self.shared.resting.value -= 1
                continue
            self.once()
        self.leave_memory()
        self.leave_streams()
        self.drop()

    def take_tally(self):
        with self.lock:
            taken, self.tally = self.tally, Tally()
        return taken


def send_all(connection, pieces):
    connection.send(b"".join(pieces))


def run_process(shared, number, seed):
    clients = [
        Client(shared, f"{number}.{n}", f"127.0.0.{2 + number}", f"{seed}.{number}.{n}") for n in range(shared.threads)
    ]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()

    def report():
        rests, total = shared.rests.value, Tally()
        for client in clients:
            total.add(client.take_tally())
        shared.tallies.put((number, rests, total))

    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        report()
    report()
