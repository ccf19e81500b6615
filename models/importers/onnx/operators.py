"""ONNX operators by what they cost on an NPU; docs/import.md explains the choices."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONVOLUTIONS = _names("Conv ConvInteger ConvTranspose DeformConv QLinearConv")
RECURRENT = {"GRU": 3, "LSTM": 4, "RNN": 1}
"""Recurrent operators, and the products that each makes of a value of its state."""

PRODUCTS = CONVOLUTIONS | frozenset(RECURRENT) | _names("Attention Einsum Gemm MatMul MatMulInteger QLinearMatMul")
"""Operators that multiply; they become layers of the network."""

WINDOWS = _names("AveragePool LpPool MaxPool")
"""Pools over windows; the others are over the whole map."""

POOLS = WINDOWS | _names("GlobalAveragePool GlobalLpPool GlobalMaxPool")
"""Pools; each reads its input and writes its output."""

QUANTISERS = _names("BipolarQuant FloatQuant IntQuant MultiThreshold Quant Trunc")
"""Operators of QONNX, Brevitas and FINN that round values to words of few bits."""

ELEMENTWISE = QUANTISERS | _names(
    """Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization Bernoulli BitCast BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout
    DynamicQuantizeLinear Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity
    IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear
    Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh
    ThresholdedRelu Trilu Where Xor"""
)
"""Each value of the output depends on the values in the same place, and perhaps on a scale that all share."""

SCALES = "DynamicQuantizeLinear"
"""The elementwise operator that finds the scale itself, from the range of all values, and returns it beside them."""

OURS = _names("Diagonal LoopState Treated")
"""Operators that no file has: parts of an Einsum and of a loop, and what a user says is free."""

ARRANGING = OURS | _names(
    "DepthToSpace Expand Flatten Reshape Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze"
)
"""The output is input values in other places; the next layer reads them from where they are."""

KEEPING = _names("DepthToSpace Flatten Reshape SpaceToDepth Squeeze Transpose Unsqueeze")
"""Arranging operators that must keep every value. Exporters that trace a run write down sizes that fit that run only;
with other sizes values would be lost."""

MOVING = _names(
    """AffineGrid ArgMax ArgMin CenterCropPad Col2Im CumProd CumSum Gather GatherElements GatherND GridSample
    GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization MaxRoiPool
    MaxUnpool MeanVarianceNormalization OneHot Pad RMSNormalization ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Resize ReverseSequence
    RoiAlign RotaryEmbedding Scatter ScatterElements ScatterND Softmax TensorScatter TopK Upsample"""
)
"""An output value depends on values in other places of the input, so these operators are traffic."""

SAME_SIZES = QUANTISERS | _names("GroupNormalization LoopState MeanVarianceNormalization")
"""Operators whose output is as large as their first input; the onnx package infers no shape for these."""

DATA_SIZED = _names(
    """CenterCropPad Compress ConstantOfShape Expand NonMaxSuppression NonZero OneHot Pad Range Reshape Resize Slice
    Split Squeeze Tile TopK Unique Unsqueeze Upsample"""
)
"""Operators whose output has a size that depends on values."""

RESHAPING = _names("Flatten Reshape Squeeze Unsqueeze")
"""Arranging operators that keep the values in their order."""

GATHERS = _names("Gather GatherElements GatherND")
"""Operators that take values at given places. If the places are constant, this rearranges; otherwise it is traffic."""

FINDING = _names("Compress NonMaxSuppression NonZero Unique")
"""Operators whose results a run counts, such as the boxes that a detector keeps."""

SEQUENCES = _names(
    """ConcatFromSequence Optional OptionalGetElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase
    SequenceInsert SequenceLength SplitToSequence"""
)
"""Operators that make lists of tensors or read them: nothing moves."""

JOINING = _names("Concat")
"""Operators that put maps side by side; each map is written in place."""

OF_SIZES = _names("EyeLike RandomNormalLike RandomUniformLike Shape Size")
"""Operators that read the sizes of a tensor and not its values."""

GENERATORS = _names("BlackmanWindow HammingWindow HannWindow RandomNormal RandomUniform") | OF_SIZES
"""Operators that make constants of sizes."""

SHAPES = _names(
    """Abs Add And ArgMax ArgMin BitShift Cast CastLike Ceil Clip Compress Concat Constant ConstantOfShape Cos CumSum
    Div Equal Exp Expand Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual
    Log Max Mean Min Mod Mul Neg NonZero Not OneHot Or Pad Pow Range Reciprocal ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Shape Sign Sin Size Slice Split Sqrt Squeeze Sub Sum
    Tile TopK Transpose Trilu Unique Unsqueeze Where Xor"""
)
"""Computed at once if all inputs are known: exporters write the arithmetic of shapes as nodes."""

KNOWN = PRODUCTS | POOLS | ELEMENTWISE | ARRANGING | MOVING | JOINING | SHAPES | GENERATORS
