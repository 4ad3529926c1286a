"""Events of streams, as one subscriber sees them."""

import unittest

from client import Raw
from daemon import Listener, wait_until
from events import Subscriber
from http_case import SMALL, SharedDaemonCase, ask, floats, message

SWEEP = floats(1, 1, 1, 1, 2, 2, 2, 1)
POINTS = '"points":{"received":2,"removed_close":1,"joined":1,"not_finite":0}'
ROOF = f"""event: open
data: {{"stream":"roof","sweeps":0}}

event: sweep
data: {{"stream":"roof","sweeps":1,"time":1,"begun":true,"repeated":false,"superseded":false,{POINTS}}}

event: sweep
data: {{"stream":"roof","sweeps":2,"time":2.5,"begun":false,"repeated":false,"superseded":false,{POINTS}}}

"""


class Events(SharedDaemonCase):
    def subscribe(self, path):
        return self.enterContext(Subscriber(self.daemon, path))

    def sweep(self, name, time):
        """Sends SWEEP to a stream."""
        query = f"{SMALL}&stream={name}&sweeps=2&time={time}&pose=0,0,0,1,0,0,0&remove_close=1.5"
        self.ok(self.post(f"/v1/voxelize?{query}", SWEEP))

    def tearDown(self):
        for name in ("roof", "other", "front", "rear"):
            ask(type(self).daemon, f"/v1/streams/{name}", method="DELETE")

    def subscribers(self):
        return self.json(self.ask("/v1/status"))["streams"]["subscribers"]

    def test_each_sweep_is_reported_with_its_points(self):
        subscriber = self.subscribe("/v1/streams/roof/events")
        self.assertEqual(subscriber.reply.headers["Content-Type"], "text/event-stream")
        self.assertEqual(subscriber.reply.headers["Cache-Control"], "no-store")
        self.sweep("roof", 1)
        self.sweep("other", 7)
        self.sweep("roof", 2.5)
        told = b"".join(subscriber.reply.readline() for _ in ROOF.splitlines())
        self.assertEqual(told.decode(), ROOF)
        self.ask("/v1/streams/roof", method="DELETE")
        self.assertEqual(subscriber.next(), ("deleted", {"stream": "roof", "sweeps": 0}))

    def test_of_all_streams_with_http_1_0_too(self):
        with Raw(self.daemon) as connection:
            self.ok(connection.send(message("/v1/events", version="HTTP/1.0")).read())
            connection.until(b'data: {"streams":0}')
            self.sweep("front", 1)
            self.sweep("rear", 1)
            self.assertIn(b'"stream":"front"', connection.until(b'"stream":"rear"'))

    def test_one_that_subscribes_later_is_told_what_there_is(self):
        self.sweep("roof", 1)
        self.sweep("roof", 2)
        subscriber = self.subscribe("/v1/streams/roof/events")
        self.assertEqual(subscriber.next(), ("open", {"stream": "roof", "sweeps": 2, "time": 2}))

    def test_head_subscribes_to_nothing(self):
        wait_until(lambda: self.subscribers() == 0, "the end of the last test's subscribers")
        reply = self.ok(self.ask("/v1/events", method="HEAD"))
        self.assertEqual(reply.headers["Content-Type"], "text/event-stream")
        self.assertEqual(self.subscribers(), 0)

    def test_refusals(self):
        self.problem(self.ask("/v1/streams/a%20b/events"), 404, "not-found")
        self.problem(self.post("/v1/events", b"x"), 405, "method-not-allowed")

    def test_a_sweep_that_is_too_old_is_reported_and_the_stop_is_the_last_word(self):
        daemon = self.start("--stream-ttl-s", "1", "--pages-listen", "127.0.0.1:0")
        subscriber = self.subscribe("/v1/events")
        self.sweep("roof", 1)
        names = [subscriber.next()[0] for _ in range(2)]
        self.assertEqual(names, ["open", "sweep"])
        self.assertEqual(subscriber.next(), ("expired", {"stream": "roof", "sweeps": 0, "dropped": 1}))
        self.daemon = Listener(daemon.page_listeners[0])
        self.problem(self.ask("/v1/events"), 404, "not-found")
        daemon.stop()
        self.assertEqual(subscriber.rest(), [("end", {"reason": "stop"})])
        self.assertTrue(any("endpoint=/v1/events status=200 " in line for line in daemon.lines))


if __name__ == "__main__":
    unittest.main()
