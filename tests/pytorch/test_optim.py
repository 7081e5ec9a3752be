"""Optimizers: parameters after many steps against PyTorch's, groups, state, errors."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import optim

START = [np.array([[1.5, -2.0], [0.5, 3.0]]), np.array([0.1, -0.4])]
SETTINGS = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.02}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.2}),
    ("Adam", {"lr": 0.3, "betas": (0.5, 0.5), "amsgrad": True}),
]


def made(kind, settings, dtype=np.float64):
    """An optimizer of two tensors that start at START."""
    tensors = [tg.tensor(a, dtype, requires_grad=True) for a in START]
    return tensors, getattr(optim, kind)(tensors, **settings)


def minimized(tensors):
    """A function with a gradient that changes its sign on the way."""
    a, b = tensors
    return ((a * a - 1.0) ** 2 / (a * a + 1.0)).sum() + (0.3 * b * a.sum()).sum() + (b * b).sum()


def train(tensors, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        minimized(tensors).backward()
        optimizer.step()
    return [t.detach().numpy().copy() for t in tensors]


@pytest.mark.parametrize("kind, settings", SETTINGS, ids=str)
def test_steps_equal_pytorchs(kind, settings):
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(a, requires_grad=True) for a in START]
    got = train(*made(kind, settings), 25)
    wanted = train(theirs, getattr(torch.optim, kind)(theirs, **settings), 25)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        assert np.abs(one - other).max() < 1e-12


@pytest.mark.parametrize("kind, settings", SETTINGS, ids=str)
def test_state_goes_on_where_it_was_saved(kind, settings):
    whole = train(*made(kind, settings), 9)
    tensors, optimizer = made(kind, settings)
    train(tensors, optimizer, 4)
    saved = optimizer.state_dict()
    moved = [tg.tensor(t.detach().numpy(), requires_grad=True) for t in tensors]
    train(tensors, optimizer, 3)  # must not change what was saved
    other = getattr(optim, kind)(moved, lr=77.0)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == optimizer.defaults["lr"]
    for one, right in zip(train(moved, other, 5), whole, strict=True):
        np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize("kind, settings", SETTINGS, ids=str)
def test_float32_stays_float32(kind, settings):
    tensors, optimizer = made(kind, settings, np.float32)
    assert all(a.dtype == np.float32 for a in train(tensors, optimizer, 3))
    for state in optimizer.state_dict()["state"].values():
        assert all(v.dtype == np.float32 for v in state.values() if isinstance(v, np.ndarray))


def test_groups_have_settings_of_their_own():
    torch = pytest.importorskip("torch")

    def trained(library, tensors):
        groups = [{"params": tensors[0], "lr": 0.01, "nesterov": True}, {"params": [tensors[1]]}]
        optimizer = library.optim.SGD(groups, lr=0.05, momentum=0.5)
        first = train(tensors, optimizer, 5)
        optimizer.param_groups[1]["lr"] = 0.001
        return first + train(tensors, optimizer, 5), optimizer.state_dict()

    got, state = trained(tg, [tg.tensor(a, requires_grad=True) for a in START])
    wanted, other = trained(torch, [torch.tensor(a, requires_grad=True) for a in START])
    for one, right in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-12)
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert [g["params"] for g in other["param_groups"]] == [[0], [1]]
    for k in (0, 1):
        buffer = other["state"][k]["momentum_buffer"].numpy()
        np.testing.assert_allclose(state["state"][k]["momentum_buffer"], buffer, rtol=1e-12)


def test_a_group_can_be_added():
    tensors, optimizer = made("SGD", {"lr": 0.1})
    more = tg.tensor([1.0], requires_grad=True)
    optimizer.add_param_group({"params": (p for p in [more]), "lr": 0.5})
    more.sum().backward()
    optimizer.step()
    assert more.tolist() == [0.5]
    np.testing.assert_array_equal(tensors[0].detach().numpy(), START[0])


def test_tensors_without_gradient_stay():
    tensors, optimizer = made("Adam", {})
    tensors[1].grad = np.ones(2)
    optimizer.step()
    np.testing.assert_array_equal(tensors[0].detach().numpy(), START[0])
    assert list(optimizer.state) == [tensors[1]]
    assert np.all(tensors[1].detach().numpy() < START[1])


def test_gradients_are_dropped_or_set_to_zero():
    tensors, optimizer = made("SGD", {})
    minimized(tensors).backward()
    optimizer.zero_grad(set_to_none=False)
    assert not tensors[0].grad.numpy().any() and tensors[0].grad.shape == (2, 2)
    optimizer.zero_grad()
    assert tensors[0].grad is None


def test_a_closure_is_evaluated_first_and_recorded():
    tensors, optimizer = made("SGD", {"lr": 0.01})

    def closure():
        optimizer.zero_grad()
        loss = minimized(tensors)
        loss.backward()
        return loss

    with tg.no_grad():
        first = optimizer.step(closure)
    assert optimizer.step(closure).item() < first.item()
    assert optimizer.step() is None


def test_what_diverges_does_so_silently():
    x = tg.tensor([1.0], requires_grad=True)
    x.grad = np.array([1e10])
    optim.SGD([x], lr=1e308).step()
    assert x.tolist() == [-np.inf]


def test_it_prints_its_settings():
    _, optimizer = made("SGD", {"lr": 0.5})
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0.0\n    lr: 0.5\n    momentum: 0.0\n"
        "    nesterov: False\n    weight_decay: 0.0\n)"
    )


X = tg.tensor([1.0], requires_grad=True)
ERRORS = {
    "one": (
        lambda: optim.SGD(X),
        TypeError,
        "tapegrad.optim.SGD: params is one tensor; pass a list of tensors",
    ),
    "none": (
        lambda: optim.Adam([]),
        ValueError,
        "tapegrad.optim.Adam: there are no parameters; give at least one",
    ),
    "twice": (
        lambda: optim.Adam([X, X]),
        ValueError,
        "tapegrad.optim.Adam: a parameter is given twice; give each once",
    ),
    "twice_in_groups": (
        lambda: optim.Adam([{"params": [X]}, {"params": X}]),
        ValueError,
        "tapegrad.optim.Adam: a parameter is given twice; give each once",
    ),
    "computed": (
        lambda: optim.SGD([2.0 * tg.tensor([1.0], requires_grad=True)]),
        TypeError,
        "tapegrad.optim.SGD: a parameter is a Tensor that is not an input; optimize tensors made "
        "with requires_grad=True",
    ),
    "array": (
        lambda: optim.SGD([np.ones(2)]),
        TypeError,
        "tapegrad.optim.SGD: a parameter is a ndarray that is not an input; optimize tensors made "
        "with requires_grad=True",
    ),
    "lr": (
        lambda: optim.SGD([X], lr=-1.0),
        ValueError,
        "tapegrad.optim.SGD: lr is -1.0; it must be 0 or more",
    ),
    "eps": (
        lambda: optim.Adam([{"params": [X], "eps": -1.0}]),
        ValueError,
        "tapegrad.optim.Adam: eps is -1.0; it must be 0 or more",
    ),
    "betas": (
        lambda: optim.Adam([X], betas=(0.9, 1.0)),
        ValueError,
        "tapegrad.optim.Adam: betas is (0.9, 1.0); it must be two numbers from 0 to below 1",
    ),
    "nesterov": (
        lambda: optim.SGD([X], momentum=0.9, dampening=0.1, nesterov=True),
        ValueError,
        "tapegrad.optim.SGD: nesterov is True; it must be False unless momentum is above 0 and "
        "dampening is 0",
    ),
    "state": (
        lambda: optim.SGD([X]).load_state_dict(made("SGD", {})[1].state_dict()),
        ValueError,
        "tapegrad.optim.SGD: state_dict has groups of [2] parameters, but the optimizer of [1]; "
        "they must be equal",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
