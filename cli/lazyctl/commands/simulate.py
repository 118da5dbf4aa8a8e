"""``lazyctl simulate``: what another configuration would have cost."""

from __future__ import annotations

import click

from lazyd.replay.facts import UNKNOWN_BYTES, UNKNOWN_LOAD_S, nothing_known
from lazyd.replay.outcome import Outcome

from ..group import Bytes, Duration, command
from ..program import complain
from ..session import Session
from ..simulate_input import CannotSimulate, Played, gather
from ..simulate_plot import plot_lines
from ..simulate_report import as_json, report_lines
from ..simulate_runs import Runs
from ..simulate_svg import svg as picture


@command(
    examples="""
        lazyctl simulate
        lazyctl simulate --with new.toml --since 7d --svg new.svg
        lazyctl simulate --csv uses.csv --load-sec 4 --memory 2GiB
        lazyctl --json simulate | jq .ratio
    """
)
@click.option("--with", "other", metavar="FILE", type=click.Path(), help="A lazyd.toml to compare today's with.")
@click.option("--csv", metavar="FILE", type=click.Path(), help="Replay these uses: time, model, busy seconds.")
@click.option("--since", metavar="T", type=Duration(), help="Only uses of the last T, as 7d.")
@click.option("--svg", metavar="FILE", type=click.Path(), help="Draw the plot into this file, too.")
@click.option("--load-sec", metavar="S", type=click.FloatRange(min=0), help="Load time of unknown models; else 5.")
@click.option("--memory", metavar="BYTES", type=Bytes(), help="Memory of unknown models; else 256MiB.")
@click.pass_obj
def simulate(
    session: Session,
    other: str | None,
    csv: str | None,
    since: float | None,
    svg: str | None,
    load_sec: float | None,
    memory: int | None,
) -> int:
    """Replay the recorded uses under another configuration, and compare what it costs.

    The uses that lazyd has recorded (or those of a CSV file) are played twice
    through its own rules, in virtual time: with the configuration in force, and with
    FILE. Without --with, today's is compared with the same without what it
    learns: fixed idle times, and nothing loaded before it is asked for.

    \b
    A CSV file has a line for each use: the time (seconds since 1970, or as
    2026-12-02T14:30:00Z), the model, and for how many seconds it was busy
    (may be left out). A first line may name the columns: time,model,busy.

    Nothing is loaded and nothing is changed.
    """
    supposed = nothing_known(UNKNOWN_LOAD_S if load_sec is None else load_sec, memory or UNKNOWN_BYTES)
    try:
        played = gather(session, csv, other, since, supposed)
        outcomes = _played(session, played)
        if svg is not None:
            _write(svg, picture(played, outcomes))
    except CannotSimulate as error:
        return max(complain(line, 1) for line in error.lines)
    if session.json:
        session.print_json(as_json(played, outcomes))
        return 0
    plot = plot_lines(played, outcomes, session.out)
    session.say(*report_lines(played, outcomes, session.out), *([""] if plot else []), *plot)
    return 0


def _played(session: Session, played: Played) -> tuple[Outcome, Outcome]:
    runs = Runs(played)
    if not session.err.height:
        return runs.outcomes(lambda _: None)
    from ..progress import PartBar

    with PartBar(f"replaying {len(played.uses):,} uses twice") as bar:
        return runs.outcomes(bar.show)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CannotSimulate(f"{path} cannot be written: {error.strerror or error}") from None
