"""Functions that transforms return, and compiled ones, in pickles: theirs and cloudpickle's."""

import copy
import inspect
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tensor.pytree import tree_leaves

X, V = np.array([1.0, 2.0]), np.array([0.5, -1.0])
scale = 2.0


def cubes(x):
    return np.sum(x**3) * scale


def complex_cubes(z):
    return z[0] ** 3 * z[1]


compiled_cubes = tg.compile(cubes)


def same(found, wanted):
    for (_, x), (_, y) in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.fixture
def cloudpickle():
    return pytest.importorskip("cloudpickle")


TRANSFORMED = {
    "grad": (lambda f: tg.grad(f), (X,)),
    "value_and_grad": (lambda f: tg.value_and_grad(f, argnums=(0,)), (X,)),
    "elementwise_grad": (lambda f: tg.elementwise_grad(f), (X,)),
    "jacobian": (lambda f: tg.jacobian(f), (X,)),
    "hessian": (lambda f: tg.hessian(f), (X,)),
    "hvp": (lambda f: tg.hvp(f), (X, V)),
    "vmap": (lambda f: tg.vmap(f, in_axes=1), (np.outer(X, V),)),
    "twice": (lambda f: tg.vmap(tg.grad(f)), (np.outer(X, V),)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_functions(name, cloudpickle):
    make, args = TRANSFORMED[name]
    made, offset = make(cubes), 3.0
    same(pickle.loads(pickle.dumps(made))(*args), made(*args))
    same(cloudpickle.loads(cloudpickle.dumps(made))(*args), made(*args))
    closure = make(lambda x: cubes(x) + offset * np.sum(np.sin(x)))
    same(cloudpickle.loads(cloudpickle.dumps(closure))(*args), closure(*args))


def test_options_are_kept():
    by_name = pickle.loads(pickle.dumps(tg.grad(cubes, argnames="x")))
    same(by_name(x=X), 6 * X**2)
    z = X + 1j * V
    holomorphic = pickle.loads(pickle.dumps(tg.grad(complex_cubes, holomorphic=True)))
    same(holomorphic(z), tg.grad(complex_cubes, holomorphic=True)(z))


def test_what_transforms_return_is_like_their_function():
    class Model:
        def value(self, x):
            return np.sum(x**2)

        slope = tg.grad(value, argnums=1)

    same(Model().slope(X), 2 * X)
    made = tg.grad(cubes)
    assert made.__name__ == "cubes" and repr(made) == "<tapegrad.grad of cubes>"
    assert inspect.signature(made) == inspect.signature(cubes)
    assert str(inspect.signature(tg.hvp(cubes))) == "(x, v, *others)"


def test_attributes_of_transformed_functions_are_kept():
    made = tg.grad(cubes)
    made.order = 1
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again.order == 1 and again.__name__ == "cubes"
        same(again(X), made(X))


def test_compiled_functions_without_a_name(cloudpickle):
    factor = 3.0
    made = tg.compile(lambda x: factor * np.sum(x**2))
    for _ in range(2):
        made.grad(X)
    again = cloudpickle.loads(cloudpickle.dumps(made))
    assert "1 program" in repr(again)
    same(again.grad(V), 6 * V)
    with pytest.raises(pickle.PicklingError, match="<lambda> cannot be pickled, .* cloudpickle"):
        pickle.dumps(made)


def test_variables_that_have_changed_since(cloudpickle):
    """A program of their old values would be wrong for ever."""
    factor = 3.0

    @tg.compile(verify="never")
    def made(x):
        return factor * np.sum(x)

    assert made(X) == made(X) == 9.0
    factor = 5.0
    assert cloudpickle.loads(cloudpickle.dumps(made))(X) == 15.0


def test_globals_that_have_changed_since(monkeypatch):
    assert compiled_cubes(X) == compiled_cubes(X) == 18.0
    before = pickle.dumps(compiled_cubes)
    assert "1 program" in repr(pickle.loads(before))
    monkeypatch.setitem(globals(), "scale", 5.0)
    for content in (before, pickle.dumps(compiled_cubes)):
        again = pickle.loads(content)
        assert "not called yet" in repr(again) and again(X) == 45.0


def test_transforms_of_what_was_unpickled_see_later_changes(monkeypatch):
    made = tg.compile(cubes)
    for _ in range(2):
        made.hessian(X)
    again = pickle.loads(pickle.dumps(made))
    monkeypatch.setitem(globals(), "scale", 5.0)
    same(again.hessian(X), np.diag(30 * X))


def test_what_is_read_differs_in_the_other_process(tmp_path):
    """The program of one process is not that of another, where the global has another value."""
    (tmp_path / "elsewhere.py").write_text(
        textwrap.dedent("""
        import numpy as np
        import tapegrad as tg
        factor, weights, of = 2.0, np.ones(2), {"power": 1}
        @tg.compile(verify="never")
        def f(x):
            return factor * np.sum(weights * x) ** of["power"]
        """)
    )
    script = """
        import pickle, subprocess, sys
        import numpy as np
        import elsewhere
        x = np.ones(2)
        def computed():
            elsewhere.f(x), elsewhere.f(x)
            load = "import pickle, sys; c = pickle.load(sys.stdin.buffer); "
            show = "import numpy as np; print('1 program' in repr(c), float(c(np.ones(2))))"
            run = [sys.executable, "-c", load + show]
            given = pickle.dumps(elsewhere.f)
            print(subprocess.run(run, input=given, capture_output=True).stdout.decode().strip())
        computed()
        elsewhere.factor = 5.0
        computed()
        elsewhere.factor = 2.0
        elsewhere.weights[0] = 3.0
        computed()
        elsewhere.weights[0] = 1.0
        elsewhere.of["power"] = 3
        computed()
    """
    run = [sys.executable, "-c", textwrap.dedent(script)]
    found = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert found.stdout.split("\n")[:4] == ["True 4.0", *["False 4.0"] * 3], found.stderr


def test_in_workers_of_joblib():
    joblib = pytest.importorskip("joblib")
    factor = 2.0
    made = tg.compile(lambda x: factor * np.sum(x**2))
    made.grad(X)
    gradient = tg.grad(lambda x: factor * np.sum(np.sin(x)))
    with joblib.parallel_backend("loky", n_jobs=2):
        calls = [joblib.delayed(f)(k * X) for k in range(3) for f in (made, made.grad, gradient)]
        found = joblib.Parallel()(calls)
    wanted = [f(k * X) for k in range(3) for f in (made, made.grad, gradient)]
    same(found, wanted)
