"""Long texts for warm-ups."""

from __future__ import annotations


def repeated(text: str, words: int) -> str:
    """The words of a text over and over, so many in all."""
    known = text.split() or ["a"]
    return " ".join(known[i % len(known)] for i in range(words))
