"""What `tg.elementwise` reads, and its errors for what it cannot."""

import linecache
import math
import runpy
import sys
import warnings

import numba
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from rows import same

import tapegrad as tg

X = np.array([-1.7, -0.4, 0.3, 0.9, 2.2])


def written(text, **around):
    """The function `f` of a text, which can be read as if it stood in a file."""
    name = f"<written {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"math": math, "np": np, **around}
    exec(compile(text, name, "exec"), names)
    return names["f"]


def both(function, reference, x):
    """Value and first derivative of an operation against a function of tensors."""
    same(np.asarray(function(x)), np.asarray(reference(x)), 1e-12)
    ours = tg.grad(lambda x: np.sum(function(x) * X))(x)
    theirs = tg.grad(lambda x: np.sum(reference(x) * X))(x)
    np.testing.assert_allclose(ours, theirs, 1e-12, 1e-14)


@tg.elementwise
def bent(x, y):
    """An operation for others to call."""
    return x * y if x > 0 else math.sin(x)


def bent_arrays(x, y):
    return tg.where(x > 0, x * y, np.sin(x))


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
    "lambda x: bent(x, 2.0) + tg.square(x)": lambda x: bent_arrays(x, 2.0) + x * x,
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
    "return x, x": "a number is expected here, not an object of type tuple",
    "y = x": "it does not return a number on every path",
    "if x > 0:\n  return x": "it does not return a number on every path",
    "if x > 0:\n  y = x\n return y": "line 4 of f .*`y` has no value here; give it one on",
    "if x > 0:\n  y = 'a'\n else:\n  y = 'b'\n return y": "`y` has no value here",
    "raise ValueError": "compiled loops raise nothing: return math.nan",
    "x[0] = 1\n return x": r"`x\[0\]` cannot be read; only names",
    "return x or 1.0": "`and` and `or` take comparisons",
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
    code = lambda x: x
    code.__code__ = (lambda x: (lambda x: x)(x)).__code__.replace(co_firstlineno=1)
    with pytest.raises(TypeError, match="the source of <lambda> cannot be found in .*define it"):
        tg.elementwise(code)
    with pytest.raises(TypeError, match="has 1 inputs, partials= has 2 functions; give one for"):
        tg.elementwise(g, partials=[g, g])
    names = {}
    exec("def f(x): return x", names)
    with pytest.raises(TypeError, match="the source of f cannot be found in <string>; define it"):
        tg.elementwise(names["f"])


def test_a_function_whose_file_has_changed_is_refused(tmp_path):
    """Its text is that of another function by now."""
    path = tmp_path / "formula.py"
    path.write_text("def f(x):\n    return 2.0 * x * x\n")
    f = runpy.run_path(str(path))["f"]
    path.write_text("def f(x):\n    return 5.0 * x * x\n")
    with pytest.raises(TypeError, match="the source of f .*reload a module whose file has changed"):
        tg.elementwise(f)
    f = tg.elementwise(runpy.run_path(str(path))["f"])
    assert tg.grad(lambda x: f(x)[()])(3.0) == 30.0


def test_warnings_of_a_file_are_not_issued_again(tmp_path):
    path = tmp_path / "warns.py"
    path.write_text('PATTERN = "\\d"\ndef f(x):\n    return 2.0 * x * x\n')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = runpy.run_path(str(path))["f"]
    assert tg.grad(tg.elementwise(f))(3.0) == 12.0


def test_too_many_operations(monkeypatch):
    monkeypatch.setattr(tg._core.ops.table, "MOST_CODES", 3)
    with pytest.raises(RuntimeError, match="operations are declared; declare each once, outside"):
        tg.elementwise(lambda x: x * 1234.5)
