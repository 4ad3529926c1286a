"""Adds to unittest the functions that the tests use and Python 3.9 and 3.10 lack. Standard library only."""

import socket
import unittest

TIMEOUTS = (TimeoutError, socket.timeout)  # equal since Python 3.10


def _enter(add_cleanup, manager):
    entered = manager.__enter__()
    add_cleanup(manager.__exit__, None, None, None)
    return entered


if not hasattr(unittest.TestCase, "enterContext"):
    unittest.TestCase.enterContext = lambda self, manager: _enter(self.addCleanup, manager)
    unittest.TestCase.enterClassContext = classmethod(lambda cls, manager: _enter(cls.addClassCleanup, manager))
