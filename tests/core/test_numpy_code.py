"""Plain NumPy functions differentiated unchanged: values and gradients to 1e-12."""

import numpy as np
import pytest
from naive import check, close

import tapegrad as tg


def twin(f):
    """Value and gradients by PyTorch."""
    torch = pytest.importorskip("torch")

    def evaluate(*arrays):
        inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
        out = f(torch, *inputs)
        out.backward()
        return out.item(), [x.grad.numpy() for x in inputs]

    return evaluate


# --- whole arrays -----------------------------------------------------------------------------


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("n", [2, 3, 50, 5001])
def test_rosenbrock(n, rng):
    x = rng.normal(size=n)
    value, gradient = tg.value_and_grad(rosenbrock)(x)
    wanted = np.zeros(n)
    inner = x[1:] - x[:-1] ** 2
    wanted[:-1] = -400 * x[:-1] * inner - 2 * (1 - x[:-1])
    wanted[1:] += 200 * inner
    close(value, rosenbrock(x))
    close(gradient, wanted)
    if n <= 50:
        check(rosenbrock, x)


def test_rosenbrock_equals_pytorch(rng):
    check(rosenbrock, rng.normal(size=40), against=twin(lambda torch, x: rosenbrock_torch(x)))


def rosenbrock_torch(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


DATA = np.random.default_rng(3).normal(size=(60, 3))
CENSORED = np.random.default_rng(4).uniform(size=60) < 0.3


def log_likelihood(beta, log_scale):
    """Censored regression: two branches of np.where, one of them NaN where it is not taken."""
    mean = beta[0] + beta[1] * DATA[:, 0] + beta[2] * DATA[:, 1]
    z = (DATA[:, 2] - mean) / np.exp(log_scale)
    seen = -0.5 * z**2 - log_scale
    cut = np.log(0.5 + 0.5 * np.tanh(-z))
    with np.errstate(invalid="ignore"):
        return np.sum(np.where(CENSORED, cut, seen) + np.where(z > 0, np.sqrt(z), -(z**2)))


def log_likelihood_torch(torch, beta, log_scale):
    data, censored = torch.tensor(DATA), torch.tensor(CENSORED)
    mean = beta[0] + beta[1] * data[:, 0] + beta[2] * data[:, 1]
    z = (data[:, 2] - mean) / torch.exp(log_scale)
    cut = torch.log(0.5 + 0.5 * torch.tanh(-z))
    first = torch.where(censored, cut, -0.5 * z**2 - log_scale).sum()
    safe = torch.where(z > 0, z, torch.ones_like(z))  # torch leaks NaN without this
    return first + torch.where(z > 0, torch.sqrt(safe), -(z**2)).sum()


def test_log_likelihood_with_where():
    at = np.array([0.1, 0.4, -0.3]), np.array(0.2)
    check(log_likelihood, *at, against=twin(log_likelihood_torch))


def test_branches_on_values(rng):
    def f(x):
        total = 0.0
        for k in range(len(x)):
            if x[k] > 0:
                total = total + np.sin(x[k]) * x[k - 1]
            elif x[k] < -0.5:
                total = total - x[k] ** 2
        return total

    check(f, rng.normal(size=30))


# --- indices ----------------------------------------------------------------------------------

TIMES = np.array([0, 2, 2, 5, -1, 2])
MASK = np.array([True, False, True, True, False, False])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x[TIMES] ** 2 * np.arange(6.0)),
        lambda x: np.sum(np.sin(x[MASK]) * x[MASK]),
        lambda x: np.sum(x[x > 0] ** 3),
        lambda x: np.sum(x[[1, 1, 1]] * x[[0, 1, 2]]),
        lambda x: np.sum(x[np.array([[0, 1], [1, 5]])] ** 2),
        lambda x: np.sum(x[x > 100]) + x[0],
        lambda x: np.sum(x[:, None] * x[None, :] * np.arange(36.0).reshape(6, 6)),
        lambda x: np.sum(x[::-1] * x[[5, 4, 3, 2, 1, 1]]),
        lambda x: x[-1] * x[np.int64(2)] - x[3],
        lambda x: np.sum(x[...] * x[np.newaxis][0]),
    ],
)
def test_reading_by_index(f, rng):
    check(f, rng.normal(size=6))


@pytest.mark.parametrize(
    "key",
    [
        np.s_[1],
        np.s_[1, 2],
        np.s_[..., 0],
        np.s_[:, ::-2],
        np.s_[None, 1:, 0],
        np.s_[[0, 2, 2]],
        np.s_[[0, 2, 2], [1, 1, 1]],
        np.s_[:, [3, 0, 3]],
        np.s_[[[0], [1]], [2, 2, 3]],
        np.s_[1, [0, 0]],
        np.s_[np.array([True, False, True])],
        np.s_[np.array([True, False, True]), 1:3],
        np.s_[np.arange(12).reshape(3, 4) % 3 == 0],
        np.s_[0:0],
        np.s_[[]],
        np.s_[np.array(1)],
    ],
    ids=str,
)
def test_every_kind_of_key_reads_and_writes(key, rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    shape = x[key].shape
    weights = rng.normal(size=shape)

    def read(x):
        return np.sum(weights * np.sin(x[key])) + x[0, 0]

    def write(x, y):
        f = x * 2.0
        f[key] = np.sin(y[key])
        f[key] *= x[key]
        return np.sum(f**2 * np.arange(1.0, 13.0).reshape(3, 4))

    def write_number(x, y):
        f = x * y
        f[key] = x[1, 1]
        f[key] += 1.5
        return np.sum(f * f * np.arange(1.0, 13.0).reshape(3, 4))

    check(read, x)
    check(write, x, y)
    check(write_number, x, y)


def test_indices_computed_from_values(rng):
    x = rng.normal(size=9)
    check(
        lambda x: x[np.argmax(x)] * x[np.argmin(x)],
        x,
        against=twin(lambda torch, x: x[x.argmax()] * x[x.argmin()]),
    )
    order = np.argsort(x)
    wanted = np.zeros(9)
    wanted[order] = np.arange(9.0)
    close(tg.grad(lambda x: np.sum(x[np.argsort(x)] * np.arange(9.0)))(x), wanted)
