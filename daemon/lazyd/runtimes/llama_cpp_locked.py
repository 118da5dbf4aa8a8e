"""Whether options of a llama.cpp model lock pages that nobody can account for.

Imports nothing: a configuration is checked with it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WHY = "the kernel counts its locked pages as used, and nobody can tell whose they are"
REMEDY = "say use_mmap = false beside it, or leave it out"


def is_mapped(options: Mapping[str, Any]) -> bool:
    """The weights in RAM are pages of the file."""
    return bool(options.get("use_mmap", True)) and options.get("lora_path") is None


def locks_a_mapped_file(options: Mapping[str, Any]) -> bool:
    """``use_mlock`` locks pages of the file itself, and not memory of the process's own."""
    return is_mapped(options) and bool(options.get("use_mlock"))
