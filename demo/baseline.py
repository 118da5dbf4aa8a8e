"""The same work without lazyd, measured: the floor of everything that the demo shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("bare.py")


@dataclass(frozen=True)
class Bare:
    """What one run of the script took, in seconds from starting its process, and held, in bytes."""

    text: str
    first_token_s: float
    answer_s: float
    again_s: float
    """The same question to the model now loaded: from asking to the whole answer."""
    resident_bytes: int


def measure(model: Path, n_ctx: int, prompt: str, max_tokens: int) -> Bare:
    """Runs the script in a process of its own.

    Raises:
        subprocess.CalledProcessError: it failed; its output says why.
    """
    command = [sys.executable, str(SCRIPT), str(model), str(n_ctx), prompt, str(max_tokens)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    return Bare(
        text=seen["text"],
        first_token_s=seen["first_token_at"] - began,
        answer_s=seen["answer_at"] - began,
        again_s=seen["again_s"],
        resident_bytes=seen["resident_pages"] * os.sysconf("SC_PAGE_SIZE"),
    )
