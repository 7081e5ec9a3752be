"""The generator of random numbers behind initial values and dropout."""

from __future__ import annotations

import numpy as np

_state = {"generator": np.random.default_rng()}


def manual_seed(seed: int) -> np.random.Generator:
    """Seed the generator of random numbers behind initial values and dropout.

    Parameters
    ----------
    seed : int
        The seed.

    Returns
    -------
    numpy.random.Generator
        NumPy's generator with that seed. Its numbers are not those of PyTorch.

    Examples
    --------
    >>> import tapegrad as tg
    >>> _ = tg.manual_seed(0)
    >>> first = tg.nn.Linear(2, 3)
    >>> _ = tg.manual_seed(0)
    >>> second = tg.nn.Linear(2, 3)
    >>> bool((first.weight == second.weight).all())
    True
    """
    _state["generator"] = np.random.default_rng(seed)
    return _state["generator"]


def generator_or(generator: np.random.Generator | None) -> np.random.Generator:
    """The generator given, or else the common one."""
    return _state["generator"] if generator is None else generator
