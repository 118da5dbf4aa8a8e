"""``python -m examples.ocr.chains [RUNS]``: three pipelines begin at once, where there is room for two.

Each has three networks of its own and a caller of its own. In every run all begin cold, and one has to wait
until others may be evicted for it. Without rules for models that call models each would hold a part of what
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
AMPLE, TIGHT = "1GiB", "200MiB"
"""A chain needs some 90 MiB, once that has been learned; the first time more than twice as much is kept for it."""


def configuration(ram: str) -> str:
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


def at_once(client: lazyd.Client) -> None:
    """One run. Raises `Failed` if a chain reads anything wrong, `lazyd.Timeout` if one is stuck."""
    with ThreadPoolExecutor(len(CHAINS)) as pool:
        texts = list(pool.map(lambda name: read(client, name), CHAINS))
    if texts != [[f"chain {name}"] for name in CHAINS]:
        raise Failed(f"they read {texts}")


def runs(stage: Stage, count: int) -> int:
    """So many runs in too little memory, after one from which lazyd learns. The evictions that they took."""
    with lazyd.connect(str(stage.socket)) as client:
        at_once(client)
        stage.config.write_text(configuration(TIGHT))
        client.reload()
        for _ in range(count):
            client.unload(all=True)
            at_once(client)
        return sum(model["evictions"] for model in client.status()["models"])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with Stage(configuration(AMPLE)) as stage:
        stage.start()
        stage.wait_until_running()
        began = time.monotonic()
        evictions = runs(stage, count)
        took = time.monotonic() - began
        print(f"{count} runs of {len(CHAINS)} chains, none stuck: {evictions} evictions in {took:.0f} s")


if __name__ == "__main__":
    main()
