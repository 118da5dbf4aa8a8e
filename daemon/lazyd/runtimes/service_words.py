"""The words that stand for something in a service's command: ``${port}``.

| word | stands for |
|---|---|
| `port` | the port that it is to open on 127.0.0.1, another one at each start |
| `device` | ``cuda`` where it was given a GPU, ``cpu`` otherwise |
| `gpus` | the UUIDs of its GPUs, with commas; empty in RAM |
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLACEHOLDER = re.compile(r"\$\{(\w*)\}")
WORDS = ("port", "device", "gpus")


def filled(texts: Iterable[str], words: Mapping[str, str]) -> list[str]:
    """The texts with what their words stand for; other ``${…}`` stay as they are."""
    return [PLACEHOLDER.sub(lambda found: words.get(found[1], found[0]), text) for text in texts]
