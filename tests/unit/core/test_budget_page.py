"""The afternoon that docs/budget.md tells, played through the real core: each row is what the ledger says."""

from collections.abc import Callable, Iterator
from pathlib import Path

from lazyd.core import events
from lazyd.core.lifecycle import State
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import GIB, Settings

from .story import Story, spec

PAGE = Path(__file__).parents[3] / "docs" / "budget.md"


def rows() -> Iterator[tuple[str, list[float]]]:
    """What happens, and the figures that follow, in GiB."""
    table = PAGE.read_text().partition("## One machine, one afternoon")[2]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[1].replace(".", "").isdigit():
            yield cells[0], [float(cell) for cell in cells[1:]]


def on_gpu(model: str, gib: float) -> events.Predicted:
    need = Need(ram_bytes=GIB // 2, gpu_bytes=(int(gib * GIB),))
    return events.Predicted(model=model, ways={"gpu": Forecast(peak=need)})


class Afternoon:
    """The machine of the page, and what happens on it, row by row."""

    def __init__(self) -> None:
        self.story = Story(
            *map(spec, ("llm", "tts", "vision")),
            spec("strategy/*"),
            ram_gib=64,
            gpus_gib=(22, 22),
            predictions={name: on_gpu(name, gib) for name, gib in (("llm", 6.5), ("tts", 4), ("vision", 12))}
            | {"strategy/alpha": events.Predicted(model="strategy/alpha", ways={"ram": Forecast(peak=Need(GIB))})},
            settings=Settings(budget={"ram": 0.8}),
        )
        self.reservation = ""
        self.training = 0
        self.deeds: tuple[Callable[[], None], ...] = (
            lambda: None,
            lambda: self.story.hot("llm"),
            lambda: self.story.hot("tts"),
            self.strategy_is_called,
            lambda: self.comfy(10),
            self.training_begins,
            self.training_and_comfy_grow,
            self.vision_is_called,
            self.tts_ends,
            self.driver_frees_tts,
            self.vision_crashes,
            self.training_ends,
            lambda: self.comfy(0),
            lambda: self.story.unstick("gpu0"),
        )

    def strategy_is_called(self) -> None:
        self.story.hot("strategy/alpha")
        assert self.story.devices_of("strategy/alpha") == ["ram"]

    def comfy(self, gib: int) -> None:
        self.story.strangers["gpu1"] = gib * GIB
        self.look()

    def look(self) -> None:
        """The next sample of gpu1, in which the training is shown."""
        held = {self.reservation: self.training} if self.reservation else {}
        used = self.story.strangers["gpu1"] + self.training
        self.story.sample("gpu1", held_bytes=held, used_bytes=used)

    def training_begins(self) -> None:
        reserve = events.Reserve(request=900, device="gpu1", bytes=8 * GIB, holder=1000, pid=4711)
        self.story.tell(reserve)
        self.reservation = next(iter(self.story.core.world.reservations))

    def training_and_comfy_grow(self) -> None:
        self.training = 2 * GIB
        self.comfy(13)

    def vision_is_called(self) -> None:
        self.story.wait(60)
        self.story.call(self.story.get("llm"))  # so that tts is what is idle
        self.story.silent = {"gpu1"}  # its samples are told by hand, see `look`
        self.look()
        self.story.get("vision", timeout=60)
        assert self.story.state("tts") is State.DRAINING

    def tts_ends(self) -> None:
        self.story.stick("tts", "gpu0")
        self.story.answer_drain("tts")
        self.story.exit("tts", status=0)
        assert self.story.state("vision") is State.COLD

    def driver_frees_tts(self) -> None:
        self.story.wait(0.8)
        self.look()
        self.story.unstick("gpu0")
        self.story.ready("vision")

    def vision_crashes(self) -> None:
        self.story.sticky[self.story.worker("vision"), "gpu0"] = GIB
        self.story.exit("vision", signal=11)
        self.story.wait(5.1)
        self.story.sample("gpu0")
        quarantine = self.story.core.world.ledger.devices["gpu0"].quarantine
        assert [(lost.model, lost.bytes) for lost in quarantine] == [("vision", GIB)]

    def training_ends(self) -> None:
        self.story.tell(events.Unreserve(reservation=self.reservation))
        self.training, self.reservation = 0, ""
        self.look()

    def figures(self) -> list[float]:
        devices = [self.story.core.world.ledger.devices[name] for name in ("gpu0", "gpu1")]
        return [n / GIB for d in devices for n in (d.booked_bytes, d.foreign_bytes, d.free_bytes)]


def test_the_afternoon_on_the_page_is_what_the_ledger_says() -> None:
    afternoon = Afternoon()
    told = list(rows())
    for deed, (what, figures) in zip(afternoon.deeds, told, strict=True):
        deed()
        assert afternoon.figures() == figures, what
