"""Full texts of the errors: each names the operation, the argument, what was seen, what to do."""

import operator

import numpy as np
import pytest

import tapegrad as tg


def x():
    return tg.tensor([1.0, 2.0, 3.0], requires_grad=True)


def m():
    return tg.tensor(np.ones((2, 3)), requires_grad=True)


def set_to(target, key, value):
    target[key] = value


CASES = {
    "elements deleted": (
        lambda: x().__delitem__(0),
        TypeError,
        "tapegrad: elements of a tensor cannot be deleted; select the elements to keep instead",
    ),
    "shapes that do not broadcast": (
        lambda: tg.multiply(x(), np.ones(2)),
        ValueError,
        "tapegrad.multiply: the operands have shapes (3,) and (2,), which do not broadcast; make "
        "each axis equal or 1, for instance with x[:, None]",
    ),
    "shapes that do not broadcast, operator": (
        lambda: x() + m()[:, :2],
        ValueError,
        "tapegrad.add: the operands have shapes (3,) and (2, 2), which do not broadcast; make "
        "each axis equal or 1, for instance with x[:, None]",
    ),
    "three shapes": (
        lambda: np.clip(x(), np.zeros(2), 1.0),
        ValueError,
        "tapegrad.clip: the operands have shapes (3,) and (2,) and (), which do not broadcast; "
        "make each axis equal or 1, for instance with x[:, None]",
    ),
    "types that do not combine": (
        lambda: tg.hypot(x(), np.array(["a", "b", "c"])),
        TypeError,
        "tapegrad.hypot: the operands have types float64 and <U1, which NumPy cannot combine; "
        "convert them to arrays of numbers first",
    ),
    "operand that is no number": (
        lambda: tg.exp("text"),
        TypeError,
        "tapegrad.exp: an operand has type str; it must be a tensor, an array or a number",
    ),
    "operand that is no number, beside a tensor": (
        lambda: tg.add(x(), None),
        TypeError,
        "tapegrad.add: an operand has type NoneType; it must be a tensor, an array or a number",
    ),
    "complex operand": (
        lambda: np.floor(x() * 1j),
        TypeError,
        "tapegrad.floor: an operand is complex, which floor does not take; use it on the real and "
        "the imaginary part, z.real and z.imag",
    ),
    "complex result in place": (
        lambda: operator.imul(x() * 1.0, 1j),
        TypeError,
        "tapegrad.imul: a result of dtype complex128 cannot be written in place to a tensor of "
        "dtype float64; convert one of them with astype",
    ),
    "integers that require grad": (
        lambda: tg.tensor([1, 2], requires_grad=True),
        TypeError,
        "tapegrad.tensor: only float64 and float32 can require grad, not int64; pass dtype=float",
    ),
    "half precision that requires grad": (
        lambda: tg.ones(2, dtype=np.float16, requires_grad=True),
        TypeError,
        "tapegrad.tensor: only float64 and float32 can require grad, not float16; pass dtype=float",
    ),
    "tensor of text": (
        lambda: tg.asarray(np.array(["a"])),
        TypeError,
        "tapegrad.asarray: the data have dtype <U1; tensors hold real numbers and booleans",
    ),
    "truth of many": (
        lambda: bool(x() > 1),
        ValueError,
        "tapegrad: the truth of a tensor of shape (3,) is ambiguous; use any() or all()",
    ),
    "float as an index": (
        lambda: [1, 2][tg.tensor(1.0)],
        TypeError,
        "tapegrad: only integer tensors without axes can be used as an index",
    ),
    "iteration over no axes": (
        lambda: list(tg.tensor(1.0, requires_grad=True)),
        TypeError,
        "tapegrad: a tensor without axes cannot be iterated",
    ),
    "length of no axes": (
        lambda: len(tg.tensor(1.0, requires_grad=True)),
        TypeError,
        "tapegrad: a tensor without axes has no length",
    ),
    "a result that stops requiring grad": (
        lambda: (x() * 2.0).requires_grad_(False),
        RuntimeError,
        "tapegrad.requires_grad_: only inputs can stop requiring grad; use detach()",
    ),
    "unsupported function": (
        lambda: np.is_busday(m()),
        TypeError,
        None,
    ),
    "unsupported ufunc": (
        lambda: np.nextafter(x(), 1.0),
        TypeError,
        None,
    ),
    "unsupported method of a ufunc": (
        lambda: np.divide.accumulate(x()),
        TypeError,
        "tapegrad.divide.accumulate: the operation is not associative and has no derivative here; "
        "use a loop over the elements",
    ),
    "where= of a ufunc": (
        lambda: np.sin(x(), where=np.array([True, False, True])),
        TypeError,
        "tapegrad.sin: where= without out= leaves elements without a value; give out=, for "
        "instance out=tg.zeros_like(x), or use np.where",
    ),
    "casting= of a ufunc": (
        lambda: np.sin(x(), dtype=np.float32, casting="no"),
        TypeError,
        "tapegrad.sin: Cannot cast ufunc 'sin' input from dtype('float64') to dtype('float32') "
        "with casting rule 'no'",
    ),
    "axes= of a ufunc": (
        lambda: np.matmul(m(), m(), axes=[0, (0, 1), (0, 1)]),
        ValueError,
        "tapegrad.matmul: axes is [(0,), (0, 1), (0, 1)]; the core has [2, 2, 2] axes",
    ),
    "out= of a ufunc": (
        lambda: np.sin(x(), out=np.zeros(3)),
        TypeError,
        None,
    ),
    "where without a choice": (
        lambda: tg.where(x() > 1, x()),
        ValueError,
        "tapegrad.where: give both x and y, or neither",
    ),
    "float index": (
        lambda: x()[np.array([0.5])],
        IndexError,
        None,
    ),
    "tensor of floats as an index": (
        lambda: x()[tg.tensor([0.0, 1.0])],
        IndexError,
        "tapegrad.getitem: an index has dtype float64; indices are integers or booleans: convert "
        "it with astype(int)",
    ),
    "index out of bounds": (
        lambda: x()[7],
        IndexError,
        "tapegrad.getitem: index 7 is out of bounds for axis 0 with size 3 (the tensor has shape "
        "(3,))",
    ),
    "index out of bounds in a list": (
        lambda: x()[[0, -4]],
        IndexError,
        "tapegrad.getitem: index -4 is out of bounds for axis 0 with size 3 (the tensor has shape "
        "(3,))",
    ),
    "too many indices": (
        lambda: x()[0, 0],
        IndexError,
        "tapegrad.getitem: too many indices for array: array is 1-dimensional, but 2 were indexed "
        "(the tensor has shape (3,))",
    ),
    "mask of another shape": (
        lambda: x()[np.array([True, False])],
        IndexError,
        "tapegrad.getitem: boolean index did not match indexed array along axis 0; size of axis is "
        "3 but size of corresponding boolean axis is 2 (the tensor has shape (3,))",
    ),
    "write into a read-only view": (
        lambda: set_to(tg.asarray(np.broadcast_to(1.0, 3)), 0, 2.0),
        ValueError,
        "tapegrad.setitem: the tensor is a read-only view; copy() it first",
    ),
    "recorded value into integers": (
        lambda: set_to(tg.zeros(3, dtype=int), 0, x()[0]),
        TypeError,
        "tapegrad.setitem: the tensor has dtype int64; only float64 and float32 have derivatives: "
        "make it with dtype=float",
    ),
    "value of another shape": (
        lambda: set_to(x() * 1.0, slice(0, 2), np.ones(3)),
        ValueError,
        "tapegrad.setitem: a value of shape (3,) does not fit where shape (2,) is written; reshape "
        "or broadcast it",
    ),
    "items of several shapes": (
        lambda: tg.asarray([x(), x()[:2]]),
        ValueError,
        "tapegrad.stack: the items have shapes [(2,), (3,)]; they must be equal",
    ),
    "axis that does not exist": (
        lambda: m().sum(axis=2),
        ValueError,
        "tapegrad.sum: axis 2 does not exist; the tensor has 2 axes",
    ),
    "axis twice": (
        lambda: np.mean(m(), axis=(0, -2)),
        ValueError,
        "tapegrad.mean: axis (0, -2) names an axis twice",
    ),
    "argnums out of range": (
        lambda: tg.grad(np.sin, 1)(1.0),
        ValueError,
        "tapegrad.grad: argnums 1 is out of range, the function got 1 positional arguments",
    ),
    "argnums out of range, jacobian": (
        lambda: tg.jacobian(np.add, (0, 2))(1.0, 2.0),
        ValueError,
        "tapegrad.jacobian: argnums 2 is out of range, the function got 2 positional arguments",
    ),
    "argument that is no number": (
        lambda: tg.grad(lambda d: d["a"][1])({"a": [1.0, "b"]}),
        TypeError,
        "tapegrad.grad: the argument['a'][1] is of type str; only numbers and arrays of them, also "
        "in tuples, lists, dicts, dataclasses and attrs classes, are differentiated: give it in an "
        "argument of its own, which is not differentiated",
    ),
    "complex argument": (
        lambda: tg.hessian(lambda z: np.sum(np.abs(z)))(np.ones(2) * 1j),
        TypeError,
        "tapegrad.hessian: an argument is complex; second derivatives are of real numbers: write "
        "the function in the real and the imaginary part",
    ),
    "complex result": (
        lambda: tg.grad(np.sin)(1j),
        TypeError,
        "tapegrad.grad: the function returned a complex result, but a gradient needs a real one: "
        "return its real part or abs(…), or give holomorphic=True",
    ),
    "gradient of an array": (
        lambda: tg.grad(np.sin)(np.ones(3)),
        ValueError,
        "tapegrad.grad: the function returned shape (3,), but a gradient needs a scalar: reduce "
        "it, for instance with sum(), or use jacobian or elementwise_grad",
    ),
    "gradient of nothing": (
        lambda: tg.value_and_grad(lambda x: None)(1.0),
        ValueError,
        "tapegrad.value_and_grad: the function returned NoneType, but a gradient needs a scalar: "
        "reduce it, for instance with sum(), or use jacobian or elementwise_grad",
    ),
    "adjoints of another number": (
        lambda: tg.vjp(lambda x: (x, x), 1.0)[1]((1.0,)),
        ValueError,
        "tapegrad.vjp: got 1 adjoints, but the function has 2 results",
    ),
    "adjoint of another shape": (
        lambda: tg.vjp(np.sin, np.ones(3))[1](np.ones(2)),
        ValueError,
        "tapegrad.vjp: an adjoint has shape (2,), but the result (3,)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    attempt, kind, text = CASES[name]
    with pytest.raises(kind) as raised:
        attempt()
    if text is not None:
        assert str(raised.value) == text


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[2] is None])
def test_text_names_the_library_or_the_operands(name):
    attempt, kind, _ = CASES[name]
    with pytest.raises(kind, match="tapegrad|unsupported operand"):
        attempt()


def test_unsupported_functions_say_why():
    end = r"use t.detach\(\).numpy\(\) if no derivative is needed$"
    with pytest.raises(
        TypeError, match=rf"^tapegrad: is_busday\(\) is not supported on .*{end}"
    ) as one:
        np.is_busday(m())
    assert "it operates on dates" in str(one.value)


def test_an_operand_of_a_foreign_type_may_answer_itself():
    class Other:
        def __radd__(self, other):
            return "answered"

    assert x() + Other() == "answered" and x()[0] + Other() == "answered"
    with pytest.raises(TypeError, match="unsupported operand"):
        x() + object()
    with pytest.raises(TypeError, match="unsupported operand"):
        x()[0] * object()


@pytest.mark.parametrize("make", [x, lambda: x()[0], lambda: x() * 2.0, lambda: tg.tensor([1.0])])
def test_tensors_are_not_made_without_tg_tensor(make):
    """No object without a value, whatever is tried: using one would end the process."""
    kind = type(make())
    for attempt in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind), tg.Tensor):
        with pytest.raises(TypeError):
            attempt()


def test_a_failed_operation_leaves_the_tape_in_order():
    a = x()
    for attempt, kind, _ in CASES.values():
        with pytest.raises(kind):
            attempt()
    np.sum(a * a).backward()
    assert a.grad.tolist() == [2.0, 4.0, 6.0]


def test_an_exception_in_the_function_passes_through():
    def f(x):
        raise KeyError("mine")

    for transform in (tg.grad, tg.value_and_grad, tg.jacobian, tg.elementwise_grad):
        with pytest.raises(KeyError, match="mine"):
            transform(f)(1.0)
    assert tg.grad(np.sin)(0.0) == 1.0 and tg.is_grad_enabled()
