"""The methods of compiled functions: derivatives of every kind, replayed."""

import numpy as np
import pytest
from assumed import needs
from compiled import programs, same

import tapegrad as tg
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._core.tensor.values import is_recorded


def alike(found, wanted, rtol=1e-12):
    """Equal to rounding, in the same containers, with leaves of the same types."""
    assert [place for place, _ in tree_leaves(found)] == [place for place, _ in tree_leaves(wanted)]
    for (_, a), (_, b) in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        assert type(a) is type(b)
    assert type(found) is type(wanted)
    same(found, wanted, rtol)


def check_method(name, f, calls, argnums=0, recorded=1, **options):
    """A method of a compiled function against the transform of its name, at each of some calls."""
    c = tg.compile(f, argnums=argnums, **options)
    for args in calls:
        alike(METHODS[name](c, *args), EAGER[name](f, argnums, *args))
    used = c if name in ("value_and_grad", "grad") else c._derived[name]
    assert used._reason is None and programs(used) == recorded
    return c


def directions(args):
    """Something shaped like the arguments."""
    leaves = [np.cos(np.arange(1.0, 1 + np.size(a))).reshape(np.shape(a)) for a in args]
    return tuple(one if np.ndim(a) else float(one) for a, one in zip(args, leaves, strict=True))


def pulled(value_and_back):
    """Value and two products of adjoints with the Jacobian, for results that are arrays."""
    value, back = value_and_back
    seed = np.sin(1.0 + np.arange(np.size(value))).reshape(np.shape(value))
    seed = seed if np.ndim(value) else float(seed)
    return value, back(seed), back(seed * 2.0)


#: What is called of a compiled function, and what of the function itself.
METHODS = {
    "value_and_grad": lambda c, *args: c.value_and_grad(*args),
    "grad": lambda c, *args: c.grad(*args),
    "jacobian": lambda c, *args: c.jacobian(*args),
    "hessian": lambda c, *args: c.hessian(*args),
    "hvp": lambda c, x, *others: c.hvp(x, directions((x,))[0], *others),
    "jvp": lambda c, *args: c.jvp(args, directions(args)),
    "vjp": lambda c, *args: pulled(c.vjp(*args)),
}
EAGER = {
    "value_and_grad": lambda f, n, *args: tg.value_and_grad(f, n)(*args),
    "grad": lambda f, n, *args: tg.grad(f, n)(*args),
    "jacobian": lambda f, n, *args: tg.jacobian(f, n)(*args),
    "hessian": lambda f, n, *args: tg.hessian(f, n)(*args),
    "hvp": lambda f, n, x, *others: tg.hvp(f)(x, directions((x,))[0], *others),
    "jvp": lambda f, n, *args: tg.jvp(f, args, directions(args)),
    "vjp": lambda f, n, *args: pulled(tg.vjp(f, *args)),
}
every_method = pytest.mark.parametrize("name", METHODS)


def points(n, count=4, seed=0):
    return [(np.random.default_rng([seed, k]).normal(size=n),) for k in range(count)]


# --- closed forms -----------------------------------------------------------------------------


def cubes(x):
    return np.sum(x**3) + x[0] * x[1] * x[2]


def test_closed_forms_of_a_number():
    c, v = tg.compile(cubes), np.array([1.0, -2.0, 0.5, 3.0])
    for (x,) in points(4):
        value = (x * x * x).sum() + x[0] * x[1] * x[2]
        gradient = 3 * x * x + np.array([x[1] * x[2], x[0] * x[2], x[0] * x[1], 0.0])
        hessian = np.diag(6 * x)
        for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
            hessian[i, j] = hessian[j, i] = x[k]
        alike(c(x), float(value))
        alike(c.value_and_grad(x), (float(value), gradient))
        alike(c.grad(x), gradient)
        alike(c.jacobian(x), gradient)
        alike(c.hessian(x), hessian)
        alike(c.hvp(x, v), hessian @ v)
        alike(c.jvp((x,), (v,)), (float(value), float(gradient @ v)))
        found, back = c.vjp(x)
        alike((found, back(2.0), back(-0.5)), (float(value), (2 * gradient,), (-0.5 * gradient,)))
    for used in (c, *c._derived.values()):
        assert used._reason is None and programs(used) == 1


def test_closed_forms_of_an_array():
    """x ↦ A·x ∘ x."""
    matrix = np.arange(12.0).reshape(3, 4)
    f = lambda x: (matrix @ x) * x[:3]
    c, v = tg.compile(f), np.array([0.5, 2.0, -1.0, 3.0])
    for (x,) in points(4):
        jacobian = matrix * x[:3, None] + np.diag(matrix @ x) @ np.eye(3, 4)
        alike(c(x), (matrix @ x) * x[:3])
        alike(c.jacobian(x), jacobian)
        alike(c.jvp((x,), (v,)), ((matrix @ x) * x[:3], jacobian @ v))
        value, back = c.vjp(x)
        for adjoint in (np.ones(3), np.array([1.0, -2.0, 0.25])):
            alike(back(adjoint), (adjoint @ jacobian,))
    assert c._reason is None and all(programs(one) == 1 for one in c._derived.values())


def test_closed_forms_of_numbers():
    """Numbers in, a number out: every result is a float."""
    f = lambda a, b: a * a * b + np.sin(b)
    c = tg.compile(f, argnums=(0, 1))
    for a, b in ((2.0, 3.0), (0.5, -1.0), (4.0, 0.25)):
        first, second = 2 * a * b, a * a + float(np.cos(b))
        alike(c.value_and_grad(a, b), (a * a * b + float(np.sin(b)), (first, second)))
        alike(c.jacobian(a, b), (first, second))
        alike(c.hessian(a, b), ((2 * b, 2 * a), (2 * a, -float(np.sin(b)))))
        alike(c.hvp(a, 3.0, b), 6.0 * b)
        alike(c.jvp((a, b), (1.0, 2.0)), (float(f(a, b)), first + 2 * second))
        alike(c.vjp(a, b)[1](2.0), (2 * first, 2 * second))


# --- arguments --------------------------------------------------------------------------------


def product(a, b, s):
    """Every second derivative depends on the arguments."""
    return np.sum(np.exp(a * b[:, :1]) * s * s + b * b * s + np.sin(a) * s)


def products(a, b, s):
    return np.exp(a * b[:, :1]) * s + b


@every_method
@pytest.mark.parametrize("argnums", [0, 1, -2, (0,), (1, 0)])
def test_argnums(name, argnums):
    rng = np.random.default_rng(1)
    calls = [(rng.normal(size=3), rng.normal(size=(2, 3)), 0.5 + k) for k in range(3)]
    f = products if name == "jacobian" else product
    c = check_method(name, f, calls, argnums)
    (a, b, s), _, _ = calls
    if name in ("value_and_grad", "grad", "jacobian", "hessian"):  # another shape, another program
        method, eager = METHODS[name], EAGER[name]
        for other in ((a, b[:1], s), (np.float64(2.0), b, s)):
            alike(method(c, *other), eager(f, argnums, *other))
            alike(method(c, *other), eager(f, argnums, *other))


@pytest.mark.parametrize("name", ["value_and_grad", "grad", "jacobian", "hessian"])
@pytest.mark.parametrize("argnums", [2, -1, (2, 0), (-3, 1, -1)])
def test_argnums_of_a_number(name, argnums):
    rng = np.random.default_rng(2)
    calls = [(rng.normal(size=3), rng.normal(size=(2, 3)), 0.5 + k) for k in range(3)]
    check_method(name, products if name == "jacobian" else product, calls, argnums)


NUMBERS = {
    "hessian": lambda a, b: a * a + a * b,
    "jacobian": lambda a, b: (a + b, [a * b, np.sum(np.sin(a * np.arange(3.0)))]),
}


@pytest.mark.parametrize("argnums", [0, (1, 0)])
@pytest.mark.parametrize("name", NUMBERS)
def test_matrices_of_numbers_hold_numbers(name, argnums):
    """Constant derivatives and computed ones."""
    check_method(name, NUMBERS[name], [(0.5, 2.0), (1.5, -1.0), (2.0, 0.0)], argnums)


@every_method
def test_data_and_keywords(name):
    """What is not differentiated changes from call to call; ints and words are fixed."""
    f = lambda x, w, mask, n: np.sum(np.where(mask, x**n * w, x * x))
    rng = np.random.default_rng(3)
    calls = [(rng.normal(size=3), rng.normal(size=3), np.arange(3) > k - 1, 3) for k in range(3)]
    if name in ("jvp", "vjp"):  # which differentiate every argument
        check_method(name, lambda x, w: np.sum(x**3 * w), [args[:2] for args in calls])
        return
    c = check_method(name, f, calls)
    if name == "hvp":
        return
    for x, w, mask, _ in calls:
        found = getattr(c, name)(x, mask=mask, n=2, w=w)
        alike(found, getattr(tg, name)(f)(x, w, mask, 2))


def test_structures_of_arguments():
    def f(p):
        return np.sum(p["w"][0] ** 2 * p["b"] * p["b"]) + np.sum(np.sin(p["w"][1])) * p["b"]

    c, rng = tg.compile(f), np.random.default_rng(4)
    for k in range(3):
        p = {"w": (rng.normal(size=3), rng.normal(size=(2, 2))), "b": 0.5 + k}
        v = {"w": (rng.normal(size=3), rng.normal(size=(2, 2))), "b": 2.0 - k}
        alike(c.value_and_grad(p), tg.value_and_grad(f)(p))
        alike(c.jacobian(p), tg.jacobian(f)(p))
        alike(c.hessian(p), tg.hessian(f)(p))
        alike(c.hvp(p, v), tg.hvp(f)(p, v))
        alike(c.jvp((p,), (v,)), tg.jvp(f, (p,), (v,)))
        (value, back), (right, eager) = c.vjp(p), tg.vjp(f, p)
        alike((value, back(1.5)), (right, eager(1.5)))
    for used in (c, *c._derived.values()):
        assert used._reason is None and programs(used) == 1


def test_results_in_structures():
    """Jacobians, tangents and adjoints in the structure of what the function returns."""

    def f(x, y):
        return {"outer": (x[:, None] * y, np.sum(x * x)), "list": [np.sin(y)]}

    c, rng = tg.compile(f, argnums=(0, 1)), np.random.default_rng(5)
    for _ in range(3):
        x, y, v, w = (rng.normal(size=n) for n in (3, 2, 3, 2))
        alike(c(x, y), tg.vjp(f, x, y)[0])
        alike(c.jacobian(x, y), tg.jacobian(f, (0, 1))(x, y))
        alike(c.jvp((x, y), (v, w)), tg.jvp(f, (x, y), (v, w)))
        seed = {"outer": (rng.normal(size=(3, 2)), 2.0), "list": [rng.normal(size=2)]}
        alike(c.vjp(x, y)[1](seed), tg.vjp(f, x, y)[1](seed))
    for used in (c, *c._derived.values()):
        assert used._reason is None and programs(used) == 1


# --- branches ---------------------------------------------------------------------------------


def piecewise(x):
    if x[0] > 0:
        return np.sum(x**3) * x[0]
    return np.sum(np.exp(x)) + (x[1] if x[1] > x[2] else x[2] * x[2])


CALLS = [
    (np.array(x),) for x in ([1.0, 2, 3], [-1.0, 2, 1], [2.0, 0, 1], [-2.0, 0, 1], [0, 1.0, 0])
]


@needs("numba-reader")
@every_method
def test_branches(name):
    """A way is recorded until there is a graph."""
    recorded = 1 if name in ("value_and_grad", "grad", "vjp") else 2
    c = check_method(name, piecewise, CALLS * 2, recorded=recorded)
    assert "a graph of" in c.explain()


@every_method
def test_branches_that_are_errors(name):
    c = tg.compile(piecewise, on_branch="error")
    for _ in range(2):
        METHODS[name](c, *CALLS[0])
        with pytest.raises(RuntimeError, match="takes another branch at .*test_compile_methods.py"):
            METHODS[name](c, *CALLS[1])


@needs("numba-reader")
@pytest.mark.parametrize(("name", "recorded"), [("jacobian", 2), ("jvp", 2), ("vjp", 1)])
def test_branches_of_functions_with_arrays_as_results(name, recorded):
    """Each of the five arguments has signs of its own; after two programs a graph serves all."""

    def f(x):
        total = x * 0.0
        for value in x:
            total = total * value if value > 0 else total + x * value
        return total

    check_method(name, f, CALLS * 2, recorded=recorded)


@every_method
def test_settings_hold_for_every_method(name):
    check_method(name, cubes, points(3), verify="always")
    factor = [1.0] * 1000  # whose items are not compared at each call
    c = tg.compile(lambda x: np.sum(x**3) * float(factor[0]))
    METHODS[name](c, np.ones(3))
    factor[0] = 2.0
    with pytest.raises(RuntimeError, match="it depends on something else than its arguments"):
        METHODS[name](c, np.ones(3))


# --- without a program ------------------------------------------------------------------------


@every_method
def test_functions_that_cannot_be_recorded(name):
    f = lambda x: np.sum(x.astype(np.float32).astype(float) ** 3)
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="without a program: it converts to float32"):
        found = METHODS[name](c, np.arange(3.0))
    same(found, EAGER[name](f, 0, np.arange(3.0)))
    same(METHODS[name](c, np.ones(3)), EAGER[name](f, 0, np.ones(3)))


@every_method
def test_arguments_recorded_by_somebody_else(name):
    """The function itself is called, so that derivatives go on."""
    c = tg.compile(cubes)
    first = lambda given: next(
        leaf for _, leaf in reversed(tree_leaves(given)) if is_recorded(leaf)
    )
    for (x,) in points(3, 3):
        METHODS[name](c, x)
        found = tg.grad(lambda x: np.sum(first(METHODS[name](c, x))))(x)
        wanted = tg.grad(lambda x: np.sum(first(EAGER[name](cubes, 0, x))))(x)
        alike(found, wanted)
        assert np.any(found)
