"""Factories of things that can give back their memory and stay."""

from __future__ import annotations

import itertools


class Parker:
    """Holds so many bytes unless it is parked, and says what it was told to do."""

    def __init__(self, name="thing", size=0, park=None, unpark=None):
        self.name = name
        self.size = size
        self.ways = {"park": park, "unpark": unpark}
        self.history = []
        self.data = b"x" * size

    def told(self):
        return self.history

    def wait_for(self, path):
        """Returns what is written to a fifo."""
        with open(path) as fifo:
            return fifo.read()

    def park(self):
        self.history.append("park")
        self.go(self.ways["park"])
        self.data = None

    def unpark(self):
        self.history.append("unpark")
        self.go(self.ways["unpark"])
        self.data = b"x" * self.size

    def close(self):
        print("closed", self.name, *self.history, flush=True)

    def go(self, way):
        """None: on; ``fail``, ``spin`` for ever; else it waits for a line in a fifo."""
        if way == "fail":
            raise RuntimeError("it is stuck")
        if way == "spin":
            for _ in itertools.count():
                pass
        if way:
            with open(way) as fifo:
                fifo.readline()


class OneWay:
    """Could not come back, so it does not park."""

    def echo(self):
        return "echo"

    def park(self):
        raise AssertionError


def parker(**options):
    return Parker(**options)


def member(name, **options):
    return Parker(name, **options)


def one_way():
    return OneWay()
