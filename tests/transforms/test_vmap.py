"""vmap: all elements together, by one recording, against a loop over them. A warning is a loop."""

import functools
import threading
import tracemalloc

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._batching import vmap as vmap_module


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Small batches, too, are computed together."""
    monkeypatch.setattr(vmap_module, "FEW", 2)


def looped(f, *batches):
    """What a loop gives: each result stacked."""
    rows = [f(*row) for row in zip(*batches, strict=True)]
    if isinstance(rows[0], tuple):
        return tuple(
            np.stack([np.asarray(one) for one in column]) for column in zip(*rows, strict=True)
        )
    return np.stack([np.asarray(one) for one in rows])


def same(found, wanted, tolerance=1e-12):
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            same(one, other, tolerance)
        return
    assert type(found) is np.ndarray and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.fixture
def batch(rng):
    return rng.normal(size=(6, 5))


@pytest.fixture
def matrices(rng):
    return rng.normal(size=(6, 3, 5))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def numbers(x):
    """Operations on single numbers."""
    return x[0] * np.sin(x[1]) + x[2] ** 2 / (1.5 + np.cos(x[3])) - np.exp(-x[4])


# --- values ---------------------------------------------------------------------------------------

OF_MATRICES = {
    "transposed": lambda z: z.T,
    "memory order": lambda z: (2.0 * z.T).ravel("K"),
    "steps": lambda z: z[::-1, ::-2],
    "windows": lambda z: np.lib.stride_tricks.sliding_window_view(z, 2, 1).sum(-1),
    "joined": lambda z: np.concatenate([z, np.ones((1, 5)), -z]),
    "minus zero": lambda z: 1.0 / np.copy(-0.0 * np.abs(z)),
    "padded": lambda z: np.pad(z, 1),
    "rolled": lambda z: np.roll(z, 1, 0),
    "products": lambda z: np.einsum("ij,kj->ki", z, z),
    "outer": lambda z: np.outer(z[0], z[1]),
    "kron": lambda z: np.kron(z, z),
    "tensordot": lambda z: np.tensordot(z, z, ([1], [1])),
    "norm": lambda z: np.linalg.norm(z, np.inf),
    "logsumexp": lambda z: tg.logsumexp(z, 0),
    "softmax": lambda z: tg.softmax(z, 0),
    "single precision": lambda z: z.astype(np.float32) * 2,
    "mask": lambda z: (z > 0) & (z < 1),
    "where": lambda z: np.where(z > 0, np.log(np.abs(z)), z),
    "where of integers": lambda z: np.where(z > 0, 1, z.astype(int)),
    "counts": lambda z: np.count_nonzero(z > 0, axis=1),
    "means of masks": lambda z: np.mean(z > 0, axis=(0, 1), keepdims=True),
    "running counts": lambda z: np.cumsum(z > 0),
    "of one number": lambda z: np.cumsum(z[0, 0] > 0) + np.argsort(z[0, 1]),
    "any": lambda z: (z > 1.0).any(1),
    "sorted": lambda z: np.sort(z, 0),
    "order": lambda z: np.argsort(z),
    "largest": lambda z: np.argmax(z),
    "largest, kept": lambda z: np.argmax(z, keepdims=True),
    "median": lambda z: np.median(z, 1),
    "by computed positions": lambda z: z[np.argmax(z, 0), np.arange(5)],
    "searched": lambda z: np.searchsorted(np.sort(z[0]), 0.0),
    "a constant": lambda z: 7,
    "a constant array": lambda z: np.ones(3),
    "itself": lambda z: z,
    "several": lambda z: (z.sum(), z > 0, z[0]),
}


@pytest.mark.parametrize("name", OF_MATRICES)
def test_values(name, matrices):
    f = OF_MATRICES[name]
    with np.errstate(all="ignore"):
        wanted = looped(f, matrices)
        same(tg.vmap(f)(matrices), wanted)
        for axis in (1, 2):
            same(tg.vmap(f, axis)(np.moveaxis(matrices, 0, axis)), wanted)
        fortran = np.asfortranarray(matrices)
        if name != "memory order":
            same(tg.vmap(f)(fortran), wanted)
            same(tg.vmap(f)(np.repeat(matrices[::-1], 2, -1)[::-1, :, ::2]), wanted)


POSITIONS = {
    "last": lambda z, i: z[:, i],
    "first": lambda z, i: z[i],
    "twice": lambda z, i: z[i, i],
    "apart": lambda z, i: z[i, None, i],
    "with a new axis": lambda z, i: z[None, i, ...],
    "with known ones": lambda z, i: z[[0, 1], i],
    "with a number": lambda z, i: z[0, ..., i],
    "one number": lambda z, i: z[i[0], :, None],
    "crossed": lambda z, i: z[i[:, None], i],
    "take": lambda z, i: np.take(z, i, 1),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_of_each_element(name, matrices, rng):
    f, positions = POSITIONS[name], rng.integers(0, 3, (6, 2))
    same(tg.vmap(f)(matrices, positions), looped(f, matrices, positions))
    weighted = lambda z, i: np.sum(np.sin(f(z, i)))
    gradients = looped(tg.grad(weighted), matrices, positions)
    same(tg.vmap(tg.grad(weighted))(matrices, positions), gradients)
    whole = lambda z: np.sum(tg.vmap(weighted)(z, positions))
    same(tg.grad(whole)(matrices), gradients)


def test_one_key_for_the_same_table(batch, rng):
    positions = rng.integers(-5, 5, (6, 2))
    f = lambda i: tg.tensor(batch[0])[i] * 2.0
    same(tg.vmap(f)(positions).numpy(), 2.0 * batch[0][positions])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool])
def test_dtypes(dtype, rng):
    x = rng.integers(-3, 3, (6, 4)).astype(dtype)
    for f in (lambda x: x * 2, lambda x: x.sum(), lambda x: np.where(x > 0, x, 1), lambda x: x[1]):
        same(tg.vmap(f)(x), looped(f, x), 1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 300])
def test_sizes(count, rng):
    x = rng.normal(size=(count, 2))
    same(tg.vmap(tg.grad(rosenbrock))(x), looped(tg.grad(rosenbrock), x))
    same(tg.vmap(np.sin)(x[:, 0]), np.sin(x[:, 0]))


def test_elements_of_no_size():
    same(tg.vmap(lambda x: np.sum(x) + 1.0)(np.zeros((4, 0))), np.ones(4))
    same(tg.vmap(lambda x: 2.0 * x)(np.zeros((4, 0, 3))), np.zeros((4, 0, 3)))


def test_users_operations(batch):
    cube = tg.elementwise(lambda x: x * x * x)
    same(tg.vmap(tg.grad(lambda x: np.sum(cube(x))))(batch), 3.0 * batch**2)
    same(tg.vmap(lambda x: cube(x[0]))(batch), batch[:, 0] ** 3)


# --- structures and memory ------------------------------------------------------------------------


def test_structures_and_axes(batch, rng):
    given = {"s": batch.T, "n": [2.0, np.arange(6)]}
    f = lambda d, w: {"a": d["s"] @ w, "b": (d["n"][0] * d["n"][1], 3)}
    w = rng.normal(size=5)
    found = tg.vmap(f, ({"s": 1, "n": [None, 0]}, None), {"a": 0, "b": -1})(given, w)
    same(found["a"], batch @ w)
    same(found["b"][0], 2.0 * np.arange(6))
    same(found["b"][1], np.full(6, 3))
    both = tg.vmap(lambda x: np.outer(x, x), 0, 2)(batch)
    assert both.shape == (5, 5, 6) and both.flags.c_contiguous
    same(both, np.einsum("ki,kj->ijk", batch, batch))


def test_results_have_memory_of_their_own(batch):
    before = batch.copy()
    one, other = tg.vmap(lambda x: (lambda y: (y, y))(x * 2.0))(batch)
    same_as_given, ones = tg.vmap(lambda x: (x, np.ones(2)))(batch)
    for made in (one, other, same_as_given, ones):
        made[...] = 7.0
    assert np.array_equal(batch, before) and not np.shares_memory(one, other)


def test_tensors_give_tensors(batch):
    made = tg.vmap(numbers)(tg.tensor(batch))
    assert isinstance(made, tg.Tensor) and not made.requires_grad
    leaf = tg.tensor(batch, requires_grad=True)
    tg.vmap(lambda x: np.sum(np.sin(x)))(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), np.cos(batch))
    with tg.no_grad():
        assert not tg.vmap(numbers)(leaf).requires_grad


def test_many_elements_of_a_long_function_need_little_memory(rng):
    """200 rows of 20 000 elements: 32 MB if all were kept."""

    def deep(x):
        for _ in range(200):
            x = np.sin(x) * 1.01
        return x

    x = rng.normal(size=20_000)
    tg.vmap(deep)(x[:3])  # what is imported and compiled is not counted
    tracemalloc.start()
    try:
        found = tg.vmap(deep)(x)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    same(found, deep(x))
    assert most < 8e6


# --- derivatives ----------------------------------------------------------------------------------

TRANSFORMS = {
    "grad": tg.grad,
    "value_and_grad": tg.value_and_grad,
    "hessian": tg.hessian,
    "jacobian": tg.jacobian,
    "hvp": lambda f: lambda x: tg.hvp(f)(x, np.cos(x)),
    "jvp": lambda f: lambda x: tg.jvp(f, (x,), (np.cos(x),)),
    "vjp": lambda f: lambda x: tg.vjp(f, x)[1](1.5)[0],
    "jvp of grad": lambda f: lambda x: tg.jvp(tg.grad(f), (x,), (np.cos(x),))[1],
    "third": lambda f: tg.grad(lambda x: np.sum(tg.hvp(f)(x, np.cos(x)))),
}


@pytest.mark.parametrize("f", [rosenbrock, numbers])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_inside(name, f, batch):
    one = TRANSFORMS[name](f)
    same(tg.vmap(one)(batch), looped(one, batch), 1e-9)
    if name in ("grad", "hessian"):
        narrow = tg.vmap(one)(batch.astype(np.float32))
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(narrow, looped(one, batch), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("f", [rosenbrock, numbers])
def test_transforms_around(f, batch, rng):
    whole = lambda b: np.sum(np.sin(tg.vmap(f)(b)))
    one, v = lambda x: np.sin(f(x)), rng.normal(size=batch.shape)
    gradients = looped(tg.grad(one), batch)
    same(tg.grad(whole)(batch), gradients, 1e-9)
    products = looped(tg.hvp(one), batch, v)
    same(tg.hvp(whole)(batch, v), products, 1e-8)
    value, tangent = tg.jvp(tg.vmap(f), (batch,), (v,))
    same(np.asarray(tangent), np.sum(looped(tg.grad(f), batch) * v, 1), 1e-9)
    matrix = tg.jacobian(tg.vmap(tg.grad(f)))(batch)
    wanted = np.zeros((6, 5, 6, 5))
    wanted[np.arange(6), :, np.arange(6)] = looped(tg.hessian(f), batch)
    same(matrix, wanted, 1e-9)


def test_arguments_that_all_elements_share(batch, rng):
    w = rng.normal(size=5)
    loss = lambda w, x: np.log1p(np.exp(-np.dot(w, x))) * np.sum(w**2)
    same(
        tg.vmap(tg.grad(loss), (None, 0))(w, batch), np.stack([tg.grad(loss)(w, x) for x in batch])
    )
    whole = lambda w: np.sum(tg.vmap(lambda x: loss(w, x))(batch))
    same(tg.grad(whole)(w), sum(tg.grad(loss)(w, x) for x in batch), 1e-9)
    same(tg.hessian(whole)(w), sum(tg.hessian(loss)(w, x) for x in batch), 1e-9)
    leaf = tg.tensor(w, requires_grad=True)
    tg.vmap(lambda x: loss(leaf, x))(batch).sum().backward()
    same(leaf.grad.numpy(), tg.grad(whole)(w), 1e-9)


def test_nested(batch, rng):
    others = rng.normal(size=(4, 5))
    distance = lambda x, y: np.sum((x - y) ** 2)
    table = tg.vmap(tg.vmap(distance, (None, 0)), (0, None))
    same(table(batch, others), ((batch[:, None] - others) ** 2).sum(-1))
    gradient = tg.vmap(tg.vmap(tg.grad(distance), (None, 0)), (0, None))
    same(gradient(batch, others), 2.0 * (batch[:, None] - others))
    pulled = tg.grad(lambda b: np.sum(np.sin(table(b, others))))(batch)
    wanted = np.cos(((batch[:, None] - others) ** 2).sum(-1))[..., None]
    same(pulled, (2.0 * (batch[:, None] - others) * wanted).sum(1), 1e-9)


# --- writes ---------------------------------------------------------------------------------------


def written(x):
    y = x.copy()
    y[1:] *= x[:-1]
    y[0] = 2.0 * y[1]
    y[np.argmax(x)] = 0.5 * y[2]
    y[x > 0.5] = 0.25
    y[[1, 3]] += np.sin(x[:2])
    return y


def reversed_sums(x):
    """Constants that are written after they have been read."""
    y = np.zeros_like(x)
    y[::2] -= x[0]
    y[::-1] -= np.exp(-x)
    return y


@pytest.mark.parametrize("f", [written, reversed_sums])
def test_writes(f, batch):
    same(tg.vmap(f)(batch), looped(f, batch))
    total = lambda x: np.sum(np.sin(f(x)))
    gradients = looped(tg.grad(total), batch)
    same(tg.vmap(tg.grad(total))(batch), gradients)
    same(tg.grad(lambda b: np.sum(tg.vmap(total)(b)))(batch), gradients)
    same(tg.vmap(tg.hessian(total))(batch), looped(tg.hessian(total), batch), 1e-9)


# --- programs and threads -------------------------------------------------------------------------


def test_inside_a_compiled_function(batch, rng):
    for f in (rosenbrock, numbers, lambda x: np.sum(written(x) ** 2)):
        for one in (f, tg.grad(f)):
            c = tg.compile(tg.vmap(one))
            for x in (batch, -batch, rng.normal(size=batch.shape), batch):
                np.testing.assert_allclose(c(x), looped(one, x), rtol=1e-9, atol=1e-9)


def test_what_wraps_a_gradient_is_none_to_compile(batch):
    """`functools.wraps` copies what `compile` knows a gradient by."""
    f, x = (lambda x: np.sum(x**3)), batch[0]
    gradient = tg.grad(f)

    @functools.wraps(gradient)
    def doubled(x):
        return 2.0 * gradient(x)

    for made in (tg.jacobian(gradient), tg.elementwise_grad(gradient), doubled):
        np.testing.assert_allclose(tg.compile(made)(x), made(x))
    c = tg.compile(tg.vmap(tg.grad(f)))
    np.testing.assert_allclose(c(batch), 3.0 * batch**2)
    np.testing.assert_allclose(c(-batch), 3.0 * batch**2)


def test_threads(batch):
    wanted, wrong = looped(tg.grad(rosenbrock), batch), []

    def work():
        for _ in range(10):
            if not np.allclose(tg.vmap(tg.grad(rosenbrock))(batch), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
