"""The types of weights that llama.cpp computes with: every matrix in one of them, norms in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api import Info, Task, Variant
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import np
from bench.plugins.engines import q4_k

KINDS = {
    "f16": ("F16", "MOSTLY_F16"),
    "q8_0": ("Q8_0", "MOSTLY_Q8_0"),
    "q4_0": ("Q4_0", "MOSTLY_Q4_0"),
    "q4_k": ("Q4_K", "MOSTLY_Q4_K_S"),
}
"""By option, ggml's type of a matrix and llama.cpp's type of such a file."""


class GgufTypes(Variant):
    """Rounds the matrices of a GGUF file, the embeddings among them."""

    portable = True
    requires = ("gguf",)
    formats = ("gguf",)
    options = tuple(KINDS)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import gguf

        tensor_kind, file_kind = KINDS[option]
        kind = gguf.GGMLQuantizationType[tensor_kind]
        reader = gguf.GGUFReader(source)
        matrices = [tensor for tensor in reader.tensors if len(tensor.shape) > 1]
        block = gguf.GGML_QUANT_SIZES[kind][0]
        if odd := next((tensor for tensor in matrices if int(tensor.shape[0]) % block), None):
            raise RefusedError(f"{option} packs {block} weights of a row; those of {odd.name} have {odd.shape[0]}")
        writer = gguf.GGUFWriter(target, _text(reader, gguf.Keys.General.ARCHITECTURE))
        _copy(reader, writer, gguf, without=(gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE))
        writer.add_file_type(gguf.LlamaFileType[file_kind])
        for tensor in reader.tensors:
            if len(tensor.shape) == 1:
                writer.add_tensor(tensor.name, np.array(tensor.data, np.float32))
            else:
                weights = np.array(tensor.data, np.float32)
                packed = q4_k.packed(weights) if option == "q4_k" else gguf.quants.quantize(weights, kind)
                writer.add_tensor(tensor.name, packed, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return {"num_matrices": len(matrices)}


def _text(reader: Any, name: str) -> str:
    return str(reader.get_field(name).contents())


def _copy(reader: Any, writer: Any, gguf: Any, *, without: tuple[str, ...]) -> None:
    """Write the facts of a file anew, but for the file's own counts and those named."""
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in without:
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)
