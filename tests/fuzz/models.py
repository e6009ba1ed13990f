"""Small ONNX models of many operators, from which the mutations of the fuzzers begin."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto, helper

DATA_FILE = "data.bin"
"""The file of external data beside each model."""
DATA = bytes(range(64))

TEXTS = {
    "convolutions": """<ir_version: 8, opset_import: ["": 17]>
        g (float[N,3,8,8] x) => (float[N,2] y, int64[N,1] i)
        <float[2,3,3,3] w, float[2] b = {1,2}, float[2,32] m, float[2,2,2,2] u, float s = {0.5}> {
            c = Conv <pads = [1,1,1,1], strides = [1,1], dilations = [1,1], group = 1> (x, w, b)
            n = BatchNormalization <epsilon = 0.001> (c, b, b, b, b)
            r = Relu (n)
            p = MaxPool <kernel_shape = [2,2], strides = [2,2], auto_pad = "SAME_UPPER"> (r)
            f = Flatten <axis = 1> (p)
            g1 = Gemm <transB = 1, alpha = 0.5> (f, m, b)
            t = ConvTranspose <kernel_shape = [2,2], output_padding = [0,0], strides = [2,2]> (p, u)
            a = GlobalAveragePool (t)
            z = Squeeze (a)
            y0 = Softmax <axis = -1> (g1)
            y = Mul (y0, s)
            i = ArgMax <axis = 1, keepdims = 1> (g1)
        }""",
    "shapes": """<ir_version: 8, opset_import: ["": 17]>
        g (float[N,T,8] x) => (float[N,A,4] y, int64[M] k)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[1] minus = {-1}, int64[2] ends = {0,2},
         int64[2] stops = {3,9223372036854775807}, int64[2] axes = {1,2}, int64 start = {0}, int64 step = {1}> {
            s = Shape <start = 0> (x)
            n = Gather <axis = 0> (s, zero)
            t = Slice (s, one, four)
            c = Concat <axis = 0> (n, minus, four)
            r = Reshape <allowzero = 0> (x, c)
            m = Mul (n, four)
            l = ReduceProd <keepdims = 0> (m)
            k = Range (start, l, step)
            o = ConstantOfShape <value = float[1] {1.0}> (c)
            q = Slice (r, ends, stops, axes)
            e = Expand (r, s)
            w = Unsqueeze (r, zero)
            v = Squeeze (w, zero)
            d = Tile (v, s)
            h = Cast <to = 1> (s)
            b = Equal (n, four)
            u = Where (b, n, four)
            j = Div (u, four)
            y = Pad <mode = "constant"> (r, c)
        }""",
    "control": """<ir_version: 8, opset_import: ["": 16]>
        g (float[N,4] x, bool c, int64 trips) => (float[N,4] y, float[K,N,4] stacked, float[N,4] z)
        <float[4] w = {1,2,3,4}> {
            y = If (c) <
                then_branch = yes () => (float[N,4] a) { a = Add (x, w) },
                else_branch = no () => (float[N,4] b) { t = Mul (x, w)  b = Neg (t) }>
            z, stacked = Loop (trips, c, x) <
                body = once (int64 i, bool go, float[N,4] s) => (bool on, float[N,4] next, float[N,4] out) {
                    on = Identity (go)
                    next = Add (s, w)
                    out = Relu (next)
                }>
            last, all = Scan <num_scan_inputs = 1, scan_input_axes = [0],
                body = each (float[4] state, float[4] item) => (float[4] sum, float[4] seen) {
                    sum = Add (state, item)
                    seen = Identity (sum)
                }> (w, x)
        }""",
    "functions": """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[N,4] x) => (float[N,4] y) { a = own.Outer <k = 2.0> (x)  y = own.Inner (a, x) }
        <domain: "own", opset_import: ["": 17, "own": 1]> Inner (p, q) => (r) { t = Add (p, q)  r = Relu (t) }
        <domain: "own", opset_import: ["": 17, "own": 1]> Outer <k> (p) => (r) {
            c = Constant <value_float: float = @k> ()  m = Mul (p, c)  r = own.Inner (m, p) }""",
    "sequences": """<ir_version: 8, opset_import: ["": 17]>
        g (float[4,N] x, seq(float[2,N]) given) => (float[N] y, int64 n, float[2,N] z)
        <int64 one = {1}, int64[2] parts = {2,2}> {
            s = SplitToSequence <axis = 0, keepdims = 1> (x, parts)
            e = SequenceEmpty <dtype = 1> ()
            a = SequenceAt (s, one)
            b = SequenceInsert (s, a, one)
            c = SequenceErase (b, one)
            j = ConcatFromSequence <axis = 0, new_axis = 0> (c)
            n = SequenceLength (c)
            d = SequenceConstruct (a, a)
            z = SequenceAt (given, one)
            o = Optional (a)
            h = OptionalHasElement (o)
            y = ReduceSum <keepdims = 0> (j, one)
        }""",
    "strings": """<ir_version: 8, opset_import: ["": 20, "ai.onnx.ml": 3]>
        g (string[N] s, float[N,2] x) => (string[N] t, int64[N] l, float[N,2] p, float[N,1] r) {
            t = StringNormalizer <case_change_action = "LOWER", stopwords = ["a"]> (s)
            i = ai.onnx.ml.LabelEncoder <keys_strings = ["a","b"], values_int64s = [1,2], default_int64 = 0> (s)
            c = StringConcat (s, t)
            a, b = StringSplit <delimiter = " ", maxsplit = 2> (s)
            m = RegexFullMatch <pattern = "a+"> (s)
            l, p = ai.onnx.ml.LinearClassifier <classlabels_ints = [0,1], coefficients = [1.0,2.0,3.0,4.0],
                intercepts = [0.0,1.0], multi_class = 0, post_transform = "SOFTMAX"> (x)
            r = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0,0,0], nodes_nodeids = [0,1,2],
                nodes_featureids = [0,0,0], nodes_modes = ["BRANCH_LEQ","LEAF","LEAF"], nodes_values = [0.5,0.0,0.0],
                nodes_truenodeids = [1,0,0], nodes_falsenodeids = [2,0,0], target_ids = [0,0], target_nodeids = [1,2],
                target_treeids = [0,0], target_weights = [1.0,2.0]> (x)
            z = ai.onnx.ml.ZipMap <classlabels_int64s = [0,1]> (p)
        }""",
    "quantized": """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
        g (float[N,4] x, float[N,1,4,4] v) => (float[N,4] y, float[N,2] b, uint8[N,1,4,4] c)
        <float s = {0.5}, uint8 z = {8}, int8[4,4] w, float[4] ws = {1,1,1,1}, int8[4] wz = {0,0,0,0},
         uint8[2,1,2] packed, float[2] ps = {1,1}, uint8[1,1,1,1] k = {1}, int32[1] bias = {1}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            wd = DequantizeLinear <axis = 1> (w, ws, wz)
            y = MatMul (d, wd)
            b = com.microsoft.MatMulNBits <K = 4, N = 2, bits = 4, block_size = 16> (x, packed, ps)
            u, us, uz = DynamicQuantizeLinear (v)
            c = QLinearConv <kernel_shape = [1,1]> (u, s, z, k, s, z, s, z, bias)
            i = ConvInteger (u, k, z, z)
            m = MatMulInteger (q, w)
            a = com.microsoft.QLinearAdd (q, s, z, q, s, z, s, z)
        }""",
    "attention": """<ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]>
        g (float[B,T,8] x, int32[B,T] mask, float[B,2,P,4] past) => (float[B,T,8] y, float[B,T,8] m, float[B,T,8] o)
        <float[8,24] w, float[24] b, float[8] n> {
            l = LayerNormalization <axis = -1> (x, n, n)
            sk = com.microsoft.SkipLayerNormalization (l, x, n, n)
            y = com.microsoft.Attention <num_heads = 2, unidirectional = 1> (sk, w, b, mask)
            m = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x)
            o, pk, pv = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (x, x, x, past, past)
            a = Attention <q_num_heads = 2, kv_num_heads = 2, is_causal = 1> (x, x, x)
            r = RMSNormalization <axis = -1> (x, n)
            t = RotaryEmbedding <num_heads = 2> (x, w, w)
            f = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, x)
            h = com.microsoft.BiasGelu (x, n)
            s = Softmax <axis = -1> (f)
            g1 = Gelu <approximate = "tanh"> (h)
        }""",
    "recurrent": """<ir_version: 8, opset_import: ["": 14]>
        g (float[T,B,3] x, int32[B] lengths) => (float[T,1,B,2] y, float[1,B,2] h, float[T,2,B,2] r)
        <float[1,8,3] w, float[1,8,2] u, float[1,16] b, float[1,6,3] gw, float[1,6,2] gu, float[2,2,3] rw,
         float[2,2,2] ru> {
            y, h, c = LSTM <hidden_size = 2, direction = "forward"> (x, w, u, b, lengths)
            gy, gh = GRU <hidden_size = 2, linear_before_reset = 1> (x, gw, gu)
            r, rh = RNN <hidden_size = 2, direction = "bidirectional", layout = 0> (x, rw, ru)
        }""",
    "layouts": """<ir_version: 9, opset_import: ["": 20]>
        g (float[N,4,6,6] x, int64[N,2] at, float[R,4] boxes, float[1,C,R] scores)
            => (float[N,1,12,12] y, float[K,4] v, int64[D,3] chosen, float[N,5,6,6] e, float[N,4,L] d)
        <float[4] scales = {1,1,2,2}, int64[2] split = {1,3}, int64[1] k = {2}, int64 depth = {5},
         float[2] values = {0,1}, int64[1] axis = {1}, int64 most = {3}, int64[1] rois = {0}, float[5,4] table,
         int64[2,4] pads = {0,0,1,1,0,0,1,1}> {
            t = Transpose <perm = [0,2,3,1]> (x)
            p = DepthToSpace <blocksize = 2, mode = "DCR"> (x)
            q = SpaceToDepth <blocksize = 2> (x)
            y = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (p, , scales)
            a, b = Split <axis = 1, num_outputs = 2> (x)
            f, g1 = TopK <axis = -1, largest = 1> (x, k)
            n = NonZero (x)
            u, ui, uj, uc = Unique <sorted = 1> (at)
            o = OneHot <axis = -1> (at, depth, values)
            v = Gather (table, rois)
            w = GatherND <batch_dims = 0> (x, at)
            ge = GatherElements <axis = 1> (at, at)
            s = ScatterND (x, at, a)
            se = ScatterElements <axis = 0> (at, at, at)
            chosen = NonMaxSuppression (boxes, scores, most)
            e = Einsum <equation = "nchw,oc->nohw"> (x, table)
            c = CumSum (x, depth)
            m = Compress <axis = 1> (x, b)
            l = LRN <size = 3> (x)
            i = InstanceNormalization (x, scales, scales)
            r = ReduceMean <keepdims = 0> (x, axis)
            tr = Trilu <upper = 0> (x)
            gs = GridSample (x, t)
            ra = RoiAlign <output_height = 2, output_width = 2> (x, boxes, rois)
            df = DFT (x, depth)
            z = Clip (x, , depth)
            cc = Col2Im <dilations = [1,1]> (x, k, k)
            d = Reshape (x, k)
        }""",
}
"""Models in onnx's text form; the models need not be valid, for no file that a person brings must be."""


ALIKE = (
    """<ir_version: 8, opset_import: ["": 17]>
        plain (float[N,4] x) => (float[N,2] y, float[N,1] z)
        <float[4,2] w = {1,2,3,4,5,6,7,8}, float[2] b = {1,2}, int64[1] one = {1}> {
            [first] m = MatMul (x, w)
            a = Add (m, b)
            same = Identity (a)
            r = Relu (same)
            y = Softmax <axis = 1> (r)
            z = ReduceMax <axes = [1]> (r)
        }""",
    """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        fused (float[N,4] x) => (float[N,2] y, float[N,1] z)
        <float[4,2] w = {1,2,3,4,5,6,7,8}, float[2] b = {1,2}> {
            [first] a = com.microsoft.FusedMatMul <transA = 0> (x, w)
            r = Max (a, b)
            y = Softmax <axis = 1> (r)
            z = ReduceMax <axes = [1]> (r)
        }""",
    """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        written (float[N,4] x) => (float[N,2] y, float[N,1] z)
        <float[4,2] w = {1,2,3,4,5,6,7,9}, float[2] b = {1,2}, float s = {0.5}, uint8 p = {3}, bool c = {1}> {
            q = QuantizeLinear (x, s, p)
            d = DequantizeLinear (q, s, p)
            m = MatMul (d, w)
            a = own.Shift <by = 1.0> (m, b)
            r = If (c) <then_branch = t () => (float[N,2] u) { u = Relu (a) },
                        else_branch = e () => (float[N,2] v) { v = Neg (a) }>
            y = Softmax <axis = 1> (r)
            z = ReduceMax <axes = [1]> (r)
        }
        <domain: "own", opset_import: ["": 17]>
        Shift <by> (u, v) => (o) { k = Constant <value_float: float = @by> () h = Mul (v, k) o = Add (u, h) }""",
)
"""Valid models with the same outputs, the plain one first; the others are what optimizers make of models like it."""


def alike() -> Iterator[bytes]:
    """The models of `ALIKE` as the bytes of their files."""
    for text in ALIKE:
        yield onnx.parser.parse_model(text).SerializeToString()


def seeds() -> Iterator[bytes]:
    """Every model as the bytes of its file."""
    for text in TEXTS.values():
        yield onnx.parser.parse_model(text).SerializeToString()
    yield _stored_elsewhere().SerializeToString()


def _stored_elsewhere() -> onnx.ModelProto:
    """A model with external data, a large tensor in the file itself, sparse tensors, strings and 4-bit numbers."""
    outside = TensorProto(name="outside", data_type=TensorProto.FLOAT, dims=[4, 2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": DATA_FILE, "offset": "8", "length": "32"}.items():
        outside.external_data.add(key=key, value=value)
    large = helper.make_tensor("large", TensorProto.FLOAT, [4, 300], bytes(4800), raw=True)
    packed = helper.make_tensor("packed", TensorProto.INT4, [3], [1, -2, 3])
    words = helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"b"])
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("", TensorProto.INT64, [2], [1, 5])
    sparse = helper.make_sparse_tensor(values, indices, [4, 2])
    nodes = [
        helper.make_node("MatMul", ["x", "outside"], ["a"], name="first"),
        helper.make_node("MatMul", ["x", "sparse"], ["b"]),
        helper.make_node("Constant", [], ["c"], sparse_value=sparse),
        helper.make_node("Add", ["a", "c"], ["d"]),
        helper.make_node("Gemm", ["x", "large"], ["y"], transB=0),
        helper.make_node("Identity", ["words"], ["w"]),
        helper.make_node("Cast", ["packed"], ["p"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "stored",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("d", "y", "p")],
        [outside, large, packed, words],
        sparse_initializer=[sparse],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
