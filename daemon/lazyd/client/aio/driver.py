"""Runs the client's rules in the calling task: each step is awaited."""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...errors import Closed
from ..steps import Connect, Dial, Talk, Wait
from .control import AsyncControl
from .line import AsyncLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..steps import Step, Steps

T = TypeVar("T")


class Driver:
    """Carries out steps for the client of one control socket."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._process = os.getpid()
        self._controls: weakref.WeakSet[AsyncControl] = weakref.WeakSet()

    async def run(self, steps: Steps[T]) -> T:
        """The result of a rule. Whatever a step raises, a cancellation too, the rule sees and cleans up."""
        if os.getpid() != self._process:  # an event loop does not survive a fork
            raise Closed()
        resume: Callable[[], Step] = partial(next, steps)
        while True:
            try:
                step = resume()
            except StopIteration as end:
                value: T = end.value
                return value
            resume = await self._outcome(steps, step)

    def wake(self) -> None:
        """Tasks that wait for the daemon find their connection ended."""
        for control in list(self._controls):
            control.wake()

    async def _outcome(self, steps: Steps[Any], step: Step) -> Callable[[], Step]:
        """How the rule goes on after a step."""
        try:
            result = await self._perform(step)
        except BaseException as error:
            return partial(steps.throw, error)
        return partial(steps.send, result)

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Wait):
            return await cast("AsyncLine", step.line).wait(step.call, step.deadline)
        if isinstance(step, Talk):
            return await cast("AsyncControl", step.control).talk(step.message, step.deadline)
        if isinstance(step, Connect):
            control = await AsyncControl.connect(self._socket, step.deadline)
            self._controls.add(control)
            return control
        if isinstance(step, Dial):
            return await AsyncLine.dial(step)
        return await asyncio.sleep(step.seconds)
