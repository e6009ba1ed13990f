"""What the environment says of the hub: its address, the token, and whether it may be asked at all.

Source: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.api import files
from bench.api.errors import InputError
from bench.tasks.hub.remote import Hub

ENDPOINT = "https://huggingface.co"
_MOST_TOKEN_BYTES = 4096


def hub() -> Hub:
    """The hub that `HF_ENDPOINT` names, with the token of this user.

    Raises:
        InputError: the address or the token cannot be used.
    """
    return Hub(endpoint(), token())


def endpoint() -> str:
    """The address of the hub, of `HF_ENDPOINT` or the usual one, without a slash at its end."""
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` says that nothing may be fetched."""
    return _is_on("HF_HUB_OFFLINE")


def token() -> str | None:
    """The token of `HF_TOKEN`, or that which `hf auth login` keeps in a file; None where there is none.

    Raises:
        InputError: it holds characters that no token has; it is not shown.
    """
    named = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    secret = (named or ("" if _is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") else _stored())).strip()
    if not all("!" <= char <= "~" for char in secret):
        raise InputError("the token of the hub holds characters that no token has; set HF_TOKEN anew")
    return secret or None


def _stored() -> str:
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"))
    path = Path(os.environ.get("HF_TOKEN_PATH") or home / "token").expanduser()
    try:
        with files.opened(path) as file:
            return file.read(_MOST_TOKEN_BYTES).decode("utf-8", "replace")
    except (OSError, InputError):
        return ""


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
