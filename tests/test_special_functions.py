"""Functions of `scipy.special` as operations of the table: values, derivatives, refusals."""

import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad._core.codegen.special_values import OF_SCIPY, Special
from tapegrad._core.ops.sample_inputs import points
from tapegrad._core.ops.table import STEERING, TABLE
from tapegrad.scipy import _differentiable, special

#: Those whose values kernels take from SciPy, but for derivatives of others.
OPS = [TABLE.get(name) or STEERING[name] for name in [*OF_SCIPY, "bdtr", "bdtrc", "bdtri"]]
OPS = [op for op in OPS if op.apart and not op.name.endswith("_slope")]
every_op = pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
#: Functions whose second derivative is refused.
ONCE = {"smirnov", "smirnovi", "kolmogorov", "kolmogi", "elliprf", "elliprc", "elliprd"}
ONCE |= {"ellipkinc", "ellipeinc", *[f"ellipj_{which}" for which in "abcd"]}
#: Values that SciPy iterates for are exact to so much.
COARSE = dict.fromkeys(["gdtria", "gdtrib", "btdtria", "btdtrib", "stdtrit"], 1e-6)


def scipys(op):
    """What the table knows of SciPy's function."""
    return OF_SCIPY.get(op.name, Special(op.name, len(op.inputs)))


def operands_of(op, shape, seed):
    """Operands inside the domain; those of one value are whole numbers."""
    pairs = zip(points(op, shape, np.random.default_rng(seed)), op.domain, strict=True)
    return [x.astype(int) if low == high == int(low) else x for x, (low, high) in pairs]


def function_of(op, module=special):
    """The function of a module; of one with several results that one."""
    found = scipys(op)
    function = getattr(module, found.name)
    if not found.outputs:
        return function
    return lambda *operands: function(*operands)[found.which]


def is_refused(op, k):
    return "np.no_" in op.partials[k]


def difference(f, x, k):
    """The derivative by operand k, by differences of sixth order."""

    def central(h):
        up, down = list(x), list(x)
        up[k], down[k] = x[k] + h, x[k] - h
        return (f(*up) - f(*down)) / (2.0 * h)

    one, two, four = central(2e-3), central(1e-3), central(5e-4)
    return (16.0 * (4.0 * four - two) - (4.0 * two - one)) / 45.0


def varying(op):
    """Operands that have a derivative, and are not whole numbers."""
    return [k for k, (low, high) in enumerate(op.domain) if low < high and not is_refused(op, k)]


@every_op
def test_values_and_derivatives(op):
    """Of all operands at once; second ones, too, where there are some."""
    x = operands_of(op, (6,), len(op.name))
    f, plain = function_of(op), function_of(op, scipy.special)
    value, back = tg.vjp(lambda *operands: f(*fixed(op, x, operands)), *given(op, x))
    np.testing.assert_allclose(value, plain(*x), rtol=1e-13, strict=True)
    tolerance = COARSE.get(op.name, 2e-8)
    for k, found in zip(varying(op), back(np.ones(6)), strict=True):
        np.testing.assert_allclose(found, difference(plain, x, k), tolerance, tolerance)
    if op.name in ONCE:
        return

    def slopes(*operands):
        return tg.grad(lambda *o: np.sum(f(*fixed(op, x, o))), tuple(range(len(operands))))(
            *operands
        )

    def along(*operands):
        return sum(np.sum(one * w) for one, w in zip(slopes(*operands), WEIGHTS, strict=False))

    for k, found in enumerate(tg.grad(along, tuple(range(len(varying(op)))))(*given(op, x))):
        wanted = difference(
            lambda *o: sum(one * w for one, w in zip(slopes(*o), WEIGHTS, strict=False)),
            given(op, x),
            k,
        )
        np.testing.assert_allclose(found, wanted, 10.0 * tolerance, 10.0 * tolerance)


WEIGHTS = 1.0, -0.7, 0.3, 1.1


def given(op, x):
    return [x[k] for k in varying(op)]


def fixed(op, x, operands):
    """All operands, of which some are given."""
    full = list(x)
    for k, operand in zip(varying(op), operands, strict=True):
        full[k] = operand
    return full


@pytest.mark.filterwarnings("ignore:non-integer arg n")
@every_op
def test_what_has_no_derivative_is_refused_by_name(op):
    x = [one[()] for one in operands_of(op, (), 1)]
    name = scipys(op).name
    for k in range(len(x)):
        if is_refused(op, k):
            x[k] = float(x[k])
            text = rf"scipy.special.{name}\(\) has no derivative with respect to {op.inputs[k]}, "
            for module in (special, scipy.special)[: 1 if name == "zeta" else 2]:
                with pytest.raises(TypeError, match=text):
                    tg.grad(function_of(op, module), k)(*x)


def test_plain_arguments_are_scipys():
    for op in OPS:
        name = scipys(op).name
        assert f"special.{name}" in _differentiable.OURS
        x = operands_of(op, (3,), 2)
        assert np.array_equal(getattr(special, name)(*x), getattr(scipy.special, name)(*x))


@pytest.mark.parametrize("name", ["expm1", "log1p", "exp2", "cbrt"])
def test_scipys_names_of_numpys_functions(name):
    x = np.array([0.1, 0.3, 2.0])
    wanted = tg.grad(lambda x: np.sum(getattr(np, name)(x)))(x)
    for module in (special, scipy.special):
        found = tg.grad(lambda x, module=module: np.sum(getattr(module, name)(x)))(x)
        np.testing.assert_array_equal(found, wanted)
