"""Settings of the whole suite: the same examples and the same random numbers in every run."""

import gc
import itertools
import random
import zlib
from pathlib import Path

import compiled
import numpy as np
import pytest
from assumed import needs
from extent import rounds, some
from hypothesis import HealthCheck, settings

import tapegrad as tg
from tapegrad._flow.reading import readings
from tapegrad._program.build import executable
from tapegrad._program.dispatch import evaluation
from tapegrad._program.files.encode import check
from tapegrad._program.native import simd_loops
from tapegrad._program.passes import pipeline

#: Examples in docstrings are looked for in the package, not in what tests are made of.
collect_ignore = [one for one in Path(__file__).parent.rglob("*.py") if one.name[:5] != "test_"]

settings.register_profile(
    "tapegrad",
    derandomize=True,
    deadline=None,
    max_examples=rounds(25, 10),
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("tapegrad")

#: Pages whose examples show graphs.
GRAPHS = {
    *("docs/branches.md", "docs/fast.md", "docs/numba.md", "docs/program_files.md"),
    *("docs/recipes/float32.md", "docs/scipy.md"),
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.split("::")[0] in GRAPHS:
            item.add_marker(needs("numba-reader"))


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """What a module finds is no garbage of its tests: a million objects less to look through."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def native_when_hot(monkeypatch):
    """Native code after a fixed number of evaluations, whatever they are expected to cost."""
    monkeypatch.setattr(evaluation, "patience", lambda program: compiled.HOT)


@pytest.fixture(autouse=True)
def seeded():
    """Global generators start each test alike."""
    random.seed(20)
    np.random.seed(20)


@pytest.fixture(autouse=True)
def read_anew():
    """What one test reads is not known to the next one."""
    readings.clear()


@pytest.fixture(autouse=True)
def checked(monkeypatch, request):
    """Every program is checked as it is converted, after all passes, and after each of them.

    An ordinary run looks after one of the passes, which take turns over the programs of a test.
    """
    *passes, last = pipeline.PASSES.items()
    turns, looked_at = itertools.count(zlib.crc32(request.node.nodeid.encode())), set()

    def converted(code):
        looked_at.clear()
        looked_at.update(name for name, _ in some(passes, next(turns), 1))
        check(code)
        return code

    def after(one, name=None):
        def changed(code):
            made = one(code)
            if made is not code and (name is None or name in looked_at):
                check(made)
            return made

        return changed

    between = {name: after(one, name) for name, one in passes}
    all_passes = {"converted": converted, **between, last[0]: after(last[1])}
    monkeypatch.setattr(pipeline, "PASSES", all_passes)
    monkeypatch.setattr(executable, "sum_chains", after(executable.sum_chains))


@pytest.fixture
def not_entered(monkeypatch):
    """Functions are not entered: NumPy's names stay NumPy's."""
    monkeypatch.setattr(tg.config, "enter", False)


@pytest.fixture
def unlimited():
    with compiled.unlimited():
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def whole_loops(monkeypatch):
    """Native code takes no loop apart."""
    monkeypatch.setattr(simd_loops, "FEWEST", 1 << 30)
