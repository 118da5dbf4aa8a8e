"""The story, step by step. Every step checks what it says; one that does not hold raises `Failed`."""

from __future__ import annotations

import time

from . import baseline, commands, screen
from .commands import Said
from .screen import Row, mebibytes, seconds
from .stage import MODELS, Failed, Stage, proportional_bytes

QUESTION = "The capital of France is"
STORY = "Once upon a time"
IDLE_S = 5
N_CTX = 512
CLIENTS = 4
SHORT = ("--max-tokens", "8")
LONG = ("--max-tokens", "80")

CONFIGURATION = "\n".join(
    f"""[models.{name}]
runtime = "llama_cpp"
path = "{MODELS / name}.gguf"
idle_timeout = "{IDLE_S}s"
options = {{n_ctx = {N_CTX}, seed = 1}}
"""
    for name in ("smollm2", "gemma")
)


class Story:
    """Tells it on a stage, and remembers the figures for the table at its end."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rows: list[Row] = []
        self.bare: baseline.Bare

    def tell(self) -> None:
        steps = (
            self.start,
            self.without_lazyd,
            self.first_use,
            self.again,
            self.several_at_once,
            self.killed_while_hot,
            self.idle,
            self.next_call,
        )
        for number, step in enumerate(steps, 1):
            screen.step(number, (step.__doc__ or "").strip().rstrip("."))
            step()
        screen.step(len(steps) + 1, "The figures")
        screen.remark(
            "Script: the same work without lazyd, measured above. Origin: the machine whose trouble lazyd"
            " answers, with 9 GB of models and 200 strategies, before and after its own cure."
        )
        screen.table(Row("", "lazyd", "beside it"), self.rows)

    def start(self) -> None:
        """lazyd starts, and loads nothing."""
        took = self.stage.start()
        self.stage.wait_until_running()
        commands.show(self.stage, "status")
        self.expect_cold("smollm2", "gemma")
        screen.result(f"answered {seconds(took)} after its start; both models are cold")
        self.rows.append(Row("Start to the first answer", seconds(took), "origin: 72 s, cured to 0.17 s"))

    def without_lazyd(self) -> None:
        """For comparison, a script that loads the model itself."""
        self.bare = baseline.measure(MODELS / "smollm2.gguf", N_CTX, QUESTION, 8)
        screen.command("python", "demo/bare.py", "smollm2.gguf", QUESTION)
        screen.result(
            f"first word after {seconds(self.bare.first_token_s)}; it holds {mebibytes(self.bare.resident_bytes)}"
            " until it ends, and the next one loads again"
        )

    def first_use(self) -> None:
        """Through lazyd: the first question loads the model."""
        said = self.ask()
        model = self.stage.model("smollm2")
        screen.result(
            f"first word after {seconds(said.first_s)}, of which loading took {seconds(model['lastLoadSec'])}"
        )
        self.rows.append(
            Row(
                "Cold: question to first word",
                seconds(said.first_s),
                f"the script: {seconds(self.bare.first_token_s)}; origin: 3–5 s",
            )
        )

    def again(self) -> None:
        """The same question, now that it is hot."""
        said = self.ask()
        self.expect_loads("smollm2", 1)
        screen.result(f"first word after {seconds(said.first_s)}, nothing was loaded")
        self.rows.append(
            Row(
                "Hot: question to first word",
                seconds(said.first_s),
                f"the script again: {seconds(self.bare.first_token_s)}",
            )
        )

    def several_at_once(self) -> None:
        """Four clients at once want the other model."""
        texts, took = commands.together(self.stage, CLIENTS, "run", "gemma", QUESTION, *SHORT)
        self.expect_loads("gemma", 1)
        commands.show(self.stage, "status")
        screen.result(f"{len(texts)} answers after {seconds(took)}, one load")
        self.rows.append(Row(f"{CLIENTS} clients at once, cold", "1 load", "origin: two cron jobs, two loads"))

    def killed_while_hot(self) -> None:
        """lazyd is killed in the middle of an answer."""
        before = self.stage.model("gemma")
        pid = before["workers"][0]["pid"]
        back = 0.0

        def kill_and_restart() -> None:
            nonlocal back
            assert self.stage.manager is not None
            manager = self.stage.manager.pid
            self.stage.kill_manager()
            back = self.stage.start()
            self.stage.wait_until_running()
            told.append(f"SIGKILL to lazyd (process {manager}) during it; a new one answered {seconds(back)} later")

        told: list[str] = []
        commands.stream(self.stage, "run", "gemma", STORY, *LONG, at_first=kill_and_restart)
        for line in told:
            screen.result(line)
        after = self.stage.model("gemma")
        if after["state"] != "ready" or after["workers"][0]["pid"] != pid or after["loads"] != before["loads"]:
            raise Failed(f"gemma was in process {pid}, loads {before['loads']}; now: {after}")
        screen.result(f"the answer went on; gemma is still hot, in the same process {pid}")
        self.rows.append(Row("Killed while hot", f"{seconds(back)}, 0 loads", "origin: all loaded again, 72 s"))

    def idle(self) -> None:
        """Nobody asks: the memory comes back."""
        pids = [worker["pid"] for name in ("smollm2", "gemma") for worker in self.stage.model(name)["workers"]]
        held = sum(proportional_bytes(pid) for pid in pids)
        screen.remark(f"The models hold {mebibytes(held)} and may be idle for {IDLE_S} s here (10 minutes by default).")
        began = time.monotonic()
        while any(self.stage.model(name)["state"] != "cold" for name in ("smollm2", "gemma")):
            if time.monotonic() - began > 6 * IDLE_S:
                raise Failed(f"not freed after {6 * IDLE_S} s")
            time.sleep(0.1)
        left = sum(proportional_bytes(pid) for pid in pids)
        commands.show(self.stage, "status")
        if left:
            raise Failed(f"the workers are said to be gone, but hold {mebibytes(left)}")
        own = mebibytes(self.stage.own_bytes())
        screen.result(f"{mebibytes(held)} are free again; lazyd itself, with the library imported, keeps {own}")
        self.rows.append(Row("Held when idle", f"0 of {mebibytes(held)}", "the script: all of it, until it ends"))

    def next_call(self) -> None:
        """The next question just works."""
        said = self.ask()
        screen.result(f"first word after {seconds(said.first_s)}")

    def ask(self) -> Said:
        """Asks smollm2 what it is known to answer rightly."""
        said = commands.stream(self.stage, "run", "smollm2", QUESTION, *SHORT)
        if "Paris" not in said.text:
            raise Failed(f"the answer should name Paris: {said.text!r}")
        return said

    def expect_cold(self, *names: str) -> None:
        for name in names:
            if (state := self.stage.model(name)["state"]) != "cold":
                raise Failed(f"{name} should be cold and is {state}")

    def expect_loads(self, name: str, count: int) -> None:
        if (loads := self.stage.model(name)["loads"]) != count:
            raise Failed(f"{name} should have been loaded {count} times by now, and was {loads} times")
