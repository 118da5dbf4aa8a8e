"""The end of a schedule: nothing is left over, and nothing was spoilt."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import lazyd

from .schedule import Model

if TYPE_CHECKING:
    from .run import Stage

LIMIT_S = 45.0
"""How long it may take until all is free."""
AGAIN_S = 12.0
"""How long a model may be paused after what was done to it; longer pauses are not waited for."""


def check(stage: Stage) -> None:
    """Everybody has gone: all that was taken is given back, and then each model can be had again."""
    stage.driver.heal()
    for gpu in range(len(stage.schedule.gpus_mib)):
        stage.driver.find(gpu)
    with lazyd.connect(stage.daemon.socket) as client:
        if not comes_true(lambda: all(device["state"] == "ok" for device in client.status()["devices"])):
            stage.record.violation(f"not all devices came back: {client.status()['devices']}")
        free_all(stage, client, "when all had been unloaded")
        for model in stage.schedule.models:
            have(stage, client, model)
        free_all(stage, client, "after every model was had once more")


def stop(stage: Stage) -> None:
    """A stop leaves no process, and nothing in use."""
    process = stage.daemon.process
    assert process is not None
    process.send_signal(signal.SIGINT)
    status = process.wait(LIMIT_S)
    if status != 0:
        stage.record.violation(f"lazyd has ended with status {status}")
    if not comes_true(lambda: not stage.daemon.processes()):
        stage.record.violation(f"processes are left: {[command_of(pid) for pid in stage.daemon.processes()]}")
    if not comes_true(lambda: not any(used(stage))):
        stage.record.violation(f"the driver still has {used(stage)} bytes in use")


def free_all(stage: Stage, client: lazyd.Client, when: str) -> None:
    for model in stage.schedule.models:
        with contextlib.suppress(lazyd.LazydError):  # a family itself, say
            for name in model.names:
                client.unpin(name)
    client.unload(all=True, force=True, timeout=LIMIT_S)
    with contextlib.ExitStack() as held:
        # A byte of each GPU is booked, so that it is looked at again and again.
        for gpu in range(len(stage.schedule.gpus_mib)):
            try:
                held.enter_context(client.reserve(f"gpu{gpu}", 1, timeout=LIMIT_S, command="the end"))
            except lazyd.LazydError as error:
                stage.record.violation(f"{when}: not a byte of gpu{gpu} is to be had: {error}")
                return
        if not comes_true(lambda: is_free(stage, client)):
            stage.record.violation(f"{when}: left over are {left_over(client, 1)}, and {used(stage)} bytes in use")
    if not comes_true(lambda: not left_over(client, 0)):
        stage.record.violation(f"{when}: left over are {left_over(client, 0)}")


def is_free(stage: Stage, client: lazyd.Client) -> bool:
    """Whether all is free. What was still to be warmed may come after everybody has gone, and is unloaded as well."""
    client.unload(all=True, force=True, timeout=LIMIT_S)
    return not left_over(client, 1) and not any(used(stage))


def left_over(client: lazyd.Client, ours: int) -> list[str]:
    """What is booked or foreign of devices, but for so many bytes of ours on each GPU."""
    found = []
    for device in client.status()["devices"]:
        is_ram = device["name"] == "ram"  # others use that, too
        names = ("bookedBytes", "quarantinedBytes", "reservedBytes") + (() if is_ram else ("foreignBytes",))
        for name in names:
            allowed = ours if not is_ram and name in ("bookedBytes", "reservedBytes") else 0
            amount = device[name]  # type: ignore[literal-required]
            if amount != allowed:
                found.append(f"{device['name']} {name} {amount}")
    return found


def used(stage: Stage) -> list[int]:
    return [stage.driver.used(gpu) for gpu in range(len(stage.schedule.gpus_mib))]


def have(stage: Stage, client: lazyd.Client, model: Model) -> None:
    """One call of a model that is alone on the machine. Only what is paused still, or leaks, may fail. What it really
    needs may have to be found out, if its author has not said it."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            client.call(model.names[0], "tell", timeout=LIMIT_S)
            break
        except lazyd.LoadFailed as error:
            if error.retry_after_sec > AGAIN_S or time.monotonic() > deadline:
                stage.record.note("the end", f"{model.name} is paused: {error}")
                break
            stage.record.note("the end", f"{model.name}: {error}")
            time.sleep(error.retry_after_sec + 0.05)
        except lazyd.NoRoom as error:
            if model.is_honest or "ran out of memory twice" not in str(error) or time.monotonic() > deadline:
                not_to_be_had(stage, model, error)
                break
            stage.record.note("the end", f"{model.name}: {error}")
        except lazyd.LazydError as error:
            not_to_be_had(stage, model, error)
            break
    client.unload(all=True, force=True, timeout=LIMIT_S)


def not_to_be_had(stage: Stage, model: Model, error: lazyd.LazydError) -> None:
    """Of one that leaks more may have been learned than there is."""
    if model.leaks:
        stage.record.note("the end", f"{model.name}, which leaks, is not to be had: {error!r}")
    else:
        stage.record.violation(f"{model.name} alone on the machine is not to be had: {error!r}")


def comes_true(condition: Callable[[], Any], within_s: float = LIMIT_S) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return f"{pid} {file.read().replace(bytes(1), b' ').decode(errors='replace')}"
    return f"{pid} {os.getpid()}"
