"""Hidden state that decides: compiled functions are right, or raise; they are never wrong."""

import warnings

import numpy as np
import pytest
from branching.unsound import FUNCTIONS
from test_branching_programs import same

import tapegrad as tg

LIMIT = 1.0


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_state_of_one_call(f):
    rng = np.random.default_rng(3)
    c, eager = tg.compile(f, argnums=(0, 1)), tg.value_and_grad(f, (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for k in range(30):
            args = *(float(v) for v in rng.normal(0.6, 0.7, 2)), rng.normal(size=8 + k % 2)
            same(c.value_and_grad(*args), eager(*args))


def of_global(a, x):
    return sum(a * v if v < LIMIT else a * a * v for v in x)


def of_closure():
    limit = 1.0

    def f(a, x):
        return sum(a * v if v < limit else a * a * v for v in x)

    def change(to):
        nonlocal limit
        limit = to

    return f, change


def of_default():
    limits = [1.0]

    def f(a, x, limits=limits):
        return sum(a * v if v < limits[0] else a * a * v for v in x)

    return f, lambda to: limits.__setitem__(0, to)


def of_attribute():
    class Model:
        limit = 1.0

        def __call__(self, a, x):
            return sum(a * v if v < self.limit else a * a * v for v in x)

    model = Model()
    return model, lambda to: setattr(model, "limit", to)


def of_module():
    return of_global, lambda to: globals().__setitem__("LIMIT", to)


@pytest.mark.parametrize("build", [of_closure, of_default, of_attribute, of_module])
def test_state_between_calls(build):
    """With every call verified a change is found out, or the new state is used."""
    rng = np.random.default_rng(4)
    f, change = build()
    c, eager = tg.compile(f, verify="always"), tg.value_and_grad(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for limit in (1.0, 1.0, 0.2, -0.5, 1.0):
            change(limit)
            for _ in range(4):
                a, x = float(rng.normal()), rng.normal(size=6)
                try:
                    found = c.value_and_grad(a, x)
                except RuntimeError:
                    continue
                same(found, eager(a, x))
    change(1.0)
