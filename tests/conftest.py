"""Settings of the whole suite: the same examples and the same random numbers in every run."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "tapegrad",
    derandomize=True,
    deadline=None,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("tapegrad")


@pytest.fixture(autouse=True)
def seeded():
    """Global generators start each test alike."""
    random.seed(20)
    np.random.seed(20)


@pytest.fixture
def rng():
    return np.random.default_rng(7)
