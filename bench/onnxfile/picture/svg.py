"""A picture of a model's graph as SVG.

Every node is a box with its operator, its unusual attributes, its weights, its output and its cost; pointing at the
box shows the rest. Labels are wrapped, never cut. Colours are Okabe and Ito's, which people with any kind of
colour vision can tell apart, and the operator is written in each box.

Source: Okabe, Ito, Color Universal Design, https://jfly.uni-koeln.de/color/.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import jinja2

from bench.api.printable import printable
from bench.onnxfile.costs.nodes import NodeCost
from bench.onnxfile.costs.profile import Profile
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.text import attribute_text, shape_text, tensor_type, value_type
from bench.onnxfile.file.wiring import Wiring
from bench.onnxfile.picture.layout import Box, Layout, Line, lay_out

KINDS = {
    "products": (
        "#56B4E9",
        r"(Fused|QLinear|Dynamic|N?hwc|Nchwc)*(Conv|MatMul|Gemm|LSTM|GRU|RNN|Einsum|DeformConv)\w*|Q?Gemm|\w*Attention\w*",
    ),
    "activations": (
        "#F0E442",
        r"\w*(Relu|Gelu|Sigmoid|Tanh|Softmax|Elu|Selu|Celu|Swish|SiLU|Mish|Softplus|Softsign|Erf|Clip|HardSwish)\w*",
    ),
    "pooling and reductions": ("#009E73", r"\w*Pool\w*|Reduce\w+|ArgMax|ArgMin|TopK|CumSum"),
    "normalizations": ("#CC79A7", r"\w*Norm\w*|LRN|Dropout"),
    "arithmetic": (
        "#E69F00",
        r"(QLinear)?(Add|Sub|Mul|Div|Sum|Mean|Pow|Sqrt|Reciprocal|Exp|Log|Neg|Abs|Min|Max|Sin|Cos|Mod|Floor|Ceil|Round)"
        r"|And|Or|Not|Xor|Equal|Less\w*|Greater\w*|Where|Is\w+|Bitwise\w+",
    ),
    "quantization": ("#D55E00", r"\w*(Quantize|Dequantize)Linear\w*|\w*Quantize\w*"),
    "control flow": ("#0072B2", r"If|Loop|Scan|SequenceMap"),
    "moves of data": (
        "#DDDDDD",
        r"Reshape|Transpose|Concat|Split|Slice|Gather\w*|Scatter\w*|Squeeze|Unsqueeze|Flatten|Identity|Cast\w*|Shape|Size"
        r"|Expand|Tile|Pad|Resize|Upsample|DepthToSpace|SpaceToDepth|Constant\w*|Range|Reorder\w*|NonZero|Sequence\w+",
    ),
    "other operators": ("#FFFFFF", r"(?s:.*)"),
}
"""Colour of each kind of operator, and a pattern for the names of its operators; the first kind that fits counts."""
_TEMPLATE = Path(__file__).with_name("picture.svg.j2")
_DARK = ("#0072B2",)
"""Colours that take white text."""
_TOLD = ("kernel_shape", "strides", "dilations", "group", "axis", "axes", "perm", "mode", "hidden_size", "direction")
"""Attributes that are written into the box unless they have their usual value."""
_USUAL = {"strides": r"\[1(, 1)*\]", "dilations": r"\[1(, 1)*\]", "group": "1"}
_FONT = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"
_CHAR = 0.62
"""Width of a character, in font sizes: no less than in any of these fonts."""
TITLE, SMALL = 14, 11
_LINE_HEIGHT = 1.3
PADDING = 8
MARGIN = 24
_SWATCH = 14
_NARROWEST = 320
_MOST_CHARS = 34
COUNT = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Label:
    """The text and colour of a box."""

    title: str
    lines: tuple[str, ...]
    tip: str
    colour: str
    is_end: bool = False

    def box(self) -> Box:
        width = max(_width(self.title, TITLE), *(_width(line, SMALL) for line in ("", *self.lines)))
        height = _LINE_HEIGHT * (TITLE + SMALL * len(self.lines))
        sides = 4 if self.is_end else 2  # its ends are round
        return Box(width=width + sides * PADDING, height=height + 2 * PADDING)


def draw(stored: Stored, profile: Profile | None = None) -> str:
    """The main graph of a model as SVG.

    Args:
        profile: of the same file; shapes and costs are in the picture if it is given.
    """
    wiring = Wiring(stored)
    num_nodes, num_inputs = len(wiring.nodes), len(wiring.inputs)
    costs = {cost.name: cost for cost in profile.nodes if not cost.path} if profile else {}
    labels = [_node_label(wiring, node, costs.get(node.name)) for node in wiring.nodes]
    labels += [_end_label("input", value) for value in wiring.inputs.values()]
    labels += [_end_label("output", value) for value in wiring.outputs.values()]
    sources = {name: maker for name, (maker, _) in wiring.made_by.items()}
    sources |= {name: index for index, name in enumerate(wiring.inputs, num_nodes)}
    readers = {name: [reader for reader, _ in places] for name, places in wiring.readers.items()}
    for index, name in enumerate(wiring.outputs, num_nodes + num_inputs):
        readers.setdefault(name, []).append(index)
    values = [(maker, readers[name]) for name, maker in sources.items() if name in readers]
    layout = lay_out([label.box() for label in labels], values)
    return _svg(printable(stored.path.name if stored.path else "model"), labels, layout)


def _node_label(wiring: Wiring, node: onnx.NodeProto, cost: NodeCost | None) -> _Label:
    attributes = {attribute.name: attribute_text(attribute) for attribute in node.attribute}
    weights = [tensor_type(wiring.weights[name]) for name in node.input if name in wiring.weights]
    lines = [
        f"{name} {text}"
        for name, text in attributes.items()
        if name in _TOLD and not re.fullmatch(_USUAL.get(name, "(?!)"), text)
    ]
    lines += [f"weight {weight}" for weight in weights if not weight.endswith("[]")]
    if cost is not None:
        lines += [f"\u2192 {'?' if shape is None else shape_text(shape)}" for shape in cost.output_shapes[:1]]
        if cost.macs:
            lines.append(f"{_count(cost.macs)} MACs")
    title = printable(node.op_type)
    if not re.fullmatch(rf"{re.escape(title)}_\d+", node.name):
        lines.insert(0, node.name)
    tip = [f"{node.domain or 'ai.onnx'}.{node.op_type}  {node.name}"]
    tip += [f"in   {name}" for name in node.input if name]
    tip += [f"out  {name}" for name in node.output if name]
    tip += [f"{name} = {text}" for name, text in attributes.items()]
    return _Label(
        title=title,
        lines=tuple(part for line in lines for part in _wrapped(printable(line))),
        tip="\n".join(map(printable, tip)),
        colour=next(colour for colour, pattern in KINDS.values() if re.fullmatch(pattern, node.op_type)),
    )


def _end_label(kind: str, value: onnx.ValueInfoProto) -> _Label:
    name, text = printable(value.name), value_type(value)
    return _Label(
        title=kind,
        lines=(*_wrapped(name), *_wrapped(text)),
        tip=f"{kind} {name}: {text}",
        colour="#FFFFFF",
        is_end=True,
    )


def _wrapped(text: str) -> Iterator[str]:
    """A text in lines that are not too long, broken behind a separator where there is one."""
    while len(text) > _MOST_CHARS:
        breaks = [separator.end() for separator in re.finditer(r"[/._:\s,-]", text[:_MOST_CHARS])]
        end = breaks[-1] if breaks and breaks[-1] > _MOST_CHARS // 3 else _MOST_CHARS
        yield text[:end].rstrip(" ")
        text = text[end:].lstrip(" ")
    yield text


def _width(text: str, size: float) -> float:
    """Pixels that a text takes at most; East Asian characters are as wide as two."""
    wide = sum(unicodedata.east_asian_width(char) in "WFA" for char in text)
    return (len(text) + wide) * size * _CHAR


def _count(number: int) -> str:
    for unit, letter in COUNT:
        if number >= unit:
            return f"{number / unit:.3g} {letter}"
    return str(number)


def _svg(name: str, labels: Sequence[_Label], layout: Layout) -> str:
    limit = max(layout.width, _width(name, TITLE), _NARROWEST)
    legend = list(_legend(labels, limit))
    top = MARGIN + TITLE * _LINE_HEIGHT + 8
    head = top + (legend[-1][0] + 1 if legend else 1) * 20 + 12
    width = limit + 2 * MARGIN
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined, finalize=_written
    )
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        name=name,
        width=round(width),
        height=round(head + layout.height + MARGIN),
        corner=(MARGIN + (width - 2 * MARGIN - layout.width) / 2, head),
        legend=[(MARGIN + right, top + row * 20, kind, colour) for row, right, kind, colour in legend],
        lines=[(_path(line), line.points[-1] if line.arrow else None, line.straight) for line in layout.lines],
        boxes=[(label, label.box(), *corner) for label, corner in zip(labels, layout.corners, strict=True)],
        dark=_DARK,
        font=_FONT,
        margin=MARGIN,
        padding=PADDING,
        swatch=_SWATCH,
        title=TITLE,
        small=SMALL,
        line_height=_LINE_HEIGHT,
    )


def _written(value: object) -> object:
    """A value as the template writes it: pixels with one decimal, and text without markup and control characters."""
    if isinstance(value, str):
        return escape(printable(value, keep="\n"))
    return f"{value:.1f}" if isinstance(value, float) else value


def _legend(labels: Sequence[_Label], width: float) -> Iterator[tuple[int, float, str, str]]:
    """For each kind of operator: the row of the legend, how far right in the row, the name and the colour."""
    colours = {label.colour for label in labels if not label.is_end}
    row, right = 0, 0.0
    for kind, (colour, _) in KINDS.items():
        if colour in colours:
            needed = _width(kind, SMALL) + _SWATCH + 20
            if right and right + needed > width:
                row, right = row + 1, 0.0
            yield row, right, kind, colour
            right += needed


def _path(line: Line) -> str:
    """The path of a smooth line, upright at each of its points."""
    (x, y), *rest = line.points
    path = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in rest:
        if abs(next_x - x) < 0.05:
            path.append(f"V{next_y:.1f}")
        else:
            half = (y + next_y) / 2
            path.append(f"C{x:.1f} {half:.1f} {next_x:.1f} {half:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return " ".join(path)
