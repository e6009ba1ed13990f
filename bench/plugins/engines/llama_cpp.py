"""Generation with llama.cpp: its server in this process, called without a socket, which streams an answer by tokens.

Shapes: P tokens of a prompt, F forced tokens, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.decoder import Request
from bench.api.errors import ArtifactError, GenerationError
from bench.api.generation import Emit, Generator, Told
from bench.onnxfile.deferred import np
from bench.plugins.engines.byte_level import bytes_by_character
from bench.plugins.engines.counted_session import CountedSession

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted

_PRECISIONS = {"ALL_F32": "float32", "MOSTLY_F16": "float16", "MOSTLY_Q8_0": "int8", "MOSTLY_Q4_0": "int4"}
"""Precision of the weights by the name of a file's type; products are of weights as they are stored."""
_PRECISIONS |= dict.fromkeys(("MOSTLY_Q4_K_S", "MOSTLY_Q4_K_M"), "int4")
_GREEDY: Mapping[str, Any] = {
    "temperature": 0,
    "samplers": ["top_k"],
    "top_k": 1,
    "ignore_eos": True,
    "cache_prompt": False,
}
"""Settings of a request: the likeliest token, whichever it is, and nothing of an earlier prompt."""
TABLE, HEAD = "token_embd.weight", "output.weight"
"""Names of the table of tokens and of the head; a file without a head has the table in both places."""
_FEWEST_CONTEXT = 256
"""The context is a multiple of so many tokens: llama.cpp rounds it up itself."""


class LlamaGenerator(CountedSession, Generator):
    """A server of one slot.

    Args:
        path: a GGUF file.
        request: the request.
        threads: threads for prompts and for tokens.
    """

    def __init__(self, path: Path, request: Request, threads: int) -> None:
        super().__init__(request)
        import gguf
        import xllamacpp

        reader = gguf.GGUFReader(path)
        kind = gguf.LlamaFileType(int(_field(reader, gguf.Keys.General.FILE_TYPE))).name
        if kind not in _PRECISIONS:
            raise ArtifactError(f"{path.name} is {kind}; known here: {', '.join(_PRECISIONS)}")
        self.precision = _PRECISIONS[kind]
        self._path = path
        sizes = {tensor.name: int(tensor.n_bytes) for tensor in reader.tensors}
        self.weight_bytes = sum(sizes.values()) - (sizes[TABLE] if HEAD in sizes else 0)
        self._ids = _ids_by_text(_field(reader, gguf.Keys.Tokenizer.LIST))
        whole = self.precision == "float32"
        self.cache_bytes = 4 if whole else 2  # llama.cpp's default is 16 bits
        self.reserved_tokens = -(-request.longest // _FEWEST_CONTEXT) * _FEWEST_CONTEXT
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel = self.reserved_tokens, 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_prompt, params.cache_ram_mib, params.n_ctx_checkpoints = False, 0, 0
        params.endpoint_slots, params.fit_params, params.verbosity = False, False, -1
        if whole:
            params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        self._server = xllamacpp.Server(params)

    def count(self) -> Counted:
        """The parameters in the file, without the factors of rotary positions."""
        import gguf

        from bench.onnxfile.weights import repeats
        from bench.onnxfile.weights.parameter_counts import Counted
        from bench.onnxfile.weights.repeats import Weight

        weights = [
            Weight(
                name=tensor.name,
                num_params=int(np.prod(tensor.shape)),
                array=functools.partial(np.asarray, tensor.data),
            )
            for tensor in gguf.GGUFReader(self._path).tensors
            if not tensor.name.startswith("rope_")
        ]
        return Counted(num_params=sum(each.num_params for each in weights), repeated=repeats.sentence(weights))

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        ids, last = self._ids, {}
        joined: list[str] = []

        def take(chunk: Any) -> bool:
            choice = chunk["choices"][0]
            if choice["finish_reason"] is not None:
                last.update(chunk)
            elif (number := ids.get(choice["text"])) is None:
                joined.append(choice["text"])  # an error that is raised here does not get out
            else:
                emit(number)
            return False

        self._server.handle_completions(
            {**_GREEDY, "prompt": prompt.tolist(), "n_predict": num_new, "stream": True}, take
        )
        if joined:
            raise GenerationError(f"llama.cpp streams text, and {joined[0]!r} is no single token")
        if "timings" not in last:
            raise GenerationError(f"llama.cpp gave no answer: {last}")
        timings = last["timings"]
        gaps = [timings["predicted_per_token_ms"] * 1e6] * (num_new - 1)
        return Told(
            num_prompt=timings["prompt_n"] + timings["cache_n"],
            num_cached=timings["cache_n"],
            num_new=timings["predicted_n"],
            first_ns=timings["prompt_ms"] * 1e6,
            gaps_ns=gaps,
        )

    def logits_after(self, prompt: np.ndarray, forced: np.ndarray) -> np.ndarray:
        """Logarithms of probabilities: its logits themselves it does not tell.

        A text that has grown by a token is run from the cache, but for this token, as in a generation.
        """
        ids = [*prompt.tolist(), *forced[:-1].tolist()]
        return np.stack([self._next(ids[:end]) for end in range(len(prompt), len(ids) + 1)])

    def _next(self, ids: list[int]) -> np.ndarray:
        size = self.request.decoder.vocabulary
        request = {**_GREEDY, "prompt": ids, "n_predict": 1, "cache_prompt": True, "logprobs": size}
        candidates = self._server.handle_completions(request)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        logprobs = np.full(size, min(each["logprob"] for each in candidates), np.float32)
        logprobs[[each["id"] for each in candidates]] = [each["logprob"] for each in candidates]
        return logprobs

    def close(self) -> None:
        self._server = None


def _field(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        raise ArtifactError(f"the file tells no {name}")
    return field.contents()


def _ids_by_text(tokens: list[str]) -> dict[str, int]:
    """Ids by the text that the server streams of them; tokens that are a part of a character have none."""
    characters = bytes_by_character()
    ids = {}
    for number, token in enumerate(tokens):
        try:
            ids[bytes(characters[character] for character in token).decode()] = number
        except (KeyError, UnicodeDecodeError):
            continue
    return ids
