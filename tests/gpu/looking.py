"""Looks at GPUs as the manager does, in a process of its own: ``python -m tests.gpu.looking``.

It obeys lines: ``names``, answered with a list, and the name of a device, answered with its sample; JSON.
"""

from __future__ import annotations

import sys

import msgspec

from lazyd.devices.nvml import Nvml


def main() -> None:
    gpus = Nvml()
    for line in sys.stdin:
        word = line.strip()
        print(msgspec.json.encode(gpus.names() if word == "names" else gpus.sample(word)).decode(), flush=True)


if __name__ == "__main__":
    main()
