"""What was fetched for a URL, as it is written down beside it. Standard library only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Fetched:
    """One file."""

    name: str
    """Relative to the folder of its model."""
    bytes: int
    mark: str
    """What the server said of it, by which a change is seen."""
    sha256: str


@dataclass(frozen=True)
class Entry:
    """All that one URL names."""

    key: str
    """As `lazyd.urls.key_of` makes it."""
    url: str
    """As people may read it."""
    tree: str
    """Names the folder in which the files are: another content is another folder."""
    files: tuple[Fetched, ...]
    checked: float
    """When it was last compared with what the server has; seconds since 1970."""
    used: float
    """When a model was last loaded from it, as far as the fetcher was told."""
    before: str = ""
    """The tree that it has taken the place of: models in memory may still read there."""

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, text: bytes) -> Entry:
        """Raises `ValueError` for what is none."""
        try:
            told = json.loads(text)
            return cls(**{**told, "files": tuple(Fetched(**file) for file in told["files"])})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no entry: {error}") from None
