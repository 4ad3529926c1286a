"""A subscriber to the events of streams: reads server-sent events like a browser. Standard library only."""

import json


class Subscriber:
    """with Subscriber(daemon, "/v1/events") as subscriber: subscriber.next() is (name, data), or None at the end."""

    def __init__(self, daemon, path, source=None, headers=None):
        self.connection = daemon.connection(source=source)
        self.connection.request("GET", path, headers=headers or {})
        self.reply = self.connection.getresponse()
        self.beats = 0

    def next(self):
        event = {}
        while line := self.reply.readline().decode():
            if line == "\n" and event:
                return event["event"], json.loads(event["data"])
            if line.startswith(":"):
                self.beats += 1
            elif line != "\n":
                name, _, value = line.rstrip("\n").partition(": ")
                event[name] = value
        return None

    def rest(self):
        return list(iter(self.next, None))

    def close(self):
        self.reply.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
