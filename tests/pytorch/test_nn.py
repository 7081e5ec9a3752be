"""Modules: what they register, save and print; layers and a training loop against PyTorch."""

import gc
import io
from collections import OrderedDict

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F


class Block(nn.Module):
    """Two layers, a parameter and a buffer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh())
        self.scale = nn.Parameter(2.0)
        self.register_buffer("offset", tg.tensor([1.0]))
        self.register_buffer("scratch", tg.zeros(2), persistent=False)

    def forward(self, x):
        return self.scale * self.second(self.first(x)) + self.offset


def names(pairs):
    return [name for name, _ in pairs]


# --- registration -----------------------------------------------------------------------------


def test_parameters_buffers_and_modules_are_registered():
    block = Block()
    assert names(block.named_parameters()) == [
        "scale",
        "first.weight",
        "first.bias",
        "second.0.weight",
    ]
    assert names(block.named_parameters("net", recurse=False)) == ["net.scale"]
    pairs = zip(block.parameters(), block.named_parameters(), strict=True)
    assert all(parameter is named for parameter, (_, named) in pairs)
    assert names(block.named_buffers()) == ["offset", "scratch"]
    assert [b.shape for b in block.buffers()] == [(1,), (2,)]
    assert names(block.named_children()) == ["first", "second"]
    assert list(block.children()) == [block.first, block.second]
    assert names(block.named_modules()) == ["", "first", "second", "second.0", "second.1"]
    assert [type(m).__name__ for m in block.modules()] == [
        "Block",
        "Linear",
        "Sequential",
        "Linear",
        "Tanh",
    ]
    assert {"scale", "first", "offset", "forward"} <= set(dir(block))


def test_shared_members_are_named_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    twice = nn.Sequential(net[0], net[0])
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "1.bias"]
    assert len(names(net.named_parameters(remove_duplicate=False))) == 4
    assert names(twice.named_modules()) == ["", "0"]
    assert names(twice.named_children()) == ["0"]
    assert names(twice.named_modules(remove_duplicate=False)) == ["", "0", "1"]
    assert list(twice.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_attributes_can_change_their_kind():
    block = Block()
    block.scale = None
    assert block.scale is None and "scale" not in names(block.named_parameters())
    block.scale = nn.Parameter([1.0])
    block.offset = tg.tensor([5.0])
    assert block.state_dict()["offset"] == [5.0]
    block.first = nn.ReLU()
    block.second = None
    assert block.second is None and names(block.named_children()) == ["first"]
    del block.first
    assert not hasattr(block, "first")
    block.first = 3
    block.first = nn.Parameter([1.0])
    assert names(block.named_parameters()) == ["scale", "first"]
    block.scratch = tg.ones(1)
    assert "scratch" not in block.state_dict()
    assert nn.Module.add_module is nn.Module.register_module


def test_parameters_are_copies_and_known_by_isinstance():
    data = np.ones(2)
    made = nn.Parameter(data)
    data[0] = 5.0
    assert isinstance(made, nn.Parameter) and isinstance(made, tg.Tensor)
    assert made.tolist() == [1.0, 1.0] and made.requires_grad and made.is_leaf
    assert not isinstance(tg.tensor([1.0], requires_grad=True), nn.Parameter)
    assert not isinstance(made * 1.0, nn.Parameter)
    assert nn.Parameter(made * 2.0).tolist() == [2.0, 2.0]
    fixed = nn.Parameter(np.ones(3, np.float32), requires_grad=False)
    assert isinstance(fixed, nn.Parameter)
    assert not fixed.requires_grad and fixed.dtype == np.float32
    held = len(nn._module._made)
    del made
    gc.collect()
    assert len(nn._module._made) == held - 1


def test_a_tensor_that_is_no_parameter_is_a_plain_attribute():
    module = nn.Module()
    module.x = tg.tensor([1.0], requires_grad=True)
    assert not list(module.parameters()) and module.x.requires_grad


# --- state ------------------------------------------------------------------------------------


def test_state_goes_to_a_file_and_back():
    one, other = Block(), Block()
    state = one.state_dict()
    assert list(state) == ["scale", "offset", "first.weight", "first.bias", "second.0.weight"]
    assert all(type(array) is np.ndarray for array in state.values())
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    result = other.load_state_dict(np.load(file))
    assert result == ([], []) and repr(result) == "<All keys matched successfully>"
    x = np.ones((2, 3))
    np.testing.assert_array_equal(one(x).detach().numpy(), other(x).detach().numpy())
    state["offset"][0] = 9.0
    assert one.offset.tolist() == [1.0]
    assert list(one.first.state_dict("a.")) == ["a.weight", "a.bias"]


def test_gradients_flow_after_a_load():
    block = Block()
    block.load_state_dict({name: 0.5 * a for name, a in block.state_dict().items()})
    np.sum(block(np.ones((2, 3)))).backward()
    assert all(p.grad is not None for p in block.parameters())


def test_a_state_that_does_not_fit_changes_nothing():
    block = Block()
    before, state = block.state_dict(), block.state_dict()
    del state["scale"]
    state["more"] = np.zeros(1)
    state["first.bias"] = np.zeros(7)
    with pytest.raises(RuntimeError) as caught:
        block.load_state_dict(state)
    assert str(caught.value) == (
        "tapegrad.load_state_dict: the state does not fit Block; give one saved from the same "
        "architecture:\n"
        "    first.bias: the shape is (7,) in state_dict, (4,) in the module\n"
        "    missing in state_dict: scale\n"
        "    unexpected in state_dict: more"
    )
    with pytest.raises(RuntimeError, match="first.bias: the shape is"):
        block.load_state_dict(state, strict=False)
    for name, array in block.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    state["first.bias"] = np.arange(4.0)
    result = block.load_state_dict(state, strict=False)
    assert result == (["scale"], ["more"]) and result.missing_keys == ["scale"]
    assert repr(result) == "IncompatibleKeys(missing_keys=['scale'], unexpected_keys=['more'])"
    assert block.first.bias.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_gradients_are_dropped_or_set_to_zero():
    block = Block()
    block.zero_grad(set_to_none=False)
    assert block.scale.grad is None
    np.sum(block(np.ones((2, 3)))).backward()
    block.zero_grad(set_to_none=False)
    assert not block.first.weight.grad.numpy().any()
    block.zero_grad()
    assert all(p.grad is None for p in block.parameters())


def test_parameters_can_be_frozen():
    block, x = Block(), np.ones((2, 3))
    optimizer = tg.optim.SGD(block.parameters(), lr=0.1)
    before = np.sum(block(x))
    assert block.first.requires_grad_(False) is block.first
    frozen = block.first.state_dict()
    before.backward()  # what was recorded before goes on to the others
    assert block.first.weight.grad is None and block.scale.grad is not None
    block.zero_grad()
    np.sum(block(x)).backward()
    optimizer.step()
    assert not block.first.weight.requires_grad and block.first.weight.grad is None
    np.testing.assert_array_equal(block.first.weight.numpy(), frozen["weight"])
    assert isinstance(block.first.weight, nn.Parameter) and block.scale.grad is not None
    block.requires_grad_()
    np.sum(block(x)).backward()
    assert block.first.weight.grad is not None
    fixed = nn.Parameter([1.0], requires_grad=False)
    tg.optim.SGD([fixed]).zero_grad()


def test_modes_reach_every_module():
    block = Block()
    assert block.eval() is block
    assert not any(m.training for m in block.modules())
    assert block.train() is block and all(m.training for m in block.modules())
    seen = []
    assert block.apply(lambda m: seen.append(type(m).__name__)) is block
    assert seen == ["Linear", "Linear", "Tanh", "Sequential", "Block"]


# --- containers -------------------------------------------------------------------------------


def test_sequential():
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Flatten(0))
    assert len(net) == 3 and net[-1] is net[2] and [*net][1] is net[1]
    part = net[:2]
    assert type(part) is nn.Sequential and part[0] is net[0] and len(part) == 2
    net[1] = nn.Sigmoid()
    assert net(np.ones((4, 3))).shape == (8,)
    del net[0]
    assert list(net._modules) == ["0", "1"] and isinstance(net[0], nn.Sigmoid)
    assert isinstance(net.append(nn.Tanh())[2], nn.Tanh)
    named = nn.Sequential(OrderedDict([("linear", nn.Linear(1, 1)), ("act", nn.ReLU())]))
    assert named[0] is named.linear and names(named[1:].named_children()) == ["act"]
    del named[:1]
    assert len(named) == 1
    assert nn.Sequential()(3.0) == 3.0


# --- text -------------------------------------------------------------------------------------

LAYERS = {
    "Linear": ((3, 4), {"bias": False}),
    "ReLU": ((), {}),
    "Tanh": ((), {}),
    "Sigmoid": ((), {}),
    "Dropout": ((0.2,), {}),
    "BatchNorm1d": ((5,), {"momentum": None, "affine": False}),
    "BatchNorm2d": ((5,), {"eps": 1e-3, "track_running_stats": False}),
    "Conv2d": ((4, 8, (3, 1)), {"stride": 2, "padding": 1, "dilation": 2, "groups": 4}),
    "AvgPool2d": ((2,), {"stride": (1, 2)}),
    "MaxPool2d": ((3,), {"padding": 1, "ceil_mode": True}),
    "Flatten": ((), {"end_dim": 2}),
}


def test_modules_print_as_pytorchs_do():
    torch = pytest.importorskip("torch")

    def made(nn):
        layers = [getattr(nn, name)(*a, **k) for name, (a, k) in LAYERS.items()]
        layers += [nn.Conv2d(2, 2, 3, padding="same", bias=False, padding_mode="reflect")]
        return nn.Sequential(*layers, nn.Sequential(OrderedDict(inner=nn.Sequential())))

    assert repr(made(nn)) == repr(made(torch.nn)).replace(", inplace=False", "")


# --- layers -----------------------------------------------------------------------------------


def twins(ours, theirs, *shape, rng):
    """Our layer with the weights of PyTorch's; and one input for both."""
    torch = pytest.importorskip("torch")
    theirs = theirs.double()
    result = ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    assert result == ([], [])
    x = rng.normal(size=shape)
    return tg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)


def close(got, wanted, rtol=1e-12):
    got, wanted = got.detach().numpy(), wanted.detach().numpy()
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol, rtol * np.abs(wanted).max(initial=1e-300))


def compare(name, *args, shape, rng, **options):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    x, y = twins(ours, theirs, *shape, rng=rng)
    for _ in range(2):
        made, wanted = ours(x), theirs(y)
        close(made, wanted)
        weights = rng.normal(size=made.shape)
        made.backward(weights)
        wanted.backward(torch.tensor(weights))
    close(x.grad, y.grad)
    for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(parameter.grad, other.grad)
    for name, buffer in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name], buffer.numpy(), 1e-12)
    close(ours.eval()(x), theirs.eval()(y))


def test_layers_equal_pytorchs(rng):
    compare("Linear", 3, 4, shape=(5, 3), rng=rng)
    compare("Linear", 3, 4, bias=False, shape=(2, 5, 3), rng=rng)
    for name in ("ReLU", "Tanh", "Sigmoid", "Flatten"):
        compare(name, shape=(2, 3, 4), rng=rng)
    compare("Flatten", 0, 1, shape=(2, 3, 4), rng=rng)
    compare("AvgPool2d", 2, shape=(2, 2, 4, 4), rng=rng)
    compare("AvgPool2d", 3, 2, 1, True, False, shape=(1, 2, 6, 5), rng=rng)
    compare("MaxPool2d", 3, 2, 1, shape=(2, 2, 7, 6), rng=rng)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [1, (2, 0), "same"], ids=str)
def test_conv2d_layers_equal_pytorchs(padding, mode, rng):
    options = {"padding": padding, "padding_mode": mode, "groups": 2}
    compare("Conv2d", 4, 6, 3, **options, shape=(2, 4, 6, 5), rng=rng)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": None},
        {"affine": False},
        {"bias": False},
        {"track_running_stats": False},
        {"eps": 0.1},
    ],
    ids=str,
)
def test_batch_norm_layers_equal_pytorchs(options, rng):
    compare("BatchNorm1d", 3, **options, shape=(5, 3), rng=rng)
    compare("BatchNorm1d", 3, **options, shape=(5, 3, 2), rng=rng)
    compare("BatchNorm2d", 3, **options, shape=(2, 3, 4, 2), rng=rng)


def test_dropout_only_in_training():
    layer, x = nn.Dropout(0.5), np.ones((40, 40))
    assert set(np.unique(layer(x))) == {0.0, 2.0}
    assert layer.eval()(x) is x


def network(nn, **options):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, **options),
        nn.BatchNorm2d(4, **options),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, **options),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 5, **options),
    )


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_convolutional_network_trains_as_in_pytorch(kind, rng):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    x, target = rng.normal(size=(8, 1, 12, 12)), rng.integers(0, 5, 8)
    options = {"lr": 0.05, "momentum": 0.9} if kind == "SGD" else {"lr": 0.01}
    theirs, ours = network(torch.nn).double(), network(nn)
    ours.load_state_dict(theirs.state_dict())
    step_ours = getattr(tg.optim, kind)(ours.parameters(), **options)
    step_theirs = getattr(torch.optim, kind)(theirs.parameters(), **options)
    losses = []
    for _ in range(10):
        step_ours.zero_grad()
        step_theirs.zero_grad()
        loss = F.cross_entropy(ours(x), target)
        wanted = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(target))
        loss.backward()
        wanted.backward()
        losses.append((loss.item(), wanted.item()))
        step_ours.step()
        step_theirs.step()
    got, wanted = np.array(losses).T
    np.testing.assert_allclose(got, wanted, rtol=1e-10)
    assert got[-1] < 0.8 * got[0]


def test_float32_stays_float32(rng):
    net = network(nn, dtype=np.float32)
    x = rng.normal(size=(4, 1, 12, 12)).astype(np.float32)
    optimizer = tg.optim.Adam(net.parameters())
    for _ in range(2):
        loss = F.cross_entropy(net(x), np.arange(4), label_smoothing=0.1)
        assert loss.dtype == np.float32
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = net.state_dict()
    assert {str(a.dtype) for a in state.values()} == {"float32", "int64"}
    assert all(p.grad.dtype == np.float32 for p in net.parameters())
    assert net.eval()(x).dtype == np.float32
