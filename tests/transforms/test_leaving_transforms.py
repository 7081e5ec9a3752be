"""Numbers that Python or a library takes out of a tensor inside a transform: refused by name."""

import array
import cmath
import ctypes
import math
import re
import statistics
import threading
import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse
from assumed import needs

import tapegrad as tg
from tapegrad._core.codegen import compat

V = np.array([0.72, 1.2, 1.9])
SPARSE = scipy.sparse.lil_matrix((2, 2))


def taken_by_quad(t):
    return scipy.integrate.quad(lambda s: s * t, 0.0, 1.0)[0]


TAKES = {
    "float": float,
    "complex": complex,
    "math.sin": lambda t: math.sin(t),
    "math.floor": lambda t: math.floor(t),
    "math.isclose": lambda t: math.isclose(t, 1.0),
    "cmath.sqrt": lambda t: cmath.sqrt(t),
    "np.float64": lambda t: np.float64(t),
    "np.fromiter": lambda t: np.fromiter([t], float),
    "array.array": lambda t: array.array("d", [t]),
    "fill": lambda t: np.zeros(2).fill(t),
    "setitem": lambda t: np.zeros(2).__setitem__(0, t),
    "statistics.fmean": lambda t: statistics.fmean([t, t]),
    "statistics.mean": lambda t: statistics.mean([t, t]),
    "ctypes": lambda t: ctypes.c_double(t),
    "brentq": lambda t: scipy.optimize.brentq(lambda s: s - t, 0.0, 9.0),
    "quad": taken_by_quad,
    "lil_matrix": lambda t: SPARSE.__setitem__((0, 0), t),
    "random": lambda t: np.random.default_rng(0).normal(t),
    "tolist": lambda t: (t * np.ones(2)).tolist(),
}
TRANSFORMS = {
    "grad": lambda f: tg.grad(f)(V),
    "value_and_grad": lambda f: tg.value_and_grad(f)(V),
    "jacobian": lambda f: tg.jacobian(f)(V),
    "hessian": lambda f: tg.hessian(f)(V),
    "hvp": lambda f: tg.hvp(f)(V, V),
    "jvp": lambda f: tg.jvp(f, (V,), (V,)),
    "vjp": lambda f: tg.vjp(f, V),
    "elementwise_grad": lambda f: tg.elementwise_grad(f)(V),
    "functional": lambda f: tg.autograd.functional.jacobian(f, tg.tensor(V)),
    "grad of a tree": lambda f: tg.grad(lambda p: f(p["x"]))({"x": V}),
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
@pytest.mark.parametrize("number", [lambda x: x[1], lambda x: np.sum(x * x), lambda x: x[0] * 2.0])
@pytest.mark.usefixtures("not_entered")
def test_a_number_taken_inside_grad_is_refused(take, number):
    """Elements and results; nothing is returned, no warning either."""

    def f(x):
        take(number(x))
        return np.sum(x)

    with pytest.raises(tg.DerivativeLost):  # also where C code has gone on, as that of brentq
        tg.grad(f)(V)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.usefixtures("not_entered")
def test_every_transform_refuses(transform):
    with pytest.raises(TypeError, match=r"^tapegrad: math.sin\(\) of a recorded tensor loses its"):
        transform(lambda x: math.sin(x[0]) * x[1])


def refusal(f):
    with pytest.raises(TypeError) as raised:
        tg.grad(f)(V)
    return str(raised.value)


@pytest.mark.usefixtures("not_entered")
def test_the_message_names_line_function_and_way_out():
    text = refusal(lambda x: math.atan2(x[0], 2.0))
    assert re.fullmatch(
        r"tapegrad: math.atan2\(\) of a recorded tensor loses its derivative inside a transform "
        r"\(.*test_leaving_transforms.py:\d+\); use np.arctan2 on the tensor, or `import "
        r"tapegrad.math as math`, or tg.stop_gradient\(t\) for the number alone",
        text,
    )
    sine = math.sin
    assert "math.sin()" in refusal(lambda x: sine(x[0]))
    assert "use scipy.special.gammaln on" in refusal(lambda x: math.lgamma(x[1]))
    assert "tapegrad: scipy.integrate.quad() takes" in refusal(lambda x: taken_by_quad(x[0]))
    assert "called by fmean()," in refusal(lambda x: TAKES["statistics.fmean"](x[0]))
    text = refusal(lambda x: float(x[0]) + x[1])
    assert text.startswith("tapegrad: float() of a recorded tensor") and "NumPy's functions" in text
    for take in (taken_by_quad, TAKES["statistics.fmean"]):
        assert "test_leaving_transforms.py:" in refusal(lambda x, g=take: g(x[0]))


STAYS = {
    "item": lambda t: t.item(),
    "int": lambda t: t.detach().__int__(),
    "bool": bool,
    "round": round,
    "str": str,
    "repr": repr,
    "format": lambda t: f"{t:.3f}",
    "detach": lambda t: float(t.detach()),
    "compare": lambda t: t > 0.5,
    "float of a mask": lambda t: float(t > 0.5),
    "float of an index": lambda t: float(np.argmax(t * np.ones(2))),
    "math of a constant": lambda t: math.sin(tg.tensor(1.0)),
    "isfinite": np.isfinite,
}
if "cpython-bytecode" not in compat.switched_off():
    STAYS["percent"] = lambda t: "%.3f and %s" % (t, t)
    STAYS["percent of one"] = lambda t: "%g" % t


@pytest.mark.parametrize("take", STAYS.values(), ids=STAYS)
def test_what_has_no_derivative_or_asks_for_none_stays(take):
    def f(x):
        take(x[1])
        return np.sum(x**2)

    assert np.array_equal(tg.grad(f)(V), 2 * V)
    compiled = tg.compile(f)
    for x in (V, V, V + 1.0):
        assert np.allclose(compiled.grad(x), 2 * x, rtol=1e-15)


@needs("cpython-bytecode")
def test_formats_are_those_of_the_value():
    def f(x):
        assert f"{x[1]:.3f}" == f"{V[1]:.3f}"
        assert "%.3f" % x[1] == "1.200"
        assert f"{np.sum(x):10.2e}" == f"{V.sum():10.2e}"
        assert round(x[1]) == 1 and type(round(x[1])) is int
        assert round(x[1] * 1.11, 1).item() == round(V[1] * 1.11, 1)
        return x[0]

    tg.grad(f)(V)


def test_formats_are_guards_of_programs():
    c = tg.compile(lambda x: x[0] * len(f"{x[1]:.0f}"))
    assert [c(np.array([2.0, n])) for n in (3.0, 3.0, 12.0, 123.0, 7.0)] == [2, 2, 4, 6, 2]


@pytest.mark.usefixtures("not_entered")
def test_a_compiled_function_refuses_too():
    f = tg.compile(lambda x: math.sin(x[0]) * x[1])
    with pytest.raises(TypeError, match="use np.sin on the tensor"):
        f.grad(V)
    with pytest.warns(RuntimeWarning, match="runs eagerly.*math.sin"):
        assert tg.compile(lambda x: math.sin(x[0]) * x[1])(V) == math.sin(V[0]) * V[1]


def test_data_of_a_compiled_function_gives_its_numbers():
    """What is not differentiated is a guard, also what is computed from it."""
    c = tg.compile(lambda x, d: math.sin(d * 2.0) * float(d[()] + 1.0) * x**2)
    for d in (0.3, 0.3, 0.5):
        value = c.grad(1.5, np.float64(d))
        assert abs(value - math.sin(d * 2.0) * (d + 1.0) * 3.0) < 1e-15


def test_detached_values_of_a_compiled_function_give_their_numbers():
    c = tg.compile(lambda x: float(x[0].detach() * 2.0) * x[1])
    for x in (V, V, V + 1.0):
        assert np.allclose(c.grad(x), [0.0, 2.0 * x[0], 0.0], rtol=1e-15)


@pytest.mark.usefixtures("not_entered")
def test_a_tensor_of_the_users_own_warns_inside_a_transform_too():
    own = tg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(RuntimeWarning, match=r"float\(\) of a recorded tensor loses its derivat"):
        assert tg.grad(lambda t: float(own[1]) * t)(3.0) == 2.0


def test_numbers_after_the_transform():
    kept = []

    def f(x):
        kept.append(np.sum(x**2))
        return kept[-1]

    value, gradient = tg.value_and_grad(f)(V)
    assert float(value) == np.sum(V**2) and math.sin(gradient[0]) == math.sin(2 * V[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert float(kept[0]) == value
    assert kept[0].item() == value


def test_inside_no_grad_numbers_may_be_taken():
    def f(x):
        with tg.no_grad():
            scale = float(x[0])
        return scale * x[1]

    assert np.array_equal(tg.grad(f)(V), [0.0, V[0], 0.0])


@pytest.mark.usefixtures("not_entered")
def test_an_inner_transform_refuses_what_the_outer_differentiates():
    def f(x):
        slope = tg.grad(lambda t: t**3 * x[0])(2.0)
        return math.exp(slope)

    with pytest.raises(TypeError, match="use np.exp on the tensor"):
        tg.grad(f)(V)
    assert float(tg.grad(lambda t: t**3 * V[0])(2.0)) == 12.0 * V[0]


@pytest.mark.usefixtures("not_entered")
def test_a_thread_of_the_users_refuses_too():
    seen = []

    def f(x):
        def work():
            try:
                seen.append(math.sin(x[0]))
            except TypeError as error:
                seen.append(str(error))

        one = threading.Thread(target=work)
        one.start()
        one.join()
        return np.sum(x)

    with pytest.raises(tg.DerivativeLost, match=r"^tapegrad: math.sin\(\) of"):
        tg.grad(f)(V)
    assert "math.sin() of a recorded tensor" in seen[0]


def test_tolist(not_entered):
    assert tg.tensor(V, requires_grad=True).tolist() == V.tolist()  # the user's own, as item()
    text = (
        r"^tapegrad.tolist: the tensor is recorded, and inside a transform its derivative would be "
    )
    with pytest.raises(TypeError, match=text + r"lost \(.*transforms.py:\d+\); use list\(t\), "):
        tg.grad(lambda x: sum(x.tolist()))(V)
    assert np.array_equal(tg.grad(lambda x: sum(list(x)))(V), np.ones(3))
    assert tg.grad(lambda x: x[0] * sum(x.detach().tolist()))(V)[0] == V.sum()


def test_scipy_calls_gradients():
    """Numbers that leave once the transform is over."""
    found = scipy.optimize.minimize(
        tg.value_and_grad(lambda x: np.sum((x - V) ** 2)), np.zeros(3), jac=True
    )
    assert np.allclose(found.x, V)
    root = scipy.optimize.brentq(lambda t: tg.grad(lambda s: s**2 - 3.0 * s)(t), 0.0, 5.0)
    assert abs(root - 1.5) < 1e-9
    area, _ = scipy.integrate.quad(tg.grad(lambda s: s**3), 0.0, 2.0)
    assert abs(area - 8.0) < 1e-12


@pytest.mark.usefixtures("not_entered")
def test_what_outlives_its_transform_is_a_plain_value():
    """Nothing can be differentiated by its inputs any more; by a leaf that it depends on it can."""
    kept, p = [], tg.tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        y = np.sin(x)
        kept.extend([y, y[0], x * p])
        return np.sum(y)

    x, a = np.array([0.5, 1.5]), np.zeros(2)
    tg.grad(f)(x)
    assert repr(kept[0]) == "tensor([0.47942554, 0.99749499])"
    assert repr(kept[1]) == "tensor(0.47942554)" and "grad_fn=<Mul" in repr(kept[2])
    np.testing.assert_array_equal(np.asarray(kept[0]), np.sin(x))
    assert float(kept[1]) == np.sin(0.5)
    a[0], a[1:] = kept[1], kept[0][1:]
    np.testing.assert_array_equal(a, np.sin(x))
    with pytest.raises(TypeError, match="cannot become a plain NumPy array"):
        np.asarray(kept[2])
    with pytest.raises(TypeError, match="cannot become a plain NumPy array"):
        tg.grad(lambda z: np.sum(np.asarray(kept[0]) * z))(x)  # asked inside another
