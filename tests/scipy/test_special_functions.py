"""Functions of `scipy.special` as operations of the table: values, derivatives, refusals."""

import numpy as np
import pytest
import scipy.special
from extent import some

import tapegrad as tg
from tapegrad._core.codegen.vector_math import OF_SCIPY, Special
from tapegrad._core.ops.sample_inputs import points
from tapegrad._core.ops.table import STEERING, TABLE
from tapegrad.scipy import _differentiable, special

#: Those whose values kernels take from SciPy, but for derivatives of others.
OPS = [TABLE.get(name) or STEERING[name] for name in [*OF_SCIPY, "bdtr", "bdtrc", "bdtri"]]
OPS = [op for op in OPS if op.apart and not op.numpy.startswith("scipy.special._ufuncs.")]
OPS = [op for op in OPS if not op.name.startswith("complex_")]  # those of `test_scipy_holomorphic`
every_op = pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
#: Functions whose second derivative is refused.
ONCE = {
    "hyp1f1",
    "hyp2f1",
    "smirnov",
    "smirnovi",
    "kolmogorov",
    "kolmogi",
    "elliprf",
    "elliprc",
    "elliprd",
}
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
            for module in (special, scipy.special):
                with pytest.raises(TypeError, match=text):
                    tg.grad(function_of(op, module), k)(*x)


@pytest.mark.parametrize("number, native", [(2, False), *some([(k, True) for k in range(6)], 0, 3)])
def test_programs(number, native):
    """Several functions in each; at other inputs than those that were recorded."""
    group = [op for op in OPS if varying(op)][number::6]
    constants = [[x[()] for x in operands_of(op, (), 3)] for op in group]

    def f(x):
        total = 0.0
        for op, rest in zip(group, constants, strict=True):
            inside = [low + (high - low) * x for low, high in op.domain]
            operands = [inside[k] if k in varying(op) else one for k, one in enumerate(rest)]
            total = total + np.sum(function_of(op)(*operands) * np.cos(x))
        return total

    c = tg.compile(f, native=native)
    for x in np.random.default_rng(number).uniform(0.1, 0.9, (3, 4)):
        value, gradient = c.value_and_grad(x)
        wanted, slopes = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-10)


def repeated(v, x):
    total = x * 0.0
    for k in range(3):
        if x > 0.5 + k:
            total = total + scipy.special.struve(v, x) * scipy.special.gammainc(x, 1.3)
        else:
            total = total - scipy.special.betainc(1.5, x, 0.3) * scipy.special.eval_legendre(3, x)
    return total


def in_arrays(v, x):
    return np.sum(scipy.special.struve(v, x * np.ones(3)) * x)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("f", [repeated, in_arrays])
def test_graphs_and_refusals_in_compiled_functions(f, native):
    """Kernels of derivatives are made where only values are asked for: no reason to refuse."""
    c, of_x = tg.compile(f, native=native), tg.compile(f, argnums=1, native=native)
    text = r"scipy.special.struve\(\) has no derivative with respect to v, its order"
    for point in ((1.5, 0.7), (1.2, 1.7), (1.5, 2.7), (1.5, 0.7)):
        np.testing.assert_allclose(c(*point), f(*point), rtol=1e-13)
        with pytest.raises(TypeError, match=text):
            c.value_and_grad(*point)
        value, slope = of_x.value_and_grad(*point)
        np.testing.assert_allclose(value, f(*point), rtol=1e-13)
        np.testing.assert_allclose(slope, tg.grad(f, 1)(*point), rtol=1e-10)


def test_transforms_refuse():
    f = lambda v: scipy.special.struve(v, 0.7)
    for transform in (tg.grad, tg.hessian):
        with pytest.raises(TypeError, match="no derivative with respect to v"):
            transform(f)(1.5)
    with pytest.raises(TypeError, match="no derivative with respect to v"):
        tg.vmap(tg.grad(f))(np.array([1.5, 1.2]))
    with pytest.raises(TypeError, match="no derivative with respect to v"):
        tg.jvp(f, (1.5,), (1.0,))
    within = tg.elementwise(lambda v, x: x * scipy.special.struve(v, x))
    assert tg.grad(within, 1)(1.5, 0.7) == tg.grad(lambda x: x * scipy.special.struve(1.5, x))(0.7)
    with pytest.raises(TypeError, match="no derivative with respect to v"):
        tg.grad(within)(1.5, 0.7)


#: Points where expressions divide by 0, or cancel, and partial derivatives there.
EDGES = [
    ("gammainc", (1.0, 0.0), (0.0, 1.0)),
    ("gammainc", (0.5, 0.0), (0.0, np.inf)),
    ("betainc", (1.0, 1.0, 1.0), (0.0, 0.0, 1.0)),
    ("exprel", (0.0,), (0.5,)),
    ("boxcox", (2.0, 0.0), (0.5, 0.5 * np.log(2.0) ** 2)),
    ("inv_boxcox", (0.4, 0.0), (np.exp(0.4), -0.08 * np.exp(0.4))),
    ("tklmbda", (5.0, 0.5), (0.0, 0.0)),
    ("huber", (-1.0, 0.5), (0.0, 0.0)),
    ("pseudo_huber", (0.0, 2.0), (2.0, 0.0)),
    ("stdtr", (1e10, 1.0), (1.2098536225352242e-21, 0.24197072450704488)),
    ("i0e", (1e6,), (-1.994712150024641e-10,)),
    ("kve", (0.5, 1e12), (None, -np.sqrt(np.pi / 8.0) * 1e-18)),
    ("ellipk", (0.0,), (np.pi / 8.0,)),
    ("ellipe", (0.0,), (-np.pi / 8.0,)),
    ("rgamma", (-2.0,), (2.0,)),
    ("beip", (0.0,), (0.5,)),
    ("dawsn", (1e10,), (-5e-21,)),
    ("jv", (0.5, 0.0), (None, np.inf)),
    ("pdtr", (2.7, 1.0), (0.0, -0.5 * np.exp(-1.0))),
    ("bdtr", (4.0, 4, 0.3), (0.0, None, 0.0)),
    ("chndtr", (1.0, 2.0, 0.0), (0.5 * np.exp(-0.5), None, -0.25 * np.exp(-0.5))),
    ("eval_legendre", (0, 0.3), (None, 0.0)),
]


@pytest.mark.parametrize("name, at, slopes", EDGES, ids=[f"{one[0]}{one[1]}" for one in EDGES])
def test_derivatives_at_the_edges(name, at, slopes):
    for k, wanted in enumerate(slopes):
        if wanted is not None:
            found = tg.grad(getattr(special, name), k)(*at)
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


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


def test_derivatives_by_parameters_are_zero_far_in_the_tails():
    for x in (0.0, 1e6, 1e10, 1e300, np.inf):
        with np.errstate(all="ignore"):
            slope = tg.grad(lambda a, x=x: special.gammainc(a, x))
            assert slope(4.97) == 0.0 and tg.grad(slope)(4.97) == 0.0
