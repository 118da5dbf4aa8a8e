"""Factories for tests of the host and the worker."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time


class Wordless(Exception):
    """Cannot even say what it is."""

    def __str__(self):
        raise RuntimeError("no words")


class Thing:
    """Answers in many ways."""

    def __init__(self, name="thing", **options):
        self.name = name
        self.options = options
        self.waiting = threading.Event()

    def echo(self, *args, **kwargs):
        return [list(args), kwargs] if kwargs else list(args)

    def twice(self, array):
        return array * 2

    def who(self):
        return {"name": self.name, "options": self.options, "pid": os.getpid(), "python": sys.version}

    def time_left(self):
        from lazyd.client.context import within_callers_limit

        return within_callers_limit(None)

    def environment(self, name):
        return os.environ.get(name)

    def text(self, size):
        return "x" * size

    def fail(self):
        raise KeyError("what was asked for")

    def fail_with(self, text, times=1):
        raise ValueError(text * times)

    def fail_without_words(self):
        raise Wordless

    def count(self, n, pause=0.0):
        for i in range(n):
            time.sleep(pause)
            yield i

    def endless(self, size=10):
        while True:
            yield "x" * size

    def forever(self, path):
        """Yields once, then a line of a fifo at a time: the test decides when it goes on."""
        yield "begun"
        with open(path) as fifo:
            yield from fifo

    def wait_for(self, path):
        """Returns what is written to a fifo."""
        with open(path) as fifo:
            return fifo.read()

    def leave_a_zombie(self):
        """A daemon below this process ends at once; its pid."""
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            daemon = os.fork()
            if daemon:
                os.write(writes, str(daemon).encode())
            os._exit(0)
        os.waitpid(child, 0)
        return int(os.read(reads, 20))

    def files_left(self, count):
        """Lets this process open so many files more."""
        import resource

        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def processor_seconds(self):
        return time.process_time()

    def grow(self, size):
        self.grown = b"x" * size
        return len(self.grown)

    def map(self, path):
        """Maps a file and reads all of it."""
        with open(path, "rb") as file:
            self.mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        return sum(self.mapped[at] for at in range(0, len(self.mapped), mmap.PAGESIZE))

    def heap(self):
        """The end of the line in the kernel's list of mappings for that in which small blocks of this thread lie."""
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        address = libc.malloc(1000)
        with open("/proc/self/maps") as maps:
            for line in maps:
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                if begin <= address < end:
                    return line.split()[-1]
        return None

    def unsendable(self):
        return object()

    def random(self):
        import random

        return random.random()

    def die(self, how):
        print("last words", flush=True)
        if how == "exit":
            os._exit(7)
        signal.raise_signal(getattr(signal, how))  # in this thread, which must not answer before

    def close(self):
        print("closed", self.name, flush=True)


def make(**options):
    return Thing(**options)


def member(name, **options):
    return Thing(name, **options)


def raises():
    raise ValueError("the factory does not like this")


def leaves():
    print("about to leave", flush=True)
    os._exit(3)


def slow(fifo):
    """Loads until a line comes."""
    with open(fifo) as lines:
        lines.read()
    return Thing()


def busy():
    """Python code that never ends and reports no progress."""
    while True:
        pass


def stuck(flag):
    """Native code that holds the interpreter's lock for an hour."""
    import ctypes

    open(flag, "w").close()
    ctypes.PyDLL(None).sleep(3600)


def with_daemons(pid_file):
    """Starts processes that try to get away, in several ways; their pids go into a file."""
    program = "import os,sys,time; os.setsid(); open(sys.argv[1],'a').write(f'{os.getpid()}\\n'); time.sleep(1000)"
    subprocess.Popen([sys.executable, "-c", program, pid_file])
    shell = f"setsid sh -c 'echo $$ >> {pid_file}; exec sleep 1000' >/dev/null 2>&1 </dev/null &"
    subprocess.run(["sh", "-c", shell], check=True)
    subprocess.run(["env", "-i", "sh", "-c", shell], check=True)
    if os.fork() == 0:  # the classic daemon, without an exec
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 4096)
            fd = os.open(pid_file, os.O_WRONLY | os.O_APPEND)
            os.write(fd, f"{os.getpid()}\n".encode())
            time.sleep(1000)
        os._exit(0)
    return Thing()


def big(size):
    thing = Thing()
    thing.data = b"x" * size
    return thing
