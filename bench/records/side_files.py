"""The small files beside the result files, which can be lost without losing a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.api import files
from bench.api.errors import InputError
from bench.records.reading import Damage

Content = TypeVar("Content")


def read(
    path: Path, kind: type[Content], *, fix: str, check: Callable[[Any], None] = lambda content: None
) -> tuple[Content | None, Damage | None]:
    """The content of a side file, or what is wrong with it; neither where there is no such file.

    Args:
        path: the file, in JSON.
        kind: type of its content.
        fix: what holds without the file, and which command writes it anew.
        check: raises a ValueError for content that is of the right type and wrong all the same.
    """
    try:
        content = msgspec.json.decode(files.read_bytes(path), type=kind)
        check(content)
    except FileNotFoundError:
        return None, None
    except InputError:
        reason = "it is no regular file"
    except OSError as error:
        reason = str(error.strerror)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    else:
        return content, None
    return None, Damage(path=path, reason=f"{reason}; {fix}")
