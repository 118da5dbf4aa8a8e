from __future__ import annotations

import os

from lazyd.worker.loop import Loop


def test_a_watch_that_ended_earlier_in_the_same_step_is_not_called() -> None:
    """A worker's exit and its last output are often seen at once: the exit closes the log's pipe."""
    loop = Loop()
    pipes = [os.pipe() for _ in range(2)]
    seen: list[int] = []

    def take(mine: int, other: int) -> None:
        seen.append(os.read(mine, 10)[0])
        loop.watch(other)
        os.close(other)

    (first, first_in), (second, second_in) = pipes
    loop.watch(first, read=lambda: take(first, second))
    loop.watch(second, read=lambda: take(second, first))
    for writer in (first_in, second_in):
        os.write(writer, b"x")
    loop.step()
    assert seen == [ord("x")]
    loop.close()
