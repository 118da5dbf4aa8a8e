"""Which files a model consists of, as far as their names tell."""

from __future__ import annotations

import os
import re

SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)")
"""A model in several files is named by the first of them."""
PADDLE_WEIGHTS = ".pdiparams"
"""Stands beside a program of Paddle."""


def parts(path: str, *, is_directory: bool) -> list[str] | None:
    """The files that have to be there for `path` to be a model, itself the first; None: its name says that it is none.

    Of a directory: the files in it. Raises OSError.
    """
    if is_directory:
        with os.scandir(path) as entries:
            files = [entry.path for entry in entries if not entry.name.startswith(".") and entry.is_file()]
        return files or None
    name = os.path.basename(path)
    split = SPLIT.fullmatch(name)
    if split is not None:
        head, number, count, ending = split.groups()
        if int(number) != 1:
            return None
        directory = os.path.dirname(path)
        return [os.path.join(directory, f"{head}-{n:05d}-of-{count}{ending}") for n in range(1, int(count) + 1)]
    stem, ending = os.path.splitext(path)
    is_paddle = ending == ".pdmodel" or name == "inference.json"
    return [path, stem + PADDLE_WEIGHTS] if is_paddle else [path]
