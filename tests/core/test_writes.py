"""Functions that write into arrays, differentiated unchanged; constants changed afterwards."""

import naive
import numpy as np
import pytest
from naive import check, close

import tapegrad as tg


def running_sum(x):
    f = np.zeros_like(x)
    f[0] = x[0]
    for i in range(1, len(x)):
        f[i] = x[i] + f[i - 1]
    return np.sum(f**2)


def overwritten_twice(x):
    f = np.zeros_like(x)
    f[0] = x[0]
    for i in range(1, len(x)):
        f[i] = f[i - 1] * x[i]
        f[i] = np.tanh(f[i])
    return np.sum(f * f)


def slices_written(x):
    f = np.zeros_like(x)
    f[1:-1] = x[2:] - 2 * x[1:-1] + x[:-2]
    f[::2] *= x[::2]
    f[-1], f[0] = f[1], x[0] * x[-1]
    return np.sum(f**2)


def shifted(x):
    x = x * 1.0
    x[1:] = x[:-1]
    x[:-1] = x[1:] * x[:-1]
    x[::-1] = x * x
    return np.sum(x * np.arange(1.0, len(x) + 1))


def through_views(x):
    f = x * 2.0
    middle = f[1:-1]
    every = middle[::2]
    every[0] = x[0] ** 2
    middle[1:] = np.sin(middle[:-1])
    f[2] = every[0] * every[1]
    return np.sum(f**2) + middle[0]


def in_place_on_views(x):
    f = x * 1.0
    view = f[::2]
    view += x[1::2]
    view *= view
    view -= 0.5
    view /= 2.0 + f[1::2] ** 2
    view **= 2
    f[0] += view[1]
    return np.sum(f * np.arange(len(x)))


def repeated_positions(x):
    f = x * x
    f[[0, 2, 2, 0]] = x[:4] * 3.0
    f[[1, 1]] += x[[3, 4]]
    f[[4, 5, 4]] = x[1]
    return np.sum(f**3)


def written_values(x):
    f = np.zeros((3, 4))
    f = np.zeros_like(x[:, None] * f[0])
    f[0] = 7.0
    f[1, 1] = x[1]
    f[2] = x[:4]
    f[:, 3] = x[2]
    f[1:, :2] = x[:2] * 3
    f[:2, 1:3] = np.array([[1.0], [2.0]])
    f[x > 0] += 1
    return np.sum(f**2 * np.arange(24.0).reshape(6, 4)) + np.sum(x)


MASK = np.array([True, False, True, True, False, False])


def mask_written(x):
    f = x * 1.0
    f[f > 0] = 0.0
    f[MASK] = x[MASK] ** 2
    f[~MASK] *= 2.0
    return np.sum(f * f)


def sweep_of_heat(x):
    u = x * 1.0
    for _ in range(5):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def swapped(x):
    x = x * 1.0
    x[0], x[1] = x[1], x[0]
    x[[2, 3]] = x[[3, 2]]
    old = x[4] * 1.0
    x[4] = x[5]
    x[5] = old
    return np.sum(x * np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) ** 2 * x)


def read_before_and_after(x):
    """A value read from a cell belongs to the time of the read."""
    f = x * 1.0
    product = f * 2.0
    first = f[0]
    f[0] = x[1]
    f[:] = f * first
    return np.sum(f * product) + first


WRITERS = [
    running_sum,
    overwritten_twice,
    slices_written,
    shifted,
    through_views,
    in_place_on_views,
    repeated_positions,
    written_values,
    mask_written,
    sweep_of_heat,
    swapped,
    read_before_and_after,
]


@pytest.mark.parametrize("f", WRITERS, ids=lambda f: f.__name__)
def test_writes(f, rng):
    check(f, rng.normal(size=6))


@pytest.mark.parametrize("f", [running_sum, overwritten_twice, shifted, sweep_of_heat])
def test_long_writes(f, rng):
    """More rows than a chunk holds."""
    check(f, 0.5 + 0.1 * rng.normal(size=3000))


def test_running_sum_by_hand(rng):
    x = rng.normal(size=20)
    close(tg.grad(running_sum)(x), np.cumsum(2 * np.cumsum(x)[::-1])[::-1])


@pytest.mark.parametrize("f", WRITERS, ids=lambda f: f.__name__)
def test_jacobian_of_a_written_array(f, rng):
    """Several seeds undo and redo the same writes."""
    x = rng.normal(size=6)
    found = tg.jacobian(lambda x: x * f(x))(x)
    close(found, np.outer(x, tg.grad(f)(x)) + f(x) * np.eye(6), 1e-11)


def test_values_are_restored_after_a_sweep(rng):
    x = tg.tensor(rng.normal(size=5), requires_grad=True)
    f = x * 1.0
    f[1:] = f[:-1] * x[1:]
    f[0] = 3.0
    f[[2, 2]] = x[:2]
    before = f.detach().numpy().copy()
    np.sum(f * f).backward(retain_graph=True)
    assert np.array_equal(f.detach().numpy(), before)
    first = x.grad.numpy().copy()
    np.sum(f * f).backward()
    assert np.array_equal(f.detach().numpy(), before)
    close(x.grad.numpy(), 2 * first)


def written_thrice(x):
    """A cell, a slice and picked elements, over each other."""
    f = x * 2.0
    f[1] = np.sin(x[0])
    g = f * f
    f[:2] = g[1:] * x[0]
    f[np.array([0, 2])] = f[:2] * x[1]
    return f, g


def total(x):
    f, g = written_thrice(x)
    return np.sum(f * g)


def test_only_the_sweep_itself_sees_what_it_has_undone():
    """Hooks meet the arrays as written, and sweep on their own over other writes."""
    x = tg.tensor([0.3, 0.7, 1.1], requires_grad=True)
    h, k = np.cos(x), x * 1.0  # older than the writes
    f, g = written_thrice(x * k + h)
    at = np.array([0.2, 0.5, 0.9])
    met, inner = [], []

    def hook(gradient):
        met.append(f.detach().numpy().copy())
        with tg.enable_grad():
            inner.append(tg.grad(total)(at))

    for tensor in (x, h, k, g):
        tensor.register_hook(hook)
    wanted = f.detach().numpy().copy()
    np.sum(f * g).backward()
    assert len(met) == 4
    for seen, found in zip(met, inner, strict=True):
        assert np.array_equal(seen, wanted)
        close(found, naive.value_and_grad(total, at)[1][0])
    value = x.detach().numpy()
    close(x.grad.numpy(), naive.value_and_grad(lambda x: total(x * x + np.cos(x)), value)[1][0])


@pytest.mark.parametrize(
    "write",
    [
        lambda f, x: f.__setitem__(1, np.sum(x)),
        lambda f, x: f.__setitem__(slice(1, 3), x[:2]),
        lambda f, x: f.__setitem__(np.array([1, 1]), x[1:]),
    ],
)
def test_a_used_up_write_keeps_what_was_written(write):
    x = tg.tensor([0.3, 0.7, 1.1], requires_grad=True)
    f = x.detach() * 1.0
    write(f, x)
    wanted = f.detach().numpy().copy()
    np.sum(f).backward()
    with pytest.raises(RuntimeError, match="used up"):
        np.sum(f).backward()
    assert np.array_equal(f.detach().numpy(), wanted)


def test_writes_into_an_array_that_was_not_recorded(rng):
    x = tg.tensor(rng.normal(size=3), requires_grad=True)
    f = tg.zeros((2, 3))
    row, cell = f[1], f[0, :1]
    assert not f.requires_grad and not row.requires_grad
    row[1:] = x[1:] * 2
    assert f.requires_grad and row.requires_grad and cell.requires_grad
    cell[0] = x[0] * x[0]
    np.sum(f * f).backward()
    values = x.detach().numpy()
    close(x.grad.numpy(), [4 * values[0] ** 3, 8 * values[1], 8 * values[2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_writes_of_another_precision(dtype, rng):
    x = rng.normal(size=4)

    def f(x):
        g = tg.zeros(4, dtype=dtype)
        g[:] = x
        g[1] = x[2]
        g[[0, 3]] = x[[3, 3]]
        return np.sum(g * np.array([1.0, 2.0, 3.0, 4.0], dtype))

    found = tg.grad(f)(x)
    assert found.dtype == np.float64
    close(found, [0.0, 0.0, 5.0, 5.0])


def test_more_scalars_than_a_chunk_has_room_for():
    x = tg.tensor(np.linspace(0.0, 1.0, 15000), requires_grad=True)
    packed = tg.asarray([x[k] * 2.0 for k in range(15000)])
    np.sum(packed * packed).backward()
    close(x.grad.numpy(), 8 * x.detach().numpy())


# A constant operand is read again in the reverse sweep.


@pytest.mark.parametrize("make", [np.array, tg.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("n", [1, 3, 3000])
def test_a_constant_changed_afterwards(make, n):
    """The usual work array: filled again while earlier results still need what it held."""

    def f(x):
        work, total = make(np.zeros(n)), 0.0
        for k in range(3):
            work[:] = k + 1.0
            total = total + np.sum(x * work)
        return total

    close(tg.grad(f)(np.ones(n)), np.full(n, 6.0))


def test_a_mask_and_an_index_changed_afterwards(rng):
    mask, index = np.array([True, False, True]), np.array([0, 2])

    def f(x):
        out = np.where(mask, x, 0.0)
        picked = x[index] * 1.0
        masked = x[mask] * 3.0
        written = x * 1.0
        written[index] = 5.0
        values = np.array([7.0, 8.0, 9.0])
        other = x * values
        mask[:], index[:] = False, 1
        return np.sum(out) + np.sum(picked) + np.sum(masked) + np.sum(written) + np.sum(other)

    found = tg.grad(f)(rng.normal(size=3))
    close(found, [1 + 1 + 3 + 0 + 7, 0 + 0 + 0 + 1 + 8, 1 + 1 + 3 + 0 + 9])


def test_results_that_are_written_in_another_chunk_than_they_are_made():
    """Rows lie in chunks of 4096: wherever one ends, writes are found that a result depends on."""

    def f(x):
        y = x * 1.0
        y[...] = -0.6
        picked = y[np.array([0])]
        picked -= x[0] * x[1]
        y[np.array([0])] = picked
        return y

    x, g = np.array([-0.16, -0.367, -0.87, 0.43]), np.arange(1.0, 5.0)
    wanted = [0.367, 0.16, 0.0, 0.0]
    for left in range(20):
        one = tg.tensor([1.0], requires_grad=True)[0]
        while (one._id + left) % 4096:  # until so many rows are left in the chunk
            one = one * 1.0
        np.testing.assert_allclose(tg.vjp(f, x)[1](g)[0], wanted)


@pytest.mark.parametrize("key", [True, False, np.True_, (False, ...), (True,), np.array(False)])
def test_truth_values_as_keys_of_an_array_without_axes(key):
    def f(u):
        y = np.asarray(np.exp(u) * 2.0)
        y[key] = u * u
        return y * 1.0

    def plain(u):
        y = np.array(np.exp(u) * 2.0)
        y[key] = u * u
        return y * 1.0

    step = 1e-6
    wanted = (plain(0.3 + step) - plain(0.3 - step)) / (2 * step)
    assert f(0.3) == plain(0.3)
    for found in (tg.grad(f)(0.3), tg.jvp(f, (0.3,), (1.0,))[1], tg.compile(tg.grad(f))(0.3)):
        np.testing.assert_allclose(found, wanted, rtol=1e-8)
