"""Generation with ONNX Runtime: the caches that one pass gives are the caches that the next pass takes."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from bench.api.decoder import IDS, Request
from bench.api.generation import Stepper
from bench.onnxfile.deferred import np


class OrtStepper(Stepper, abc.ABC):
    """An `InferenceSession` of a file with the interface of one pass, see `bench.api.decoder.Decoder`."""

    def __init__(self, session: Any, request: Request) -> None:
        super().__init__(request)
        self._session = session
        decoder = request.decoder
        self._past = [spec.name for spec in decoder.inputs[1:]]
        self._outputs = [spec.name for spec in decoder.outputs]
        shape = (1, decoder.num_groups, 0, decoder.head_size)
        self._empty = [self.value(np.zeros(shape, np.float32)) for _ in self._past]
        self._caches: Sequence[Any] = self._empty

    @abc.abstractmethod
    def value(self, array: np.ndarray) -> Any:
        """A tensor in the form that the caches have."""

    @abc.abstractmethod
    def advance(self, ids: np.ndarray, caches: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Run one pass: the logits as a host array, and the caches after it."""

    @property
    def depth(self) -> int:
        return int(self._caches[0].shape[2])

    def start(self, prompt: np.ndarray) -> Any:
        logits, self._caches = self.advance(prompt[None], self._empty)
        return logits.reshape(-1)

    def step(self, token: int) -> Any:
        logits, self._caches = self.advance(np.array([[token]], np.int64), self._caches)
        return logits.reshape(-1)

    def close(self) -> None:
        self._session = None
        self._caches = self._empty = []


class ArrayStepper(OrtStepper):
    """Caches are host arrays, which each pass copies out."""

    def value(self, array: np.ndarray) -> Any:
        return array

    def advance(self, ids: np.ndarray, caches: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        logits, *after = self._session.run(self._outputs, {IDS: ids, **dict(zip(self._past, caches, strict=True))})
        return logits, after


class BoundStepper(OrtStepper):
    """Caches are values of ONNX Runtime, bound as outputs and then as inputs: nothing but ids and logits is copied."""

    def __init__(self, session: Any, request: Request) -> None:
        self._binding = session.io_binding()
        super().__init__(session, request)

    def value(self, array: np.ndarray) -> Any:
        import onnxruntime

        return _Shaped(onnxruntime.OrtValue.ortvalue_from_numpy(array))

    def advance(self, ids: np.ndarray, caches: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        binding = self._binding
        binding.bind_cpu_input(IDS, ids)
        for name, cache in zip(self._past, caches, strict=True):
            binding.bind_ortvalue_input(name, cache.value)
        binding.clear_binding_outputs()
        for name in self._outputs:
            binding.bind_output(name)
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()  # a device may still be copying
        logits, *after = binding.get_outputs()
        return logits.numpy(), [_Shaped(value) for value in after]

    def close(self) -> None:
        super().close()
        self._binding = None


class _Shaped:
    """A value of ONNX Runtime that tells its shape as an array does."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def shape(self) -> Sequence[int]:
        return self.value.shape()
