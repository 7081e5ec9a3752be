"""Functions of tensors judged by the same functions of PyTorch's; skips where it is missing."""

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")
RANDOM = np.random.default_rng(0)


def compare(ours, theirs, *arrays, rtol=1e-12, like=None):
    """Value and gradients of a function, weighted so that every adjoint differs."""
    tensors = [tg.tensor(a, requires_grad=True) for a in arrays]
    others = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, expected = ours(*tensors), theirs(*others)
    assert np.shape(out) == tuple(expected.shape)
    if like is not None:
        plain = like(*arrays)
        assert np.shape(plain) == np.shape(out)
        assert np.asarray(plain).dtype == out.dtype
        np.testing.assert_allclose(out.detach().numpy(), plain, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(
        np.asarray(out.detach().numpy()), expected.detach().numpy(), rtol=rtol, atol=rtol
    )
    weights = np.cos(np.arange(expected.numel())).reshape(expected.shape)
    weights = weights.astype(arrays[0].dtype)
    np.sum(out * weights).backward()
    (expected * torch.tensor(weights)).sum().backward()
    for mine, their in zip(tensors, others, strict=True):
        if their.grad is None:
            continue
        wanted = their.grad.numpy()
        scale = np.abs(wanted).max(initial=1.0)
        got = mine.grad.numpy() if mine.grad is not None else np.zeros_like(wanted)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * scale)


def transposed(x):
    """The transposed view, of tensors of both kinds."""
    return np.einsum("ij->ji", x) if isinstance(x, tg.Tensor) else x.T


def normal(*shape, dtype=np.float64):
    return RANDOM.normal(size=shape).astype(dtype)
