"""Texts that random programs are put together from; `{0}` and `{1}` are their operands.

All of them keep numbers small, and have kinks or jumps at few points.
"""

UNARY = [
    "np.sin({0})", "np.tanh({0})", "np.cos({0})", "np.exp(-{0} * {0})", "np.arctan({0})",
    "0.5 * {0}", "-{0}", "{0} + 0.25", "1.0 - {0}", "np.square({0}) * 0.5", "np.log1p({0} * {0})",
    "np.sqrt(np.abs({0}) + 0.5)", "np.abs({0}) - 0.5", "1.0 / (1.5 + {0} * {0})", "abs({0})",
    "np.maximum({0}, -0.4)", "np.minimum({0} + 0.25, 0.7)", "np.clip({0}, -0.8, 0.9)",
    "np.where({0} > 0.1, {0}, 0.3 * {0})", "0.5 * {0}**2", "0.2 * {0} ** 3", "2.0 ** {0} - 1.0",
    "np.maximum({0}, 0.0) ** 2", "np.minimum({0}, 0.2) ** 3", "np.fmax({0}, 0.1) * 0.5",
    "np.fmin(0.4, {0}) + {0}", "(np.abs({0}) + 0.6) ** 1.5 * 0.4", "np.sinh({0} * 0.5)",
    "np.cbrt({0} * {0} + 0.7)", "np.negative({0})", "np.expm1({0} * 0.5)", "np.arcsinh({0})",
]  # fmt: skip
#: With jumps: their slopes are 0 or 1 between them.
STEPS = [
    "{0} % 0.7", "0.2 * ({0} // 0.3)", "np.remainder({0}, 0.45)", "0.3 * np.floor({0} * 2.0)",
    "0.25 * np.sign({0})", "{0} - 0.1 * np.round({0} * 3.0)", "np.trunc({0} * 1.5) * 0.2",
    "0.3 * np.ceil({0})", "{0} * (1.3 // 0.1) * 0.1",
]  # fmt: skip
BINARY = [
    "({0} + {1}) * 0.5", "{0} - {1}", "0.5 * {0} * {1}", "{0} / (2.0 + {1} * {1})",
    "np.maximum({0}, {1})", "np.minimum({0}, {1})", "np.where({0} > {1}, {0}, 0.5 * {1})",
    "np.hypot({0}, 1.0 + {1} * {1})", "np.arctan2({0}, 1.5 + {1} * {1})", "np.fmax({0}, {1})",
    "np.fmin({0}, {1}) * 0.7", "0.3 * np.logaddexp({0}, {1})", "np.add({0}, {1}) * 0.3",
    "np.where({0} < 0.3, {0} * {1}, {1})", "(np.abs({0}) + 0.5) ** np.tanh({1})",
    "np.clip({0}, -0.5, {1} * {1} + 0.4)", "np.where({1} > -0.2, np.sin({0}), {0} * 0.5)",
    "np.maximum({0} - {1}, 0.0) ** 2 * 0.5",
]  # fmt: skip
#: An array of at least one axis to a number.
REDUCED = [
    "np.sum({0})", "np.mean({0})", "np.max({0})", "np.min({0})", "np.var({0})", "np.ptp({0})",
    "np.prod({0} * 0.7)", "{0}.sum()", "{0}.mean()", "np.median({0})",
    "np.std(np.append({0}, 2.0))", "np.linalg.norm(np.append({0}, 0.7))", "np.sum({0} ** 2)",
    "np.vdot({0}, {0})", "np.average({0})", "np.max({0}) ** 2", "np.maximum(np.min({0}), 0.0) ** 2",
    "np.sum({0}, where={0} > 0.1, initial=0.3)", "np.max({0}, initial=0.2)",
    "np.mean({0}, where={0} > -5.0)", "np.var({0}, mean=0.2)", "np.sum(np.unique({0}) ** 2)",
    "np.logaddexp.reduce({0}, axis=None) * 0.5", "np.hypot.reduce(1.5 + {0}, axis=None) * 0.3",
    "np.fmax.reduce({0}, axis=None)", "np.amax({0}) * np.amin({0})",
    "{0}.max()", "np.sum({0}[{0} > 0.0])", "np.mean(np.abs({0}))",
]  # fmt: skip
#: Of a vector.
PICKED = [
    "{0}[np.argmax({0})]", "{0}[np.argmin({0})]", "{0}[np.argsort({0})[0]]", "np.take({0}, 1)",
    "{0}[np.array(1)]", "{0}[{i}]", "{0}[-1]", "np.dot({0}, {0})", "{0} @ {0}[::-1]",
    "np.trapezoid({0})", "{0}[np.argsort({0})][1]", "np.sum({0}[np.argsort({0})[:2]])",
    "np.sort({0})[1]", "sum({0})", "max({0}[0], {0}[1])", "min({0}[0], {0}[-1])",
]  # fmt: skip
#: A vector to an array that shares no memory with it.
MADE_OF_VECTOR = [
    "np.cumsum({0}) * 0.3", "np.cumprod(np.tanh({0}))", "np.sort({0})", "np.roll({0}, {i})",
    "np.diff({0})", "{0}[np.argsort({0})]", "np.concatenate(({0}[:2], {0}[1:]))",
    "np.stack(({0}, {0}[::-1]))", "np.outer({0}, np.cos({0}))", "np.repeat({0}, 2)",
    "np.tile({0}, 2)", "np.diag({0})", "np.stack(({0}, 0.5 * {0}), axis=1)", "{0}[{0} > -9.0]",
    "np.take({0}, [0, -1, 0])", "{0}[[1, 0, 1]]", "np.pad({0}, 1)", "np.append({0}, {0}[0])",
    "{0}[np.array([True] + [False] * (len({0}) - 1))]", "np.hstack(({0}, {0}))",
    "np.vstack(({0}, np.sin({0})))", "{0}.copy()", "np.full_like({0}, 0.4)", "np.zeros_like({0})",
    "np.ones_like({0})", "np.triu(np.outer({0}, {0}))", "{0}[::2] * 1.0", "{0}[:, None] - {0}",
    "np.maximum({0}[:, None], {0})", "{0}[np.arange(len({0}))[::-1]]",
    "np.maximum.accumulate({0})", "np.logaddexp.accumulate({0}) * 0.4", "np.add.outer({0}, {0})",
    "np.multiply.reduceat(np.tanh({0}), [0, 1])",
    "np.histogram({0}, 2, (-3.0, 4.0), weights={0})[0]",
    "np.subtract.accumulate({0}) * 0.3", "np.add.reduceat({0}, [1, 0])",
    "np.array_split({0}, 2)[0] * 1.0", "np.where({0} > 0, {0}, {0}[0])",
]  # fmt: skip
MADE_OF_MATRIX = [
    "np.sum({0}, axis=0)", "np.mean({0}, axis=1)", "np.max({0}, axis=0)", "np.min({0}, axis=1)",
    "np.cumsum({0}, axis=1) * 0.3", "np.sort({0}, axis=0)", "{0} @ {0}.T * 0.3",
    "{0}.T @ {0} * 0.3", "np.var({0}, axis=0)", "np.prod({0} * 0.6, axis=1)",
    "np.roll({0}, 1, axis=1)", "{0}.flatten()", "np.sum({0}, axis=1, keepdims=True) * 0.3",
    "{0} - np.mean({0}, axis=0)", "np.tril({0})", "np.einsum('ij,kj->ik', {0}, {0}) * 0.3",
    "{0}[[0, 0]]", "{0}[:, [0, -1]]", "{0}[[0, -1], [0, 1]]", "{0}[np.ix_([0, -1], [1, 0])]",
    "np.concatenate(({0}, {0}), axis=1)", "np.diff({0}, axis=0)",
    "np.take_along_axis({0}, np.argsort({0}, axis=1), axis=1)", "np.repeat({0}, 2, axis=0)",
    "np.sum({0}, axis=(0, 1), keepdims=True)", "np.linalg.norm(1.5 + np.cos({0}), axis=1)",
    "np.minimum.accumulate({0}, 1)", "np.maximum.reduceat({0}, [1, 0], axis=1)",
    "np.logaddexp.accumulate({0}, axis=1) * 0.4", "np.fmin.reduce({0}, axis=0, initial=0.1)",
    "np.sum({0}, 0, where={0} > 0.2)", "np.subtract.reduce({0}, axis=1)",
    "{0}[{0} > -9.0]", "np.cumprod(np.tanh({0}), axis=0)", "np.ptp({0}, axis=0)",
    "np.median({0}, axis=1)", "np.tensordot({0}, {0}, axes=([1], [1])) * 0.3", "{0}.copy()",
    "np.zeros_like({0})", "np.max({0}, axis=1)[:, None] - {0}",
    "{0}[np.argmax({0}, axis=0), np.arange({0}.shape[1])]",
]  # fmt: skip
#: Of any array of at least one axis, as far as NumPy makes views of it.
VIEWS = [
    "{0}[::-1]", "{0}[::2]", "{0}[-1::-2]", "{0}[1:]", "{0}[:-1]", "{0}[1:3]", "{0}[:]", "{0}[...]",
    "np.flip({0})", "{0}[None]", "np.expand_dims({0}, 0)", "{0}[..., None]", "np.squeeze({0})",
    "np.atleast_2d({0})", "{0}[...][::-1]", "{0}[..., 1:]", "{0}[..., ::-1]", "np.ravel({0})",
    "{0}.reshape(-1)", "np.array_split({0}, 2)[1]", "np.moveaxis({0}, 0, -1)", "{0}[:0]",
]  # fmt: skip
VIEWS_OF_VECTOR = [
    "np.broadcast_to({0}, (2, len({0})))", "{0}[:, None]", "{0}.reshape(2, -1)",
    "{0}.reshape(-1, 2).T", "{0}.reshape(-1, 3)",
    "np.lib.stride_tricks.sliding_window_view({0}, 2)", "{0}[None, ::-1]", "np.split({0}, 2)[1]",
    "{0}[{i}:]", "{0}[: -{i}]",
]  # fmt: skip
VIEWS_OF_MATRIX = [
    "{0}.T", "{0}[:, 1]", "{0}[0]", "{0}[-1]", "{0}[:, ::-1]", "{0}[::-1, ::-1]", "{0}.T[1:]",
    "np.diagonal({0})", "np.swapaxes({0}, 0, 1)", "{0}[:, :2]", "{0}[:2, :2].T", "{0}[0, 1:]",
    "np.transpose({0})[::-1]", "{0}[..., 0]", "{0}[:, None]", "np.rot90({0})", "{0}.ravel()",
    "np.diag({0})", "{0}.reshape(-1)[:: {0}.shape[1] + 1]", "np.diagonal({0}, 1)", "{0}[1:, :-1]",
    "np.broadcast_to({0}, (2,) + {0}.shape)[1]", "np.fliplr({0})", "{0}.reshape({0}.shape[::-1])",
    "{0}.T.reshape(-1)", "np.unstack({0}, axis=1)[0]", "np.hsplit({0}, [1])[1]",
]  # fmt: skip
#: Keys to write to, of any array; then of matrices.
KEYS = [
    "...", ":", "::-1", "::2", "1:", ":-1", "0", "-1", "1:3", "None, ::2", "..., -1", ":0",
]  # fmt: skip
KEYS_OF_VECTOR = [
    "[1, 0]", "[0, -1, 0]", "[1, 1]", "np.array([-1, 0])", "np.argsort({0})[:2]", "np.argmax({0})",
    "{0} > 0.2", "np.abs({0}) < 0.5", "np.array([True] + [False] * (len({0}) - 1))", "np.array(1)",
    "np.array([[0, 1], [1, 0]])", "-2:0:-1",
]  # fmt: skip
KEYS_OF_MATRIX = [
    ":, 0", "0, 1", "1, ::-1", ":, 1:", "[0, 1], [1, 0]", "[0, 0], [1, 1]", ":, [1, 0]", "[-1]",
    "..., 0", "::-1, ::-1", "{0} > 0.2", "np.ix_([0, 1], [1, 0])", "np.array([1, 0]), :1",
    "None, 0, :", "0, None, 1:", "{0}[0] > 0.0", "-1, [0, 0]",
]  # fmt: skip
#: What numbers of loops are computed with: `old` is what is carried.
ROUND_UNARY = [
    "np.sin({0})", "np.tanh({0})", "np.abs({0})", "0.7 * {0}", "np.maximum({0}, 0.1)",
    "np.minimum({0}, 0.6)", "np.exp(-{0} * {0})", "{0} * {0} * 0.4",
    "np.where({0} > 0.2, {0}, -0.3)", "np.cos({0})", "1.0 / (1.2 + {0} * {0})", "abs({0}) ** 1.0",
    "np.sqrt({0} * {0} + 0.3)",
]  # fmt: skip
ROUND_BINARY = [
    "{0} * {1}", "{0} + {1}", "{0} - {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})",
    "np.where({0} > {1}, {0} * 0.5, {1})", "{0} / (1.5 + {1} * {1})", "np.hypot({0}, {1} + 1.5)",
    "({0} - {1}) ** 2",
]  # fmt: skip
