"""Some thousand hostile calls of all kinds; nightly there are 200 000 (hostile_calls.py)."""

import os
import subprocess
import sys

import pytest
import repeated_calls
from source_rules import ROOT

CALLS = 1500


@pytest.mark.parametrize("seed", [14, 2026])
def test_hostile_calls(seed):
    """In a process of their own: a crash ends that one alone, and its memory is looked at."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "fuzz" / "hostile_calls.py", str(CALLS), str(seed)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-400:] + done.stderr[-4000:]
    assert done.stdout.endswith("no crash, no growth\n")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_repeated_calls_do_not_grow():
    assert repeated_calls.main(100) == []


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_growth_is_found():
    kept = []
    assert "blocks" in repeated_calls.growth(lambda: kept.append([[], []]), 6000)
