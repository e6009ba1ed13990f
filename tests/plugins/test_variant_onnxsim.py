"""onnxsim: passes that are left out where they break a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import variant_graphs as graphs

onnxsim = pytest.importorskip("onnxsim")


def test_a_pass_that_breaks_the_order_of_nodes_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxsim 0.8.1 does so with a model of torch.jit of over 80 nodes; small ones are sound."""
    simplify, skipped = onnxsim.simplify, []

    def breaking(*arguments: Any, skipped_optimizers: Any = None, **settings: Any) -> Any:
        skipped.append(skipped_optimizers)
        if skipped_optimizers is None:
            raise RuntimeError("Nodes in a graph must be topologically sorted, however input 'a' of node 'b' is not")
        return simplify(*arguments, skipped_optimizers=skipped_optimizers, **settings)

    monkeypatch.setattr(onnxsim, "simplify", breaking)
    source = graphs.encoder()
    made, info = graphs.apply("onnxsim", source, tmp_path)
    assert skipped == [None, ["eliminate_if_with_const_cond"]]
    assert info == {"skipped": ["eliminate_if_with_const_cond"]}
    assert graphs.largest_error(source, made) < 1e-5


def test_other_errors_of_onnxsim_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no schema")

    monkeypatch.setattr(onnxsim, "simplify", failing)
    with pytest.raises(RuntimeError, match="no schema"):
        graphs.apply("onnxsim", graphs.encoder(), tmp_path)
