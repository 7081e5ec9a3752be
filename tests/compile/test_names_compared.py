"""Names outside compared one by one, as in first calls, and by a compiled check: one answer."""

import builtins
import types

import numpy as np
import pytest

from tapegrad._core.tensor.dependencies import (
    ABSENT,
    Dependencies,
    Dependency,
    Snapshot,
    UnchangedPart,
)


class Thing:
    rate = 1.0


def cases():
    """What is compared, and a change of it."""
    names, cell, thing, other = {"a": 1.0}, types.CellType([1]), Thing(), Thing()
    items, pairs, array = [1.0, 2], {"a": 0.0}, np.arange(3.0)
    same, zero = {"a": 1.0}, {"a": 0.0}
    return {
        "a global": (Dependency(names, "a", 1.0), lambda: names.update(a=2.0)),
        "its type": (Dependency(same, "a", 1.0), lambda: same.update(a=1)),
        "its sign": (Dependency(zero, "a", 0.0), lambda: zero.update(a=-0.0)),
        "a built-in": (Dependency(names, "len", builtins.len), lambda: names.update(len=sum)),
        "a name that comes": (Dependency(names, "b", ABSENT), lambda: names.update(b=0)),
        "a name that goes": (Dependency(same, "a", 1.0), same.clear),
        "a cell": (
            Dependency(cell, "c", cell.cell_contents),
            lambda: setattr(cell, "cell_contents", [1]),
        ),
        "an attribute": (Dependency(thing, "rate", 1.0), lambda: setattr(thing, "rate", 3.0)),
        "a missing one": (Dependency(other, "x", ABSENT), lambda: setattr(other, "x", None)),
        "a list": (Snapshot.of(items, "items"), lambda: items.append(3)),
        "a dict": (Snapshot.of(pairs, "pairs"), lambda: pairs.update(a=-0.0)),
        "an array": (Snapshot.of(array, "array"), lambda: array.fill(0.0)),
        "a part": (UnchangedPart(items, "items", [2], [1], 2), lambda: items.insert(0, 0)),
    }


@pytest.mark.parametrize("what", cases())
def test_both_see_a_change(what):
    one, change = cases()[what]
    names = Dependencies([one])
    compiled = Dependencies([one]).check
    assert names.unchanged() and compiled()
    change()
    assert not names.unchanged() and not compiled()
    assert all(not names.unchanged() for _ in range(50))  # compiled by now
