"""A write that is refused leaves everything as it was: the tensor, the tape, later gradients."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tape.tape import extract

V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])
PACKED = np.dtype([("flag", "i1"), ("x", "f8")])


def in_packed_memory(values):
    memory = np.zeros(len(values), PACKED)
    memory["x"] = values
    return tg.asarray(memory["x"])


def ended(x, y, z):
    """Gradients of a recording whose writes were refused are those without them."""
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * V)
    np.testing.assert_array_equal(y.detach().numpy(), V)


UNFIT = {
    "complex": 1j,
    "text": "a",
    "object": object(),
    "array of text": np.array(["a"]),
    "too large": 10**400,
    "shape": np.ones(7),
    "ragged": [1.0, [2.0, 3.0]],
}
KEYS = {"element": 0, "slice": slice(None), "picked": [0, 1], "mask": V > 0, "all": ...}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT)
def test_of_what_is_no_number(key, value):
    x = tg.tensor(V, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    rows = len(extract([z._id]).rows)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        y[key] = value
    assert len(extract([z._id]).rows) == rows
    ended(x, y, z)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT)
def test_to_an_input(key, value):
    """What had read the input before can still be swept."""
    x = tg.tensor(V, requires_grad=True)
    z = (x * x).sum()
    with tg.no_grad(), pytest.raises((TypeError, ValueError, OverflowError)):
        x[key] = value
    ended(x, x, z)


@pytest.mark.parametrize("key", ["out of bounds", "too many", "slice"])
def test_with_a_key_that_is_refused(key):
    key = {"out of bounds": 5, "too many": (0, 0), "slice": (slice(None), 1)}[key]
    x = tg.tensor(V, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    with pytest.raises(IndexError):
        y[key] = 1.0
    with tg.no_grad(), pytest.raises(IndexError):
        x[key] = 1.0
    ended(x, y, z)


UNRECORDABLE = {
    "integer": lambda: tg.tensor(3),
    "integers": lambda: tg.zeros(5, dtype=int),
    "booleans": lambda: tg.zeros(5, dtype=bool),
    "float16": lambda: tg.zeros(5, dtype=np.float16),
    "longdouble": lambda: tg.zeros(5, dtype=np.longdouble),
    "other byte order": lambda: tg.zeros(5, dtype=np.dtype(float).newbyteorder()),
    "packed": lambda: in_packed_memory(np.zeros(5)),
}


@pytest.mark.parametrize("make", UNRECORDABLE.values(), ids=UNRECORDABLE)
def test_of_a_recorded_value(make):
    """The tensor stays one that is not recorded, and can be used as such."""
    x, t = tg.tensor(V, requires_grad=True), make()
    before = t.numpy().copy()
    view = t[...]
    with pytest.raises((TypeError, ValueError), match="tapegrad.setitem"):
        t[...] = x[0]
    with pytest.raises((TypeError, ValueError), match="tapegrad.setitem"):
        view[...] = x[1] * 2.0
    assert not t.requires_grad and not view.requires_grad
    np.testing.assert_array_equal(t.numpy(), before)
    gradient = tg.grad(np.sum)(t.numpy().astype(float))
    np.testing.assert_array_equal(tg.compile(np.sum).grad(t.numpy().astype(float)), gradient)
    t[...] = 1
    np.testing.assert_array_equal(view.numpy(), np.ones_like(before))


def test_the_compiled_gradient_of_an_integer_that_was_nearly_written():
    t, v = tg.tensor(V, requires_grad=True), tg.tensor(3)
    with pytest.raises(TypeError, match="int64"):
        v[...] = t[0]
    assert tg.compile(np.sum).grad(v) == 1.0


def test_of_a_read_only_view():
    x = tg.tensor(V, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    wide = np.broadcast_to(y, (3, 5))
    for value in (1.0, x, x[0], V):
        with pytest.raises(ValueError, match="read-only"):
            wide[...] = value
        with pytest.raises(ValueError, match="read-only"):
            wide[0, 0] = 1.0
    ended(x, y, z)


def test_of_an_input_while_operations_are_recorded():
    x = tg.tensor(V, requires_grad=True)
    z = (x * x).sum()
    for value in (1.0, x[0], V, x * 2.0):
        for key in KEYS.values():
            if np.size(value) > 1 and not isinstance(key, (slice, type(...))):
                continue
            with pytest.raises(RuntimeError, match="an input that requires grad"):
                x[key] = value
    with pytest.raises(RuntimeError, match="an input that requires grad"):
        x += 1.0
    with pytest.raises(RuntimeError, match="an input that requires grad"):
        np.multiply(x, 2.0, out=x)
    ended(x, x, z)


def test_of_a_result_without_recording():
    x = tg.tensor(V, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    with tg.no_grad():
        for key in KEYS.values():
            with pytest.raises(RuntimeError, match="inside no_grad"):
                y[key] = 1.0
        with pytest.raises(RuntimeError, match="inside no_grad"):
            y += 1.0
    ended(x, y, z)


IN_PLACE = {
    "add": lambda t: t.__iadd__(0.5),
    "multiply": lambda t: t.__imul__(tg.tensor(0.5, requires_grad=True)),
    "divide": lambda t: t.__itruediv__(2),
    "part": lambda t: t[:2].__isub__(0.5),
    "out": lambda t: np.add(t, 0.5, out=t),
    "matmul": lambda t: t.reshape(1, -1).__imatmul__(np.eye(t.size)),
}


@pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE)
def test_of_a_result_that_would_be_cut(write):
    """NumPy refuses to write floats to integers in place, other than by assignment."""
    t = tg.tensor([1, 2, 3])
    with pytest.raises((TypeError, ValueError)):
        write(t)
    np.testing.assert_array_equal(t.numpy(), [1, 2, 3])
    t //= 2
    t *= 3
    np.testing.assert_array_equal(t.numpy(), [0, 3, 3])


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_of_a_derivative_to_a_dtype_without(dtype):
    x = tg.tensor(V, requires_grad=True)
    z = (x * x).sum()
    for call in (
        lambda: x.astype(dtype),
        lambda: np.sum(x, dtype=dtype),
        lambda: np.concatenate([x, x], dtype=dtype),
    ):
        with pytest.raises(TypeError, match="float64 and float32"):
            call()
    ended(x, x, z)


def test_inputs_in_memory_that_compiled_code_cannot_read():
    other = np.dtype(float).newbyteorder()
    x = tg.tensor(V.astype(other), requires_grad=True)  # a copy: it can be converted
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * V)
    with pytest.raises(TypeError, match="can require grad"):
        tg.asarray(V.astype(other)).requires_grad_()
    with pytest.raises(ValueError, match="elements are not aligned"):
        in_packed_memory(V).requires_grad_()
    packed = np.zeros(5, PACKED)
    packed["x"] = V
    x = tg.asarray(packed["x"], requires_grad=True)
    (x[1] * x[2]).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, V[2], V[1], 0, 0])


# --- Functions ------------------------------------------------------------------------------------


def function_of(body, mark=True):
    class Doubled(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x *= 2.0
            if mark:
                ctx.mark_dirty(x)
            return body(ctx, x)

        @staticmethod
        def backward(ctx, gradient):
            return 2.0 * gradient

    return Doubled


def fails(ctx, x):
    raise KeyError("no")


REFUSED = {
    "exception": (function_of(fails), KeyError),
    "not returned": (function_of(lambda ctx, x: x * 1.0), RuntimeError),
    "not marked": (function_of(lambda ctx, x: x * 1.0, mark=False), RuntimeError),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("recording", [True, False])
def test_of_a_function(name, recording):
    doubled, error = REFUSED[name]
    x = tg.tensor(V, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    with tg.set_grad_enabled(recording), pytest.raises(error):
        doubled.apply(y)
    ended(x, y, z)


def test_of_a_function_to_what_may_not_be_written():
    doubled = function_of(lambda ctx, x: x)
    x = tg.tensor(V, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    with pytest.raises(RuntimeError, match="an input that requires grad"):
        doubled.apply(x)
    with tg.no_grad(), pytest.raises(RuntimeError, match="inside no_grad"):
        doubled.apply(y)
    np.testing.assert_array_equal(x.detach().numpy(), V)
    ended(x, y, z)


def test_of_a_function_to_an_input_without_recording_is_seen():
    x = tg.tensor(V, requires_grad=True)
    z = (x * x).sum()
    with tg.no_grad():
        assert function_of(lambda ctx, x: x).apply(x) is x
    np.testing.assert_allclose(x.detach().numpy(), 2 * V)
    with pytest.raises(RuntimeError, match="an input was written in place"):
        z.backward()
