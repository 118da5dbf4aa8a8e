"""Models that find no memory, each in its own way, and models that fail for other reasons."""

import ctypes
import os
import sys


class Hungry:
    """Its calls fail."""

    def array(self):
        import numpy

        return numpy.empty(1 << 60, dtype="uint8")

    def said(self, text):
        raise RuntimeError(text)

    def wrapped(self):
        try:
            raise MemoryError
        except MemoryError as error:
            raise ValueError("no answer could be computed") from error

    def stream(self):
        yield 1
        raise MemoryError

    def works(self):
        return "well"

    def writes_and_ends(self, text, how, deep=0):
        if deep:  # where it was is told at length
            return self.writes_and_ends(text, how, deep - 1)
        os.write(2, text.encode() + b"\n")
        if how == "abort":
            os.abort()
        elif how == "crash":
            ctypes.string_at(0)
        elif how == "kill":
            os.kill(os.getpid(), 9)
        os._exit(how)


def hungry():
    return Hungry()


def loads_with(error, text=""):
    if error == "MemoryError":
        raise MemoryError(text)
    if error == "OSError":
        raise OSError(12, "Cannot allocate memory")
    if error == "FileNotFoundError":
        open("/no/such/file").close()
    raise RuntimeError(text)


def aborts_while_loading(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    os.abort()
