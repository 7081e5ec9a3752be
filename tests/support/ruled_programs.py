"""What tests of operations by rule in programs share: programs found, matrices, functions."""

import numpy as np

from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families
from tapegrad._program.dispatch import rule_programs
from tapegrad._program.replay import operation_parts

SLOTS, OUT = 9000, 6000
load_families()
CHOLESKY, SOLVE = TABLE["cholesky"].code, TABLE["solve"].code


def refuse_python(monkeypatch):
    """No step of a program may call Python, but for the first call of a rule, which makes it."""
    parts = operation_parts.OperationUse.parts

    def refuse(*_):
        raise AssertionError("a program calls Python")

    def traced_only(self, g, *others):
        assert rule_programs.rt.trace() is not None, "a rule is called in Python"
        return parts(self, g, *others)

    monkeypatch.setattr(operation_parts.Ruled, "compute", refuse)
    monkeypatch.setattr(operation_parts.OperationUse, "parts", traced_only)


def programs_of(c):
    """All programs of a compiled function and of its transforms."""
    for one in (c, *c._derived.values()):
        for family in one._families.found.values():
            yield from (variant.program for variant in family.found)


def rules_of(c):
    """The operations by rule in them."""
    parts = [part for p in programs_of(c) for step in p.parts.of for part in step]
    return [found for found in map(operation_parts.ruled_of, parts) if found is not None]


def definite(rng, *shape):
    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


FUNCTIONS = {
    "cholesky": lambda a: np.sum(np.sin(np.linalg.cholesky(a))),
    "upper": lambda a: np.sum(np.sin(np.linalg.cholesky(a @ a.T, upper=True)) * a),
    "repeated": lambda a: np.sum(np.linalg.solve(a, a.T) * np.linalg.solve(a.T, a)),
    "itself": lambda a: np.sum(np.linalg.solve(a, a) * a),
    "vector": lambda a: np.sum(np.linalg.solve(a, a[0]) ** 2),
    "constant": lambda a: np.sum(np.linalg.solve(a, np.arange(4.0)) ** 3),
    "constant matrix": lambda a: np.sum(np.linalg.solve(np.diag([2.0, 3.0, 4.0, 5.0]), a) ** 2),
    "batch": lambda a: np.sum(np.linalg.solve(np.stack([a, 2.0 * a]), a[:, :2]) ** 2),
    "broadcast": lambda a: np.sum(np.linalg.solve(a, np.stack([a, a.T, a @ a])) ** 2),
    "factors": lambda a: np.sum(np.linalg.cholesky(np.stack([a, a @ a])) ** 3),
    "view": lambda a: np.sum(np.linalg.solve(a[::-1, ::-1].T, a[:, ::-1]) ** 2),
    "one": lambda a: np.sum(np.linalg.solve(a[:1, :1], a[:1]) * np.linalg.cholesky(a[1:2, 1:2])),
    "nothing": lambda a: np.sum(np.linalg.solve(a[:0, :0], a[:0]) ** 2) + np.sum(a * a),
    "written": lambda a: np.sum(written(a) ** 2),
    "number": lambda a: np.linalg.cholesky(a[:1, :1])[0, 0] * np.linalg.solve(a, a[0])[1],
}


def written(a):
    y = np.copy(a)
    y[0] = a[0] * 2.0
    y[1:3, 1:3] += np.linalg.cholesky(a[1:3, 1:3])
    return np.linalg.solve(y, a)
