"""The functions that the workloads of rows use, as each system calls them."""

from types import SimpleNamespace

from benchmarks import peer_forms

_SHARED = ("sum", "log", "exp", "tanh")


def of_numpy():
    """NumPy's functions, which record tensors."""
    import numpy as np

    def added(like, at, rows):
        made = np.zeros_like(like)
        np.add.at(made, at, rows)
        return made

    shared = {name: getattr(np, name) for name in _SHARED}
    return SimpleNamespace(**shared, index=np.asarray, constant=np.asarray, added=added)


def of_torch():
    """PyTorch's functions."""
    import torch

    shared = {name: getattr(torch, name) for name in _SHARED}
    return SimpleNamespace(
        **shared,
        index=torch.as_tensor,
        constant=torch.as_tensor,
        added=lambda like, at, rows: torch.zeros_like(like).index_add(0, at, rows),
    )


def of_jax():
    """JAX's functions."""
    peer_forms.import_jax()
    import jax.numpy as jnp

    shared = {name: getattr(jnp, name) for name in _SHARED}
    return SimpleNamespace(
        **shared,
        index=jnp.asarray,
        constant=jnp.asarray,
        added=lambda like, at, rows: jnp.zeros_like(like).at[at].add(rows),
    )


SYSTEMS = {"tapegrad": of_numpy, "PyTorch": of_torch, "JAX": of_jax}
