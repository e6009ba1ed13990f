"""CTranslate2's own format, converted from a Llama of transformers in float32: its files in one archive."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.plugins.engines import llamas
from bench.plugins.engines.archive import pack


class CTranslate2(Exporter):
    """A decoder as CTranslate2 opens it; its tokens are named after their ids, for only ids go in and out."""

    portable = True
    generates = True
    requires = ("ctranslate2", "torch", "transformers", "tokenizers")
    extra = "generate"
    sources = ("torch",)
    writes = "ctranslate2"

    def refusal(self, task: Task) -> str | None:
        return llamas.refusal(task)

    def export(self, task: Task, source: str, target: Path) -> Info:
        from ctranslate2.converters import TransformersConverter
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        assert task.decoder is not None, f"{task.name} is no decoder"
        names = {str(number): number for number in range(task.decoder.vocabulary)}
        tokenizer = Tokenizer(models.WordLevel(names, unk_token="0"))
        with tempfile.TemporaryDirectory() as name:
            folder, converted = Path(name, "transformers"), Path(name, "converted")
            task.build_step("torch", task.weights_path).model.save_pretrained(folder)
            end = str(task.decoder.end_id or 0)
            PreTrainedTokenizerFast(
                tokenizer_object=tokenizer, unk_token="0", bos_token=end, eos_token=end
            ).save_pretrained(folder)
            TransformersConverter(str(folder)).convert(str(converted))
            pack(converted, sorted(path.name for path in converted.iterdir()), target)
        return {}
