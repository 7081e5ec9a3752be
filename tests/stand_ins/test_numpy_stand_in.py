"""`import tapegrad.numpy as np`: NumPy outside of transforms, tensors inside."""

import threading

import numpy
import pytest
from assumed import needs
from declared import close
from stand_in import X, both

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad._core.tensor.values import is_tensor

#: Functions of a vector of three positive numbers, by what they show.
FORMS = {
    "zeros then fill": lambda x: filled(np.zeros(3), x),
    "empty then fill": lambda x: filled(np.empty(3), x),
    "ones_like then fill": lambda x: filled(np.ones_like(numpy.arange(3.0)), x),
    "full": lambda x: np.sum(np.full((2, 2), x[0]) * x[1]),
    "full of a list": lambda x: np.sum(np.full((2, 3), [x[0], x[1], 2.0]) ** 2),
    "full_like": lambda x: np.sum(np.full_like(numpy.ones(3), x[0]) * x),
    "array of numbers": lambda x: np.sum(np.array([x[0] * x[1], 1.0, x[2]]) ** 2),
    "array of rows": lambda x: np.sum(np.array([[x[0], 1.0], [2, x[1]]]) @ np.array([x[2], 1.0])),
    "array of arrays": lambda x: np.sum(np.array([x, x * x, [1, 2, 3]])[1:] ** 2),
    "array of tuples in a list": lambda x: np.sum(np.array([(x[0], 1), (x[1], x[2])]) ** 2),
    "array, ndmin": lambda x: np.sum(np.array([x[0], x[1]], ndmin=3)[0, 0] ** 2),
    "array, dtype": lambda x: np.sum(np.array([x[0], 3], dtype=np.float64) ** 2),
    "array in Fortran order": lambda x: np.sum(np.array([x, x], order="F")[:, 0] ** 2),
    "a copy is apart": lambda x: written_copy(x),
    "asarray": lambda x: np.sum(np.asarray(x, dtype=float) ** 2),
    "asarray of a list": lambda x: np.sum(np.asarray([x[0], x[1]], float) ** 2),
    "asarray of a deque": lambda x: np.sum(np.asarray(__import__("collections").deque(x)) ** 2),
    "array of ranges": lambda x: np.sum(np.array([x, range(3), (1, x[0], 2)]) ** 2),
    "an array of objects": lambda x: np.sum(np.asarray(objects(x), dtype=float) ** 2),
    "asanyarray": lambda x: np.sum(np.asanyarray(x) ** 2),
    "ascontiguousarray": lambda x: np.sum(np.ascontiguousarray(x[::-1])[:2] ** 2),
    "asfortranarray": lambda x: np.sum(np.asfortranarray([x, x])[0] ** 2),
    "asarray_chkfinite": lambda x: np.sum(np.asarray_chkfinite(x) ** 2),
    "require": lambda x: np.sum(np.require(x, float, ["C", "O"])[1:] ** 2),
    "fromiter": lambda x: np.sum(np.fromiter((t * t for t in x), float)),
    "fromiter of some": lambda x: np.sum(np.fromiter((t * t for t in x), float, 2)),
    "r_": lambda x: np.sum(np.r_[x, 1.0, 0:5, x[0] : x[0] + 2.0 : 3j] ** 2),
    "r_ of rows": lambda x: np.sum(np.r_["0,2", x, [1, 2, x[0]]] ** 3),
    "r_ along the last axis": lambda x: np.sum(np.r_["-1", x[None], [[x[0]]]] ** 3),
    "c_": lambda x: np.sum(np.c_[x, x * x, [1, 2, 3]] ** 2),
    "c_ of a matrix": lambda x: np.sum(np.c_[np.array([x, x]), [x[0], 1.0]] ** 2),
    "linspace": lambda x: np.sum(np.linspace(0, x[0], 7) ** 2 * np.linspace([x[1]], 1.0, 7)[:, 0]),
    "geomspace": lambda x: np.sum(np.geomspace(x[0], 10.0, 4)),
    "logspace": lambda x: np.sum(np.logspace(0.0, x[0], 4)),
    "arange": lambda x: np.sum(np.arange(x[0], x[0] + 2.6, 0.5) ** 2),
    "log of a list": lambda x: np.sum(np.log([x[0], 2.0, x[1]])),
    "sum of a list": lambda x: np.sum([t * t for t in x]),
    "mean of nested lists": lambda x: np.sum(np.mean([[x[0], x[1]], [1, x[2]]], axis=1) ** 2),
    "max of a list": lambda x: np.max([t * t for t in x]) + np.minimum([x[0]], x[1])[0],
    "keyword": lambda x: np.sum(a=[x[0], x[1]], axis=0),
    "dot of lists": lambda x: np.dot([x[0], 1.0], [2.0, x[1]]),
    "reduce": lambda x: np.multiply.reduce([x[0], x[1], 2.0]),
    "outer": lambda x: np.sum(np.multiply.outer([x[0], 1.0], x) ** 2),
    "where": lambda x: np.sum(np.where([True, False], [x[0], x[1]], 3.0) ** 2),
    "concatenate": lambda x: np.sum(np.concatenate([[x[0], x[1]], [3.0], x]) ** 2),
    "stack": lambda x: np.sum(np.stack([[x[0], 1.0], [x[1], x[2]]], axis=1) ** 2),
    "vstack": lambda x: np.sum(np.vstack([x, [x[0], 1, 2]]) ** 2),
    "hstack": lambda x: np.sum(np.hstack([[x[0]], [x[1], 2]]) ** 2),
    "norm": lambda x: np.linalg.norm([x[0], x[1]]),
    "solve": lambda x: np.sum(np.linalg.solve([[x[0], 0.1], [0.2, x[1]]], [1.0, x[2]])),
    "eye then fill": lambda x: diagonal(np.eye(3), x),
    "identity then fill": lambda x: diagonal(np.identity(3), x),
    "tile then fill": lambda x: filled(np.tile(0.0, 3), x),
    "repeat then fill": lambda x: filled(np.repeat(0.5, 3), x),
    "copy then fill": lambda x: filled(np.copy(numpy.arange(3.0)), x),
    "concatenate then fill": lambda x: filled(np.concatenate([[0.0], numpy.ones(2)]), x),
    "ndarray then fill": lambda x: filled(np.ndarray(3), x),
    "fromfunction then fill": lambda x: filled(np.fromfunction(lambda i: i * 1.0, (3,)), x),
    "array then fill": lambda x: filled(np.array([1.0, 2.0, 3.0]), x),
    "slices": lambda x: sliced(np.zeros((3, 4)), x),
    "masks": lambda x: masked(np.ones(3), x),
    "float64": lambda x: np.float64(x[0]) * np.float64(3) + np.double(x[1]),
    "float64 of an array": lambda x: np.sum(np.float64(x) ** 2),
    "float64 of a list": lambda x: np.sum(np.float64([x[0], 2.0]) ** 2),
    "out=": lambda x: into(np.empty(3), x),
    "add.at": lambda x: added(np.zeros(2), x),
    "in place": lambda x: np.sum(accumulated(np.zeros(3), x) ** 2),
    "ndenumerate": lambda x: sum(k * t * t for (k,), t in np.ndenumerate(x)),
    "ndenumerate of a matrix": lambda x: sum(k * t for (_, k), t in np.ndenumerate([x, x * x])),
    "meshgrid": lambda x: np.sum(np.multiply(*np.meshgrid(x, [x[0], 1.0])) ** 2),
    "apply_along_axis": lambda x: np.sum(np.apply_along_axis(lambda r: r * r[0], 0, [x[0], x[1]])),
    "broadcast_arrays": lambda x: np.sum(np.broadcast_arrays([x[0], 1.0], np.ones((2, 2)))[0] ** 2),
    "vectorize": lambda x: np.sum(np.vectorize(lambda t: t * t if t > 1.0 else t)(x)),
    "views then fill": lambda x: through_views(np.zeros((2, 3)), x),
    "interp, clip, percentile": lambda x: (
        np.interp(1.5, [1.0, 2.0], [x[0], x[1]])
        + np.sum(np.clip([x[0], x[1], 5.0], 0.8, [2.0, x[2], 3.0]))
        + np.percentile([x[0], x[1], x[2]], 30)
    ),
    "select, insert, append": lambda x: (
        np.sum(np.select([x > 1.0, x <= 1.0], [x**2, [x[0], x[1], x[2]]]))
        + np.sum(np.insert([1.0, 2.0], 1, x[0]) ** 2)
        + np.sum(np.append([x[0]], x[1]) ** 2)
    ),
    "integers and masks": lambda x: (
        np.sum(x[np.array([np.argmax(x), 0])] ** 2) + np.sum(x[np.array([t > 1.0 for t in x])])
    ),
}


def through_views(a, x):
    """Views of an array that the stand-in has made are views."""
    a.ravel()[1], a.T[0, 1] = x[0], x[2]
    np.reshape(a, (3, 2))[2, 0] = x[1]
    np.asarray(a)[0, 0] = np.asanyarray(a)[0, 1] * 2.0
    np.ascontiguousarray(a)[1, 2] = x[0]
    np.array(a, copy=False)[0, 2] = x[1]
    np.require(a)[1] *= 2.0
    return np.sum(a**2 * np.array([[1.0, 2, 3], [4, 5, 6]]))


def filled(a, x):
    for k in range(3):
        a[k] = x[k] * x[k - 1]
    return np.sum(a[1:] * a[:-1])


def diagonal(a, x):
    for k in range(3):
        a[k, k] += x[k] ** 2
    a[0, 1] = x[2]
    return np.sum(a @ a)


def sliced(a, x):
    a[:, 1] = x
    a[0, 2:] = x[:2] * 2.0
    a[1] *= x[0]
    return np.sum(a**2)


def masked(a, x):
    a[x > 1.0] = 2.0
    a[x <= 1.0] = x[0]
    return np.sum(a * x)


def into(a, x):
    np.multiply(x, x, out=a)
    np.add(a, 1.0, a)
    return np.sum(a**2)


def added(a, x):
    np.add.at(a, [0, 1, 0], x * x)
    np.add.at(a, [0], [x[0]])
    return np.sum(a**2)


def accumulated(a, x):
    for t in x:
        a += t * numpy.arange(3.0)
    return a


def written_copy(x):
    a = np.array(x)
    a[0] = 2.0
    return np.sum(a * x)


def objects(x):
    return numpy.frompyfunc(lambda k: x[k], 1, 1)(numpy.arange(3))


@pytest.mark.parametrize("name", FORMS)
def test_derivatives_eager_and_compiled(name):
    f = FORMS[name]
    value = f(X)
    assert not is_tensor(value)
    assert type(tg.value_and_grad(f)(X)[0]) is float
    close(tg.value_and_grad(f)(X)[0], value)
    both(f)
    inner = tg.grad(lambda x: np.sum(np.sin(tg.grad(f)(x))))(X)
    step = 1e-6 * numpy.eye(3)
    total = lambda x: np.sum(np.sin(tg.grad(f)(x)))
    close(inner, [(total(X + s) - total(X - s)) / 2e-6 for s in step], loose=100.0)


@pytest.mark.parametrize("name", FORMS)
def test_batches(name):
    batch = X * numpy.linspace(0.95, 1.05, 10)[:, None]
    found = tg.vmap(tg.grad(FORMS[name]))(batch)
    close(found, numpy.stack([tg.grad(FORMS[name])(x) for x in batch]))


@pytest.mark.parametrize("name", [n for n in FORMS if n not in ("arange", "an array of objects")])
def test_tensors_of_the_users_own(name):
    """Outside of transforms; arrays that are filled with them are made by `tg.zeros`."""
    if "fill" in name or name in (
        "slices",
        "masks",
        "out=",
        "add.at",
        "in place",
        "a copy is apart",
    ):
        return
    x = tg.tensor(X, requires_grad=True)
    value = FORMS[name](x)
    value.backward()
    close(x.grad.numpy(), tg.grad(FORMS[name])(X))


# --- outside --------------------------------------------------------------------------------------

CREATORS = {
    "zeros": lambda np: np.zeros((2, 3)),
    "zeros, float32": lambda np: np.zeros(3, np.float32, order="F"),
    "zeros, int": lambda np: np.zeros(3, dtype=int),
    "ones": lambda np: np.ones(shape=2),
    "full": lambda np: np.full(3, 2.0),
    "full, int": lambda np: np.full((2, 2), 7, order="F"),
    "full, dtype": lambda np: np.full(3, [1, 2, 3], dtype=float),
    "eye": lambda np: np.eye(2, 3, k=1),
    "identity": lambda np: np.identity(2),
    "tri": lambda np: np.tri(3),
    "arange": lambda np: np.arange(0.0, 1.0, 0.25),
    "arange, int": lambda np: np.arange(5),
    "arange, keywords": lambda np: np.arange(start=1, stop=3, dtype=np.float64),
    "linspace": lambda np: np.linspace(0.0, 1.0, 3, retstep=True),
    "logspace": lambda np: np.logspace(0, 1, 3),
    "geomspace": lambda np: np.geomspace(1, 8, 4),
    "array": lambda np: np.array([[1.0, 2], [3, 4]]),
    "array, int": lambda np: np.array([1, 2], ndmin=2),
    "array, bool": lambda np: np.array([True]),
    "array, text": lambda np: np.array(["a", "b"]),
    "array, objects": lambda np: np.array([None, 1.0]),
    "array, nothing": lambda np: np.array([]),
    "asarray": lambda np: np.asarray([1, 2], dtype=float),
    "asarray, number": lambda np: np.asarray(2.5),
    "copy": lambda np: np.copy(numpy.ones(2)),
    "fromiter": lambda np: np.fromiter(range(3), float),
    "fromfunction": lambda np: np.fromfunction(lambda i, j: i + j, (2, 2)),
    "fromstring": lambda np: np.fromstring("1 2", sep=" "),
    "vander": lambda np: np.vander([1.0, 2.0, 3.0], 3),
    "meshgrid": lambda np: np.meshgrid([1.0, 2.0], [3.0, 4.0, 5.0]),
    "meshgrid, int": lambda np: np.meshgrid([1, 2], [3, 4, 5]),
    "mgrid": lambda np: np.mgrid[0:1:3j],
    "ogrid": lambda np: list(np.ogrid[0:2, 0:1:3j]),
    "indices": lambda np: np.indices((2, 2)),
    "r_": lambda np: np.r_[1.0, 2.0:4.0, [5, 6]],
    "c_": lambda np: np.c_[[1.0, 2.0], [3.0, 4.0]],
    "tile": lambda np: np.tile([0.0, 1.0], 2),
    "empty_like": lambda np: np.empty_like(numpy.ones(3)).shape,
    "ndarray": lambda np: np.ndarray((2,), int).dtype,
    "float64": lambda np: np.float64(3),
    "float64, text": lambda np: np.float64("1.5"),
    "int64": lambda np: np.int64(3.7),
    "hanning": lambda np: np.hanning(5),
}


def leaves(made):
    return (
        [leaf for part in made for leaf in leaves(part)] if type(made) in (tuple, list) else [made]
    )


def equal(found, wanted):
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        assert type(a) is type(b)
        if isinstance(b, numpy.ndarray):
            assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        numpy.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CREATORS)
def test_outside_of_transforms_arrays_are_numpys(name):
    equal(CREATORS[name](np), CREATORS[name](numpy))


@pytest.mark.parametrize("name", CREATORS)
def test_inside_arrays_of_floats_are_tensors(name):
    def f(x):
        made, wanted = leaves(CREATORS[name](np)), leaves(CREATORS[name](numpy))
        for a, b in zip(made, wanted, strict=True):
            is_float = isinstance(b, numpy.ndarray) and b.dtype in (np.float64, np.float32)
            assert is_tensor(a) == is_float, (a, b)
            equal(a.numpy() if is_float else a, b)
        return x * 1.0

    tg.grad(f)(1.0)
    tg.jvp(f, (1.0,), (1.0,))
    tg.compile(f, verify="never").grad(1.0)


def test_other_threads_are_outside():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(np.zeros(2)))
        thread.start()
        thread.join()
        seen.append(np.zeros(2))
        return x * 1.0

    tg.grad(f)(1.0)
    assert [is_tensor(a) for a in seen] == [False, True] and not is_tensor(np.zeros(2))


def test_an_error_inside_leaves_the_transform():
    with pytest.raises(ZeroDivisionError):
        tg.grad(lambda x: 1 // 0)(1.0)
    assert not is_tensor(np.zeros(2))


@needs("cpython-bytecode")
def test_memory_of_others_stays_plain():
    """A write with a derivative to a second name of it would not be seen by the first."""
    data = numpy.arange(3.0)

    def f(x):
        assert np.asarray(data) is data and not is_tensor(np.ascontiguousarray(data[1:]))
        a = np.asarray(data)
        a[0] = x
        return x

    with pytest.raises(TypeError, match=r"cannot be written .*copy it there with np.array\(a\)"):
        tg.grad(f)(1.0)
    assert data[0] == 0.0


class Holder:
    """An object of a user's that gives the array it holds."""

    def __init__(self):
        self.array = numpy.arange(3.0)

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_memory_that_functions_share_stays_plain():
    holder, data = Holder(), numpy.arange(3.0)

    def f(x):
        shared = np.asarray(holder), np.array(holder, copy=None), np.asarray(memoryview(data))
        sparse = np.meshgrid(data, data, sparse=True, copy=False)
        assert not any(map(is_tensor, (*shared, *sparse, np.diag(np.outer(data, data).copy()))))
        assert is_tensor(np.array(holder)) and is_tensor(np.asarray(data, np.float32))
        return x * 1.0

    tg.grad(f)(1.0)


def test_what_outlives_a_recording_is_as_a_plain_array():
    kept = []

    def f(x):
        kept.extend([np.zeros(3), np.array([1.0, 2.0, 3.0])])
        return x * 1.0

    tg.grad(f)(1.0)
    zeros, a = kept
    plain = numpy.array([1.0, 2.0, 3.0])
    assert isinstance(a, np.ndarray) and not isinstance(a, np.float64)
    equal(np.asarray(a), plain)
    plain += a
    a += plain
    zeros[0], zeros[1:] = 4.0, a[1:]
    assert plain.tolist() == [2.0, 4.0, 6.0] and zeros.tolist() == [4.0, 6.0, 9.0]
    assert [float(t) for t in np.nditer([a])] == a.tolist() and np.broadcast(a, 1).shape == (3,)
    assert numpy.fft.fft(a).shape == (3,) and numpy.linalg.det(numpy.outer(a, a) + numpy.eye(3)) > 0
