"""The formats of `--model`: each file here reads one format, and no list names the files.

A file defines `FORMAT`, the class of the task that it makes, and `examine(path, folder, asked)`, which opens the model
and returns a `Found`; if it writes no weights file into `folder`, the model's file is copied there as it is. Importing
the file must be cheap: frameworks are imported inside functions, which run only in child processes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """How models of a format are told from others by their names, before anything is opened.

    Attributes:
        described: what `--model` takes, with an article, such as `an .onnx file`.
        suffixes: endings of the file's name, in lower case with the dot; empty for a format that is a folder.
        marker: name of the file that every folder of this format has; None for a format that is a file.
        code: what code a model holds that runs while it is opened, so that it needs `--trust`. None for no code, or
            for code that the user named.
        refusal: gives the reason why a folder with the marker cannot be read, or None.
    """

    described: str
    suffixes: tuple[str, ...] = ()
    marker: str | None = None
    code: str | None = None
    refusal: Callable[[Path], str | None] = lambda _: None

    def matches(self, path: Path) -> bool:
        """Whether a file has the name, or a folder has the marker, of a model of this format."""
        if path.is_dir():
            return self.marker is not None and (path / self.marker).is_file()
        return path.suffix.lower() in self.suffixes
