"""The functions that the workloads of matrices use, as each system calls them.

`SYSTEMS[name]()` imports the system and returns its functions; `DIFFERENTIATE[name]` makes a call
of value and gradients out of a function and its arguments. Nothing is imported before that.
"""

import functools
from types import SimpleNamespace

from benchmarks import peer_forms, workload_definitions


def in_order(body, state, items):
    """Return the state after a Python loop over the items."""
    for item in items:
        state = body(state, item)
    return state


def of_numpy():
    """NumPy's functions, which record tensors, and SciPy's by their stand-ins."""
    import numpy as np

    from tapegrad.scipy import linalg

    return SimpleNamespace(
        **{name: getattr(np.linalg, name) for name in PLAIN},
        **{name: getattr(np, name) for name in ("sum", "log", "exp", "diagonal")},
        constant=np.asarray,
        svd=lambda a: np.linalg.svd(a, full_matrices=False),
        rfft=np.fft.rfft,
        expm=linalg.expm,
        solve_lower=lambda a, b: linalg.solve_triangular(a, b, lower=True),
        loop=in_order,
    )


def of_torch():
    """PyTorch's functions."""
    import torch

    def solve_lower(a, b):
        return torch.linalg.solve_triangular(a, b[:, None], upper=False)[:, 0]

    return SimpleNamespace(
        **{name: getattr(torch.linalg, name) for name in PLAIN},
        **{name: getattr(torch, name) for name in ("sum", "log", "exp", "diagonal")},
        constant=torch.tensor,
        svd=lambda a: torch.linalg.svd(a, full_matrices=False),
        rfft=torch.fft.rfft,
        expm=torch.linalg.matrix_exp,
        solve_lower=solve_lower,
        loop=in_order,
    )


def of_jax():
    """JAX's functions; loops are its scan."""
    jax = peer_forms.import_jax()
    import jax.numpy as jnp
    from jax.scipy import linalg

    def scanned(body, state, items):
        return jax.lax.scan(lambda state, item: (body(state, item), None), state, items)[0]

    return SimpleNamespace(
        **{name: getattr(jnp.linalg, name) for name in PLAIN},
        **{name: getattr(jnp, name) for name in ("sum", "log", "exp", "diagonal")},
        constant=jnp.asarray,
        svd=lambda a: jnp.linalg.svd(a, full_matrices=False),
        rfft=jnp.fft.rfft,
        expm=linalg.expm,
        solve_lower=lambda a, b: linalg.solve_triangular(a, b, lower=True),
        loop=scanned,
    )


#: Functions of one name and meaning in all `linalg`.
PLAIN = ("cholesky", "solve", "slogdet", "eigh", "inv", "det")

SYSTEMS = {"tapegrad": of_numpy, "PyTorch": of_torch, "JAX": of_jax}

DIFFERENTIATE = {
    "tapegrad": workload_definitions.by_tapegrad,
    "tapegrad replay": functools.partial(workload_definitions.by_program, native=False),
    "tapegrad native": workload_definitions.by_program,
    "PyTorch": peer_forms.by_torch,
    "JAX": peer_forms.by_jax,
}
