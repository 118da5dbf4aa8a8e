"""What a test, or a model of a test, holds of the stand-in driver.

Everything is carried out in C under one lock in the file, so any number of processes and threads may have
a `StandIn` of the same file, over forks as well. Sizes are bytes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .build import library

MIB = 1024**2
GIB = 1024**3

VARIABLE = "STANDIN_DRIVER"
"""The environment's variable that names the file."""

COMPUTE, GRAPHICS, MPS = range(3)
HIDDEN, SHOWN, WITHOUT_BYTES = range(3)
TAKEN, REFUSED, LET_GO, GIVEN_BACK = range(4)
"""What happens to an allocation: it is made, or there is no room for it; its owner lets go of it, or has died;
its bytes are free."""
_NO_MEMORY, _NO_SLOT, _NO_PROCESS, _NO_GPU = -1, -2, -3, -4
_DIVIDED, _WHOLE = 1, 2

GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999
"""What NVML's functions may return instead of an answer."""

EVERYTHING = "*"
"""All functions, for `fail` and `hang`."""

_RESULTS = {
    "open": ctypes.c_void_p,
    "uuid": ctypes.c_char_p,
    "allocate": ctypes.c_int64,
    "free": ctypes.c_uint64,
    "used": ctypes.c_uint64,
    "held": ctypes.c_uint64,
    "highest": ctypes.c_uint64,
    "refused": ctypes.c_uint64,
    "calls": ctypes.c_uint64,
    "happened": ctypes.c_uint64,
}


class Happening(ctypes.Structure):
    """What has happened to an allocation, and how much of its GPU was in use by then."""

    _fields_ = [
        ("at_ns", ctypes.c_int64),
        ("serial", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("pid", ctypes.c_int32),
        ("gpu", ctypes.c_int32),
        ("what", ctypes.c_uint32),
        ("shown", ctypes.c_uint32),
    ]
    at_ns: int
    serial: int
    bytes: int
    used: int
    pid: int
    gpu: int
    what: int
    shown: int

    def __repr__(self) -> str:
        word = ("takes", "is refused", "lets go of", "has given back")[self.what]
        seen = ("hidden ", "", "")[self.shown]
        return f"{seen}pid {self.pid} {word} {self.bytes / MIB:.0f} MiB of GPU {self.gpu}: {self.used / MIB:.0f} in use"


class OutOfMemory(MemoryError):
    """There is no room on the GPU."""


class Allocation:
    """Bytes of a GPU that somebody holds."""

    def __init__(self, driver: StandIn, serial: int) -> None:
        self._driver = driver
        self._serial = serial

    def free(self, after_s: float = 0.0) -> int:
        """Gives it back, or lets it show for a while yet. How many bytes it was; 0 if it is gone already."""
        return int(self._driver._do("free", ctypes.c_uint64(self._serial), _ns(after_s)))


class StandIn:
    """The driver whose state is in the file `path`.

    Whoever names `gpus` makes the file: one GPU for each size, in order. `release_s` is how long the driver
    takes to give back what a dead process had; two numbers are a range, of which each process gets its own
    moment. Without `gpus` the file is there already.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        gpus: Iterable[int] | None = None,
        *,
        release_s: float | tuple[float, float] = (0.5, 1.5),
        reserved: int = 0,
    ) -> None:
        self.path = os.fspath(path)
        self._library = ctypes.CDLL(str(library()), use_errno=True)
        for name, result in _RESULTS.items():
            getattr(self._library, f"standin_{name}").restype = result
        if gpus is not None:
            error = self._library.standin_create(self.path.encode())
            if error:
                raise OSError(error, os.strerror(error), self.path)
        self._state = ctypes.c_void_p(self._library.standin_open(self.path.encode()))
        if not self._state:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), self.path)
        if gpus is not None:
            self.set_release(release_s)
            for size in gpus:
                self.add(size, reserved=reserved)

    @classmethod
    def of_environment(cls) -> StandIn:
        """The one that the environment names. Raises `KeyError` if it names none."""
        return cls(os.environ[VARIABLE])

    def environment(self) -> dict[str, str]:
        """Variables with which a program sees these GPUs and no others."""
        others = os.environ.get("LD_LIBRARY_PATH")
        folder = str(library().parent)
        return {VARIABLE: self.path, "LD_LIBRARY_PATH": f"{folder}:{others}" if others else folder}

    # GPUs. They are numbered as they were added, instances of divided ones included.

    def add(self, size: int, *, reserved: int = 0, name: str | None = None) -> int:
        """A GPU more; its number."""
        return self._add(name or f"Stand-in {size // GIB} GiB", size, reserved, -1)

    def divide(self, gpu: int, sizes: Sequence[int], *, shared: bool = False) -> list[int]:
        """Divides a GPU into instances (MIG). Their numbers. `shared`: they have the same memory."""
        self._do("set_mig", gpu, _DIVIDED)
        numbers = [self._add(f"Stand-in MIG {size // GIB}g", size, 0, gpu) for size in sizes]
        for number in numbers if shared else ():
            self._do("set_memory_group", number, numbers[0])
        return numbers

    def undivide(self, gpu: int, instances: Iterable[int]) -> None:
        self._do("set_mig", gpu, _WHOLE)
        for number in instances:
            self._do("set_present", number, 0)

    def uuid(self, gpu: int) -> str:
        """Raises `KeyError` if there is no such GPU."""
        found = self._do("uuid", gpu)
        if found is None:
            raise KeyError(gpu)
        return str(found.decode())

    def number(self, uuid: str) -> int:
        """The GPU or instance of this UUID. Raises `KeyError`."""
        found = self._do("number", uuid.encode())
        if found < 0:
            raise KeyError(uuid)
        return int(found)

    def visible(self, devices: str | None) -> list[int]:
        """The GPUs that a value of ``CUDA_VISIBLE_DEVICES`` lets a program see, in its order; None: all."""
        if devices is None:
            return list(range(self._do("count")))
        return [self.number(uuid.strip()) for uuid in devices.split(",") if uuid.strip()]

    # Memory.

    def allocate(
        self, gpu: int, size: int, *, pid: int | None = None, kind: int = COMPUTE, shown: int = SHOWN
    ) -> Allocation:
        """Memory for a living process (None: this one), which ends with it.

        Raises:
            OutOfMemory: as a driver would, when all that is in use and this is more than there is.
            ProcessLookupError: there is no such process.
            OSError: the GPU is lost.
        """
        return self._allocate(gpu, size, os.getpid() if pid is None else pid, kind, shown, True)

    def stranger(
        self, gpu: int, size: int, *, pid: int = 4_000_000, kind: int = COMPUTE, shown: int = SHOWN
    ) -> Allocation:
        """Memory of somebody else's, which stays until it is freed; no process of that pid is needed."""
        return self._allocate(gpu, size, pid, kind, shown, False)

    def used(self, gpu: int) -> int:
        """All that is in use, what is reserved and not yet given back included."""
        return int(self._do("used", gpu))

    def held(self, gpu: int, pid: int | None = None) -> int:
        """What a living process (None: this one) holds, whether the driver shows it or not."""
        return int(self._do("held", gpu, os.getpid() if pid is None else pid))

    def highest(self, gpu: int) -> int:
        """The most that was ever in use."""
        return int(self._do("highest", gpu))

    def refused(self, gpu: int) -> int:
        """How often somebody ran out of memory."""
        return int(self._do("refused", gpu))

    def happened(self) -> list[Happening]:
        """All that has happened to allocations, in order; of a great many the last 8192."""
        count, found = int(self._do("happened")), []
        for number in range(max(0, count - 8192), count):
            happening = Happening()
            if self._do("happening", ctypes.c_uint64(number), ctypes.byref(happening)):
                found.append(happening)
        return found

    def set_release(self, release_s: float | tuple[float, float]) -> None:
        """How long the memory of a dead process shows on; see `StandIn`."""
        least, most = release_s if isinstance(release_s, tuple) else (release_s, release_s)
        self._do("set_release", _ns(least), _ns(most))

    def list_dead(self) -> None:
        """A process that has ended is listed, with its memory, until that is given back."""
        self._do("set_lists_dead", 1)

    # What goes wrong. Functions are named as NVML's C interface names them.

    def fail(self, function: str, error: int = UNKNOWN, *, gpu: int = -1, times: int = 0) -> None:
        """A function returns an error (`times`: only so often), for one GPU or for all."""
        self._break(function, gpu, error, 0.0, times)

    def hang(self, function: str, seconds: float | None = None, *, gpu: int = -1, times: int = 0) -> None:
        """A function takes so long before it answers; None: until `heal`."""
        self._break(function, gpu, 0, seconds, times)

    def heal(self) -> None:
        """Ends all that `fail` and `hang` have begun; calls that hang go on."""
        self._do("heal")

    def lose(self, gpu: int) -> None:
        """It falls off the bus."""
        self._do("set_lost", gpu, 1)

    def find(self, gpu: int) -> None:
        """It is back."""
        self._do("set_lost", gpu, 0)

    def remove(self, gpu: int) -> None:
        """It is there no more, and is not even counted."""
        self._do("set_present", gpu, 0)

    def put_back(self, gpu: int) -> None:
        self._do("set_present", gpu, 1)

    def unload(self) -> None:
        """The driver is unloaded."""
        self._do("set_loaded", 0)

    def load(self) -> None:
        """The driver is loaded (anew): whoever was initialised before has to do it again."""
        self._do("set_loaded", 1)

    @property
    def hanging(self) -> int:
        """Calls that hang now."""
        return int(self._do("hanging"))

    @property
    def calls(self) -> int:
        """So many calls of NVML were made, by all processes."""
        return int(self._do("calls"))

    # Below.

    def _add(self, name: str, size: int, reserved: int, parent: int) -> int:
        number = int(self._do("add", name.encode(), ctypes.c_uint64(size), ctypes.c_uint64(reserved), parent))
        if number < 0:
            raise ValueError("the stand-in has no place for another GPU")
        return number

    def _allocate(self, gpu: int, size: int, pid: int, kind: int, shown: int, mortal: bool) -> Allocation:
        serial = int(self._do("allocate", gpu, pid, ctypes.c_uint64(size), kind, shown, mortal))
        if serial == _NO_MEMORY:
            raise OutOfMemory(f"GPU {gpu} of the stand-in has no room for {size} bytes")
        if serial == _NO_PROCESS:
            raise ProcessLookupError(f"there is no process {pid}")
        if serial == _NO_GPU:
            raise OSError(f"GPU {gpu} of the stand-in is lost")
        if serial == _NO_SLOT:
            raise ValueError("the stand-in has no place for another allocation")
        return Allocation(self, serial)

    def _break(self, function: str, gpu: int, error: int, hang_s: float | None, times: int) -> None:
        if function != EVERYTHING and not hasattr(self._library, function):
            raise ValueError(f"the stand-in has no function {function}")
        hang = ctypes.c_int64(-1) if hang_s is None else _ns(hang_s)
        if self._do("break", function.encode(), gpu, error, hang, times):
            raise ValueError("the stand-in has no place for another fault")

    def _do(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library, f"standin_{name}")(self._state, *arguments)


def _ns(seconds: float) -> ctypes.c_int64:
    return ctypes.c_int64(int(seconds * 1e9))
