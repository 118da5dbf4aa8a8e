"""What a GGUF model consists of: its headers read as one, and the bytes of its tensors by where they are used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .gguf import Header, Tensor

EMBEDDING = "token_embd.weight"
_BLOCK = re.compile(r"blk\.(\d+)\.")
_OUTPUT = ("output.", "output_norm.")


class Model:
    """All parts of one model; the first tells of the whole."""

    def __init__(self, headers: Sequence[Header]) -> None:
        self.headers = headers
        self.header = headers[0]
        self.layers = self.header.of_architecture("block_count")

    @property
    def tensors(self) -> Iterator[Tensor]:
        return (tensor for header in self.headers for tensor in header.tensors)

    @property
    def words(self) -> int:
        """In its vocabulary."""
        rows = (tensor.shape[-1] for tensor in self.tensors if tensor.name == EMBEDDING)
        return next(rows, self.header.of_architecture("vocab_size"))


@dataclass(frozen=True)
class Weights:
    """Bytes of the tensors."""

    layers: tuple[int, ...]
    output: int
    """The last layer, on a GPU: there it has a copy of the embedding if it has no other matrix."""
    output_in_ram: int
    """The same in RAM, where the embedding serves as it is."""
    input: int
    """What stays in RAM wherever the layers go."""
    largest: int
    """Of one tensor of a layer."""
    repacked: int
    """Of those that are copied for this machine's processor when they are loaded into RAM."""

    @property
    def in_ram(self) -> int:
        return sum(self.layers) + self.output_in_ram + self.input


def weights(model: Model, repacked: Collection[str]) -> Weights:
    """`repacked` are the types that are copied."""
    layers = [0] * model.layers
    output = entering = embedding = largest = copied = 0
    has_matrix = False
    for tensor in model.tensors:
        block = _BLOCK.match(tensor.name)
        if block is not None and int(block[1]) < len(layers):
            layers[int(block[1])] += tensor.bytes
            largest = max(largest, tensor.bytes)
        elif tensor.name.startswith(_OUTPUT):
            output += tensor.bytes
            has_matrix = has_matrix or tensor.name == "output.weight"
        else:
            entering += tensor.bytes
            embedding += tensor.bytes if tensor.name == EMBEDDING else 0
        copied += tensor.bytes if tensor.kind in repacked and may_be_repacked(tensor) else 0
    return Weights(
        layers=tuple(layers),
        output=output if has_matrix else output + embedding,
        output_in_ram=output,
        input=entering,
        largest=largest,
        repacked=copied,
    )


def may_be_repacked(tensor: Tensor) -> bool:
    """Whether it is a matrix that is multiplied with, and whose rows can be taken together."""
    return len(tensor.shape) > 1 and tensor.shape[1] % 8 == 0 and tensor.name != EMBEDDING
