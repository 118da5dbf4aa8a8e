"""``python -m examples.ocr.chains [RUNS]``: three pipelines at once, with room for one of them and a bit.

Each has three networks of its own, and is called by a program of its own; so in every run all three
are evicted for each other. Without rules for models that call models each would hold a part of what
it needs, and wait for the rest for ever.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lazyd
from demo.stage import MODELS, Failed, Stage

from . import page

CHAINS = ("one", "two", "three")
CHECKOUT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
"""What no call may take, however slow the machine: then it counts as stuck."""
RAM = "700MiB"


def configuration(ram: str = RAM) -> str:
    """Three chains of the same files."""
    return f'[budget]\nram = "{ram}"\n' + "".join(map(chain, CHAINS))


def chain(name: str) -> str:
    """A pipeline and its three networks."""
    networks = {network: f"{network}-{name}" for network in ("det", "cls", "rec")}
    models = "".join(
        f'[models.{own}]\nruntime = "onnx"\npath = "{MODELS}/ocr/{network}.onnx"\n' for network, own in networks.items()
    )
    options = "\n".join(f'{network} = "{own}"' for network, own in networks.items())
    return f"""{models}
[models.ocr-{name}]
runtime = "python"
factory = "examples.ocr.pipeline:reader"
python_path = ["{CHECKOUT}"]
memory = "100MiB"
uses = {list(networks.values())}
[models.ocr-{name}.options]
{options}
"""


def read(client: lazyd.Client, name: str) -> list[str]:
    """What a chain reads on a page that bears its name. Raises `lazyd.Timeout` if it is stuck."""
    lines: list[dict[str, Any]] = client.model(f"ocr-{name}", timeout=LIMIT_S).read(page.drawn([f"chain {name}"]))
    return [line["text"] for line in lines]


def runs(stage: Stage, count: int) -> int:
    """All chains at once, so many times. The loads that it took. Raises `Failed` if one reads anything wrong."""
    with lazyd.connect(str(stage.socket)) as client, ThreadPoolExecutor(len(CHAINS)) as pool:
        for run in range(count):
            texts = list(pool.map(lambda name: read(client, name), CHAINS))
            if texts != [[f"chain {name}"] for name in CHAINS]:
                raise Failed(f"run {run} reads {texts}")
        return sum(model["loads"] for model in client.status()["models"])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with Stage(configuration()) as stage:
        stage.start()
        stage.wait_until_running()
        began = time.monotonic()
        loads = runs(stage, count)
        print(f"{count} runs of {len(CHAINS)} chains, none stuck: {loads} loads in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
