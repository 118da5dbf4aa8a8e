"""Factories that leak, crash, and take liberties with the process they are in."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time


class Thing:
    """What each factory returns in the end."""

    def __init__(self):
        self.kept = []

    def pid(self):
        return os.getpid()

    def leak(self, size):
        self.kept.append(b"x" * size)
        return os.getpid()

    def crash(self):
        print("about to read what is not there", flush=True)
        return ctypes.string_at(0)

    def abort(self):
        print("about to give up", flush=True)
        os.abort()

    def leave(self):
        sys.exit(3)

    def leave_at_once(self):
        print("about to leave", flush=True)
        os._exit(4)

    def where(self):
        return os.getcwd()


def plain():
    return Thing()


def talks(megabytes):
    for _ in range(megabytes):
        sys.stdout.write("x" * 1023 + "\n" + ("y" * 1023 + "\n") * 1023)
    return Thing()


def forks():
    """Its child goes on as if it were the worker."""
    if os.fork() == 0:
        return Thing()
    return Thing()


def moves():
    os.chdir("/usr")
    return Thing()


def closes_files():
    """All but its standard streams: also the worker's links, its socket and its bell."""
    os.closerange(3, 4096)
    return Thing()


def catches_sigterm():
    """Model code runs in a thread, where Python lets nobody catch signals; native code may."""
    ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN
    return Thing()


def leaves():
    sys.exit(3)


def leaves_at_once():
    os._exit(4)


def has_threads():
    """One that is no daemon, and never ends."""
    threading.Thread(target=time.sleep, args=(100_000,), daemon=False).start()
    return Thing()
