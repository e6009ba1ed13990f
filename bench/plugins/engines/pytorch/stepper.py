"""Generation with PyTorch: a decoder of transformers with a static cache, called as it is or compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.api.decoder import Request
from bench.api.generation import Stepper
from bench.onnxfile.deferred import np, torch


class TorchStepper(Stepper):
    """A static cache of as many tokens as a request needs.

    Args:
        step: one pass of the decoder, see `bench.plugins.engines.pytorch.steps.Step`, on its device and in its type.
        request: the request.
        wrap: makes the function to call from the module, once for prefills and once for decode steps.
        precision: see `Session.precision`.
    """

    def __init__(self, step: Any, request: Request, wrap: Callable[[Any], Any], precision: str) -> None:
        super().__init__(request)
        from bench.plugins.engines.pytorch.steps import StaticStep

        weight = next(step.parameters())
        self.precision = precision
        self.num_params = sum(parameter.numel() for parameter in step.parameters())
        self.reserved_tokens, self.cache_bytes = request.longest, weight.element_size()
        # The default of transformers is PyTorch's fused attention, which has no scores to cap.
        model = step.model
        is_fused = model._supports_sdpa and getattr(model.config, "attn_logit_softcapping", None) is None
        model.config._attn_implementation = "sdpa" if is_fused else "eager"
        self._static = StaticStep(step, request.longest).to(weight.device).eval()
        self._device = weight.device
        self._prefill, self._decode = wrap(self._static), wrap(self._static)
        self._position = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._cache = self._static.cache
        decoder = request.decoder
        self._cache.early_initialization(
            batch_size=1,
            num_heads=decoder.num_groups,
            head_dim=decoder.head_size,
            dtype=weight.dtype,
            device=weight.device,
        )

    @property
    def depth(self) -> int:
        return int(self._cache.get_seq_length())

    def start(self, prompt: np.ndarray) -> Any:
        with torch.inference_mode():
            self._cache.reset()
            self._position.zero_()
            return self._run(self._prefill, torch.from_numpy(prompt)[None].to(self._device))

    def step(self, token: int) -> Any:
        with torch.inference_mode():
            return self._run(self._decode, torch.tensor([[token]], device=self._device))

    def _run(self, call: Any, ids: torch.Tensor) -> Any:
        logits = call(ids, self._position)
        self._position += ids.shape[1]
        return logits.reshape(-1).float().cpu().numpy()


class PassStepper(Stepper):
    """A cache that grows: the tensors that one pass gives are those that the next pass takes.

    Args:
        call: one pass on the processor, with the inputs and outputs of `bench.api.decoder.Decoder`.
        request: the request.
        num_params: see `Session.num_params`.
        precision: see `Session.precision`.
    """

    def __init__(self, call: Callable[..., Any], request: Request, num_params: int | None, precision: str) -> None:
        super().__init__(request)
        self._call, self.num_params, self.precision = call, num_params, precision
        decoder = request.decoder
        self._empty = [torch.zeros(1, decoder.num_groups, 0, decoder.head_size) for _ in decoder.inputs[1:]]
        self._caches: Sequence[torch.Tensor] = self._empty

    @property
    def depth(self) -> int:
        return self._caches[0].shape[2]

    def start(self, prompt: np.ndarray) -> Any:
        self._caches = self._empty
        return self._run(torch.from_numpy(prompt)[None])

    def step(self, token: int) -> Any:
        return self._run(torch.tensor([[token]]))

    def _run(self, ids: torch.Tensor) -> Any:
        with torch.inference_mode():
            logits, *self._caches = self._call(ids, *self._caches)
            return logits.reshape(-1).numpy()
