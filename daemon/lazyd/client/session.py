"""Every method of the interface, once for both kinds of client.

Each method here is a rule (`steps`): the blocking client runs it in the caller's thread, the
asyncio client in the caller's task.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ..errors import SERVICE, ModelNotFound, NoSuchLease
from ..places import client_socket
from .context import parent_lease, within_callers_limit
from .lines import Lines
from .requests import Request, Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from . import replies
    from .calling import Calling, Running
    from .reserving import Reserving
    from .steps import Steps


class Session:
    """The state of one client: what it knows of the daemon, and its connections."""

    def __init__(self, socket: str | None = None) -> None:
        self.requests = Requests(client_socket(socket))
        self.lines = Lines()

    def __repr__(self) -> str:
        return f"<Session {self.requests!r} {self.lines!r}>"

    def close(self) -> None:
        self.requests.close()
        self.lines.close()

    @cached_property
    def calling(self) -> Calling:
        """The rules for calls; a command that only looks never pays for importing them."""
        from .calling import Calling

        return Calling(self.requests, self.lines)

    # Looking.

    def status(self, model: str | None) -> Steps[replies.Status]:
        return cast("replies.Status", (yield from self._ask("Status", model=model)))

    def health(self) -> Steps[replies.Health]:
        return cast("replies.Health", (yield from self._ask("Health")))

    def describe(self, model: str) -> Steps[replies.Description]:
        return cast("replies.Description", (yield from self._ask("Describe", model=model)))

    def metrics(self) -> Steps[str]:
        return str((yield from self._ask("Metrics"))["text"])

    def info(self) -> Steps[replies.Info]:
        return cast("replies.Info", (yield from self._ask(f"{SERVICE}.GetInfo")))

    def is_ready(self, model: str) -> Steps[bool]:
        try:
            status = yield from self.status(model)
        except ModelNotFound:  # a member of a family that nobody has asked for yet
            return False
        return any(found["state"] == "ready" for found in status["models"])

    @staticmethod
    def logs(model: str, follow: bool) -> Request:
        return Request("Logs", {"model": model, "follow": follow or None}, more=True)

    @staticmethod
    def subscribe() -> Request:
        return Request("Subscribe", {}, more=True)

    # Loading and leases.

    def load(
        self, model: str, timeout: float | None, progress: Callable[[replies.LoadStep], object] | None
    ) -> Steps[replies.LoadStep]:
        request = Request("Load", {"model": model}, timeout_s=timeout, more=progress is not None)
        on_reply = cast("Callable[[dict[str, Any]], object] | None", progress)
        reply = cast("replies.LoadStep", (yield from self.requests.ask(request, on_reply)))
        if progress is not None:
            progress(reply)
        return reply

    def get(
        self,
        model: str,
        timeout: float | None,
        *,
        hold_s: float | None,
        parent: str | None,
        lease: str | None,
        sticky: str | None,
    ) -> Steps[replies.Grant]:
        parameters = {"model": model, "holdSec": hold_s, "parent": parent or parent_lease(), "lease": lease}
        parameters["sticky"] = sticky
        reply = yield from self.requests.ask(Request("Get", parameters, timeout_s=timeout))
        return cast("replies.Grant", reply)

    def release(self, lease: str) -> Steps[None]:
        request = Request("Release", {"lease": lease})
        try:
            yield from self.requests.ask(request)
        except NoSuchLease:
            if not request.repeated:  # else the first try was carried out, and its answer was lost
                raise

    def unload(
        self, models: Sequence[str], timeout: float | None, *, everything: bool, idle: bool, force: bool
    ) -> Steps[list[str]]:
        parameters = {
            "models": list(models) or None,
            "all": everything or None,
            "idle": idle or None,
            "force": force or None,
        }
        reply = yield from self.requests.ask(Request("Unload", parameters, timeout_s=timeout))
        return list(reply["unloaded"])

    def warm(
        self, models: Sequence[str], timeout: float | None, *, tier: str | None, wait: bool
    ) -> Steps[list[replies.ModelStatus]]:
        parameters = {"models": list(models), "tier": tier, "wait": wait or None}
        reply = yield from self.requests.ask(Request("Warm", parameters, timeout_s=timeout))
        return list(reply["models"])

    def pin(self, model: str) -> Steps[None]:
        yield from self._ask("Pin", model=model)

    def unpin(self, model: str) -> Steps[None]:
        yield from self._ask("Unpin", model=model)

    def versions(self, model: str | None) -> Steps[list[replies.Named]]:
        return list((yield from self._ask("Versions", model=model))["names"])

    def promote(self, model: str, version: str | None) -> Steps[replies.Promoted]:
        return cast("replies.Promoted", (yield from self._ask("Promote", model=model, version=version)))

    def rollback(self, model: str) -> Steps[replies.Promoted]:
        return cast("replies.Promoted", (yield from self._ask("Rollback", model=model)))

    def register(self, spec: Mapping[str, Any], *, now: bool) -> Steps[str]:
        return str((yield from self._ask("Register", spec=dict(spec), now=now or None))["model"])

    def deregister(self, model: str) -> Steps[None]:
        yield from self._ask("Deregister", model=model)

    def reload(self, *, now: bool) -> Steps[replies.Reloaded]:
        return cast("replies.Reloaded", (yield from self._ask("Reload", now=now or None)))

    def reserving(self, device: str, count: int, *, wait: bool, command: str | None) -> Reserving:
        """A reservation to be begun. Without words for it, it is shown by the name of this program."""
        from .reserving import Reserving, own_name

        return Reserving(self.requests.socket, device, count, wait=wait, command=command or own_name())

    # Calls.

    @staticmethod
    def running(
        model: str,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        *,
        stream: bool,
        timeout: float | None,
        idempotent: Collection[str],
        sticky: str | None = None,
    ) -> Running:
        """A call for `calling`; its time runs. Raises `NotSendable` before anything is loaded for it."""
        from .call import pack_call
        from .calling import Running

        packed = pack_call(model, method, args, kwargs or {}, stream=stream)
        return Running(packed, within_callers_limit(timeout), parent_lease(), idempotent, sticky)

    def _ask(self, method: str, **parameters: Any) -> Steps[dict[str, Any]]:
        return (yield from self.requests.ask(Request(method, parameters)))
