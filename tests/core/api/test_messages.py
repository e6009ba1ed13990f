"""Messages of C++ libraries: the operator and the sentence stay, the places in the library's sources go."""

from __future__ import annotations

import errno
import time

import pytest

from bench.api.messages import MOST_CHARACTERS, is_full_disk, without_places

ENFORCED = "/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:45 "
RESHAPE = "The input tensor cannot be reshaped to the requested shape. Input shape:{1,16}, requested shape:{4,5}"


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (
            "RuntimeError: Exception from src/inference/src/cpp/core.cpp:117:\nException from src/inference/src/dev/"
            "plugin.cpp:54:\nCheck '!shape.rank().is_dynamic()' failed at src/plugins/intel_cpu/src/node.cpp:108:\n"
            "Unexpected: CPU plug-in doesn't support Squeeze operation with dynamic rank. Operation name: Squeeze_72",
            "RuntimeError: Unexpected: CPU plug-in doesn't support Squeeze operation with dynamic rank. "
            "Operation name: Squeeze_72",
        ),
        (
            "Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151: FrontEnd API "
            "failed with OpConversionFailure: -- Conv-16 with a message: Check 'a < \"b\"' failed at "
            "src/core/src/node.cpp:212: While validating node 'opset1::Convolution Conv-16': the sizes differ",
            "FrontEnd API failed with OpConversionFailure: -- Conv-16 with a message: While validating node "
            "'opset1::Convolution Conv-16': the sizes differ",
        ),
        (
            "Exception from src/core/src/node.cpp:212: Check 'x > 1' failed at src/core/src/node.cpp:9:",
            "Check 'x > 1' failed",
        ),
        (
            f"Status Message: {ENFORCED}onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, "
            f"onnxruntime::TensorShapeVector&, bool) input_shape_size == size was false. {RESHAPE}",
            f"Status Message: input_shape_size == size was false. {RESHAPE}",
        ),
        (
            f"{ENFORCED}static bool onnxruntime::Loop<std::function<void(int)>>::operator()(const T&) const "
            "[with T = std::array<int, 2>; U = float] (a) == b was false. Too long",
            "(a) == b was false. Too long",
        ),
        (
            "Fail: [ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /onnxruntime_src/onnxruntime/core/"
            "graph/graph_utils.cc:479 onnxruntime::NodeArg& onnxruntime::graph_utils::AddInitializerWithOrtValue("
            "onnxruntime::Graph&, const onnx::TensorProto&, onnxruntime::Tensor&&) [ONNXRuntimeError] : 1 : FAIL : "
            "graph.cc:4142 AddInitializedOrtValue Attempt to replace the existing tensor",
            "Fail: [ONNXRuntimeError] : 1 : FAIL : Exception during initialization: [ONNXRuntimeError] : 1 : FAIL : "
            "Attempt to replace the existing tensor",
        ),
        (f"During: {ENFORCED}onnxruntime::F::F(const onnxruntime::Ten...", "During: "),
        (
            "tensorflow/lite/kernels/reshape.cc:95 num_input_elements != num_output_elements (16 != 20)Node number 3 "
            "(RESHAPE) failed to prepare.",
            "num_input_elements != num_output_elements (16 != 20)Node number 3 (RESHAPE) failed to prepare.",
        ),
        ("It failed at D:\\a\\core\\graph.cc:12: no such node", "It failed no such node"),
        (
            "Load model from own.onnx failed:/onnxruntime_src/onnxruntime/core/graph/model.cc:181 onnxruntime::Model::"
            "Model(ModelProto&&, const onnxruntime::PathString&, const IOnnxRuntimeOpSchemaRegistryList*, const "
            "onnxruntime::logging::Logger&, const onnxruntime::ModelOptions&) Unsupported model IR version: 20, max "
            "supported IR version: 13",
            "Load model from own.onnx failed: Unsupported model IR version: 20, max supported IR version: 13",
        ),
        ("bad node:/onnxruntime_src/core/graph.cc:12: no such node", "bad node:no such node"),
        ("code:src/core/graph.cc:12 is 3:4", "code:is 3:4"),
        ("failed:D:\\a\\_work\\1\\s\\core\\graph.cc:12: no such node", "failed:no such node"),
        ("failed (C:/b/core/graph.cc:7) for D:\\models\\own.onnx", "failed () for D:\\models\\own.onnx"),
    ],
    ids=[
        *("openvino", "nested", "condition", "signature", "template", "bare file", "cut short", "litert", "windows"),
        *("word before a signature", "word before a place", "word before a folder", "word before a drive", "drives"),
    ],
)
def test_places_in_sources_go(message: str, left: str) -> None:
    assert " ".join(without_places(message).split()) == left.strip()


@pytest.mark.parametrize(
    "message",
    [
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory",
        "models/mine.py:12: no such layer",
        "X(-1) is not a registered function/op",
        "Load model from /tmp/model.onnx failed: Type Error: Type (tensor(int64)) of output arg (most) of node (max)",
        "Check 'shapes' failed: own.onnx",
        "Load model from D:\\models\\own.onnx failed: it is empty",
        "the ratio 3:4 of e:5 is none of 1/2:3",
        "Node input 'block/state.h:0' is not a graph input",
        'no "cell/while.h:1" in the graph',
        "block/state.h:0 has another shape",
        "see https://example.org/core/graph.cc:12 for it",
        "see file:///models/own.onnx:3 for it",
        "e:/models/mine.py:12: no such layer",
    ],
)
def test_other_texts_stay(message: str) -> None:
    assert without_places(message) == message


def test_a_long_message_is_cut_before_it_is_searched() -> None:
    """Each of its characters may begin a place, and a search that tries all lengths from each takes minutes."""
    message = "a/" * 50_000
    began_s = time.process_time()
    assert without_places(message) == message[:MOST_CHARACTERS]
    assert time.process_time() - began_s < 5


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
        caused(ValueError("it cannot be written"), OSError(errno.ENOSPC, "full")),
    ],
)
def test_a_full_disk_is_known_whoever_says_so(error: Exception) -> None:
    assert is_full_disk(error)


@pytest.mark.parametrize("error", [None, OSError(errno.EACCES, "no"), ValueError("space"), MemoryError()])
def test_another_error_is_of_no_full_disk(error: Exception | None) -> None:
    assert not is_full_disk(error)
