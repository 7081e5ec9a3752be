"""Values that leave the tape: detach, plain arrays, Python's numbers."""

import math
import re

import numpy as np
import pytest
from assumed import needs

import tapegrad as tg


def leaf(value=(1.0, 2.0, 3.0)):
    return tg.tensor(value, requires_grad=True)


def test_detach_shares_memory_and_stops_the_derivative():
    x = leaf()
    y = x * 2.0
    d = y.detach()
    assert not d.requires_grad and np.shares_memory(d.numpy(), y._array)
    (d * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_item_tolist_numpy():
    x = leaf()
    assert type(x[1].item()) is float and x[1].item() == 2.0
    assert x.item(2) == 3.0 and x.tolist() == [1.0, 2.0, 3.0]
    assert x.detach().numpy().tolist() == [1.0, 2.0, 3.0]
    plain = np.arange(3.0)
    shared = tg.asarray(plain).numpy()
    assert np.shares_memory(shared, plain) and shared.shape == plain.shape
    assert not np.shares_memory(tg.tensor(plain).numpy(), plain)


def test_numpy_of_a_recorded_tensor():
    text = (
        "^tapegrad.numpy: the tensor is recorded, so its derivative would be lost; use "
        r"detach\(\).numpy\(\)$"
    )
    for y in (leaf(), leaf() * 2.0, leaf()[0]):
        with pytest.raises(RuntimeError, match=text):
            y.numpy()


NO_ARRAY = (
    "^tapegrad: a recorded tensor cannot become a plain NumPy array, since its derivative would be "
    r"lost \(.*test_leaving.py:\d+\); `import tapegrad.numpy as np` in place of "
    r"`import numpy as np` keeps it, in lists, conversions and arrays that are filled; or use "
    r"t.detach\(\).numpy\(\) if no derivative is needed$"
)


NOT_WRITTEN = (
    r"^tapegrad{}: a recorded tensor cannot be written to a plain NumPy array "
    r"\(.*test_leaving.py:\d+\), since its derivative would be lost; make the array with `import "
    "tapegrad.numpy as np` in place of `import numpy as np`, or with tg.zeros_like, or write "
    r"t.detach\(\) if no derivative is needed$"
)


@pytest.mark.parametrize("take", [lambda x: x, lambda x: x * 2.0, lambda x: x[0], lambda x: x[:2]])
def test_a_recorded_tensor_does_not_become_a_plain_array(take):
    y = take(leaf())
    for leave in (np.asarray, np.array, lambda y: np.ones(3) + [y, y, y][0].__array__()):
        with pytest.raises(TypeError, match=NO_ARRAY):
            leave(y)


@needs("cpython-bytecode")
def test_a_recorded_tensor_is_not_written_into_a_plain_array():
    plain, x = np.zeros(3), leaf()
    with pytest.raises(TypeError, match=NOT_WRITTEN.format("")):
        plain[:] = x
    with pytest.raises(TypeError, match=NOT_WRITTEN.format("")):
        plain[[0, 1]] = x[1:]
    with pytest.raises(TypeError, match=NOT_WRITTEN.format(".sin: out=")):
        np.sin(x, out=plain)
    with pytest.raises(TypeError):
        plain += x
    assert plain.tolist() == [0.0, 0.0, 0.0]


def store(a, t):
    a[0] = t


def store_in_a_loop(a, t):
    """The interpreter replaces an instruction that it runs often."""
    for value in [0.0] * 200 + [t]:
        a[0] = value


def store_with_others(a, t):
    a[1], a[0] = 1.0, t


def store_without_axes(a, t):
    a[:1].reshape(())[()] = t


def add_to_element(a, t):
    a[0] += t


STORES = [store, store_in_a_loop, store_with_others, store_without_axes, add_to_element]
NUMBERS = {"input": lambda: leaf(2.0), "scalar": lambda: leaf()[1], "0-d": lambda: leaf().sum()}


@needs("cpython-bytecode")
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("write", STORES, ids=lambda write: write.__name__)
def test_a_recorded_number_is_not_written_into_a_plain_array(write, number):
    for plain in (np.zeros(3), np.zeros(3, np.float32), np.zeros(3, int)):
        with pytest.raises(TypeError) as raised:
            write(plain, number())
        assert re.fullmatch(NOT_WRITTEN.format(""), str(raised.value))
        assert plain[0] == 0


def test_what_loses_no_derivative_is_written_into_a_plain_array():
    plain, t = np.zeros(3), leaf()[1]
    plain[0], plain[1], plain[2] = tg.tensor(4.0), t.item(), t.detach()
    assert plain.tolist() == [4.0, 2.0, 2.0]
    with tg.no_grad():
        plain[0] = t
    assert plain[0] == 2.0
    objects = np.empty(1, object)
    objects[0] = t
    assert objects[0] is t
    mask = np.zeros(1, bool)
    mask[0] = t
    assert mask[0]


FROM_NUMBERS = {
    "array": lambda t: np.array(t),
    "array of a list": lambda t: np.array([t, t]),
    "array of a list with a dtype": lambda t: np.array([1.0, t], float),
    "asarray of rows": lambda t: np.asarray([[t, 1.0], [1.0, t]]),
    "full": lambda t: np.full(3, t),
    "list into a slice": lambda t: np.zeros(3).__setitem__(slice(0, 2), [t, t]),
    "into a slice": lambda t: np.zeros(3).__setitem__(slice(0, 2), t),
    "by mask": lambda t: np.zeros(3).__setitem__(np.array([True, False, True]), t),
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("make", FROM_NUMBERS.values(), ids=FROM_NUMBERS)
def test_no_plain_array_is_made_of_recorded_numbers(make, number):
    with pytest.raises(TypeError, match=NO_ARRAY):
        make(number())


def test_a_flat_view_refuses_a_recorded_number():
    """NumPy puts its own error in place of ours."""
    plain = np.zeros(3)
    with pytest.raises(ValueError):
        plain.flat[0] = leaf()[0]
    assert plain.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "call",
    [lambda t: np.zeros(3).fill(t), lambda t: np.zeros(3).__setitem__(0, t), np.float64],
    ids=["fill", "__setitem__", "float64"],
)
def test_calls_that_ask_for_a_float_warn(call):
    with pytest.warns(RuntimeWarning, match=r"^float\(\) of a recorded tensor loses its deriv"):
        call(leaf()[0])


def test_an_array_is_no_number():
    text = (
        r"^tapegrad: (float|int)\(\) needs a tensor with one element; the tensor has shape \(3,\)"
    )
    for take in (float, int, math.sin, lambda x: np.zeros(3).__setitem__(0, x)):
        with pytest.raises(TypeError, match=text + "$"):
            take(leaf())


@pytest.mark.parametrize("take", [float, int, math.sin, math.floor])
def test_python_numbers_warn_and_name_the_line(take):
    x = leaf()[1]
    with pytest.warns(RuntimeWarning, match="of a recorded tensor loses its derivative") as seen:
        take(x)
    (one,) = seen
    assert one.filename == __file__ and "test_leaving.py:" in str(one.message)
    assert "use tg.stop_gradient() if this is intended, or NumPy's functions" in str(one.message)


def test_python_numbers_of_what_is_not_recorded_are_silent():
    assert float(tg.tensor(1.5)) == 1.5 and math.sin(tg.tensor(0.0)) == 0.0
    with tg.no_grad():
        assert float(leaf()[0]) == 1.0
