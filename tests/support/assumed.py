"""Tests of what tapegrad does only where an assumption holds that it can do without (`compat`)."""

import pytest

from tapegrad._core.codegen import compat


def needs(name: str):
    """A mark of tests that are skipped where `TAPEGRAD_WITHOUT` names the assumption."""
    reason = f"without {name}: {compat.ASSUMPTIONS[name].without}"
    return pytest.mark.skipif(name in compat.switched_off(), reason=reason)
