"""Indices that are arrays or tensors without axes, read and written, in all derivatives."""

import numpy as np
import pytest
from compiled import same

import tapegrad as tg

VECTOR = np.array([0.72, -1.2, 1.9, 0.4, -0.3])
MATRIX = np.arange(1.0, 13.0).reshape(3, 4) / 7
TWO, ONE, TRUE = np.array(2), np.array(1), np.array(True)

VECTOR_KEYS = {
    "array": TWO,
    "negative": np.array(-2),
    "unsigned": np.uint8(2),
    "tensor": tg.tensor(2),
    "negative tensor": tg.tensor(-1),
    "in a tuple": (TWO,),
    "and the rest": (TWO, ...),
    "after the rest": (..., TWO),
    "true": TRUE,
    "false": np.array(False),
    "Python's true": True,
}
MATRIX_KEYS = {
    "row": ONE,
    "row and slice": (ONE, slice(None)),
    "column": (slice(None), ONE),
    "element": (ONE, TWO),
    "int first": (1, TWO),
    "int last": (ONE, 2),
    "last axis": (..., TWO),
    "both ends": (np.array(-1), ..., np.array(-2)),
    "tensors": (tg.tensor(1), tg.tensor(2)),
    "with an array": (np.array([0, 1]), TWO),
    "true": (TRUE, 1, 2),
}
KEYS = [(VECTOR, key) for key in VECTOR_KEYS.values()] + [(MATRIX, k) for k in MATRIX_KEYS.values()]
NAMES = [*VECTOR_KEYS, *(f"matrix, {name}" for name in MATRIX_KEYS)]


def differences(f, x, step=1e-6):
    """The Jacobian of `f`, the argument's axes last."""
    columns = []
    for place in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[place] = step
        columns.append((np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * step))
    return np.moveaxis(np.array(columns), 0, -1).reshape(*np.shape(columns[0]), *x.shape)


def agree(f, x):
    """Hold every derivative of `f` against differences, and compiled ones against those."""

    def close(found, wanted, tolerance=1e-7):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)

    v = np.linspace(-1.0, 1.0, x.size).reshape(x.shape)
    gradient, hessian = tg.grad(f)(x), tg.hessian(f)(x)
    close(gradient, differences(f, x), 1e-6)
    close(hessian, differences(tg.grad(f), x), 1e-6)
    product = np.tensordot(hessian, v, v.ndim)
    close(tg.hvp(f)(x, v), product)
    close(tg.jvp(f, (x,), (v,))[1], np.sum(gradient * v))
    close(tg.jvp(tg.grad(f), (x,), (v,))[1], product)
    close(tg.grad(lambda u: tg.jvp(f, (u,), (v,))[1])(x), product)
    close(tg.vmap(tg.grad(f))(np.stack([x, 2 * x])), [gradient, tg.grad(f)(2 * x)])
    t = tg.tensor(x, requires_grad=True)
    (first,) = tg.autograd.grad(f(t), t, create_graph=True)
    close(tg.autograd.grad((first * v).sum(), t)[0].numpy(), product)
    narrow = tg.hessian(f)(x.astype(np.float32))
    close(narrow, hessian, 1e-5)


def agree_compiled(f, x, readings=("value_and_grad", "hessian")):
    compiled = tg.compile(f)
    for u in (x, 2 * x):
        for name in readings:
            same(getattr(compiled, name)(u), getattr(tg, name)(f)(u))


@pytest.mark.parametrize("x, key", KEYS, ids=NAMES)
def test_reading(x, key):
    agree(read(key), x)


def read(key):
    return lambda x: np.sum(x[key] ** 3) * x.reshape(-1)[0]


@pytest.mark.parametrize("x, key", KEYS, ids=NAMES)
def test_writing(x, key):
    agree(write(key), x)


def write(key):
    def f(x):
        y = x * 1.0
        y[key] = x.reshape(-1)[1] ** 2
        y[key] *= x.reshape(-1)[0]
        y[key] += 2.0
        return np.sum(y**3)

    return f


@pytest.mark.parametrize("make", [read, write])
def test_compiled(make):
    for key in (TWO, tg.tensor(-1)):
        agree_compiled(make(key), VECTOR)
    agree_compiled(make((ONE, TWO)), MATRIX)


TAKEN = {
    "take": lambda x: np.take(x, 2) ** 3 * x[0],
    "take an array": lambda x: np.take(x, np.array(-1)) ** 3 * x[0],
    "take a tensor": lambda x: np.take(x, tg.tensor(3)) ** 3 * x[0],
    "take along": lambda x: np.take(x, 2, axis=0) ** 3 * x[0],
    "take around": lambda x: np.take(x, 7, mode="wrap") ** 3 * x[0],
    "argmax": lambda x: x[np.argmax(x)] ** 3 * x[0],
    "argsort": lambda x: x[np.argsort(x)[0]] ** 3 * x[0],
    "sort": lambda x: np.sort(x)[ONE] ** 3 * x[0],
    "write argmax": lambda x: written(x, np.argmax(x)),
}


def written(x, key):
    y = x * x
    y[key] = x[1] ** 3
    return np.sum(y * x)


@pytest.mark.parametrize("name", TAKEN)
def test_elements_found(name):
    agree(TAKEN[name], VECTOR)
    agree_compiled(TAKEN[name], VECTOR, ("value_and_grad",))


def test_taken_from_a_matrix():
    agree(lambda x: np.take(x, 5) ** 3 * x[0, 0], MATRIX)
    agree(lambda x: np.sum(np.take(x, np.array(1), axis=-1) ** 3) * x[0, 0], MATRIX)


def test_no_axes_to_reverse():
    """NumPy gives a number for it, which is no view."""
    assert tg.grad(lambda x: np.flip(x[0]) ** 3)(VECTOR)[0] == 3 * VECTOR[0] ** 2
    agree(lambda x: tg.flip(x[:1].reshape(())) ** 3 * x[0], VECTOR)


def test_an_argument_too_many_is_refused():
    """NumPy would write the result to it."""
    x = tg.tensor(VECTOR, requires_grad=True)
    for call in (lambda: tg.exp(x, x), lambda: tg.add(x, x, x), lambda: tg.add(x)):
        with pytest.raises(TypeError, match="it takes x"):
            call()
    np.testing.assert_array_equal(x.detach().numpy(), VECTOR)
