"""The objects of a worker: the rules' view of each, and the thread that holds it."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..runtimes import member_of, runtime_named
from .allocator import share_one_heap
from .objects import ModelThread

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..runtimes import LoadedModel, Progress
    from .admission import Admission
    from .calls import Call
    from .loop import Loop
    from .records import Action, Object, Warmth
    from .warmup import Order, Warmup

    class House(Protocol):
        """What the worker does for its objects."""

        loop: Loop
        admission: Admission

        def tell(self, message: dict[str, Any]) -> None:
            """To the manager."""

        def act(self, actions: list[Action], *, changed: bool = False) -> None:
            """Does what the rules want done. `changed`: the state of an object has changed."""

        def cancel_calls(self, model: str) -> None:
            """Cancels all calls of one model."""


LOADS = ("loading", "warming")
"""States in which an object is not there yet."""


class Holdings:
    """Loads and unloads; `on_empty` is called when the last object has gone."""

    def __init__(self, house: House, on_empty: Callable[[], None]) -> None:
        self.spec: dict[str, Any] = {}
        self._house = house
        self._on_empty = on_empty
        self._threads: dict[str, ModelThread] = {}
        self._load_again: set[str] = set()
        self._orders: dict[str, Order] = {}
        """By model: which warm-up its load was ordered with last."""

    def __bool__(self) -> bool:
        return bool(self._threads)

    def load(self, model: str, order: Order) -> None:
        """Loads an object, or has a parked one come back, after it has been unloaded or parked if that is under way."""
        known = self._house.admission.objects.get(model)
        self._orders[model] = order
        if known is None:
            self._start(model)
        elif known.state in ("unloading", "parking"):
            self._load_again.add(model)
        elif known.state == "parked":
            self._unpark(model)
        elif known.state == "ready":
            self._tell_ready(known)

    def park(self, model: str) -> None:
        """Has an object give back its device memory. The manager has drained it, so nothing is in flight."""
        known = self._house.admission.objects.get(model)
        if known is not None and known.state == "ready":
            self._house.act(self._house.admission.parking(model, time.monotonic()), changed=True)
        elif known is not None and known.state == "parked":
            self._house.tell({"is": "parked", "model": model})

    def unload(self, model: str, drain_s: float = 0.0) -> None:
        """Frees an object, or ends its load. Calls under way are cancelled after `drain_s`."""
        known = self._house.admission.objects.get(model)
        self._load_again.discard(model)
        if known is None:
            self._house.tell({"is": "unloaded", "model": model})
            return
        if known.state == "unloading":
            self._house.cancel_calls(model)
            return
        was_loading = known.state in LOADS
        actions = self._house.admission.unloading(model, time.monotonic())
        if was_loading:
            self._threads[model].close()
            actions = []
        elif drain_s:
            self._house.loop.after(drain_s, lambda: self._house.cancel_calls(model))
        else:
            self._house.cancel_calls(model)
        self._house.act(actions, changed=True)

    def unload_all(self, drain_s: float) -> None:
        for model in list(self._threads):
            self.unload(model, drain_s)

    def submit(self, call: Call) -> None:
        """Queues a call that was admitted."""
        self._threads[call.lease.model].submit(call)

    def ended(self, call: Call) -> None:
        """A call that was queued has ended."""
        thread = self._threads.get(call.lease.model)
        if thread is not None:
            thread.ended()

    def emptied(self, model: str) -> None:
        """No call is in flight any more on an object that is to be parked or unloaded."""
        if self._house.admission.objects[model].state == "parking":
            self._threads[model].park()
        else:
            self._threads[model].close()

    # What the threads tell.

    def progressed(self, model: str, phase: str, fraction: float | None) -> None:
        self._house.tell({"is": "progress", "model": model, "phase": phase, "fraction": fraction})

    def warming(self, model: str, warmup: Warmup, runs: bool) -> None:
        """A call of its warm-up begins, or has ended."""
        known = self._house.admission.objects[model]
        if known.state == "unloading":
            return
        changed = True
        if known.state == "loading":
            self._house.admission.warming(model, time.monotonic())
        elif known.state == "ready":
            known.warmth = replace(known.warmth, warmup="running" if runs else "waiting", seconds=warmup.spent_s)
        else:
            changed = False
        call = {"call": warmup.made + 1, "calls": warmup.calls, "spent_s": warmup.spent_s, "runs": runs}
        self._house.tell({"is": "warming", "model": model, **call})
        if changed:
            self._house.act([], changed=True)

    def loaded(self, model: str, parks: bool, url: str | None, warmth: Warmth) -> None:
        known = self._house.admission.objects[model]
        if known.state in LOADS:
            self._house.admission.loaded(model, time.monotonic(), parks=parks, url=url, warmth=warmth)
            self._tell_ready(known)
            self._house.act([], changed=True)

    def warmed(self, model: str, warmth: Warmth, trace: str, *, out_of_memory: bool) -> None:
        """A warm-up beside the calls of others has ended."""
        print(trace, end="", file=sys.stderr, flush=True)
        known = self._house.admission.objects[model]
        if known.state != "ready":
            return
        known.warmth = warmth
        told = {"is": "warmed_up", "model": model, "warmup_s": warmth.seconds, "runtime": warmth.runtime}
        told |= {"problem": warmth.problem or None, "traceback": trace, "out_of_memory": out_of_memory}
        self._house.tell(told)
        self._house.act([], changed=True)

    def _tell_ready(self, known: Object) -> None:
        warmth = known.warmth
        told = {"warmup": warmth.warmup, "warmup_s": warmth.seconds, "runtime": warmth.runtime}
        self._house.tell({"is": "ready", "model": known.model, "parks": known.parks, "url": known.url, **told})

    def parked(self, model: str) -> None:
        if self._house.admission.objects[model].state != "parking":
            return  # it is to be unloaded
        self._house.admission.parked(model, time.monotonic())
        if model in self._load_again:
            self._load_again.discard(model)
            self._unpark(model)
        else:
            self._house.tell({"is": "parked", "model": model})
            self._house.act([], changed=True)

    def park_failed(self, model: str, reason: str, trace: str) -> None:
        """Nobody knows what it holds and whether it works, so it goes."""
        print(trace, end="", file=sys.stderr, flush=True)
        if self._house.admission.objects[model].state == "parking":
            self._house.tell({"is": "park_failed", "model": model, "reason": reason})
            self.unload(model)

    def failed(self, model: str, reason: str, trace: str, *, out_of_memory: bool) -> None:
        print(trace, end="", file=sys.stderr, flush=True)
        told = {"is": "failed", "model": model, "reason": reason, "traceback": trace}
        self._gone(model, {**told, "out_of_memory": out_of_memory})

    def ran_out(self, model: str) -> None:
        """A call found no memory."""
        self._house.tell({"is": "ran_out", "model": model})

    def closed(self, model: str) -> None:
        self._gone(model, {"is": "unloaded", "model": model})

    def _start(self, model: str) -> None:
        member = member_of(self.spec["name"], model.partition(":")[0])
        runtime = runtime_named(self.spec["runtime"])
        if member is not None:
            share_one_heap()

        def load(progress: Progress) -> LoadedModel:
            return runtime.load(self.spec, member, progress)

        concurrency: int = self.spec.get("concurrency", 1)
        thread = ModelThread(model, load, runtime, self._orders[model], self._house.loop, self, concurrency)
        thread.lease_in_environment = member is None and concurrency == 1  # all calls share the environment
        self._threads[model] = thread
        self._house.admission.loading(model, time.monotonic())
        self._house.act([], changed=True)
        thread.start()

    def _unpark(self, model: str) -> None:
        self._house.admission.loading(model, time.monotonic())
        self._house.act([], changed=True)
        self._threads[model].unpark()

    def _gone(self, model: str, message: dict[str, Any]) -> None:
        del self._threads[model]
        if model not in self._load_again:
            self._orders.pop(model, None)
        self._house.admission.gone(model)
        self._house.tell(message)
        self._house.act([], changed=True)
        if model in self._load_again:
            self._load_again.discard(model)
            self._start(model)
        elif not self._threads:
            self._on_empty()
