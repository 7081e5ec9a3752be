"""PyTorch's front: backward and the gradients of inputs."""

import numpy as np
import pytest

import tapegrad as tg


def leaf(value=(1.0, 2.0, 3.0), **options):
    return tg.tensor(value, requires_grad=True, **options)


def grad_of(x):
    return x.grad.numpy().tolist()


# --- accumulation and freeing -----------------------------------------------------------------


def test_gradient_is_none_then_adds_up():
    x = leaf()
    assert x.grad is None
    (x * x).sum().backward()
    assert grad_of(x) == [2.0, 4.0, 6.0]
    (3.0 * x).sum().backward()
    assert grad_of(x) == [5.0, 7.0, 9.0]
    x.grad = None
    (x * x).sum().backward()
    assert grad_of(x) == [2.0, 4.0, 6.0]
    assert not x.grad.requires_grad


def test_gradient_can_be_set():
    x = leaf()
    x.grad = np.ones(3)
    (2.0 * x).sum().backward()
    assert grad_of(x) == [3.0, 3.0, 3.0]


def test_the_set_gradient_is_a_copy():
    x, g = leaf(), np.ones(3)
    x.grad = g
    x.sum().backward()
    assert g.tolist() == [1.0, 1.0, 1.0]


def test_dtype_of_the_gradient():
    x = leaf(dtype=np.float32)
    (x * x).sum().backward()
    assert x.grad.dtype == np.float32 and grad_of(x) == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_an_output_of_one_element_needs_no_seed(shape):
    x = leaf(3.0)
    y = (x * x) * np.ones(shape)
    y.backward()
    assert x.grad.item() == 6.0


def test_seed():
    x = leaf()
    (x * x).backward(np.array([1.0, 10.0, 100.0]))
    assert grad_of(x) == [2.0, 40.0, 600.0]
    x.grad = None
    (x * x).backward(gradient=tg.tensor([1.0, 0.0, -1.0]))
    assert grad_of(x) == [2.0, 0.0, -6.0]
    y = leaf(2.0)
    (y * y).backward(10.0)
    assert y.grad.item() == 40.0


def test_seed_of_another_shape():
    text = (
        r"tapegrad.backward: gradient= has shape \(2,\), the output has \(3,\); they must be equal"
    )
    with pytest.raises(ValueError, match=text):
        (leaf() * 2.0).backward(np.ones(2))


def test_retain_graph():
    x = leaf()
    y = np.sum(np.sin(x) * x[0])
    y.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * first, rtol=1e-15)


AGAIN = (
    "^tapegrad.backward: the tensor's rows were used up by an earlier backward pass; call the "
    "first one with retain_graph=True to pass through them again$"
)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x * x),
        lambda x: x[0] * x[1],
        lambda x: np.sum(x[[0, 1]]),
        lambda x: np.sum(np.sin(x)),
        lambda x: x.sum(),
        lambda x: (x * 2.0)[0],
        lambda x: (x * 2.0)[:1],
        lambda x: np.mean(x, keepdims=True),
    ],
)
def test_second_backward(f):
    x = leaf()
    y = f(x)
    y.backward()
    before = grad_of(x)
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()
    assert grad_of(x) == before


def test_second_backward_of_writes():
    x = leaf()
    f = x * 1.0
    f[1] = x[0] * x[0]
    f[[0, 2]] = x[1:] * 2.0
    f[:2] = x[1:] * f[:2]
    y = np.sum(f)
    y.backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()


def test_two_losses_that_share_only_inputs():
    x = leaf()
    a, b = (x * x).sum(), (x * 3.0).sum()
    a.backward()
    b.backward()
    assert grad_of(x) == [5.0, 7.0, 9.0]


def test_two_losses_that_share_more():
    x = leaf()
    shared = np.sin(x)
    a, b = (shared * 2.0).sum(), (shared * shared).sum()
    a.backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        b.backward()


def test_a_result_used_after_its_backward():
    """Its value is still there; a gradient through it is not."""
    x = leaf(2.0)
    y = x * x
    y.backward()
    assert y.item() == 4.0
    with pytest.raises(RuntimeError, match=AGAIN):
        (y * x).backward()


def test_an_input_is_a_loss():
    x = leaf(2.0)
    x.backward()
    x.backward()
    assert x.grad.item() == 2.0


def test_not_recorded():
    text = (
        "^tapegrad.backward: the tensor is not recorded; it depends on no input made with "
        r"requires_grad=True, or was computed under no_grad\(\)$"
    )
    for y in (tg.tensor(1.0), (leaf() * 2.0).sum().detach()):
        with pytest.raises(RuntimeError, match=text):
            y.backward()


def test_not_a_scalar():
    text = (
        r"^tapegrad.backward: the output has shape \(3,\), but a gradient needs a scalar: reduce "
        r"it, for instance with sum\(\), or pass gradient= of that shape$"
    )
    with pytest.raises(RuntimeError, match=text):
        (leaf() * 2.0).backward()


def test_only_inputs_have_a_gradient():
    y = leaf() * 2.0
    with pytest.warns(UserWarning, match="call retain_grad"):
        assert y.grad is None
    text = "^tapegrad: only inputs made with requires_grad=True have a gradient to set$"
    for target in (y, y[0], tg.tensor(1.0)):
        with pytest.raises(RuntimeError, match=text):
            target.grad = np.ones(3)
    with pytest.raises(
        ValueError, match=r"a gradient of shape \(2,\) does not fit an input of \(3,"
    ):
        leaf().grad = np.ones(2)


def test_a_derivative_of_zero_is_zero_not_none():
    x, y, unused = leaf(), leaf(), leaf()
    (np.sum(x * 0.0) + np.sum(np.floor(y)) + np.sum(y[:0])).backward()
    assert grad_of(x) == [0.0] * 3
    assert y.grad is not None and grad_of(y) == [0.0] * 3
    assert unused.grad is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0] * 0.0,
        lambda x: np.sum(np.sign(x)),
        lambda x: np.where(x > 100, x, 0.0).sum(),
        lambda x: np.maximum(x, 100.0).sum(),
        lambda x: np.sum(np.where(x > 0, x, 0.0)[x > 100]),
        lambda x: np.rint(x[0]) + 1.0,
        lambda x: (x - x).sum(),
    ],
)
def test_derivatives_of_zero(f):
    x = leaf()
    f(x).backward()
    assert grad_of(x) == [0.0] * 3
    assert np.array_equal(tg.grad(f)(np.ones(3)), np.zeros(3))


def test_overwritten_results_have_derivative_zero():
    x = leaf()
    f = x * 2.0
    f[:] = 1.0
    f.sum().backward()
    assert grad_of(x) == [0.0] * 3


def test_inputs_and_results():
    x = leaf()
    y = x * 2.0
    assert x.is_leaf and x.requires_grad and not y.is_leaf and y.requires_grad
    plain = tg.tensor([1.0])
    assert plain.is_leaf and not plain.requires_grad
    assert plain.requires_grad_() is plain and plain.requires_grad
    (plain * 3.0).sum().backward()
    assert grad_of(plain) == [3.0]


# --- inputs written in place ------------------------------------------------------------------


def test_an_input_is_updated_under_no_grad():
    x = leaf()
    (x * x).sum().backward()
    with tg.no_grad():
        x -= 0.5 * x.grad
        x[0] = 7.0
    assert x.requires_grad and x.is_leaf and x.tolist() == [7.0, 0.0, 0.0]
    x.grad = None
    (x * x).sum().backward()
    assert grad_of(x) == [14.0, 0.0, 0.0]


def test_an_input_is_not_written_while_recording():
    text = (
        "^tapegrad.setitem: an input that requires grad cannot be written in place while "
        r"operations are recorded; write to a copy\(\), or inside `with tg.no_grad\(\):`$"
    )
    x = leaf()
    for write in (
        lambda: x.__setitem__(0, 1.0),
        lambda: x.__setitem__([0, 1], x[1:]),
        lambda: x.__iadd__(1.0),
        lambda: x.__imul__(x),
    ):
        with pytest.raises(RuntimeError, match=text):
            write()
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_a_view_of_an_input_is_not_written_while_recording():
    x = leaf()
    with pytest.raises(RuntimeError, match="an input that requires grad cannot be written"):
        x[:2][0] = 5.0
    view = x[1:]
    with tg.no_grad():
        view += 1.0
    assert x.tolist() == [1.0, 3.0, 4.0]


def test_a_transform_lets_the_function_write_its_argument():
    def f(x):
        x[0] = 2.0 * x[1]
        x[1:] *= x[0]
        return np.sum(x)

    x = np.array([1.0, 2.0, 3.0])
    found = tg.grad(f)(x)
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert found.tolist() == [0.0, 2.0 + 2.0 * 5.0 + 4.0, 4.0]


def test_a_result_is_not_written_under_no_grad():
    text = (
        r"^tapegrad.setitem: a recorded tensor cannot be written inside no_grad\(\), since its "
        r"derivative would be lost; write to detach\(\).copy\(\) instead$"
    )
    y = leaf() * 2.0
    with tg.no_grad(), pytest.raises(RuntimeError, match=text):
        y[0] = 1.0


def test_a_backward_that_reads_a_changed_input_is_refused():
    x = leaf()
    y = (x * x).sum()
    with tg.no_grad():
        x[0] = 100.0
    with pytest.raises(RuntimeError, match="an input was written in place"):
        y.backward()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("watched", [False, True])
def test_gradients_of_tensors_without_axes_add_up(dtype, watched):
    t = tg.tensor(np.array(1.5, dtype), requires_grad=True)
    if watched:
        t.register_hook(lambda gradient: gradient * 1.0)
    for times in (1, 2, 3):
        (t * t).backward()
        assert t.grad.dtype == dtype and t.grad == 3.0 * times
    t.grad[...] = 0.0
    (t * t).backward()
    assert t.grad == 3.0


def test_seeds_at_a_result_whose_elements_lie_in_the_same_place():
    """Results that are windows: an element has the seeds of all of them that show it."""
    windows = lambda x: np.lib.stride_tricks.sliding_window_view(x * x, 2)
    a, seeds = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0], [4.0, 8.0]])
    t = tg.tensor(a, requires_grad=True)
    windows(t).backward(seeds)
    expected = 2.0 * a * [1.0, 2.0 + 4.0, 8.0]
    np.testing.assert_array_equal(t.grad.numpy(), expected)
    np.testing.assert_array_equal(tg.vjp(windows, a)[1](seeds)[0], expected)
    jacobian = [[[2.0, 0.0, 0.0], [0.0, 4.0, 0.0]], [[0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]]
    c = tg.compile(windows)
    for found in (tg.jacobian(windows)(a), c.jacobian(a), c.jacobian(a)):
        np.testing.assert_array_equal(found, jacobian)
