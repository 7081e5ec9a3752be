"""Recorded tensors are float64 and float32: what would make another of them raises by name."""

import numpy as np
import pytest

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9])
OTHERS = [np.float16, np.longdouble, object, ">f8", ">f4", "U5", "M8[s]"]
CONVERSIONS = {
    "astype": lambda x, d: x.astype(d),
    "astype of a number": lambda x, d: x[0].astype(d),
    "sum": lambda x, d: np.sum(x, dtype=d),
    "mean": lambda x, d: np.mean(x, dtype=d),
    "cumsum": lambda x, d: np.cumsum(x, dtype=d),
    "ufunc": lambda x, d: np.add(x, 1.0, dtype=d),
    "tensor": lambda x, d: tg.tensor(x, dtype=d),
    "asarray": lambda x, d: tg.asarray(x, dtype=d),
    "full_like": lambda x, d: np.full_like(x, x[0], dtype=d),
    "full": lambda x, d: tg.full(3, x[0], dtype=d),
    "linspace": lambda x, d: np.linspace(x[0], 1.0, 3, dtype=d),
    "concatenate": lambda x, d: np.concatenate([x, x], dtype=d, casting="unsafe"),
    "stack": lambda x, d: np.stack([x, x], dtype=d, casting="unsafe"),
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
@pytest.mark.parametrize("dtype", OTHERS, ids=lambda d: np.dtype(d).str)
def test_conversions_to_other_dtypes_are_refused(dtype, convert):
    def f(x):
        convert(x, dtype)
        return np.sum(x)

    with pytest.raises(TypeError):
        tg.grad(f)(V)


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_whole_numbers_have_no_derivative_and_floats_keep_it(convert):
    def f(x, dtype):
        return np.sum(convert(x * x, dtype) * 1.0)

    for dtype, tolerance in (("f4", 1e-6), ("f8", 1e-13)):
        try:
            found = tg.grad(lambda x, d=dtype: f(x, d))(V)
        except TypeError as error:  # concatenate and stack have no casting=
            assert "casting" in str(error)
            continue
        ends = [[f(V + sign * step, "f8") for step in 1e-6 * np.eye(3)] for sign in (1, -1)]
        wanted = (np.array(ends[0]) - ends[1]) / 2e-6
        np.testing.assert_allclose(found, wanted, rtol=max(tolerance, 1e-7), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, ">f8", ">f4"])
def test_no_input_is_of_another_dtype(dtype):
    array = np.arange(3).astype(dtype)
    if array.dtype.itemsize in (4, 8):  # the other byte order alone is converted
        assert tg.tensor(array, requires_grad=True).dtype.isnative
    else:
        with pytest.raises(TypeError, match="only float64 and float32 can require grad"):
            tg.tensor(array, requires_grad=True)
    with pytest.raises(TypeError):
        tg.zeros(3, dtype=dtype, requires_grad=True)
    with pytest.raises(TypeError, match="has dtype"):
        tg.grad(np.sum)(array)


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, ">f8", ">f4", object])
@pytest.mark.parametrize("key", [0, slice(None), [0, 0, 1], ..., "at"], ids=str)
def test_no_buffer_of_another_dtype_is_written(dtype, key):
    def f(x):
        y = np.zeros_like(x, dtype=dtype)
        with pytest.raises(TypeError):
            if key == "at":
                np.add.at(y, [0, 0, 1], x)
            else:
                y[key] = x[0] if key == 0 else x
        assert not y.requires_grad and np.all(y.numpy() == 0)
        return np.sum(x)

    assert tg.grad(f)(V).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float16, ">f8", ">f4", int, bool])
def test_constants_of_other_dtypes_are_read(dtype):
    constant = np.array([2, 3, 1]).astype(dtype)
    for f in (
        lambda x: np.sum(x * constant),
        lambda x: constant @ x,
        lambda x: np.sum(np.concatenate([x, constant]) * np.concatenate([constant, constant])),
        lambda x: np.sum(np.where(constant > 1, x, constant) * constant),
        lambda x: np.einsum("i,i", constant, x),
    ):
        ends = [[f(V + sign * step) for step in 1e-6 * np.eye(3)] for sign in (1, -1)]
        wanted = (np.array(ends[0]) - ends[1]) / 2e-6
        np.testing.assert_allclose(tg.grad(f)(V), wanted, rtol=1e-6, atol=1e-8)
