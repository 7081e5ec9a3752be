"""`tg.elementwise`: values and slopes of what is read, against NumPy, PyTorch, complex steps."""

import linecache
import math
import multiprocessing
import pickle
import sys

import numba
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from rows import same

import tapegrad as tg

X = np.array([-1.7, -0.4, 0.3, 0.9, 2.2])
Y = np.array([0.8, -1.1, 0.2, 1.9, -0.6])


def written(text, **around):
    """The function `f` of a text, which can be read as if it stood in a file."""
    name = f"<written {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"math": math, "np": np, **around}
    exec(compile(text, name, "exec"), names)
    return names["f"]


def both(function, reference, *inputs, rtol=1e-12):
    """Value and first derivatives of an operation against a function of tensors."""
    same(np.asarray(function(*inputs)), np.asarray(reference(*inputs)), rtol)
    numbers = tuple(range(len(inputs)))
    ours = tg.grad(lambda *a: np.sum(function(*a) * X), numbers)(*inputs)
    theirs = tg.grad(lambda *a: np.sum(reference(*a) * X), numbers)(*inputs)
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol, 1e-14)


# --- what is read -----------------------------------------------------------------------------


@tg.elementwise
def mixed(x, y):
    """A value by two ways."""
    a = math.exp(-x * x)
    if x > 0.5:
        b = math.sin(a) * y
    else:
        b = y**3 + np.log1p(a)
    return b / (1.0 + a) + (x if y > 0 else -math.sqrt(abs(x)))


def mixed_arrays(x, y):
    a = np.exp(-x * x)
    b = tg.where(x > 0.5, np.sin(a) * y, y**3 + np.log1p(a))
    return b / (1.0 + a) + tg.where(y > 0, x, -np.sqrt(np.abs(x)))


def test_values_and_slopes():
    both(mixed, mixed_arrays, X, Y)


def test_values_and_slopes_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(v, requires_grad=True) for v in (X, Y))
    a = torch.exp(-x * x)
    b = torch.where(x > 0.5, torch.sin(a) * y, y**3 + torch.log1p(a))
    out = b / (1.0 + a) + torch.where(y > 0, x, -torch.sqrt(torch.abs(x)))
    out.sum().backward()
    np.testing.assert_allclose(mixed(X, Y), out.detach().numpy(), 1e-12)
    ours = tg.grad(lambda x, y: np.sum(mixed(x, y)), (0, 1))(X, Y)
    for mine, tensor in zip(ours, (x, y), strict=True):
        np.testing.assert_allclose(mine, tensor.grad.numpy(), 1e-12)


COEFFICIENTS = (1.0, -0.5, 0.25, 3)
SCALE = {"k": np.float64(1.5)}


def poly(x):
    """Horner's rule, inlined where it is called."""
    total = 0.0
    for c in reversed(COEFFICIENTS):
        total = total * x + c
    return total


@numba.njit
def halved(x):
    return x / 2


def early(x):
    if x < -1:
        return 0.0
    y = x * x
    if x < 0.5:
        if y > 0.1:
            return y
        y = -y
    elif x > 2 and not x > 3:
        return poly(x)
    y += 1
    return y * x


def early_numbers(x):
    return np.array([early(v) for v in x])


TEXTS = {
    "lambda x: poly(x) * halved(x)": lambda x: poly(x) * x / 2,
    "lambda x: math.pi * x ** 2 + x ** -3 + x ** 5 - (2 + x) ** 0.5 * 2 ** x": lambda x: (
        np.pi * x * x + 1 / (x * x * x) + x * x * x * x * x - np.sqrt(2 + x) * 2.0**x
    ),
    "lambda x: max(x, 0.5, x * x) - min(x, 1)": lambda x: (
        np.maximum(np.maximum(x, 0.5), x * x) - np.minimum(x, 1.0)
    ),
    "lambda x: x % 0.7 + x // 2 + math.fmod(x, 0.7)": lambda x: (
        x % 0.7 + np.floor(x / 2) + x - 0.7 * np.trunc(x / 0.7)
    ),
    "lambda x: (1 if -1 < x <= 0.3 or x == 0.9 else 2) * x + (x > 0) * x": lambda x: (
        np.where(((x > -1) & (x <= 0.3)) | (x == 0.9), 1.0, 2.0) * x + np.where(x > 0, x, 0.0)
    ),
    "lambda x: math.log(x * x + 1, 10) + math.radians(x) + SCALE['k'] * x": lambda x: (
        np.log10(x * x + 1) + x * np.pi / 180 + 1.5 * x
    ),
    "lambda x: scipy.special.erf(x) * expit(x) + math.lgamma(x * x + 1)": lambda x: (
        tg.erf(x) * tg.sigmoid(x) + tg.gammaln(x * x + 1)
    ),
    "lambda x: (y := np.tanh(x)) * y + (a := (x, 2.0))[1] * a[0]": lambda x: (
        np.tanh(x) ** 2 + 2 * x
    ),
    "lambda x: np.clip(x, -1, None) if math.isnan(x) else np.where(x > 0, x, -x)": np.abs,
    "lambda x: mixed(x, 2.0) + tg.square(x)": lambda x: mixed_arrays(x, 2.0) + x * x,
    "lambda x: +(-x) if True else y": lambda x: -x,
    "lambda x: float(abs(x)) * len(COEFFICIENTS)": lambda x: 4 * np.abs(x),
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read(text):
    around = dict(globals(), expit=scipy.special.expit)
    both(tg.elementwise(written(f"f = {text}\n", **around)), TEXTS[text], X)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs the columns of code")
def test_several_functions_in_a_line():
    f, g = (tg.elementwise(f) for f in (lambda x: x if x > 0 else 1.0, lambda x: -x * x))
    assert (f(-2.0), g(-2.0)) == (1.0, -4.0)


def test_early_returns(rng):
    x = rng.uniform(-3, 4, 200)
    f = tg.elementwise(early)
    same(f(x), early_numbers(x), 1e-12)
    slopes = tg.elementwise_grad(f)(x)
    same(slopes, (early_numbers(x + 1e-6) - early_numbers(x - 1e-6)) / 2e-6, 1e-6)


def test_constants_are_those_of_the_declaration():
    k = 2.0
    f = tg.elementwise(lambda x: k * x)
    k = 3.0
    assert f(1.0) == 2.0
    assert tg.elementwise(lambda x: k * x)(1.0) == 3.0


def test_inputs_that_may_be_left_out():
    @tg.elementwise
    def f(x, k=3.0):
        return x * k

    assert f(2.0) == 6.0 and f(2.0, k=5.0) == 10.0 and f(k=1.0, x=4.0) == 4.0
    with pytest.raises(TypeError, match=r"tapegrad.f: missing a required argument: 'x'"):
        f()
    with pytest.raises(TypeError, match=r"tapegrad.f: too many positional arguments"):
        f(1.0, 2.0, 3.0)


def test_long_bodies_do_not_grow():
    @tg.elementwise
    def f(x):
        for k in range(60):
            x = x + math.sin(x) * x / (k + 10)
        return x

    def reference(x):
        for k in range(60):
            x = x + np.sin(x) * x / (k + 10)
        return x

    assert len(f.declaration.steps) < 1000
    both(f, reference, X / 10)


# --- random expressions -----------------------------------------------------------------------

leaves = st.sampled_from(["x", "y", "0.7", "-1.3", "2"])


def deeper(inner):
    unary = [
        "math.sin({})",
        "np.tanh({})",
        "math.exp(-({})**2)",
        "-({})",
        "({})**2",
        "math.atan({})",
    ]
    unary += ["math.log(1.5 + ({})**2)", "np.sqrt(1 + ({})**2)", "np.cosh(math.sin({}))"]
    binary = ["({}) + ({})", "({}) * ({})", "({}) - ({})", "({}) / (1.5 + ({})**2)"]
    one = st.tuples(st.sampled_from(unary), inner).map(lambda p: p[0].format(p[1]))
    two = st.tuples(st.sampled_from(binary), inner, inner).map(lambda p: p[0].format(*p[1:]))
    return st.one_of(one, two)


texts = st.recursive(leaves, deeper, max_leaves=8)


@given(texts, texts, texts)
def test_random_expressions(test, yes, no):
    text = f"def f(x, y):\n    if {test} > 0.1:\n        return {yes}\n    return {no}\n"
    f = tg.elementwise(written(text))
    x, y = np.array([0.31, -0.72, 1.4]), np.array([-0.55, 0.83, 0.21])
    names = {"math": np_math(), "np": np}
    branch = eval(test, names, {"x": x, "y": y}) > 0.1

    def at(x, y):
        names["x"], names["y"] = x, y
        return np.where(branch, eval(yes, names), eval(no, names))

    np.testing.assert_allclose(f(x, y), at(x, y), 1e-12, 1e-14)
    ours = tg.grad(lambda x, y: np.sum(f(x, y)), (0, 1))(x, y)
    steps = at(x + 1e-30j, y).imag / 1e-30, at(x, y + 1e-30j).imag / 1e-30
    for mine, wanted in zip(ours, steps, strict=True):
        np.testing.assert_allclose(mine, wanted, 1e-11, 1e-13)


def np_math():
    """`math` by NumPy's names, for complex arrays."""
    return type("math", (), {**vars(np), "atan": np.arctan})


# --- an operation like any other --------------------------------------------------------------


def test_higher_order_and_forward_mode():
    def derivatives(f):
        yield tg.hessian(f)(X)
        yield tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))(X)
        yield tg.jvp(f, (X,), (Y,))[1]
        yield tg.hvp(f)(X, Y)

    ours = derivatives(lambda x: np.sum(mixed(x, Y)))
    theirs = derivatives(lambda x: np.sum(mixed_arrays(x, Y)))
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, wanted, 1e-12, 1e-13)
    tg.check_grads(lambda x: tg.sum(mixed(x, Y)), (X,), order=3)


def test_broadcasting_scalars_and_views():
    a, b = np.arange(6.0).reshape(2, 3) / 5, np.array([[0.4], [1.7]])
    for inputs in ((a, 0.3), (0.3, b), (a, b), (a.T[::-1], b[0]), (0.3, 0.4), (a[:, 1], b[:, 0])):
        ours = tg.value_and_grad(lambda x, y: np.sum(mixed(x, y) ** 2), (0, 1))(*inputs)
        wanted = tg.value_and_grad(lambda x, y: np.sum(mixed_arrays(x, y) ** 2), (0, 1))(*inputs)
        np.testing.assert_allclose(ours[0], wanted[0], 1e-12)
        for mine, theirs in zip(ours[1], wanted[1], strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-12, 1e-14)
    assert mixed(np.zeros((0, 3)), 1.0).shape == (0, 3)
    with pytest.raises(
        ValueError, match=r"tapegrad.mixed: the operands have shapes \(5,\) and \(2"
    ):
        mixed(X, np.zeros(2))
    with pytest.raises(TypeError, match="tapegrad.mixed: an operand has type str"):
        mixed("a", X)


def test_strided_arrays_longer_than_a_block(rng):
    x, y = rng.normal(size=(5000, 2))[:, 0], rng.normal(size=5000)
    out = np.zeros((5000, 3))
    mixed(x, y)
    out[:, 1] = mixed(x, 0.5)
    same(out[:, 1], mixed_arrays(x, 0.5), 1e-12)
    x32 = x.astype(np.float32)
    same(np.asarray(mixed(x32, y.astype(np.float32))), np.asarray(mixed_arrays(x, y)), 2e-5)


def test_dtypes():
    x32 = X.astype(np.float32)
    assert mixed(x32, x32).dtype == np.float32 == mixed(x32, 2.0).dtype
    assert mixed(x32, X).dtype == np.float64 == mixed(3, 2).dtype
    found = tg.grad(lambda x: np.sum(mixed(x, np.float32(2))))(x32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, tg.grad(lambda x: np.sum(mixed(x, 2.0)))(X), 1e-5)


def test_scalars_in_a_loop():
    def run(step):
        def f(a):
            for _ in range(50):
                a = step(a, 0.3) * 0.5
            return a

        return tg.value_and_grad(f)(0.2)

    np.testing.assert_allclose(run(mixed), run(mixed_arrays), 1e-12)
    x = tg.tensor(0.3, requires_grad=True)
    assert type(mixed(x, 1.0)) is type(x * 1.0)


def test_the_branch_not_taken_gives_no_nan():
    f = tg.elementwise(lambda x: math.log(x) * math.sqrt(x) if x > 0 else x * x)
    np.testing.assert_array_equal(tg.elementwise_grad(f)(np.array([-1.0, 0.0])), [-2.0, 0.0])
    np.testing.assert_array_equal(tg.elementwise_grad(tg.elementwise_grad(f))(np.array([-1.0])), 2)


def test_second_derivative_where_an_adjoint_is_zero():
    """The adjoint of the square is x, which is 0 here, on the branch that is taken."""
    f = tg.elementwise(lambda x: x * math.sin(x) if x < 1 else 0.0)
    np.testing.assert_allclose(tg.grad(tg.grad(f))(0.0), 2.0)


def option(s, k, r, v, t):
    d = (math.log(s / k) + (r + v * v / 2) * t) / (v * math.sqrt(t))
    a = 0.5 * math.erfc(-d / math.sqrt(2))
    b = 0.5 * math.erfc(-(d - v * math.sqrt(t)) / math.sqrt(2))
    return s * a - k * math.exp(-r * t) * b


def test_five_inputs():
    """Black and Scholes: the slopes to price, rate, volatility and time have closed forms."""
    f = tg.elementwise(option)
    s, k, r, v, t = np.array([90.0, 100.0, 120.0]), 100.0, 0.03, np.array([[0.2], [0.4]]), 0.5
    _, delta, rho, vega = (
        tg.jvp(lambda s: f(s, k, r, v, t), (s,), (np.ones(3),)),
        *[tg.grad(lambda *a: np.sum(f(*a)), j)(s, k, r, v, t) for j in (0, 2, 3)],
    )
    d = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    cdf = lambda x: scipy.special.ndtr(x)  # noqa: E731
    density = np.exp(-d * d / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(delta, cdf(d).sum(axis=0), 1e-12)
    wanted = (k * t * np.exp(-r * t) * cdf(d - v * np.sqrt(t))).sum()
    np.testing.assert_allclose(rho, wanted, 1e-12)
    np.testing.assert_allclose(vega[:, 0], (s * density * np.sqrt(t)).sum(axis=1), 1e-12)


def test_eight_inputs_and_any_of_them_differentiated():
    f = tg.elementwise(lambda a, b, c, d, e, f, g, h: a * b + c * d * e + f * g * h * a)
    inputs = tuple(np.array([k + 1.0, k + 2.0]) for k in range(8))
    whole = tg.grad(lambda *x: np.sum(f(*x)), tuple(range(8)))(*inputs)
    for j in range(8):
        np.testing.assert_array_equal(tg.grad(lambda *x: np.sum(f(*x)), j)(*inputs), whole[j])
    np.testing.assert_array_equal(whole[0], inputs[1] + inputs[5] * inputs[6] * inputs[7])
    np.testing.assert_array_equal(whole[7], inputs[5] * inputs[6] * inputs[0])


# --- given slopes -----------------------------------------------------------------------------


def test_given_slopes():
    @tg.elementwise(slopes=[lambda x, y: 10.0, lambda x, y, out: out + x])
    def f(x, y):
        return x + y * y

    found = tg.grad(lambda x, y: np.sum(f(x, y)), (0, 1))(X, Y)
    np.testing.assert_array_equal(found[0], np.full(5, 10.0))
    np.testing.assert_allclose(found[1], X + Y * Y + X, 1e-15)
    second = tg.grad(lambda y: np.sum(tg.grad(lambda y: np.sum(f(X, y)))(y)))(Y)
    np.testing.assert_allclose(second, X + Y * Y + X, 1e-15)  # by the given slope of out
    for slope in (np.cos, math.cos, numba.njit(lambda x: math.cos(x))):
        sine = tg.elementwise(numba.njit(lambda x: np.sin(x)), slopes=[slope])
        np.testing.assert_allclose(tg.elementwise_grad(sine)(X), np.cos(X), 1e-14)


def test_given_slopes_hold_inside_other_functions():
    reversal = tg.elementwise(lambda x: x, slopes=[lambda x: -1.0])
    f = tg.elementwise(lambda x: reversal(x * x) + x)
    np.testing.assert_array_equal(f(X), X * X + X)
    np.testing.assert_allclose(tg.elementwise_grad(f)(X), 1 - 2 * X, 1e-15)


# --- identity ---------------------------------------------------------------------------------


def test_the_same_function_twice_is_one_operation():
    def make(k):
        def scaled(x):
            return k * x

        return tg.elementwise(scaled)

    a, b, c = make(2.0), make(2.0), make(3.0)
    assert a.declaration is b.declaration is not c.declaration
    assert {a.__name__, c.__name__} == {"scaled"}
    assert (a.declaration.name, c.declaration.name) == ("scaled", "scaled_2")
    assert "scaled_2" in str(tg.record(lambda x: c(x), X))
    tg.record(lambda x: c(x) + a(x), X).check()


def test_a_name_of_the_table_stays_the_table_s():
    f = tg.elementwise(written("def f(x): return 5 * x\nf.__name__ = 'sin'\n"))
    assert f(1.0) == 5.0 and tg.sin(0.0) == 0.0
    assert tg.grad(lambda x: f(x) + np.sin(x))(0.0) == 6.0


def gradient(f):
    return tg.elementwise_grad(f)(X)


def test_pickled_and_in_processes():
    f = tg.elementwise(lambda x, k=2.0: math.sin(k * x))
    again = pickle.loads(pickle.dumps(f))
    assert again.declaration is f.declaration and again(0.5) == f(0.5)
    assert repr(again) == repr(f) == "<tapegrad operation elementwise(x, k)>"
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            (found,) = pool.map(gradient, [f])
        np.testing.assert_allclose(found, 2 * np.cos(2 * X), 1e-12)


# --- errors -----------------------------------------------------------------------------------

REFUSED = {
    "while x > 1:\n  x = x / 2\n return x": r"line 2 of f .*`while x > 1:` cannot be read; loops",
    "for k in x:\n  x = x + 1\n return x": "`for k in x:` cannot be read; loops can go over const",
    "return unknown(x)": "line 2 of f .*`unknown` has no value here",
    "return len(x)": r"`len\(x\)` cannot be read; len is not a function of one number",
    "return np.sinn(x)": "`np.sinn` cannot be read; AttributeError",
    "return np.sort(x)": r"`np.sort\(x\)` cannot be read; sort is not .*for instance sqrt",
    "return np.sin(x, dtype=float)": "keyword arguments cannot be read",
    "return np.sin(*[x])": "starred arguments cannot be read",
    "return np.arctan2(x)": "arctan2 takes 2 numbers",
    "return x[0]": r"`x\[0\]` cannot be read; the function is of one number: it has no parts",
    "return [1.0, 2.0][5]": "IndexError",
    "return x, x": "a number is wanted here, this is of type tuple",
    "y = x": "it does not return a number on every path",
    "if x > 0:\n  return x": "it does not return a number on every path",
    "if x > 0:\n  y = x\n return y": "line 4 of f .*`y` has no value here; give it one on",
    "if x > 0:\n  y = 'a'\n else:\n  y = 'b'\n return y": "`y` has no value here",
    "raise ValueError": "compiled loops raise nothing: return math.nan",
    "x[0] = 1\n return x": r"`x\[0\]` cannot be read; only names",
    "return x or 1.0": "`and` and `or` are of comparisons",
    "return ~x": "write `not` for a comparison",
    "return x @ x": "write it with arithmetic",
    "return 1.0 if x in (1, 2) else x": "write it with arithmetic",
    "x.real\n return x": "`x.real` cannot be read; its value is not used",
    "return (lambda z: z)(x)": "define the function outside and call it",
    "return f(x)": r"`f\(x\)` cannot be read",
    "return g(x, x)": "a call does not fit: too many positional arguments",
    "for k in range(10**6):\n  x = x + 1\n return x": "more than 20000 steps",
}


def g(x):
    return x


@pytest.mark.parametrize("body", REFUSED)
def test_what_cannot_be_read(body):
    f = written(f"def f(x):\n {body}\n", g=g)
    with pytest.raises(TypeError, match="tapegrad.elementwise: " + ".*" + REFUSED[body]):
        tg.elementwise(f)


def test_functions_that_cannot_be():
    with pytest.raises(TypeError, match="the function is of type builtin_function_or_method; give"):
        tg.elementwise(math.sin)
    with pytest.raises(TypeError, match=r"<lambda>\(\*a\) must have 1 to 8 plain parameters"):
        tg.elementwise(lambda *a: a)
    code = lambda x: x  # noqa: E731
    code.__code__ = (lambda x: (lambda x: x)(x)).__code__.replace(co_firstlineno=1)
    with pytest.raises(TypeError, match="0 functions <lambda> begin in line 1 of"):
        tg.elementwise(code)
    with pytest.raises(TypeError, match="has 1 inputs, slopes= has 2 functions; give one for"):
        tg.elementwise(g, slopes=[g, g])
    names = {}
    exec("def f(x): return x", names)
    with pytest.raises(TypeError, match="the text of f cannot be found; define it in a file"):
        tg.elementwise(names["f"])


def test_too_many_operations(monkeypatch):
    monkeypatch.setattr(tg.ops.table, "MOST_CODES", 3)
    with pytest.raises(RuntimeError, match="operations are declared; declare each once, outside"):
        tg.elementwise(lambda x: x * 1234.5)
