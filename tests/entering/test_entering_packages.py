"""Functions of installed packages that a user's function reaches by name, inside transforms."""

import importlib
import sys
import textwrap

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tensor import callers
from tapegrad._core.tensor.pytree import Reach, code_of
from tapegrad._program.dispatch.names_read import names_read

X = np.array([0.4, 1.3])
FILES = {
    "__init__.py": """
        from . import inner, tables
        from .inner import hidden, smooth
        """,
    "inner.py": """
        import math
        import numpy as np

        GAIN = 2.0
        count = 0

        def counted(v):
            global count
            count += 1
            return smooth(v)

        def smooth(v):
            y = np.zeros(2)
            y[0] = math.sin(v) * GAIN
            y[1] = v
            return y.sum()

        def hidden(v):
            from .late import cubed
            return cubed(v) + float(np.sum(v))

        def first(v):
            return np.array([v]).item() + np.array([v, 2.0 * v]).item(1)

        def narrow(v):
            return float(v) * v

        class Pipe:
            slope = 3.0

            def __init__(self, width):
                self.width = width

            @property
            def area(self):
                return math.exp(self.width)

            @classmethod
            def of(cls, v):
                return cls(math.log(v))

            def __call__(self, v):
                return self.area * math.cos(v) + self._own(v)

            def _own(self, v):
                return math.sinh(v) * self.slope

            def unused(self, v):
                return math.tan(v)
        """,
    "late.py": """
        import math

        def cubed(v):
            return math.pow(v, 3)
        """,
    "tables.py": """
        from math import atan, tanh as flat

        METHODS = {"flat": flat, "steep": lambda v: atan(5.0 * v)}

        def by(name, v):
            return METHODS[name](v)
        """,
}


@pytest.fixture(autouse=True)
def _entering(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)


def install(folder, name, monkeypatch):
    """A package where installers put packages, imported."""
    place = folder / "lib" / "site-packages"
    (place / name).mkdir(parents=True)
    for file, text in FILES.items():
        (place / name / file).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(place))
    made = importlib.import_module(name)
    importlib.import_module(f"{name}.late")
    yield made
    for one in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[one]
    callers.is_installed.cache_clear()


@pytest.fixture
def conduits(tmp_path, monkeypatch):
    yield from install(tmp_path, "conduits", monkeypatch)


@pytest.fixture
def joblib(tmp_path, monkeypatch):
    """A package with the name of one that is left out."""
    monkeypatch.delitem(sys.modules, "joblib", raising=False)
    callers.is_installed.cache_clear()
    yield from install(tmp_path, "joblib", monkeypatch)


def check(f, wanted, x=X):
    """The value and the gradient, eager and compiled, at two points."""
    c = tg.compile(f)
    for at in (x, x, 1.1 * x, x):
        for call in (tg.value_and_grad(f), c.value_and_grad):
            value, gradient = call(at)
            np.testing.assert_allclose(value, f(at), rtol=1e-12)
            np.testing.assert_allclose(gradient, wanted(at), rtol=1e-12)
    return c


def test_functions_by_their_names(conduits):
    def f(x):
        return conduits.inner.counted(x[0]) * x[1] + conduits.inner.hidden(x[1])

    code = conduits.smooth.__code__

    def wanted(x):
        slope = (2 * np.cos(x[0]) + 1) * x[1]
        return [slope, 2 * np.sin(x[0]) + x[0] + 3 * x[1] ** 2 + 1]

    with pytest.warns(RuntimeWarning, match=r"f changes count at .*inner.py:\d+"):
        check(f, wanted)
    assert code_of(conduits.smooth) is code
    assert type(conduits.smooth(0.5)) is np.float64


def test_classes(conduits):
    def f(x):
        return conduits.inner.Pipe(x[0])(x[1]) + conduits.inner.Pipe.of(x[1]).area

    def wanted(x):
        e = np.exp(x[0])
        return [e * np.cos(x[1]), -e * np.sin(x[1]) + 3 * np.cosh(x[1]) + 1]

    check(f, wanted)
    pipe = conduits.inner.Pipe(0.5)
    found = tg.grad(lambda x: pipe(x[0]) + pipe.width * x[1])(X)
    np.testing.assert_allclose(found, [3 * np.cosh(0.4) - np.exp(0.5) * np.sin(0.4), 0.5])


def test_functions_in_tables(conduits):
    check(
        lambda x: conduits.tables.by("steep", x[0]) + x[1],
        lambda x: [5.0 / (1.0 + 25.0 * x[0] ** 2), 1.0],
    )
    with pytest.raises(tg.DerivativeLost, match=r"tables.py.*the package conduits"):
        tg.grad(lambda x: conduits.tables.by("flat", x[0]))(X)


def test_only_what_is_named_is_entered(conduits):
    def f(x):
        return conduits.inner.Pipe(x[0]).area

    found = {one.__qualname__.rpartition("<locals>.")[2] for one in Reach(f).functions()}
    assert found == {"f", "Pipe.__init__", "Pipe.area", "Pipe.__call__", "Pipe._own"}
    assert {one.__name__ for one in Reach(f, packages=()).functions()} == {"f"}


def test_item_and_float_keep_the_derivative(conduits):
    check(lambda x: conduits.inner.first(x[0]) * x[1], lambda x: [3 * x[1], 3 * x[0]])
    check(lambda x: conduits.inner.narrow(x[0]) + x[1], lambda x: [2 * x[0], 1.0])
    check(lambda x: float(x[0]) * float(np.sum(x)), lambda x: [2 * x[0] + x[1], x[0]])


def test_settings_of_a_package_are_dependencies(conduits):
    c = tg.compile(lambda x: conduits.tables.by("steep", x[0]) + conduits.inner.Pipe(x[1])(x[0]))
    other = tg.compile(lambda x: conduits.inner.GAIN * x[0])
    for _ in range(3):
        assert other(X) == 0.8
        c(X)
    before = c(X)
    conduits.inner.Pipe.slope = 4.0
    conduits.inner.GAIN = 5.0
    assert other(X) == 2.0
    np.testing.assert_allclose(c(X), before + np.sinh(0.4))


# --- which packages -------------------------------------------------------------------------------


def test_a_transform_adds_and_removes_packages(conduits, joblib):
    def f(x):
        return conduits.smooth(x[0]) * x[1]

    def g(x):
        return joblib.smooth(x[0]) * x[1]

    wanted = [1.3 * (2 * np.cos(0.4) + 1), 2 * np.sin(0.4) + 0.4]
    transforms = {
        "grad": lambda f, **given: tg.grad(f, **given)(X),
        "value_and_grad": lambda f, **given: tg.value_and_grad(f, **given)(X)[1],
        "by name": lambda f, **given: tg.grad(f, argnames="x", **given)(X),
        "elementwise_grad": lambda f, **given: tg.elementwise_grad(f, **given)(X),
        "jacobian": lambda f, **given: tg.jacobian(f, **given)(X),
        "vjp": lambda f, **given: tg.vjp(f, X, **given)[1](1.0)[0],
        "compile": lambda f, **given: tg.compile(f, **given).grad(X),
        "Jacobian of compile": lambda f, **given: tg.compile(f, **given).jacobian(X),
        "decorator": lambda f, **given: tg.compile(**given)(f).grad(X),
    }
    for name, transform in transforms.items():
        np.testing.assert_allclose(transform(f), wanted, err_msg=name)
        np.testing.assert_allclose(transform(g, enter=("joblib",)), wanted, err_msg=name)
        np.testing.assert_allclose(transform(f, enter="joblib"), wanted, err_msg=name)
        with pytest.raises(tg.DerivativeLost, match=r"conduits.*enter="):
            transform(f, enter=())
        with pytest.raises(tg.DerivativeLost, match=r"joblib.*enter=\('joblib',\)"):
            transform(g)
    second = [-2 * np.sin(0.4) * 1.3, 2 * np.cos(0.4) + 1]
    np.testing.assert_allclose(tg.hessian(g, enter=("joblib",))(X)[0], second)
    np.testing.assert_allclose(tg.hvp(g, enter=("joblib",))(X, np.array([1.0, 0.0])), second)
    np.testing.assert_allclose(tg.jvp(g, (X,), (X,), enter=("joblib",))[1], wanted @ X)
    found = tg.vmap(tg.grad(g, enter=("joblib",)), enter=())(np.array([X, X]))
    np.testing.assert_allclose(found, [wanted, wanted])
    others = [
        lambda: tg.hessian(g)(X),
        lambda: tg.hvp(g, enter=())(X, X),
        lambda: tg.vmap(tg.grad(g))(np.array([X, X])),
        lambda: tg.compile(g, enter=()).hessian(X),
    ]
    for call in others:
        with pytest.raises(tg.DerivativeLost, match="joblib"):
            call()


def test_derivatives_of_compiled_functions_and_methods(conduits, joblib):
    class Model:
        gain = 1.0

        def loss(self, x):
            return joblib.smooth(x[0]) * x[1] * self.gain

    wanted = np.array([1.3 * (2 * np.cos(0.4) + 1), 2 * np.sin(0.4) + 0.4])
    second = [-2 * np.sin(0.4) * 1.3, 2 * np.cos(0.4) + 1]
    for f in (Model().loss, lambda x: joblib.smooth(x[0]) * x[1]):
        for options in ({}, {"argnames": "x"}):
            c = tg.compile(f, enter="joblib", **options)
            named = {"x": X} if options else {}
            args = () if options else (X,)
            for _ in range(3):
                np.testing.assert_allclose(c.grad(*args, **named), wanted)
                np.testing.assert_allclose(c.hessian(*args, **named)[0], second)
                pushed = c.jvp(X, x=X) if options else c.jvp((X,), (X,))
                np.testing.assert_allclose(pushed[1], wanted @ X)
                pulled = c.vjp(*args, **named)[1](1.0)
                np.testing.assert_allclose(pulled if options else pulled[0], wanted)
    made = tg.compile(tg.grad(f, enter="joblib"))
    for _ in range(3):
        np.testing.assert_allclose(made(X), wanted)


def test_names_of_packages():
    with pytest.raises(TypeError, match=r"enter has 3; it must be a tuple of names of installed"):
        tg.grad(np.sum, enter=(3,))
    with pytest.raises(TypeError, match="enter has 'a b'"):
        tg.compile(np.sum, enter="a b")
    with pytest.raises(TypeError, match="enter has False; .* for none"):
        tg.compile(np.sum, enter=False)


def test_each_package_that_is_left_out_has_a_reason():
    assert all(type(reason) is str and reason for reason in callers.LEFT_OUT.values())
    assert {"pandas", "sklearn", "matplotlib", "torch", "jax", "autograd", "sympy"} <= {
        *callers.LEFT_OUT
    }
    assert not {"scipy", "fluids", "pvlib"} & {*callers.LEFT_OUT}


def test_modules_that_a_function_imports_in_its_body(tmp_path, monkeypatch):
    (tmp_path / "own_late.py").write_text("import math\n\ndef f(v):\n    return math.sin(v)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("own_late")

    def f(x):
        from own_late import f as g

        return g(x[0]) * x[1]

    check(f, lambda x: [np.cos(x[0]) * x[1], np.sin(x[0])])
    del sys.modules["own_late"]


def test_a_function_of_a_compiled_extension():
    """The error says how its derivative is declared."""
    extension = pytest.importorskip("_statistics")
    with pytest.raises(
        tg.DerivativeLost,
        match=r"_statistics._normal_dist_inv_cdf\(\) of a recorded .*tg.autograd.Function",
    ):
        tg.grad(lambda x: extension._normal_dist_inv_cdf(x[0], 0.0, 1.0))(X)


def test_what_a_program_depends_on_in_packages(conduits, monkeypatch):
    """Settings, and the functions that the user's code names: not their tables, nor their code."""
    c = tg.compile(lambda x: conduits.smooth(x[0]) + conduits.inner.hidden(x[1]))
    found = {one.name for one in names_read(c.__wrapped__)}
    assert found >= {"GAIN", "smooth", "hidden"} and not found & {"np", "math", "METHODS"}
    for _ in range(3):
        before = c(X)
    monkeypatch.setattr(conduits.inner, "GAIN", 3.0)
    np.testing.assert_allclose(c(X), before + np.sin(0.4))
    monkeypatch.setattr(conduits, "smooth", lambda v: 2.0 * v)
    np.testing.assert_allclose(c(X), 0.8 + 1.3**3 + 1.3)
    pipe = conduits.inner.Pipe(0.3)
    c = tg.compile(lambda x: pipe(x[0]))
    for _ in range(3):
        c(X)
    pipe.width = 0.6
    np.testing.assert_allclose(c(X), pipe(X[0]))
