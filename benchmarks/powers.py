"""Powers of constant exponents beside PyTorch and JAX: alone, and two workloads that need them.

Each function is computed with its gradients, in float64 on one thread: recorded anew, and by its
program with native code. The figure is the best call, in microseconds. Values and gradients must
agree between the systems to a relative 1e-8.

    python -m benchmarks.powers                     all, beside the systems that are installed
    python -m benchmarks.powers particles cube      some of them
"""

import argparse
import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peer_forms, peers, workload_definitions

SIZE = 6400
#: Exponents by name, and whether numbers below 0 are raised as well.
EXPONENTS = {
    "cube": (3, True),
    "inverse_square": (-2, True),
    "three_halves": (1.5, False),
    "fourth": (4, True),
    "minus_six": (-6, False),
}
PARTICLES, PLACES, CHANNELS = 144, 64, 32


class Functions(NamedTuple):
    """The functions that systems name differently; `positive` is max(x, 0), `largest` of rows."""

    exp: Callable
    tanh: Callable
    sqrt: Callable
    positive: Callable
    largest: Callable
    constant: Callable


def numpys(np: Any = np, constant: Callable = lambda x: x) -> Functions:
    """The functions of NumPy, or of a module like it."""
    positive = lambda x: np.maximum(x, 0.0)
    return Functions(np.exp, np.tanh, np.sqrt, positive, lambda x: np.max(x, axis=1), constant)


def torchs() -> Functions:
    """Those of PyTorch."""
    import torch

    largest = lambda x: torch.amax(x, 1)
    return Functions(torch.exp, torch.tanh, torch.sqrt, torch.relu, largest, torch.tensor)


def raised(exponent, signed):
    """The sum of the powers of an array."""
    x = np.random.default_rng(0).uniform(0.1, 2.0, SIZE)
    x[::3] *= -1.0 if signed else 1.0
    return lambda _: lambda x: (x**exponent).sum(), (x,)


def particles():
    """The energy of particles: densities smoothed by cubic splines, Tait's equation of state."""
    side = np.linspace(0.0, 1.0, math.isqrt(PARTICLES))
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    x = grid + 0.01 * np.random.default_rng(1).normal(size=grid.shape)
    h, mass = 0.12, 1.0 / PARTICLES
    scale = 10.0 / (7.0 * math.pi * h**2)

    def form(of):
        def energy(x):
            d = x[:, None, :] - x[None, :, :]
            q = of.sqrt((d**2).sum(-1) + 1e-12) / h
            w = scale * (0.25 * of.positive(2.0 - q) ** 3 - of.positive(1.0 - q) ** 3)
            density = mass * w.sum(1)
            pressure = (density**7 - 1.0) / 7.0
            return (mass * pressure / density**2).sum() + ((1.0 - density) ** 4).sum()

        return energy

    return form, (x,)


def attention():
    """A layer of attention with normed rows, and a network with the cubes of GELU."""
    rng, n, d = np.random.default_rng(2), PLACES, CHANNELS
    shapes = (d, d), (d, d), (d, d), (d, 4 * d), (4 * d, d)
    data, weights = rng.normal(size=(n, d)), [rng.normal(size=s) / s[0] ** 0.5 for s in shapes]

    def form(of):
        inputs = of.constant(data)

        def normed(x):
            centred = x - x.mean(1)[:, None]
            return centred * ((centred**2).mean(1)[:, None] + 1e-5) ** -0.5

        def gelu(x):
            return 0.5 * x * (1.0 + of.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))

        def loss(query, key, value, up, down):
            y = normed(inputs)
            scores = (y @ query) @ (y @ key).T * d**-0.5
            scores = of.exp(scores - of.largest(scores)[:, None])
            y = y + (scores / scores.sum(1)[:, None]) @ (y @ value)
            y = y + gelu(normed(y) @ up) @ down
            return (y**4).mean()

        return loss

    return form, tuple(weights)


WORKLOADS = {name: lambda given=given: raised(*given) for name, given in EXPONENTS.items()}
WORKLOADS |= {"particles": particles, "attention": attention}


def builders(name):
    """Return system → builder of a call of a workload."""
    form, arguments = WORKLOADS[name]()

    def of_jax():
        import jax.numpy as jnp

        return peer_forms.by_jax(form(numpys(jnp, jnp.asarray)), arguments)

    found = {
        peers.EAGER: lambda: workload_definitions.by_tapegrad(form(numpys()), arguments),
        peers.NATIVE: lambda: workload_definitions.by_program(form(numpys()), arguments),
        "PyTorch": lambda: peer_forms.by_torch(form(torchs()), arguments),
        "JAX": of_jax,
    }
    return {
        system: build
        for system, build in found.items()
        if importlib.util.find_spec(peer_forms.MODULES.get(system, "numpy"))
    }


def main():
    """Print a table of all workloads, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="workload", help=", ".join(WORKLOADS))
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each call")
    chosen = parser.parse_args()
    for name in chosen.what or WORKLOADS:
        times, apart, _ = peers.measured(name, builders(name), chosen.budget)
        words = [f"{system} {1000 * ms:.1f} µs" for system, ms in times.items() if ms]
        wrong = [system for system, one in apart.items() if not one < peers.TOLERANCE]
        print(f"{name:16}", *words, *[f"{system} DIFFERS" for system in wrong], sep="  ")


if __name__ == "__main__":
    main()
