"""The first look at GPUs, while the rest of the manager starts: its start does not wait for a slow driver."""

from __future__ import annotations

import contextlib
import threading

from .source import DeviceGone, Sample, Source


class FirstLook:
    """Names the devices of a source and samples each once, in a thread of its own, which begins at once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._samples: list[Sample] = []
        self._named = threading.Event()
        self._done = threading.Event()
        threading.Thread(target=self._run, name="first look", daemon=True).start()

    def samples(self, within_s: float) -> list[Sample]:
        """What has been seen so far; waits for the rest, but not for long."""
        self._done.wait(within_s)
        return list(self._samples)

    def until_named(self) -> None:
        """Waits until the source has named its devices, or has said that it cannot; perhaps for ever."""
        self._named.wait()

    def _run(self) -> None:
        try:
            for name in self._names():
                with contextlib.suppress(DeviceGone, OSError):
                    self._samples.append(self._source.sample(name))
        finally:
            self._done.set()

    def _names(self) -> list[str]:
        try:
            return self._source.names()
        except OSError:
            return []  # whoever asks next is told why
        finally:
            self._named.set()
