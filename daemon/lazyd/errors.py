"""Every exception of lazyd, in one flat hierarchy.

An error of the interface (``io.lazyd.NoRoom``, say) is a class of the same name. Its fields are
the error's parameters in Python's spelling: ``neededBytes`` is ``needed_bytes``. A class knows
its varlink name and the exit status of a command that ends with it (docs/lazyctl.md).
``str(error)`` is one line: what happened, why, and what to do.

Anybody may import this; it needs the standard library alone and Python 3.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Tells type checkers that a subclass's annotations are its constructor's arguments."""
        return lambda cls: cls


INTERFACE = "io.lazyd"
SERVICE = "org.varlink.service"
FAULT = "Fatal Python error: "
"""How the interpreter begins to say which signal ends it; where it was follows."""


@dataclass_transform(kw_only_default=True)
class LazydError(Exception):
    """Base of all. The annotated attributes of a subclass are its fields, given by keyword."""

    varlink_name: ClassVar[str] = ""
    """The full name on the control socket; empty for what only a client can notice."""
    exit_status: ClassVar[int] = 1
    fields: ClassVar[tuple[str, ...]] = ()
    spelled: ClassVar[dict[str, str]] = {}
    """Fields whose name on the wire is not theirs in camel case."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = vars(cls).get("__annotations__", {})
        cls.fields += tuple(name for name in own if name not in cls.fields)

    def __init__(self, **fields: Any) -> None:
        unknown = [name for name in fields if name not in self.fields]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {unknown[0]!r}")
        super().__init__()
        for name, value in fields.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return " ".join(self.message().split("\n"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {name: getattr(self, name) for name in self.fields})

    def message(self) -> str:
        """What, why and what to do; `str` makes one line of it."""
        return (type(self).__doc__ or type(self).__name__).split("\n")[0]

    def to_parameters(self) -> dict[str, Any]:
        """The fields as a varlink error's parameters; what is None is left out."""
        values = ((name, getattr(self, name)) for name in self.fields)
        return {self.wire_name(name): value for name, value in values if value is not None}

    @classmethod
    def wire_name(cls, field: str) -> str:
        """What a field is called in the interface: ``retry_after_sec`` is ``retryAfterSec``."""
        first, *rest = field.split("_")
        return cls.spelled.get(field) or first + "".join(part.capitalize() for part in rest)


def _rebuild(cls: type[LazydError], fields: dict[str, Any]) -> LazydError:
    return cls(**fields)


class Degraded(UserWarning):
    """A model was not ready, and its fallback has answered."""


# What the daemon answers.


class ModelNotFound(LazydError):
    """No model has this name."""

    varlink_name = "io.lazyd.ModelNotFound"
    exit_status = 4
    model: str = ""
    nearest: str | None = None

    def message(self) -> str:
        if "*" in self.model:
            advice = "a family is used by its members: write a name in place of *"
        elif self.nearest and "*" in self.nearest:
            advice = f"did you mean a member of {self.nearest}?"
        elif self.nearest:
            advice = f"did you mean {self.nearest}?"
        else:
            advice = "'lazyctl status' lists the models"
        return f"no model is called {self.model}; {advice}"


class LoadFailed(LazydError):
    """The model could not be loaded."""

    varlink_name = "io.lazyd.LoadFailed"
    model: str = ""
    reason: str = ""
    retry_after_sec: float = 0.0

    def message(self) -> str:
        again = f"; it may be tried again in {_duration(self.retry_after_sec)}" if self.retry_after_sec > 0 else ""
        return f"{self.model} could not be loaded: {self.reason}{again}; see 'lazyctl logs {self.model}'"


class NoRoom(LazydError):
    """There is no room for the model."""

    varlink_name = "io.lazyd.NoRoom"
    exit_status = 75
    model: str = ""
    device: str = ""
    needed_bytes: int = 0
    free_bytes: int = 0
    reason: str = ""
    remedy: str | None = None
    """What to do, if that is not to try later."""

    def message(self) -> str:
        remedy = self.remedy or "try later, or unload something"
        if not self.needed_bytes:  # not for want of bytes
            return f"no room for {self.model}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")
        if self.reason.startswith("it needs "):  # how much, and what can be had, is said there
            return f"no room for {self.model}: {self.reason}; {remedy}"
        return (
            f"no room for {self.model} on {self.device}: it needs {_size(self.needed_bytes)}, "
            f"{_size(self.free_bytes)} can be had: {self.reason}; {remedy}"
        )


class Timeout(LazydError):
    """The time limit was reached."""

    varlink_name = "io.lazyd.Timeout"
    exit_status = 124
    model: str = ""
    phase: str = ""
    """What was going on: queued, loading, calling, …"""
    timeout_sec: float = 0.0
    reason: str | None = None
    """What it waited for."""
    expected_sec: float | None = None
    """How long the load will take still, or take once there is room; None: it is not known."""

    def message(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        about = None if self.expected_sec is None else f"about {_duration(self.expected_sec)}"
        if self.phase == "queued":
            load = "" if about is None else f"; its load takes {about}"
            return f"{self.model} waited {_duration(self.timeout_sec)} in vain{why}{load}; allow more time"
        phase = f" while {self.phase}" if self.phase else ""
        more = "more time" if about is None else f"{about} more"
        return f"{self.model} did not answer within {_duration(self.timeout_sec)}{phase}{why}; allow {more}"


class Busy(LazydError):
    """Calls are in flight, or a client holds it."""

    varlink_name = "io.lazyd.Busy"
    exit_status = 75
    model: str = ""
    in_flight: int = 0
    reason: str | None = None
    """What keeps it, if that is no call."""

    def message(self) -> str:
        calls = "1 call is" if self.in_flight == 1 else f"{self.in_flight} calls are"
        if self.in_flight or self.reason is None:
            return f"{self.model} is busy: {calls} in flight; try later, or use --force to end them"
        return f"{self.model} is busy: {self.reason}; try later, or use --force"


class Cancelled(LazydError):
    """The call was cancelled."""

    varlink_name = "io.lazyd.Cancelled"
    model: str = ""

    def message(self) -> str:
        return f"the call of {self.model} was cancelled; call again if the answer is still wanted"


class Revoked(LazydError):
    """The lease has ended before the call began."""

    varlink_name = "io.lazyd.Revoked"
    model: str = ""

    def message(self) -> str:
        return f"the lease on {self.model} was revoked before the call began; get a new one and repeat the call"


class NoSuchMethod(LazydError):
    """The model has no such method."""

    varlink_name = "io.lazyd.NoSuchMethod"
    exit_status = 2
    model: str = ""
    method: str = ""

    def message(self) -> str:
        return f"{self.model} has no method {self.method or repr('')}; 'lazyctl show {self.model}' describes the model"


class NoSuchDevice(LazydError):
    """There is no such device."""

    varlink_name = "io.lazyd.NoSuchDevice"
    exit_status = 2
    device: str = ""

    def message(self) -> str:
        return f"there is no device {self.device}; 'lazyctl status' lists the devices"


class NoSuchLease(LazydError):
    """The lease is unknown or has ended."""

    varlink_name = "io.lazyd.NoSuchLease"
    lease: str = ""

    def message(self) -> str:
        return f"lease {self.lease or '(unknown token)'} does not exist or has ended; get a new one"


class CallFailed(LazydError):
    """The model's own code raised an exception."""

    varlink_name = "io.lazyd.CallFailed"
    model: str = ""
    method: str = ""
    reason: str = ""
    traceback: str = ""

    def message(self) -> str:
        return f"{self.model}.{self.method} failed: {self.reason}; see 'lazyctl logs {self.model}'"


class WorkerDied(LazydError):
    """The model's process ended during the call or the load."""

    varlink_name = "io.lazyd.WorkerDied"
    spelled = {"status": "exitStatus"}
    model: str = ""
    status: int | None = None
    """The process's exit status, if it exited."""
    signal: int | None = None
    log: str = ""

    def message(self) -> str:
        if self.signal is not None:
            how = f"was killed by {_signal(self.signal)}"
        elif self.status is not None:
            how = f"exited with status {self.status}"
        else:
            how = "ended"
        last = _last_words(self.log)
        why = f" after it wrote {last!r}" if last else ""
        return f"the worker of {self.model} {how}{why}; the next call loads it again, see 'lazyctl logs {self.model}'"


class InvalidSpec(LazydError):
    """A model's description is wrong."""

    varlink_name = "io.lazyd.InvalidSpec"
    exit_status = 2
    model: str = ""
    key: str = ""
    reason: str = ""

    def message(self) -> str:
        return f"the description of {self.model} is wrong at {self.key}: {self.reason}"


class InvalidConfig(LazydError):
    """The configuration is wrong, and nothing of it was taken over."""

    varlink_name = "io.lazyd.InvalidConfig"
    problems: list[str] = []

    def message(self) -> str:
        return f"the configuration was refused, the old one stays in force: {'; '.join(self.problems)}"


class Conflict(LazydError):
    """Two sources describe one model."""

    varlink_name = "io.lazyd.Conflict"
    exit_status = 2
    model: str = ""
    sources: list[str] = []
    reason: str | None = None
    """What it is, and what to do, if it is not described twice."""

    def message(self) -> str:
        if self.reason is not None:
            return f"{self.model} cannot be removed: {self.reason}"
        return f"{self.model} is described in several places: {', '.join(self.sources)}; remove all but one"


class NotKept(LazydError):
    """A change is made, but ends with this run of the daemon."""

    varlink_name = "io.lazyd.NotKept"
    model: str = ""
    change: str = ""
    """What the model is now: pinned, unpinned. Empty: what it was before."""
    reason: str = ""

    def message(self) -> str:
        if not self.change:
            return f"{self.model} stays as it was: it cannot be written down ({self.reason}); make room, and repeat it"
        return (
            f"{self.model} is {self.change} only until the daemon's next start: {self.reason}; make room, and repeat it"
        )


class PermissionDenied(LazydError):
    """The caller may not do this."""

    varlink_name = "io.lazyd.PermissionDenied"
    exit_status = 77
    method: str = ""
    role: str = ""

    def message(self) -> str:
        return f"{self.method} is not allowed for the role {self.role}; ask as root or as the daemon's user"


class ShuttingDown(LazydError):
    """The daemon is stopping."""

    varlink_name = "io.lazyd.ShuttingDown"
    exit_status = 69

    def message(self) -> str:
        return "lazyd is being stopped; start it again with 'systemctl start lazyd'"


# What any varlink service may answer.


class InvalidParameter(LazydError):
    """A parameter is missing or wrong."""

    varlink_name = "org.varlink.service.InvalidParameter"
    exit_status = 2
    parameter: str = ""
    reason: str | None = None
    """What is wrong with it."""

    def message(self) -> str:
        if self.reason is not None:
            return f"the parameter {self.parameter} is wrong: {self.reason}; see io.lazyd.varlink"
        return f"the parameter {self.parameter} is missing or has a wrong value; see io.lazyd.varlink"


class MethodNotFound(LazydError):
    """The interface has no such method."""

    varlink_name = "org.varlink.service.MethodNotFound"
    method: str = ""

    def message(self) -> str:
        return f"the daemon has no method {self.method}; client and daemon may be of different versions"


class MethodNotImplemented(LazydError):
    """The method is part of the interface, but not built yet."""

    varlink_name = "org.varlink.service.MethodNotImplemented"
    method: str = ""

    def message(self) -> str:
        return f"this version of the daemon does not implement {self.method} yet; upgrade lazyd"


class ExpectedMore(LazydError):
    """The method answers with a stream only."""

    varlink_name = "org.varlink.service.ExpectedMore"

    def message(self) -> str:
        return "this method answers with a stream only; ask for it with 'more'"


class InterfaceNotFound(LazydError):
    """The service has no such interface."""

    varlink_name = "org.varlink.service.InterfaceNotFound"
    interface: str = ""

    def message(self) -> str:
        return f"the daemon has no interface {self.interface}; is the socket really lazyd's?"


# What only a client can notice.


class Unavailable(LazydError):
    """The daemon cannot be reached."""

    exit_status = 69
    socket: str = ""
    reason: str = ""

    def message(self) -> str:
        advice = "is it running? ('systemctl status lazyd'; without systemd, start 'lazyd')"
        return f"lazyd cannot be reached at {self.socket}: {self.reason}; {advice}"


class SocketDenied(Unavailable):
    """The daemon's socket may not be opened by this user."""

    exit_status = 77

    def message(self) -> str:
        return f"{self.socket} may not be opened by this user: {self.reason}; join the group lazyd and log in again"


class ConnectionLost(LazydError):
    """The connection was lost after a call may have been delivered."""

    model: str = ""
    method: str = ""
    reason: str = ""

    def message(self) -> str:
        return (
            f"the connection was lost during {'.'.join(filter(None, (self.model, self.method)))} ({self.reason}): "
            "it may or may not have been carried out; repeat it if doing it twice does no harm"
        )


class Closed(LazydError):
    """This client has been closed."""

    def message(self) -> str:
        return "this client has been closed; connect again"


class RemoteError(LazydError):
    """The daemon answered with an error that this version does not know."""

    name: str = ""
    parameters: dict[str, Any] = {}

    def message(self) -> str:
        return f"the daemon answered {self.name} {self.parameters}; client and daemon may be of different versions"


class NotSendable(LazydError):
    """A value cannot be sent to another process."""

    reason: str = ""

    def message(self) -> str:
        return f"a value cannot be sent: {self.reason}; only JSON, bytes and numpy arrays can"


class ProtocolError(LazydError):
    """The other side does not keep to the protocol."""

    reason: str = ""

    def message(self) -> str:
        return f"the other side does not speak lazyd's protocol: {self.reason}"


class TooLarge(ProtocolError):
    """A message is larger than the protocol allows."""

    def message(self) -> str:
        return f"a message is too large: {self.reason}"


class NotJson(ProtocolError):
    """A message is not a JSON object."""


class BadFrame(ProtocolError):
    """A frame of a data socket, or a value in it, is malformed."""


BY_NAME: dict[str, type[LazydError]] = {
    cls.varlink_name: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and issubclass(cls, LazydError) and cls.varlink_name
}
"""Every error that can be received, by its full varlink name."""


def from_varlink(name: Any, parameters: Any = None) -> LazydError:
    """The exception for a received error: any two values, for they are what somebody sent.

    `name` is a full varlink name or, as on data sockets, an error of io.lazyd without its
    interface. Parameters that this version does not know are dropped.
    """
    name = str(name)
    given = parameters if isinstance(parameters, dict) else {}
    cls = BY_NAME.get(name) or BY_NAME.get(f"{INTERFACE}.{name}")
    if cls is None:
        return RemoteError(name=name, parameters=given)
    fields = {field: given.get(cls.wire_name(field)) for field in cls.fields}
    return cls(**{field: value for field, value in fields.items() if value is not None})


def _last_words(log: str) -> str:
    """The line of a log that says why the process ended: the last one, or the first of what faulthandler wrote."""
    lines = log.strip().split("\n")
    return next((line for line in reversed(lines) if line.startswith(FAULT)), lines[-1]).strip()


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _size(count: float) -> str:
    units = ["B", "KiB", "MiB", "GiB"]
    while count >= 999.5 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{count:.0f} {units[0]}" if count >= 99.95 or units[0] == "B" else f"{count:.1f} {units[0]}"


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"
