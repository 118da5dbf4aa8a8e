"""Files elsewhere, without a network: a stand-in for `lazyd.fetch.remote.Remote`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lazyd.fetch.failures import Failed, Unreachable
from lazyd.fetch.remote import Info, Remote


class Elsewhere:
    """What is there, by URL. `open` opens one, as `Remote` does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.marks: dict[str, str] = {}
        self.reads: list[tuple[int, int]] = []
        self.breaks: list[int] = []
        """The next reads that would go beyond one of these bytes break there, each once."""
        self.broken_beyond: int | None = None
        """Every read that would go beyond this byte breaks."""
        self.before_read: Callable[[], object] = lambda: None
        self.reachable = True
        self.ranges = True
        self.says_sizes = True

    def put(self, url: str, data: bytes) -> str:
        self.files[url] = data
        self.marks[url] = f"{hash(data)}"
        return url

    def open(self, url: str) -> Remote:
        return One(self, url)  # type: ignore[return-value]


class One:
    """One of them."""

    def __init__(self, there: Elsewhere, url: str) -> None:
        self._there = there
        self._url = url

    def info(self) -> Info:
        data = self._data()
        size = len(data) if self._there.says_sizes else None
        return Info(bytes=size, mark=self._there.marks[self._url], ranges=self._there.ranges and size is not None)

    def read(self, start: int, end: int) -> bytes:
        self._there.before_read()
        if self._there.broken_beyond is not None and end > self._there.broken_beyond:
            raise Unreachable("the connection broke")
        if self._there.breaks and end > self._there.breaks[0]:
            self._there.breaks.pop(0)
            raise Unreachable("the connection broke")
        self._there.reads.append((start, end))
        return self._data()[start:end]

    def stream(self, chunk: int) -> Iterator[bytes]:
        data = self._data()
        yield from (data[place : place + chunk] for place in range(0, len(data), chunk))

    def below(self) -> list[str]:
        self._data_of_all()
        return sorted(url.removeprefix(self._url) for url in self._there.files if url.startswith(self._url))

    def _data(self) -> bytes:
        self._data_of_all()
        if self._url not in self._there.files:
            raise Failed(f"{self._url}: there is no such file")
        return self._there.files[self._url]

    def _data_of_all(self) -> None:
        if not self._there.reachable:
            raise Unreachable(f"{self._url}: no route to host")
