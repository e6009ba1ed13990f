"""Operators without arithmetic of their own: they move, select, sort or make elements, or hold graphs."""

from __future__ import annotations

from bench.onnxfile.costs.work import NOTHING, Work, rule
from bench.onnxfile.operators import MICROSOFT, ML, NCHWC, OPENVINO
from bench.onnxfile.shapes.node import Node

_MOVE = """
    BitCast Cast CastLike CenterCropPad Compress Concat Constant ConstantOfShape DepthToSpace Dropout Expand EyeLike
    Flatten Gather GatherElements GatherND Identity NonZero OneHot Pad Range Reshape ReverseSequence Scatter
    ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu
    Unsqueeze Where
"""
SELECT = "MaxRoiPool MaxUnpool NonMaxSuppression TopK Unique"
_SEQUENCES = """
    ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty
    SequenceErase SequenceInsert SequenceLength SplitToSequence
"""
TEXT = "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"
_HOLD_GRAPHS = "If Loop Scan SequenceMap"
_FUSED = "ExpandDims GatherBlockQuantized QLinearConcat QLinearWhere Range Tokenizer Trilu"
_TREES_AND_TABLES = """
    ArrayFeatureExtractor CastMap CategoryMapper DictVectorizer FeatureVectorizer LabelEncoder OneHotEncoder
    TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
"""
_OF_OPENVINO = "Assign If Loop Parameter ReadValue ShuffleChannels StridedSlice TensorIterator"


@rule(_MOVE, SELECT, _SEQUENCES, TEXT, _HOLD_GRAPHS)
@rule(_MOVE, SELECT, _OF_OPENVINO, domains=(OPENVINO,))
@rule(_FUSED, domains=(MICROSOFT,))
@rule("ReorderInput", "ReorderOutput", domains=(NCHWC,))
@rule(_TREES_AND_TABLES, domains=(ML,))
def nothing(node: Node) -> Work:
    return NOTHING
