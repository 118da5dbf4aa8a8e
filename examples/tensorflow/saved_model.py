"""The factory: ``load`` makes the object that clients call. Its interpreter needs TensorFlow, and nothing of lazyd."""

from __future__ import annotations

from typing import Any


class SavedModel:
    """One signature of a SavedModel: ``predict(x=array) -> {output: array}``."""

    def __init__(self, path: str, signature: str) -> None:
        import tensorflow

        self._tensorflow = tensorflow
        self._model = tensorflow.saved_model.load(path)  # it goes if nobody holds it
        if signature not in self._model.signatures:
            raise ValueError(f"{path} has no signature {signature}; it has {', '.join(self._model.signatures)}")
        self._call = self._model.signatures[signature]
        self._inputs: dict[str, Any] = self._call.structured_input_signature[1]

    def inputs(self) -> dict[str, dict[str, Any]]:
        """Type and shape by name; a length that may be any is None."""
        return {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list() if spec.shape.rank is not None else None}
            for name, spec in self._inputs.items()
        }

    def predict(self, **arrays: Any) -> dict[str, Any]:
        if arrays.keys() != self._inputs.keys():
            raise ValueError(f"given {', '.join(arrays) or 'nothing'}; expected {self._expected()}")
        try:
            tensors = {
                name: self._tensorflow.convert_to_tensor(array, self._inputs[name].dtype)
                for name, array in arrays.items()
            }
            return {name: tensor.numpy() for name, tensor in self._call(**tensors).items()}
        except (TypeError, ValueError, self._tensorflow.errors.InvalidArgumentError) as error:
            raise ValueError(f"{str(error).splitlines()[0]}; expected {self._expected()}") from error

    def _expected(self) -> str:
        return ", ".join(f"{name}: {spec.dtype.name}{spec.shape}" for name, spec in self._inputs.items())


def load(path: str, signature: str = "serving_default") -> SavedModel:
    """TensorFlow takes all memory of a GPU at once unless it is told to take what it needs: then nothing of lazyd's
    budget would be true. That can be told only before the first use of the GPU, so it is the first thing here."""
    import tensorflow

    for gpu in tensorflow.config.list_physical_devices("GPU"):
        tensorflow.config.experimental.set_memory_growth(gpu, True)
    return SavedModel(path, signature)
