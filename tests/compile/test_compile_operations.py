"""Every operation and every function of `nn.functional`, compiled, with other inputs each time.

What reads a value without telling would leave it in the program.
"""

import numpy as np
import pytest
import special_rows
from compiled import check, refused

import tapegrad as tg
from tapegrad._core.ops.sample_inputs import example
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.tensor.registry import load_families

load_families()

F = tg.nn.functional
#: What has no program.
REFUSED = {"called", "convert", "scatter_add", "function"}


PARTS = {name for name in TABLE if name.startswith("complex_")}


@pytest.mark.parametrize("name", sorted(TABLE.keys() - REFUSED - PARTS - special_rows.NAMES))
@pytest.mark.parametrize("shape", [(5,), (12,)])
def test_operations(name, shape):
    rng = np.random.default_rng(1)
    op = TABLE[name]
    function, _ = example(op, shape, rng, tg)
    f = lambda *x: np.sum(np.sin(function(*x)) * 1.5)
    calls = [tuple(example(op, shape, rng, tg)[1]) for _ in range(4)]
    count = len(op.inputs) if isinstance(op, Pointwise) else 1
    check(f, calls, 1e-11, argnums=tuple(range(count)), verify="never", recorded=1)


def images(x):
    return x.reshape(2, 2, 5, 5)


LAYERS = {
    "relu": lambda x: F.relu(x),
    "tanh": lambda x: F.tanh(x) + F.sigmoid(x),
    "softmax": lambda x: F.softmax(x.reshape(10, 10), 1) * F.log_softmax(x.reshape(10, 10), 0),
    "linear": lambda x: F.linear(x.reshape(10, 10)[:3], x.reshape(10, 10)[3:], x[:7]),
    "mse_loss": lambda x: F.mse_loss(x[:50], x[50:]),
    "nll_loss": lambda x: F.nll_loss(x.reshape(25, 4), np.arange(25) % 4),
    "cross_entropy": lambda x: F.cross_entropy(x.reshape(25, 4), np.arange(25) % 4),
    "probabilities": lambda x: F.cross_entropy(x[:48].reshape(12, 4), x[48:96].reshape(12, 4)),
    "conv2d": lambda x: F.conv2d(images(x), x[:16].reshape(2, 2, 2, 2), padding=1),
    "avg_pool2d": lambda x: F.avg_pool2d(images(x), 2, padding=1),
    "max_pool2d": lambda x: F.max_pool2d(images(x), 3, 1),
    "grid_sample": lambda x: F.grid_sample(images(x), x[:36].reshape(2, 3, 3, 2) * 0.7),
    "border": lambda x: F.grid_sample(images(x), x[:36].reshape(2, 3, 3, 2), "bilinear", "border"),
    "batch_norm": lambda x: F.batch_norm(images(x), None, None, x[:2], x[2:4], training=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    rng = np.random.default_rng(2)
    f = lambda x: np.sum(np.cos(LAYERS[name](x)))
    check(f, [(rng.normal(size=100),) for _ in range(4)], 1e-11, verify="never", recorded=1)


def test_classes_and_statistics_as_data():
    rng = np.random.default_rng(3)

    def f(x, target, mean, var):
        scores = F.batch_norm(x, mean, var)
        return F.cross_entropy(scores, target, ignore_index=3) + F.nll_loss(scores, target)

    calls = [
        (rng.normal(size=(9, 4)), rng.integers(0, 3, 9), rng.normal(size=4), rng.uniform(size=4))
        for _ in range(4)
    ]
    check(f, calls, verify="never", recorded=1)
    c = tg.compile(f)
    c(*calls[0])
    with pytest.raises(IndexError, match="the target has class 4"):
        c(calls[1][0], np.arange(9), *calls[1][2:])


def test_reductions_over_masks_that_are_data():
    f = lambda x, m, w: (
        np.sum(x, where=m) + np.mean(x * 2, where=m) * np.any(x > 0, where=m) + np.average(x, 0, w)
    )
    rng = np.random.default_rng(4)
    calls = [(rng.normal(size=6), rng.uniform(size=6) < 0.7, rng.uniform(size=6)) for _ in range(6)]
    c = tg.compile(f, verify="never")
    for args in calls * 2:
        np.testing.assert_allclose(c.value_and_grad(*args)[0], f(*args), 1e-12)
    assert c._reason is None


def test_stacked_numbers_of_other_dtypes():
    f = lambda x: np.sum(np.stack([x[0], np.argmax(x), x[1] > 0.0]) * x[:3])
    rng = np.random.default_rng(5)
    check(f, [(rng.normal(size=5),) for _ in range(6)], verify="never", recorded=1)


def test_layers_with_state_are_refused():
    mean, var = np.zeros(4), np.ones(4)
    f = lambda x: np.sum(F.batch_norm(x, mean, var, training=True) ** 3)
    calls = [(np.random.default_rng(k).normal(size=(9, 4)),) for k in range(2)]
    assert "running statistics" in refused(f, calls)
    g = lambda x: np.sum(F.dropout(x, 0.0) + F.dropout(x, 1.0))
    assert "random numbers" in refused(g, calls)


def test_what_cannot_be_recorded_is_called_as_it_is():
    f = lambda x, data: np.sum(x * np.sort_complex(data).real[1])
    calls = [(np.arange(3.0) + k, np.linspace(0, 1, 3)) for k in range(3)]
    assert "recorded it raises DerivativeLost: tapegrad: sort_complex()" in refused(f, calls)
