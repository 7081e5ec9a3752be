"""Hooks against PyTorch: on inputs, results, nodes; order, replacement, removal, errors."""

import gc
import weakref

import numpy as np
import pytest
from torch_side import both, leaf

import tapegrad as tg
from tapegrad.autograd._hooks import watches


def test_hooks_see_the_gradient():
    def script(lib):
        seen = []
        x, s = leaf(lib, [1.0, 2.0]), leaf(lib, 3.0)
        y = x * s
        z = y * y
        for t in (x, s, y, z):
            t.register_hook(lambda g: seen.append(g.clone()))
        z.sum().backward()
        return sorted(np.sum(g.numpy()) for g in seen), x.grad, s.grad

    both(script)


def test_hooks_replace_the_gradient_in_order():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        y = x * x
        y.register_hook(lambda g: g + 1)
        y.register_hook(lambda g: 2 * g)
        x.register_hook(lambda g: -g)
        x.register_hook(lambda g: g * g)
        y.sum().backward()
        s = leaf(lib, 2.0)
        t = s * 3
        t.register_hook(lambda g: g * 0)
        (t * t).backward()
        return x.grad, s.grad

    both(script)


def test_handles():
    def script(lib):
        seen = []
        x = leaf(lib, 1.0)
        y = lib.exp(x)
        handle = y.register_hook(lambda g: seen.append(g))
        y.backward(retain_graph=True)
        handle.remove()
        handle.remove()
        y.backward(retain_graph=True)
        with x.register_hook(lambda g: 10 * g):
            y.backward(retain_graph=True)
        y.backward()
        return seen, x.grad

    both(script)


def test_a_hook_stays_when_its_tensor_is_gone():
    def script(lib):
        seen = []

        def f(x):
            h = x * 2
            h.register_hook(lambda g: seen.append(g))
            return h * 3

        x = leaf(lib, [1.0])
        f(x).sum().backward()
        return seen

    both(script)


def test_hooks_are_called_once_for_all_that_arrives():
    def script(lib):
        seen = []
        x = leaf(lib, [1.0, 2.0])
        y = x * 2
        y.register_hook(lambda g: seen.append(g))
        a, b = y * 3, y * y
        lib.autograd.backward([a.sum(), b.sum(), y.sum()])
        return seen, x.grad

    both(script)


def test_the_order_of_hooks_retained_gradients_and_nodes():
    def script(lib):
        seen = []
        x = leaf(lib, 1.0)
        y = x * 2
        y.retain_grad()
        y.grad_fn.register_prehook(lambda g: seen.append(("node", *g)) or (g[0] * 7,))
        y.register_hook(lambda g: seen.append(("first", g)) or g * 3)
        y.register_hook(lambda g: seen.append(("second", g)) or g * 5)
        z = y * 1
        z.register_hook(lambda g: seen.append(("above", g)))
        z.backward()
        return seen, y.grad, x.grad

    both(script)


def test_hooks_of_nodes_see_the_gradients_of_operands():
    def script(lib):
        seen = []
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        z = x * 2 * y
        z.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
        z.sum().backward()
        return seen, x.grad, y.grad

    both(script)


def test_hooks_of_nodes_whose_result_is_a_scalar():
    def script(lib):
        x, seen = leaf(lib, [1.0, 2.0, 4.0]), []
        for y in (x.sum(), x @ x, x.max()):
            y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0], outputs[0])))
            (y * 3).backward()
        return seen, x.grad

    both(script)


def test_hooks_of_nodes_replace_the_gradients_of_operands():
    def script(lib):
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, 3.0)
        z = x * y.expand(2) if lib is not tg else x * tg.broadcast_to(y, (2,))
        z.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, inputs[1] * 100))
        (z * z.detach()).sum().backward()
        return x.grad, y.grad

    both(script)


def test_hooks_of_the_end_of_the_graph():
    def script(lib):
        seen = []
        x = leaf(lib, 2.0)
        y = x * 1
        end = y.grad_fn.next_functions[0][0]
        end.register_prehook(lambda g: seen.append(("before", x.grad, *g)))
        end.register_hook(lambda i, o: seen.append(("after", *i, *o)))
        x.register_post_accumulate_grad_hook(lambda p: seen.append(("done", p is x)))
        y.backward()
        return seen

    both(script)


def test_post_accumulate_hooks():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        seen = []

        def step(p):
            seen.append(p.grad.clone())
            p.grad = None

        handle = x.register_post_accumulate_grad_hook(step)
        (x * x).sum().backward()
        (x * 3).sum().backward()
        lib.autograd.grad((x * x).sum(), x)
        handle.remove()
        (x * 5).sum().backward()
        return seen, x.grad

    both(script)


def test_hooks_and_grad():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * x
        h.register_hook(lambda g: 2 * g)
        x.register_hook(lambda g: 3 * g)
        y = (h * h).sum()
        (only,) = lib.autograd.grad(y, h, retain_graph=True)
        return only, lib.autograd.grad(y, x), x.grad

    both(script)


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_beside_the_way_are_not_called(create_graph):
    def script(lib):
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        p, q, seen = x * x, y * y, []
        if not create_graph:
            p[0] = x[1] * 2
        for name, tensor in dict(x=x, y=y, p=p, q=q).items():
            tensor.register_hook(lambda g, name=name: seen.append(name))
        r = (p * q).sum()
        q.retain_grad()
        lib.autograd.grad(r, x, retain_graph=True, create_graph=create_graph)
        r.backward(inputs=[x], retain_graph=True)
        kept = q.grad
        lib.autograd.grad(r, (y, p), retain_graph=True, create_graph=create_graph)
        return sorted(seen), kept, x.grad, y.grad, q.grad

    both(script)


def test_hooks_of_written_tensors_that_are_used_up_disturb_nobody():
    def written():
        x, y = leaf(tg, [1.0, 2.0]), leaf(tg, 3.0)
        z = x * 1
        z[0] = y * y
        z.register_hook(lambda g: g)
        return z, y, (z * z).sum()

    used, _, loss = written()
    loss.backward()
    _, y, loss = written()
    assert tg.autograd.grad(loss, y)[0].item() == 4 * 3.0**3
    assert used.grad_fn.name() == "CopySlices"


def test_written_tensors_have_no_recorded_gradient():
    x = leaf(tg, [1.0, 2.0])
    p = x * x
    p[0] = x[1] * 2
    q = p.copy()
    q.register_hook(lambda g: 2 * g)
    r = (q * q).sum()
    (first,) = tg.autograd.grad(r, x, create_graph=True)
    assert first.tolist() == [0.0, 16.0 * 2 + 16.0 * 4]
    p.register_hook(lambda g: 2 * g)
    for inputs in (x, p):
        with pytest.raises(NotImplementedError, match="written in place has no gradient"):
            tg.autograd.grad(r, inputs, create_graph=True)
    assert tg.autograd.grad((x * x).sum(), x, create_graph=True)[0].tolist() == [2.0, 4.0]


def test_hooks_with_create_graph():
    def script(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * x
        h.register_hook(lambda g: g * g)
        x.register_hook(lambda g: lib.sin(g))
        (g,) = lib.autograd.grad((h * h).sum(), x, create_graph=True)
        return g, lib.autograd.grad(g.sum(), x)

    both(script)


def test_a_hook_is_of_the_value_at_its_registration():
    """Before a write it sees the gradient of the old value, after it that of the new one."""

    def script(lib):
        seen = {}
        x = leaf(lib, [1.0, 2.0])
        y = x * 2
        y.register_hook(lambda g: seen.update(old=g))
        z = (y + 1).sum()
        y *= x.detach()
        y.register_hook(lambda g: seen.update(new=g) or g * 10)
        (z + (y + y).sum()).backward()
        return seen["old"], seen["new"], x.grad

    both(script)


def test_hooks_of_views():
    def script(lib):
        seen = []
        x = leaf(lib, [1.0, 2.0, 3.0])
        h = x * x
        for v in (h[1:], x[:2]):
            v.register_hook(lambda g: seen.append(g) or g * 10)
            (v * v).sum().backward(retain_graph=True)
        return seen

    ours = both(script)
    assert ours[0].tolist() == [8.0, 18.0]


def test_every_seed_of_a_batch_passes_the_hook():
    x = leaf(tg, [1.0, 2.0])
    h = x * x
    h.register_hook(lambda g: g + 1.0)
    (g,) = tg.autograd.grad(h * 1.0, x, tg.tensor(np.eye(2)), is_grads_batched=True)
    assert g.tolist() == [[4.0, 4.0], [2.0, 8.0]]


def test_hooks_run_without_recording_and_may_fail():
    x = leaf(tg, [1.0, 2.0])
    h = x * x
    f = h * 1.0
    f[0] = 7.0
    seen = []

    def fail(g):
        seen.append((tg.is_grad_enabled(), (x * 2).requires_grad))
        raise KeyError("mine")

    h.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        f.sum().backward()
    assert seen == [(False, False)] and tg.is_grad_enabled() and f.tolist() == [7.0, 4.0]


def test_hooks_on_a_function():
    seen = []

    class Twice(tg.autograd.Function):
        def forward(ctx, x):
            return 2.0 * x

        def backward(ctx, g):
            seen.append("backward")
            return 2.0 * g

    x = leaf(tg, [1.0])
    y = Twice.apply(x)
    y.register_hook(lambda g: seen.append("tensor") or g * 3)
    y.grad_fn.register_hook(lambda i, o: seen.append(("node", i[0].tolist(), o[0].tolist())))
    y.sum().backward()
    assert seen == ["tensor", "backward", ("node", [6.0], [3.0])] and x.grad.tolist() == [6.0]


def test_hooks_go_when_the_rows_are_used_up():
    class Note:
        pass

    x, note = leaf(tg, [1.0, 2.0]), Note()
    alive = weakref.ref(note)
    y = x * 2
    y.register_hook(lambda g, note=note: None)
    del note
    y.sum().backward()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("scalar", [False, True])
def test_passes_do_not_halt_at_rows_that_are_used_up(scalar):
    """Steps of a loop with hooks cost the same, however many there have been."""
    x, grads = leaf(tg, [1.0, 2.0]), []
    before = len(watches())
    for k in range(5):
        y = (x[0] if scalar else x) * (k + 1.0)
        y.register_hook(lambda g: 2 * g)
        y.retain_grad()
        y.grad_fn.metadata["step"] = k
        np.sum(y * y).backward(retain_graph=k % 2 == 0)
        assert len(watches()) == before + k // 2 + 1  # those of retained graphs stay
        grads.append(y)
    for k, y in enumerate(grads):
        assert np.sum(y.grad) == (k + 1.0) * (4.0 if scalar else 12.0)
        assert y.grad_fn.metadata == {"step": k}


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda g: tg.ones(3), RuntimeError, r"returned shape \(3,\), the gradient has \(2,\)"),
        (lambda g: "text", TypeError, "returned str; it must return a tensor, or None"),
    ],
)
def test_what_hooks_may_not_return(hook, error, text):
    for pick in (lambda x: x, lambda x: x * 2):
        x = leaf(tg, [1.0, 2.0])
        y = pick(x)
        y.register_hook(hook)
        with pytest.raises(error, match=f"^tapegrad.register_hook: the hook <lambda> {text}"):
            (y * 1.0).sum().backward()


def test_where_hooks_may_not_be():
    c = tg.tensor([1.0])
    with pytest.raises(RuntimeError, match="register_hook: the tensor does not require grad"):
        c.register_hook(print)
    text = "register_post_accumulate_grad_hook: the tensor is not an input"
    with pytest.raises(RuntimeError, match=text):
        (leaf(tg, [1.0]) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(TypeError, match="the hook has type int; it must be a function"):
        leaf(tg, [1.0]).register_hook(3)
    x = leaf(tg, [1.0])
    y = x * 2
    y.grad_fn.register_hook(lambda i, o: (None, None, None))
    with pytest.raises(RuntimeError, match="returned 3 gradients, but the node has 2 operands"):
        y.sum().backward()
    z = x * 3
    z.grad_fn.register_hook(lambda i, o: None)
    with pytest.raises(NotImplementedError, match="not called with create_graph=True"):
        z.sum().backward(create_graph=True)


# --- views of a buffer that is written elsewhere --------------------------------------------------


def written(write, keep):
    """What is kept of a view, whose uses surround a write; and the elements of the view."""
    x = tg.tensor(np.arange(1.0, 7.0), requires_grad=True) * 1.0
    view = x[2:] if keep != "stepped" else x[::2]
    y = (view * view).sum()
    found = []
    if keep != "late":
        view.retain_grad()
    write(x)
    if keep == "late":
        view.register_hook(found.append)
        y.backward()
        return found[0].numpy(), view.detach().numpy()
    if keep == "requested":
        return tg.autograd.grad(y, view)[0].numpy(), view.detach().numpy()
    y.backward()
    return view.grad.numpy(), view.detach().numpy()


WRITES = {
    "cell": lambda x: x.__setitem__(1, 9.0),
    "added": lambda x: x.__setitem__(1, x[1] + x[3]),
    "slice": lambda x: x[:2].__imul__(2.0),
    "indices": lambda x: x.__setitem__(np.array([1, 1]), 9.0),
    "many": lambda x: [x.__setitem__(1, float(k)) for k in range(4)],
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("keep", ["retained", "late", "requested", "stepped"])
def test_a_write_to_other_elements_leaves_a_view_its_gradient(write, keep):
    if keep == "stepped" and write == "slice":
        write = "cell"  # element 0 belongs to this view
    gradient, view = written(WRITES[write], keep)
    np.testing.assert_array_equal(gradient, 2.0 * view)


def test_views_that_are_retained_have_versions_of_their_own():
    x = tg.tensor(np.arange(1.0, 7.0), requires_grad=True) * 1.0
    tail, head, cells = x[2:], x[:3], x[1::2]
    for view in (tail, head, cells, x):
        view.retain_grad()
    y = (tail * 2.0).sum() + (head**2).sum() + (cells * 5.0).sum()
    x[5] = 1.0
    (y + (tail * 3.0).sum()).backward()
    np.testing.assert_array_equal(head.grad.numpy(), [2.0, 4.0 + 5.0, 6.0 + 2.0 + 3.0])
    np.testing.assert_array_equal(tail.grad.numpy(), [3.0, 3.0, 3.0, 3.0])
    np.testing.assert_array_equal(cells.grad.numpy(), [0.0, 3.0, 3.0])
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 3.0, 3.0, 3.0, 3.0])


def test_retained_gradients_of_views_as_in_pytorch():
    def script(lib):
        x = leaf(lib, [1.0, 1.0, 1.0, 1.0]) * 1.0
        view = x[2:]
        y = view[1] * 3.0
        view.retain_grad()
        x[0] += 0.0
        y.backward()
        return view.grad

    both(script)
