"""Compiled log densities as models of nutpie, which draws samples by NUTS."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class Parameters:
    """Named parameters in one vector: an array or number, called "x", or a dict of them."""

    def __init__(self, like):
        self.is_named = isinstance(like, Mapping)
        named = dict(like) if self.is_named else {"x": like}
        found = {name: np.asarray(value, float) for name, value in named.items()}
        wrong = [name for name in found if not isinstance(name, str)]
        if wrong or not found:
            raise TypeError(
                "tapegrad.compile: nutpie_model takes an array, a number, or a dict of them by "
                f"their names, and got {wrong[0]!r} as a name"
                if wrong
                else "tapegrad.compile: nutpie_model takes parameters, and got an empty dict"
            )
        self.shapes = {name: value.shape for name, value in found.items()}
        self.vector = np.concatenate([value.ravel() for value in found.values()])
        self.ends = np.cumsum([value.size for value in found.values()])

    def named(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters in a vector, by their names."""
        parts = np.split(vector, self.ends[:-1])
        return {n: part.reshape(s) for (n, s), part in zip(self.shapes.items(), parts, strict=True)}

    def given(self, vector: np.ndarray):
        """The argument of the log density; numbers are Python's."""
        named = {
            name: part if part.ndim else part.item() for name, part in self.named(vector).items()
        }
        return named if self.is_named else named["x"]

    def gradient(self, found) -> np.ndarray:
        """A gradient as a vector."""
        parts = [found[name] for name in self.shapes] if self.is_named else [found]
        return np.concatenate([np.ravel(part) for part in parts])


def nutpie_model(value_and_grad: Callable, like, others: tuple) -> Any:
    """A model of the log density whose value and gradient a function gives."""
    try:
        nutpie: Any = importlib.import_module("nutpie")
    except ImportError as error:
        raise ImportError(
            "tapegrad.compile: nutpie_model needs nutpie, which is not installed: pip install "
            "nutpie"
        ) from error
    parameters = Parameters(like)

    def log_density(vector):
        value, gradient = value_and_grad(parameters.given(np.array(vector)), *others)
        return value, parameters.gradient(gradient)

    def start(seed):
        """Around the given parameters, so that chains which agree have found each other."""
        return parameters.vector + np.random.default_rng(seed).uniform(
            -1.0, 1.0, parameters.vector.size
        )

    return nutpie.compiled_pyfunc.from_pyfunc(
        ndim=parameters.vector.size,
        make_logp_fn=lambda: log_density,
        make_expand_fn=lambda *seeds: parameters.named,
        expanded_dtypes=[np.dtype("float64")] * len(parameters.shapes),
        expanded_shapes=[*parameters.shapes.values()],
        expanded_names=[*parameters.shapes],
        make_initial_point_fn=start,
    )
