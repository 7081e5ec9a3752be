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
    "np.interp({0}, [-1.5, -0.2, 0.6, 1.5], [0.3, -0.4, 0.5, 0.1])",
    "np.polyval([0.3, -0.5, 0.2], {0})",
    "np.select([{0} > 0.3, {0} > -0.2], [{0}, 0.5 * {0}], 0.1)",
    "np.piecewise({0}, [{0} < 0.0, {0} >= 0.4], [lambda t: -0.5 * t, lambda t: t**2, 0.2])",
    "np.nan_to_num(np.where({0} > 0.4, np.nan, {0}), nan=0.2)", "np.deg2rad({0} * 30.0)",
    "np.sinc({0} * 0.6)", "np.copysign({0}, -0.5)", "np.i0({0})",
    "np.reciprocal(np.abs({0}) + 0.8)", "np.square({0}, where={0} > 0.0, out=np.zeros_like({0}))",
    "np.float_power(np.abs({0}) + 0.7, 1.5)", "np.choose({0} > 0.2, [{0}, np.sin({0})])",
]  # fmt: skip
#: With jumps: their slopes are 0 or 1 between them.
STEPS = [
    "{0} % 0.7", "0.2 * ({0} // 0.3)", "np.remainder({0}, 0.45)", "0.3 * np.floor({0} * 2.0)",
    "0.25 * np.sign({0})", "{0} - 0.1 * np.round({0} * 3.0)", "np.trunc({0} * 1.5) * 0.2",
    "0.3 * np.ceil({0})", "{0} * (1.3 // 0.1) * 0.1",
    "np.heaviside({0}, 0.5) * 0.3", "np.fmod({0}, 0.7)", "np.fix({0} * 2.0) * 0.3",
    "0.3 * np.divmod({0}, 0.7)[1]", "np.modf({0} * 1.5)[0] * 0.5", "np.unwrap({0} * 4.0) * 0.2",
]  # fmt: skip
BINARY = [
    "({0} + {1}) * 0.5", "{0} - {1}", "0.5 * {0} * {1}", "{0} / (2.0 + {1} * {1})",
    "np.maximum({0}, {1})", "np.minimum({0}, {1})", "np.where({0} > {1}, {0}, 0.5 * {1})",
    "np.hypot({0}, 1.0 + {1} * {1})", "np.arctan2({0}, 1.5 + {1} * {1})", "np.fmax({0}, {1})",
    "np.fmin({0}, {1}) * 0.7", "0.3 * np.logaddexp({0}, {1})", "np.add({0}, {1}) * 0.3",
    "np.where({0} < 0.3, {0} * {1}, {1})", "(np.abs({0}) + 0.5) ** np.tanh({1})",
    "np.clip({0}, -0.5, {1} * {1} + 0.4)", "np.where({1} > -0.2, np.sin({0}), {0} * 0.5)",
    "np.maximum({0} - {1}, 0.0) ** 2 * 0.5",
    "np.copysign({0}, {1})", "np.logaddexp2({0}, {1}) * 0.3", "np.fmod({0}, 1.2 + {1} * {1})",
    "np.heaviside({0}, 0.5) * {1}", "np.select([{0} > {1}], [{0} * {1}], {1})",
    "np.interp({0}, [-1.0, 0.3, 1.2], [0.1, 0.5, -0.3]) * {1}",
    "np.true_divide({0}, 1.4 + np.square({1}))",
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
    "np.fmax.reduce({0}, axis=None)",
    "np.amax({0}) * np.amin({0})", "{0}.max()", "np.sum({0}[{0} > 0.0])", "np.mean(np.abs({0}))",
    "np.nansum({0})", "np.nanmean(np.where({0} > 0.9, np.nan, {0}))", "np.nanmax({0}) * 0.7",
    "np.nanmin({0})", "np.nanstd(np.append({0}, 2.0))", "np.nanvar({0})", "np.nanprod({0} * 0.7)",
    "np.nanmedian({0})", "np.quantile({0}, 0.3)", "np.percentile({0}, 65, method='hazen')",
    "np.nanquantile({0}, 0.6)", "np.sum({0}, where={0} > 0.0)", "np.max({0}, initial=-0.2)",
    "np.mean({0}, where={0} > -9.0)", "np.prod({0} * 0.7, initial=0.5)",
    "np.add.reduce({0}, axis=None)", "np.maximum.reduce({0}, axis=None)",
    "np.multiply.reduce({0} * 0.6, axis=None)",
    "np.sum({0}, initial=0.3, where=np.abs({0}) < 0.8)",
    "np.min({0}, initial=0.6, where={0} > 0.1)", "np.average({0}, weights=np.abs({0}) + 0.5)",
    "np.count_nonzero({0} > 0.2) * 0.1",
    "np.std({0} * np.arange({0}.size).reshape({0}.shape) + 1.0, mean=0.3)",
]  # fmt: skip
#: Of a vector.
PICKED = [
    "{0}[np.argmax({0})]", "{0}[np.argmin({0})]", "{0}[np.argsort({0})[0]]", "np.take({0}, 1)",
    "{0}[np.array(1)]", "{0}[{i}]", "{0}[-1]", "np.dot({0}, {0})", "{0} @ {0}[::-1]",
    "np.trapezoid({0})", "{0}[np.argsort({0})][1]", "np.sum({0}[np.argsort({0})[:2]])",
    "np.sort({0})[1]", "sum({0})", "max({0}[0], {0}[1])", "min({0}[0], {0}[-1])",
    "np.interp(0.7, np.arange(len({0})), {0})",
    "np.interp({0}[0], np.arange(len({0})) - 1.5, {0})", "np.convolve({0}, {0})[1]",
    "np.correlate({0}, {0}[:2])[0]", "np.partition({0}, 1)[1]", "np.polyval({0}, 0.4)",
    "np.bincount(np.arange(len({0})) % 2, weights={0})[0]", "np.sum({0}[np.nonzero({0} > 0.1)])",
    "{0}[np.searchsorted(np.sort({0}), 0.0) - 1]",
    "np.histogram(np.arange(len({0})), bins=2, weights={0})[0][0]",
    "{0}[np.argpartition({0}, 1)[0]]", "{0}[np.nanargmax({0})]", "np.quantile({0}, [0.2, 0.7])[1]",
    "np.inner({0}, {0}) * 0.3", "np.take({0}, [5, -7], mode='wrap')[0]",
    "np.extract({0} > -9.0, {0})[-1]", "np.polyval(np.polymul({0}, [0.3, 1.0]), 0.5)",
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
    "np.convolve({0}, [0.5, -0.3, 0.2], 'same')", "np.correlate({0}, [0.4, -0.6], 'full')",
    "np.insert({0}, 1, 0.5)", "np.insert({0}, [0, 2], {0}[:2])", "np.delete({0}, 1)",
    "np.delete({0}, slice(0, 1))", "np.add.accumulate({0}) * 0.3",
    "np.multiply.outer({0}, {0}[:2])", "np.subtract.outer({0}, {0})",
    "np.add.reduceat({0}, [0, 1])", "np.maximum.reduceat({0}, [0, 1])",
    "np.meshgrid({0}, {0}[:2])[1] * 1.0", "np.gradient({0})",
    "np.gradient({0}, 0.5, edge_order=2)", "np.ediff1d({0}, to_begin=0.3)",
    "np.vander({0} * 0.7, 3)", "np.block([[{0}], [np.sin({0})]])",
    "np.interp({0} * 0.5, [-1.0, 0.3, 1.2], [0.1, 0.5, -0.3])", "np.compress({0} > -9.0, {0})",
    "np.nancumsum({0}) * 0.3", "np.quantile({0}, [0.2, 0.6])", "np.unique({0})",
    "np.polymul({0}, [0.5, -0.2])", "np.polyder({0}) * 0.3", "np.polyint({0})",
    "np.partition({0}, 1)[:2]", "np.cross({0}[:3], [0.3, -0.2, 0.5])", "np.resize({0}, (2, 3))",
    "np.trim_zeros({0})", "np.select([{0} > 0.3], [{0}], {0}[0])",
    "np.column_stack(({0}, {0} ** 2))", "np.diagflat({0})",
    "np.bincount(np.arange(len({0})) % 3, weights={0})",
    "np.apply_along_axis(np.cumsum, 0, {0}) * 0.3", "np.array_split({0}, 2)[0] + 0.0",
    "np.cumulative_sum({0}, include_initial=True) * 0.3",
    "np.percentile({0}, [30, 80], method='median_unbiased')", "np.nan_to_num({0})",
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
    "np.cov({0})", "np.corrcoef({0} + np.eye(*{0}.shape))", "np.gradient({0}, axis=0)",
    "np.nanmean({0}, axis=0)", "np.nansum(np.where({0} > 0.9, np.nan, {0}), axis=1)",
    "np.nanmax({0}, axis=0)", "np.nanstd({0} + np.eye(*{0}.shape), axis=0)",
    "np.quantile({0}, 0.4, axis=1)", "np.percentile({0}, 30, axis=0, keepdims=True)",
    "np.nanmedian({0}, axis=1)", "np.insert({0}, 1, 0.3, axis=1)",
    "np.insert({0}, [0], {0}[:1], axis=0)", "np.delete({0}, 0, axis=0)",
    "np.delete({0}, [0], axis=1)", "np.apply_along_axis(np.sum, 0, {0})",
    "np.apply_over_axes(np.sum, {0}, [0])", "np.add.reduce({0}, axis=1)",
    "np.multiply.accumulate({0} * 0.7, axis=1)", "np.add.reduceat({0}, [0, 1], axis=0)",
    "np.maximum.reduce({0}, axis=0)", "np.block([[{0}, {0} * 0.5], [{0}, -{0}]])",
    "np.cross({0}, [0.3, -0.2, 0.5])", "np.partition({0}, 0, axis=1)",
    "np.sum({0}, axis=1, where={0} > 0.0)", "np.mean({0}, axis=0, where={0} > -9.0)",
    "np.max({0}, axis=1, initial=-0.3)", "np.unwrap({0}, axis=0)",
    "np.diff({0}, axis=1, prepend=0.2)", "np.compress([True, False], {0}, axis=0)",
    "np.take({0}, [0, -1], axis=1)", "np.trapezoid({0}, axis=0)", "np.vecdot({0}, {0} + 0.3)",
    "np.kron({0}, [[0.5, -0.3]])", "np.interp({0}, [-1.0, 0.3, 1.2], [0.1, 0.5, -0.3])",
    "np.nancumprod({0} * 0.7, axis=0)", "np.dstack(({0}, {0}))[..., 0]",
    "np.select([{0} > 0.3, {0} < -0.3], [{0}, {0} ** 2], {0}[0])",
    "np.average({0}, axis=1, weights=np.abs({0}) + 0.5)", "np.tri(*{0}.shape) * {0}",
    "np.trace({0}) * np.eye(2)",
]  # fmt: skip
#: Of any array of at least one axis, as far as NumPy makes views of it. Without an axis, squeeze of
#: one element is a number in tapegrad, which is no view (docs/limits.md).
VIEWS = [
    "{0}[::-1]", "{0}[::2]", "{0}[-1::-2]", "{0}[1:]", "{0}[:-1]", "{0}[1:3]", "{0}[:]", "{0}[...]",
    "np.flip({0})", "{0}[None]", "np.expand_dims({0}, 0)", "{0}[..., None]",
    "np.squeeze({0}[None], 0)", "np.atleast_2d({0})", "{0}[...][::-1]", "{0}[..., 1:]",
    "{0}[..., ::-1]", "np.ravel({0})",
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
#: Functions that write; `{0}` is an array of at least one axis, `{1}` a number. Where `{0}` is one
#: at another point, NumPy's put loses what it writes, and tapegrad's raises. NumPy's place makes an
#: array of a list itself, where it writes to a plain array.
WRITERS = [
    "np.ndim({0}) and np.put({0}, [0, -1], {1})",
    "np.ndim({0}) and np.put({0}, [1, 0], [{1}, 0.3])", "np.copyto({0}, {1})",
    "np.copyto({0}, {1}, where={0} > 0.1)", "np.putmask({0}, {0} > 0.2, {1})",
    "np.place({0}, {0} > 0.2, np.stack([{1}, 0.4]))", "np.fill_diagonal({0}, {1})", "{0}.fill({1})",
    "np.put_along_axis({0}, np.argsort({0}, axis=-1)[..., :1], {1}, axis=-1)",
    "np.add({0}, {1}, out={0})", "np.sin({0}, out={0})", "np.minimum.at({0}, [1, 0], {1})",
    "np.multiply({0}, {1}, out={0}, where={0} > 0.0)", "np.maximum.at({0}, [0, 1, 0], {1})",
    "np.multiply.at({0}, [0, 0], {1})", "{0}.sort()",
]  # fmt: skip
#: Arrays made from nothing or from numbers: `{0}` and `{1}` are numbers, `{2}` a vector.
CREATORS = [
    "np.zeros(3)", "np.zeros((2, 3))", "np.ones(4)", "np.full(3, {0})", "np.zeros(({i} + 1, 2))",
    "np.array([{0}, {1}])", "np.array([[{0}, 0.5], [{1}, -0.3]])",
    "np.asarray([{0}, 0.2, {1}], dtype=float)", "np.linspace({0}, {1}, 4)", "np.r_[{0}, {2}, 0.3]",
    "np.c_[{2}, {2} ** 2]", "np.eye(3) * {0}", "np.array([t * {0} for t in {2}])",
    "np.asarray([{2}, {2} * {1}])", "np.zeros_like({2}) + {0}", "np.array({2})",
    "np.stack([{0}, {1}])", "np.concatenate([[{0}], {2}])", "np.sin([{0}, {1}])",
    "np.array([{2}, {2}[::-1]]).T", "np.full_like({2}, {1})",
    "np.linspace(0.0, {0}, 3, endpoint=False)", "np.array({2}, copy=True)",
    "np.hstack([{0}, {2}])", "np.append([], [{0}, {1}])", "np.maximum([{0}, 0.3], [0.1, {1}])",
    "np.sum([{0}, {1}, 0.2]) * np.ones(2)", "np.mean([{0}, {1}]) + np.zeros((2, 2))",
    "np.tri(3) * {0}", "np.identity(2) + {1}", "np.diag([{0}, {1}])", "np.array([{0}] * 3)",
    "np.array(({0}, {1}), dtype=np.float64)", "np.fromiter([0.3, 0.5], float) * {0}",
    "np.zeros_like({2}, shape=(2, 2))", "np.ascontiguousarray({2}) * 0.7",
    "np.nanmax([{0}, {1}]) * 0.5", "np.array([[t * {0} for t in {2}] for _ in range(2)])",
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
