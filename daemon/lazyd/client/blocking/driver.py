"""Runs the client's rules in the calling thread: each step blocks it."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..steps import Connect, Dial, Talk, Wait
from .control import BlockingControl

if TYPE_CHECKING:
    from ..steps import Step, Steps
    from .line import BlockingLine

T = TypeVar("T")


class Driver:
    """Carries out steps for the client of one control socket."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._controls: weakref.WeakSet[BlockingControl] = weakref.WeakSet()

    def run(self, steps: Steps[T]) -> T:
        """The result of a rule. Whatever a step raises, Ctrl-C too, the rule sees and cleans up."""
        try:
            step = next(steps)
            while True:
                step = self._advance(steps, step)
        except StopIteration as end:
            value: T = end.value
            return value

    def _advance(self, steps: Steps[Any], step: Step) -> Step:
        try:
            result = self._perform(step)
        except BaseException as error:
            return steps.throw(error)
        return steps.send(result)

    def wake(self) -> None:
        """Threads that wait for the daemon find their connection ended."""
        for control in list(self._controls):
            control.wake()

    def forget(self) -> None:
        """After a fork: the connections are the parent's."""
        for control in list(self._controls):
            control.close()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Wait):
            return cast("BlockingLine", step.line).wait(step.call, step.deadline)
        if isinstance(step, Talk):
            return cast("BlockingControl", step.control).talk(step.message, step.deadline)
        if isinstance(step, Connect):
            control = BlockingControl.connect(self._socket, step.deadline)
            self._controls.add(control)
            return control
        if isinstance(step, Dial):
            from .line import BlockingLine  # a command that calls no model does without

            return BlockingLine.dial(step)
        return time.sleep(step.seconds)
