"""`tg.compile`: arrays and tensors from outside whose elements change, at any size."""

import warnings

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse
import scipy.spatial.transform
from assumed import needs
from compiled import counts, programs, same

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad._core.tensor.dependencies import SMALL, Snapshot, contents
from tapegrad._program.dispatch.names_read import names_read

RNG = np.random.default_rng(3)
W = np.array([0.5, -1.0, 2.0])
LARGE = SMALL // 8 // 3 + 1  # rows of 3 numbers that are compared where they lie


def rows(n):
    return RNG.normal(size=(n, 3))


def misfit(data):
    """A function of weights that reads data from outside."""
    return lambda w: np.sum(np.sin(np.asarray(data, float) @ w) ** 2)


def of_sums(data):
    """The same with what NumPy computes of the data."""
    return lambda w: w @ (data.T.astype(float) @ data) @ w


def check(f, c, calls=(W, 2.0 * W)):
    for w in calls:
        same(c(w), f(w))
        same(c.grad(w), tg.grad(f)(w))
    same(c.hessian(W), tg.hessian(f)(W), 1e-10)
    same(c.jvp((W,), (W[::-1].copy(),)), tg.jvp(f, (W,), (W[::-1].copy(),)))


def memmap(n, folder):
    made = np.memmap(folder / "data", dtype=float, mode="w+", shape=(n, 3))
    made[...] = rows(n)
    return made


KINDS = {
    "in rows": lambda n, folder: rows(n),
    "in columns": lambda n, folder: np.asfortranarray(rows(n)),
    "with gaps": lambda n, folder: rows(2 * n)[::2],
    "reversed": lambda n, folder: rows(n)[::-1, ::-1],
    "float32": lambda n, folder: rows(n).astype(np.float32),
    "integers": lambda n, folder: RNG.integers(0, 3, size=(n, 3)),
    "truths": lambda n, folder: rows(n) > 0.0,
    "of a file": memmap,
    "of tapegrad.numpy": lambda n, folder: rows(n).view(tnp.ndarray),
}


@pytest.mark.parametrize("n", [2, 300, LARGE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [misfit, of_sums])
def test_a_change_of_any_element_is_noticed(make, kind, n, tmp_path):
    data = KINDS[kind](n, tmp_path)
    f = make(data)
    c = tg.compile(f)
    check(f, c)
    for place in ((0, 0), (-1, -1), (n // 2, 1)):
        data[place] = not data[place] if data.dtype.kind == "b" else data[place] + 1
        check(f, c)
    data[...] = data[::-1].copy()
    check(f, c)
    assert programs(c) == 1


@counts
def test_arrays_that_do_not_change_cost_no_recording():
    data = [rows(n) for n in (0, 1, 300, LARGE)]
    calls = []

    def f(w):
        calls.append(w)
        return sum(np.sum((one @ w) ** 2) for one in data)

    c = tg.compile(f)
    check(f, c)
    c.hessian(W)
    count = len(calls)
    for _ in range(5):
        c(W), c.grad(W), c.hessian(W)
    assert len(calls) == count


def test_a_base_that_is_written():
    base = rows(1000)
    views = {
        "a part": base[10:500],
        "windows": np.lib.stride_tricks.sliding_window_view(base[:, 0], 3),
        "repeated": np.broadcast_to(base[:1], (10**9, 3)),
        "read-only": np.broadcast_to(base[0], (3,)),
    }
    for name, view in views.items():
        f = misfit(view[:4])
        g = lambda w, view=view: np.sum((view[0] * w) ** 2)
        for one in (f, g):
            c = tg.compile(one)
            check(one, c)
            base[:20] += 1.0
            check(one, c)
            assert programs(c) == 1, name


def test_only_constants_are_not_compared():
    def owners(f):
        return [one for one in names_read(f)._found if isinstance(one, Snapshot)]

    assert len(owners(misfit(np.frombuffer(bytearray(800)).reshape(-1, 4)[:, :3]))) == 1
    assert not owners(misfit(np.frombuffer(bytes(800)).reshape(-1, 4)[:, :3]))


@pytest.mark.parametrize("n", [2, 300, LARGE])
def test_read_only_arrays_may_have_views_that_are_written(n):
    data = rows(n)
    view = data[:]
    data.flags.writeable = False
    f = misfit(data)
    c = tg.compile(f)
    check(f, c)
    assert ("in each call: data, 0.0655 MB" in c.explain()) == (n == LARGE)
    view[-1, 1] = 7.0
    check(f, c)
    data.flags.writeable = True
    data *= 2.0
    check(f, c)


def test_virtual_arrays_take_the_memory_of_their_bases():
    """Nothing of 24 GB is copied."""
    big = np.broadcast_to(rows(1), (10**9, 3))
    (kept,) = [one for one in names_read(misfit(big))._found if isinstance(one, Snapshot)]
    assert len(kept.value) == 24


def test_bits_are_compared():
    data = np.zeros(1000)
    f = lambda w: np.sum(np.arctan2(data[0], w))
    c = tg.compile(f)
    for value in (0.0, -0.0, np.nan, np.nan, np.inf):
        data[0] = value
        for w in (-W, W):
            np.testing.assert_array_equal(c(w), f(w))
    assert programs(c) == 1 and c._reason is None


@pytest.mark.usefixtures("not_entered")  # entered, it has a graph
def test_data_that_changes_at_each_call_is_read_at_each_call():
    """Of a batch, say: results are right, and in the end a warning says what to do."""
    batch = rows(LARGE)
    f = misfit(batch)
    c = tg.compile(f)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(40):
            batch[...] = rows(LARGE)
            same(c.value_and_grad(W), tg.value_and_grad(f)(W))
    (warning,) = seen
    assert "data, which it reads, changes at nearly every call; pass it as an argument" in str(
        warning.message
    )


@needs("numba-reader")
@pytest.mark.parametrize("n", [3, LARGE])
def test_a_graph_reads_data_that_changes_at_each_call(n):
    data = rows(n)

    def f(w):
        total = 0.0
        for k in range(3):
            total = total + (data[k, 0] * w[k] if w[k] > 0 else data[k, 1] * w[k] ** 2)
        return total

    c = tg.compile(f)
    for k in range(40):
        w = RNG.normal(size=3)
        same(c.value_and_grad(w), tg.value_and_grad(f)(w))
        data[k % 3] += 1.0
    assert "a graph of" in c.explain() and c._reason is None


@counts
def test_an_array_that_the_function_writes_to():
    scratch = np.zeros(LARGE * 3)

    def f(w):
        scratch[:3] = scratch[:3] + 1.0
        return np.sum(w * w)

    c = tg.compile(f)
    for _ in range(4):
        assert c(W) == f(W)
    assert programs(c) == 1 and c._reason is None


@pytest.mark.parametrize("rest", [0, 1, 7, 8, 9, 63, 64, 65])
def test_hashes_tell_arrays_apart(rest):
    """Bytes that differ in one place, words that change places, signs that change by twos."""
    a = RNG.integers(0, 255, size=SMALL + 64 + rest, dtype=np.uint8)
    before, same_elements = contents(a), contents(a.copy())
    assert before == same_elements and not isinstance(before, bytes)
    for place in (0, 1, 8, SMALL // 2, -9, -8, -1, *RNG.integers(0, a.size, size=50)):
        a[place] ^= 1 << (place % 8)
        assert contents(a) != before
        a[place] ^= 1 << (place % 8)
    words = a[: SMALL // 8 * 8].view(np.uint64)
    for i, j in [(0, 1), (0, 8), (1, 8001), (5, -3), *RNG.integers(0, len(words), size=(50, 2))]:
        words[[i, j]] = words[[j, i]]
        assert contents(a) != before or words[i] == words[j]
        words[[i, j]] = words[[j, i]]
        words[[i, j]] ^= np.uint64(1 << 63)
        assert contents(a) != before or i == j
        words[[i, j]] ^= np.uint64(1 << 63)
    assert contents(a) == before
    for changed in (-a, a[::-1].copy(), np.zeros_like(a), np.full_like(a, 255)):
        assert contents(changed) != before
    assert contents(np.zeros(SMALL + 8)) != contents(np.zeros(SMALL + 16))


# --- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 300, LARGE])
def test_tensors(n):
    t = tg.tensor(rows(n))
    f = lambda w: np.sum(np.sin(t @ w) ** 2)
    c = tg.compile(f)
    check(f, c)
    t[0, 1] = 3.0
    check(f, c)
    t *= 0.5
    check(f, c)
    t.numpy()[-1] = 1.0
    check(f, c)
    assert programs(c) == 1


def test_complex_tensors_and_numbers():
    z, s = tg.tensor(rows(100)[:, 0] + 1j), tg.tensor(2.0)
    f = lambda w: np.sum(np.abs(z[:3] * w) ** 2) * s
    c = tg.compile(f)
    check(f, c)
    z[1] = 4.0 - 2.0j
    check(f, c)
    s[...] = 5.0
    check(f, c)
    assert programs(c) == 1


@pytest.mark.parametrize("way", ["requires_grad", "written"])
def test_a_tensor_that_is_recorded_later(way):
    t = tg.tensor(np.ones(3))
    f = lambda w: np.sum(w * t)
    c = tg.compile(f)
    for _ in range(3):
        assert c(W) == 1.5
    if way == "requires_grad":
        t.requires_grad = True
        leaf, wanted = t, W
    else:
        leaf = tg.tensor(3.0, requires_grad=True)
        t[1], wanted = leaf, -1.0
    with pytest.warns(RuntimeWarning, match="reads a recorded tensor that is not an argument"):
        c(W).backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), wanted)


# --- in other objects -----------------------------------------------------------------------------


class Model:
    def __init__(self, n):
        self.data, self.layers = rows(n), [rows(n), (rows(n), {"last": tg.tensor(rows(n))})]

    def loss(self, w):
        first, (second, named) = self.layers
        return sum(np.sum((one @ w) ** 2) for one in (self.data, first, second, named["last"]))


MODEL = Model(400)


def test_arrays_in_objects_and_containers():
    f = lambda w: MODEL.loss(w)
    c = tg.compile(f)
    check(f, c)
    for array in (MODEL.data, MODEL.layers[0], *MODEL.layers[1][:1], MODEL.layers[1][1]["last"]):
        array[300, 2] = 9.0
        check(f, c)
    assert programs(c) == 1


def test_arrays_of_objects_of_libraries():
    sparse = scipy.sparse.csr_array(np.eye(500)[:, :3])
    spline = scipy.interpolate.BSpline(np.arange(205.0), RNG.normal(size=201), 3)
    masked = np.ma.masked_array(rows(400)[:, 0], np.zeros(400, bool))
    f = lambda w: np.sum((sparse @ np.ones(3))[:3] * w * spline(10.5)) * masked.sum()
    c = tg.compile(f)
    check(f, c)
    sparse.data[0] = 4.0
    check(f, c)
    spline.c[:] *= 2.0
    check(f, c)
    masked[3] = 100.0
    check(f, c)
    masked.mask[3] = True
    check(f, c)
    assert programs(c) == 1


def test_arrays_of_objects_in_slots_and_in_objects_of_libraries():
    turns = scipy.spatial.transform.Rotation.from_rotvec(np.diag([0.1, 0.5, 2.0]))
    turning = scipy.spatial.transform.RotationSpline([0.0, 1.0, 2.0], turns)
    spline = scipy.interpolate.CubicSpline(np.arange(5.0), RNG.normal(size=5))
    f = lambda w: np.sum(w * turning(0.5).as_rotvec()) * spline(1.5)
    c = tg.compile(f)
    check(f, c)
    turning.interpolator.c[:] *= 0.5
    check(f, c)
    spline.c[:] *= 2.0
    check(f, c)
    assert programs(c) == 1


def test_optimization_after_data_was_replaced():
    import scipy.optimize

    x, y = rows(2000), RNG.normal(size=2000)
    c = tg.compile(lambda w: np.sum((x @ w - y) ** 2))
    for _ in range(3):
        found = scipy.optimize.minimize(c.value_and_grad, W, jac=True).x
        np.testing.assert_allclose(found, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-5)
        y[:] = RNG.normal(size=2000)
        x[::7] = rows(len(x[::7]))
