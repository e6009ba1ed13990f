"""A file that is no artifact: each runtime says so, and the worker that opened it may crash, but never answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api import loading
from bench.api.errors import ChildError
from bench.measure.process import ask_once
from bench.plugins import catalog
from support import node, plugin_child

TASK = "super_resolution@height=64,width=64"
GENERATES = "codegen_lm~generate@new=8,prompt=64"
"""For runtimes that only generate text."""
NAMES = [
    name
    for name in loading.find("runtimes")
    if "*" not in (plugin := catalog.runtime(name)).formats and not plugin.builds(Path("artifact"))
]


@pytest.mark.framework
@pytest.mark.usefixtures("support_in_workers")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"no artifact " * 1000], ids=["empty", "zeros", "text"])
def test_what_is_no_artifact_is_not_opened(name: str, content: bytes, tmp_path: Path) -> None:
    runtime = catalog.runtime(name)
    node.need(runtime)
    if (reason := runtime.skip()) is not None:
        pytest.skip(reason)
    artifact = tmp_path / f"artifact.{runtime.formats[0]}"
    artifact.write_bytes(content)
    task = TASK if runtime.scores else GENERATES
    request = {"runtime": name, "provider": runtime.providers()[0], "task": task, "source": "torch", "batches": [1]}
    with pytest.raises(ChildError) as raised:
        ask_once(
            plugin_child.run,
            timeout_s=60,
            memory_bytes=4 << 30,
            artifact=str(artifact),
            target=str(tmp_path / "outputs.npz"),
            **request,
        )
    assert raised.value.kind in ("error", "signal", "exit")
    assert "No module named" not in raised.value.reason, "it did not come as far as the artifact"
    assert not (tmp_path / "outputs.npz").exists()
