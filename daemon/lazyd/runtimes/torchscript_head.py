"""What a PyTorch file says of itself, without PyTorch: which of three kinds it is, its methods, its weights' size.

All three are zip archives with one folder in them:

| kind        | what tells it                                   | how it is made        |
|-------------|-------------------------------------------------|-----------------------|
| TorchScript | ``constants.pkl`` and ``code/``                 | ``torch.jit.save``    |
| exported    | ``archive_format`` is ``pt2``                   | ``torch.export.save`` |
| pickled     | ``data.pkl`` alone; or no archive, but a pickle | ``torch.save``        |

A pickle is a program that whoever loads it runs, and so is an exported program: its loader unpickles, evaluates
expressions in it and runs code made of it. Here pickles are only looked through, opcode by opcode, never run.
TorchScript has an interpreter of its own, whose archives PyTorch reads without Python.
"""

from __future__ import annotations

import enum
import json
import pickletools
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import checked, torchscript_signature
from .arrays import Port

if TYPE_CHECKING:
    from .torchscript_signature import Signature

WHAT = "a PyTorch model"
_MOST = 64 << 20
"""Bytes of one record that is read here."""
_MOST_OPCODES = 64
"""So far into a pickle its first class is looked for."""
_WEIGHTS = ("data/", "constants/", "data/weights/", "data/constants/")
_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
}
"""By PyTorch's number in exported programs (``torch/_export/serde/schema.py``: ScalarType)."""


class Kind(enum.Enum):
    """How it is loaded."""

    SCRIPT = "TorchScript"
    EXPORTED = "torch.export"
    PICKLED = "pickle"


@dataclass(frozen=True)
class Head:
    """What one file says."""

    path: str
    kind: Kind
    file_bytes: int
    weight_bytes: int
    version: str | None = None
    """Of the archive's format."""
    producer: str | None = None
    """Version of PyTorch that wrote it, where it says so."""
    class_name: str | None = None
    methods: dict[str, Signature] = field(default_factory=dict)
    inputs: tuple[Port, ...] | None = None
    """Of an exported program, if they are plain arrays."""
    outputs: tuple[Port, ...] | None = None

    @property
    def trusted_as(self) -> str | None:
        """What it is that runs as its author pleases when it is loaded; None: nothing in it does."""
        if self.kind is Kind.PICKLED:
            return f"a pickled {self.class_name}" if self.class_name else "a pickle"
        return "an exported program, which is unpickled and evaluated" if self.kind is Kind.EXPORTED else None


def read(path: str | None) -> Head:
    """Raises `OSError`, and `ValueError` with one clear line for what is no such file or is cut short."""
    size = checked.model_file(path, "torchscript", WHAT)
    assert path is not None
    with open(path, "rb") as file:
        start = file.read(4)
    if start[:1] == b"\x80" and start[1:2] <= b"\x05" and len(start) > 1:
        return Head(path, Kind.PICKLED, size, size)
    if start != b"PK\x03\x04":
        raise ValueError(f"{path} is not {WHAT}: it is no archive")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(_Archive(path, size, archive))
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not a whole archive ({error}): it is truncated, or damaged") from None
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError, NotImplementedError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({type(error).__name__}: {error})") from None


class _Archive:
    """The records of one archive, without the folder that they are in."""

    def __init__(self, path: str, size: int, archive: zipfile.ZipFile) -> None:
        self.path, self.size, self._zip = path, size, archive
        infos = archive.infolist()
        folder, slash, _ = infos[0].filename.partition("/") if infos else ("", "", "")
        root = folder + slash if slash else ""  # as PyTorch has it: that of the first record counts
        self.records = {info.filename[len(root) :]: info for info in infos if info.filename.startswith(root)}
        for info in infos:
            if info.header_offset + info.compress_size > size:
                raise ValueError(f"{path} is truncated: {info.filename} ends beyond the end of the file")

    def __contains__(self, name: str) -> bool:
        return name in self.records

    def has(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self.records)

    def read(self, name: str) -> bytes:
        info = self.records[name]
        if info.file_size > _MOST:
            raise ValueError(f"{self.path}: {name} has {info.file_size} bytes, too many to look at")
        try:
            return self._zip.read(info)
        except Exception as error:  # zlib's own, and what zipfile raises for a damaged record
            raise ValueError(f"{self.path}: {name} is damaged ({error})") from None

    def text(self, name: str) -> str | None:
        return self.read(name).decode("utf-8", "replace").strip() if name in self else None

    def json(self, name: str) -> Any:
        try:
            return json.loads(self.read(name))
        except ValueError as error:
            raise ValueError(f"{self.path}: {name} is damaged ({error})") from None

    @property
    def weight_bytes(self) -> int:
        return sum(info.file_size for name, info in self.records.items() if name.startswith(_WEIGHTS))


def _read(archive: _Archive) -> Head:
    if "constants.pkl" in archive and archive.has("code/"):
        return _script(archive)
    if archive.text("archive_format") == "pt2":
        return _exported(archive)
    if "data.pkl" in archive:
        return _head(archive, Kind.PICKLED, class_name=_first_class(archive.read("data.pkl")))
    if "serialized_exported_program.json" in archive:
        raise ValueError(f"{archive.path} was exported by a PyTorch before 2.8: export it again")
    raise ValueError(f"{archive.path} is not {WHAT}: it is an archive of something else")


def _head(archive: _Archive, kind: Kind, **more: Any) -> Head:
    sizes = {"file_bytes": archive.size, "weight_bytes": archive.weight_bytes}
    return Head(archive.path, kind, **{**sizes, "version": archive.text("version"), **more})


def _script(archive: _Archive) -> Head:
    name = _first_class(archive.read("data.pkl"))
    if name is None or not name.startswith("__torch__"):
        raise ValueError(f"{archive.path} is damaged: its data.pkl names no module")
    module, _, class_name = name.rpartition(".")
    text = archive.text(f"code/{module.replace('.', '/')}.py") or ""
    methods = torchscript_signature.methods(f"{text}\n", class_name)
    return _head(archive, Kind.SCRIPT, class_name=name.replace("__torch__.", "", 1), methods=methods)


def _exported(archive: _Archive) -> Head:
    if "models/model.json" not in archive:
        raise ValueError(f"{archive.path} is no exported program: it has no models/model.json")
    program = archive.json("models/model.json")
    inputs, outputs = _ports(program["graph_module"])
    version, producer = archive.text("archive_version"), program.get("torch_version")
    more = {"version": version, "producer": producer, "inputs": inputs, "outputs": outputs}
    return _head(archive, Kind.EXPORTED, **more)


def _ports(module: dict[str, Any]) -> tuple[tuple[Port, ...] | None, tuple[Port, ...] | None]:
    """What goes in, named as ``forward`` has it, and what comes out; None for what is not plain arrays."""
    signature = module["signature"]
    given = [spec["user_input"]["arg"] for spec in signature["input_specs"] if "user_input" in spec]
    made = [spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec]
    calls = [call["signature"] for call in module["module_call_graph"] if call["fqn"] == "" and call["signature"]]
    names = (calls[0].get("forward_arg_names") if calls else None) or ()
    inputs = _arrays(module, given)
    if inputs is None or len(names) != len(inputs):  # else arrays in lists or dicts
        return None, _arrays(module, made)
    return tuple(port._replace(name=name) for port, name in zip(inputs, names)), _arrays(module, made)


def _arrays(module: dict[str, Any], arguments: list[dict[str, Any]]) -> tuple[Port, ...] | None:
    if not all("as_tensor" in argument for argument in arguments):
        return None
    names = [argument["as_tensor"]["name"] for argument in arguments]
    values = module["graph"]["tensor_values"]
    return tuple(
        Port(name, _DTYPES.get(values[name]["dtype"]), tuple(size.get("as_int") for size in values[name]["sizes"]))
        for name in names
    )


def _first_class(pickle: bytes) -> str | None:
    """The class of the object that a pickle makes first: ``module.name``."""
    texts: list[str] = []
    try:
        for step, (opcode, argument, _) in enumerate(pickletools.genops(pickle)):
            if opcode.name == "GLOBAL":
                return ".".join(str(argument).split(" ", 1))
            if opcode.name == "STACK_GLOBAL":
                return ".".join(texts[-2:])
            if isinstance(argument, str):
                texts.append(argument)
            if step > _MOST_OPCODES:
                return None
    except Exception:  # whatever it trips over: it is damaged, which loading will tell
        return None
    return None
