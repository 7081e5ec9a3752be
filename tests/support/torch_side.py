"""The same script run with tapegrad and with PyTorch; skips where PyTorch is missing."""

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")


def plain(value):
    """Tensors as arrays, at any depth; other values as they are."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (tg.Tensor, torch.Tensor)):
        return np.array(value.detach().numpy())
    return value


def same(ours, theirs, where="result"):
    if isinstance(theirs, list):
        assert isinstance(ours, list) and len(ours) == len(theirs), f"{where}: {ours} {theirs}"
        for k, pair in enumerate(zip(ours, theirs, strict=True)):
            same(*pair, f"{where}[{k}]")
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (np.ndarray, float)):
        assert np.shape(ours) == np.shape(theirs), where
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15, err_msg=where)
    else:
        assert ours == theirs, f"{where}: {ours} is not {theirs}"


def both(script, *args):
    """Run `script(library, *args)` with both; what they return must be equal. Returns ours."""
    ours = plain(script(tg, *args))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        theirs = plain(script(torch, *args))
    finally:
        torch.set_default_dtype(before)
    same(ours, theirs)
    return ours


def leaf(library, value):
    """An input of one of the two libraries."""
    return library.tensor(value, requires_grad=True)


def make(lib, forward, backward, **more):
    """A Function of either library from plain functions."""
    methods = {"forward": forward, "backward": backward, **more}
    methods = {name: staticmethod(method) for name, method in methods.items()}
    return type("Made", (lib.autograd.Function,), methods).apply


def exp_of(lib):
    def forward(ctx, x):
        y = lib.exp(x)
        ctx.save_for_backward(y)
        return y

    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y

    return make(lib, forward, backward)
