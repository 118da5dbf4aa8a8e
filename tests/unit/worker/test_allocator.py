"""Memory that threads have freed goes back to the kernel. Each test in a process of its own: a heap is for good."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

HEAPS = """
import ctypes, json, sys, threading
from lazyd.worker.allocator import share_one_heap

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def is_on_main_heap():
    address = libc.malloc(1000)
    for line in open("/proc/self/maps"):
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[-1] == "[heap]"

if sys.argv[1] == "shared":
    share_one_heap()
found = []
threads = [threading.Thread(target=lambda: found.append(is_on_main_heap())) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(found))
"""

GIVEN_BACK = """
import json, sys, threading
from lazyd.worker.allocator import give_back_memory, share_one_heap

def anonymous_bytes():
    rows = dict(line.split(":") for line in open("/proc/self/status"))
    return int(rows["RssAnon"].split()[0]) << 10

if sys.argv[1] == "shared":
    share_one_heap()
found = []

def load_and_leave():
    begin = anonymous_bytes()
    bytearray(b"x" * 25_000_000)  # once glibc has seen that arrays are so large, it keeps smaller ones on a heap
    arrays = [bytearray(b"y" * 4_000_000) for _ in range(5)]
    full = anonymous_bytes() - begin
    del arrays
    give_back_memory()
    found.append([full, anonymous_bytes() - begin])
    over.wait()

over = threading.Event()
threads = [threading.Thread(target=load_and_leave) for _ in range(3)]
for so_many, thread in enumerate(threads, 1):
    thread.start()
    while len(found) < so_many and thread.is_alive():
        thread.join(0.01)
over.set()
print(json.dumps(found))
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps of threads")


def run(script: str, heaps: str) -> Any:
    ran = subprocess.run([sys.executable, "-c", script, heaps], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def test_all_threads_use_the_main_threads_heap() -> None:
    assert run(HEAPS, "shared") == [True] * 4


def test_without_that_they_have_heaps_of_their_own() -> None:
    """Else the test above would say nothing."""
    assert not all(run(HEAPS, "apart"))


def test_what_each_thread_has_freed_goes_back_to_the_kernel() -> None:
    found = run(GIVEN_BACK, "shared")
    assert len(found) == 3
    for full, left in found:
        assert full > 19_000_000
        assert left < 2_000_000


def test_of_heaps_of_their_own_it_would_not() -> None:
    """Why they share one."""
    assert all(left > 19_000_000 for _, left in run(GIVEN_BACK, "apart"))
