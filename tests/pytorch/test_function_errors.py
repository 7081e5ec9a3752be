"""tg.autograd.Function: what backward may return, errors, what is kept alive."""

import gc
import weakref

import numpy as np
import pytest
from torch_side import both, exp_of, leaf, make

import tapegrad as tg
from tapegrad._core.tape import store

# --- shapes, dtypes, errors -------------------------------------------------------------------


def returning(*gradients, arguments=1):
    """Run a Function whose backward returns these."""
    f = make(tg, lambda ctx, x, *rest: x * 1.0, lambda ctx, g: gradients)
    x = leaf(tg, [1.0, 2.0, 3.0])
    f(x, *[None] * (arguments - 1)).sum().backward()
    return x.grad


@pytest.mark.parametrize(
    ("gradients", "error", "text"),
    [
        ((tg.ones(3), tg.ones(3)), RuntimeError, "returned 2 gradients, expected 1, one for each"),
        ((), RuntimeError, "returned 0 gradients, expected 1"),
        (
            (tg.ones(2),),
            RuntimeError,
            r"returned a gradient of shape \(2,\) for argument 0, expected \(3,\)",
        ),
        (
            (tg.ones(1),),
            RuntimeError,
            r"returned a gradient of shape \(1,\) for argument 0, expected \(3,\)",
        ),
        (
            (tg.arange(3),),
            TypeError,
            "returned a gradient of type int64 for argument 0, expected a",
        ),
        (
            ("text",),
            TypeError,
            "returned a gradient of type str for argument 0, expected a",
        ),
    ],
)
def test_what_backward_may_not_return(gradients, error, text):
    with pytest.raises(error, match=f"^tapegrad.Made: backward {text}"):
        returning(*gradients)


def test_a_gradient_for_what_is_no_tensor():
    text = "returned a gradient for argument 1, which is not a tensor; return None in its place"
    with pytest.raises(RuntimeError, match=text):
        returning(tg.ones(3), tg.ones(3), arguments=2)


def test_gradients_that_fit_after_all():
    def script(lib):
        found = []
        for gradient in (lib.ones(2, 3) if lib is not tg else lib.ones((2, 3)), lib.ones(3)):
            f = make(lib, lambda ctx, x: x * 1.0, lambda ctx, g, made=gradient: (made, None))
            x = leaf(lib, [1.0, 2.0, 3.0])
            f(x).sum().backward()
            found.append(x.grad)
        return found

    both(script)


def test_float32_gets_float32():
    x = tg.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    seen = []

    def backward(ctx, g):
        seen.append(g.dtype)
        return g.astype(float) * 2

    make(tg, lambda ctx, x: x * 2, backward)(x).sum().backward()
    assert seen == [np.float32] and x.grad.dtype == np.float32 and x.grad.tolist() == [2.0, 2.0]


def test_an_error_in_backward_leaves_everything_in_order():
    def backward(ctx, g):
        raise KeyError("mine")

    f = make(tg, lambda ctx, x: x * 2.0, backward)
    x = leaf(tg, [1.0, 2.0])
    h = f(x) * 1.0
    h[0] = 5.0
    with pytest.raises(KeyError, match="mine"):
        h.sum().backward()
    assert tg.is_grad_enabled() and h.tolist() == [5.0, 4.0]
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_other_errors():
    class Empty(tg.autograd.Function):
        pass

    x = leaf(tg, [1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"an instance of Empty was called; call Empty.apply"):
        Empty()(x)
    with pytest.raises(NotImplementedError, match="the class has no forward"):
        Empty.apply(x)
    Empty.forward = staticmethod(lambda ctx, x: x * 2.0)
    with pytest.raises(NotImplementedError, match="the class has no backward"):
        Empty.apply(x).sum().backward()
    f = make(tg, lambda ctx, x: x * 2.0, lambda ctx, g: 2.0 * g.detach().numpy())
    with pytest.raises(NotImplementedError, match="Made: the class has no jvp, .* define jvp"):
        tg.jvp(f, (np.ones(2),), (np.ones(2),))
    f = make(tg, lambda ctx, x: ctx.save_for_backward("s"), lambda ctx, g: g)
    with pytest.raises(TypeError, match="save_for_backward: an argument has type str"):
        f(x)
    f = make(tg, lambda ctx, x, *, k=1.0: x * k, lambda ctx, g: g)
    with pytest.raises(TypeError, match="Made: forward takes k by keyword only"):
        f(x, k=2.0)
    f = make(tg, lambda ctx, x: x * 2.0, lambda ctx, g: ctx.nothing)
    with pytest.raises(AttributeError, match="ctx has no attribute nothing"):
        f(x).sum().backward()


def test_saved_tensors_are_let_go_with_the_row():
    x = leaf(tg, [1.0, 2.0])
    y = exp_of(tg)(x)
    node = y.grad_fn
    np.testing.assert_allclose(node.saved_tensors[0].detach().numpy(), np.exp([1.0, 2.0]))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="saved_tensors: the tensors were freed by a backward"):
        assert node.saved_tensors


def test_calls_that_are_never_differentiated_go():
    """What ctx saves, also as attributes, does not keep its own row alive."""

    class Note:
        pass

    def forward(ctx, x):
        y = np.exp(x)
        ctx.note = note
        ctx.x, ctx.y = x, y
        ctx.save_for_backward(x, y)
        return y

    f = make(tg, forward, lambda ctx, g: g)
    x = leaf(tg, [1.0, 2.0])
    note = Note()
    alive = weakref.ref(note)
    z = f(x * 1.0)
    note = None
    assert alive() is not None
    del z
    for _ in range(2):
        y = x[0]
        for _ in range(10_000):
            y = y * 1.0
        store.seal()
        store.look()
    gc.collect()
    assert alive() is None


def test_more_operands_than_a_row_has_room_for():
    """Refused by name; a compiled function is called as it is."""
    numbers = [tg.tensor(1.0, requires_grad=True) for _ in range(13_000)]

    class First(tg.autograd.Function):
        @staticmethod
        def forward(ctx, *numbers):
            return numbers[0] * 1.0

    with pytest.raises(ValueError, match=r"operands .* at most 12288\. Join the operands"):
        First.apply(*numbers)
    total = tg.compile(lambda numbers: sum(numbers))
    for _ in range(2):  # from the second on as one row, where there is room
        gradient = tg.grad(lambda numbers: total([2.0 * one for one in numbers]))([1.0] * 13_000)
    assert gradient == [2.0] * 13_000
