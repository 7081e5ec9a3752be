"""Settings of the whole suite: the same examples and the same random numbers in every run."""

import gc
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tapegrad.program import optimising, program
from tapegrad.program.checking import check
from tapegrad.replay import lanes

#: Parts of the checked build, which need a library that it loads.
collect_ignore = ["checked_memory.py", "checked_plugin.py"]

settings.register_profile(
    "tapegrad",
    derandomize=True,
    deadline=None,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("tapegrad")


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """What a module finds is no garbage of its tests: a million objects less to look through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded():
    """Global generators start each test alike."""
    random.seed(20)
    np.random.seed(20)


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Every program is checked as it is converted, and after each pass."""

    def after(one):
        def changed(code):
            made = one(code)
            check(made)
            return made

        return changed

    passes = {"converted": lambda code: code, **optimising.PASSES}
    passes = {name: after(one) for name, one in passes.items()}
    monkeypatch.setattr(optimising, "PASSES", passes)
    monkeypatch.setattr(program, "sum_chains", after(program.sum_chains))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def whole_loops(monkeypatch):
    """Native code takes no loop apart."""
    monkeypatch.setattr(lanes, "FEWEST", 1 << 30)
