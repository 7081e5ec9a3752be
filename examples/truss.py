"""Find the stiffest truss of a given volume: cross-sections of bars, by sparse equations.

Nodes of a grid are joined by bars, held at the left and loaded at the right. The displacements u
solve K(a) u = f, where the sparse stiffness K is a sum over bars, times their cross-sections a. The
work of the load, f u, is minimised, and most bars vanish. The least work is the square of the least
sum(|force| length) of bars in equilibrium with the load, a linear program, divided by the volume
(Hemp, "Optimum Structures", 1973).

Run it with `python examples/truss.py`; the picture is saved as truss.png.
"""

import itertools

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import spsolve

import tapegrad as tg

WIDE, HIGH, VOLUME = 7, 5, 10.0
NODES = np.array([*itertools.product(range(WIDE), range(HIGH))])
PAIRS = np.array([*itertools.combinations(range(len(NODES)), 2)])
STEPS = NODES[PAIRS[:, 1]] - NODES[PAIRS[:, 0]]
IS_BAR = (np.abs(STEPS).max(axis=1) <= 2) & (np.gcd(*STEPS.T) == 1)  # none leads through a node
BARS, STEPS = PAIRS[IS_BAR], STEPS[IS_BAR]
LENGTHS = np.hypot(*STEPS.T)


def equations():
    """Return the sparse matrix from forces in bars to those on free nodes, and the load there."""
    rows = 2 * BARS[:, [0, 0, 1, 1]] + [0, 1, 0, 1]
    columns = np.repeat(np.arange(len(BARS)), 4)
    parts = np.hstack([STEPS, -STEPS]) / LENGTHS[:, None]
    load = np.eye(2 * len(NODES))[-HIGH] * -1.0  # downwards, in the middle at the right
    matrix = csr_array((parts.ravel(), (rows.ravel(), columns)), shape=(len(load), len(BARS)))
    return matrix[2 * HIGH :], load[2 * HIGH :]


MATRIX, LOAD = equations()


def sections(logs):
    """Return cross-sections that have the volume in all."""
    return VOLUME * np.exp(logs) / (np.exp(logs) @ LENGTHS)


def work(logs):
    """Return the product of the load and the displacements."""
    stiffness = MATRIX @ diags_array(sections(logs) / LENGTHS) @ MATRIX.T
    return LOAD @ spsolve(stiffness.tocsc(), LOAD)


def save_picture(areas, path="truss.png"):
    """Draw the bars as wide as they are."""
    from matplotlib.figure import Figure

    axes = (figure := Figure((8, 5), layout="constrained")).subplots()
    for bar, area in zip(BARS, areas, strict=True):
        axes.plot(*NODES[bar].T, color="tab:blue", lw=12 * area)
    axes.plot(*NODES[:HIGH].T, "ks", ms=8)
    axes.arrow(WIDE - 1, 1.8, 0, -0.7, width=0.04, color="tab:red")
    axes.set(aspect="equal", title=f"The stiffest truss of {len(BARS)} bars")
    axes.set_axis_off()
    figure.savefig(path, dpi=110)


def main():
    """Optimise, compare with the linear program, and draw."""
    objective, start = tg.compile(work).value_and_grad, np.zeros(len(BARS))
    found = minimize(objective, start, jac=True, bounds=[(-14.0, 6.0)] * len(BARS))
    both = np.hstack([MATRIX.toarray(), -MATRIX.toarray()])  # pulled, and pushed
    least = linprog(np.tile(LENGTHS, 2), A_eq=both, b_eq=LOAD).fun ** 2 / VOLUME
    print(f"work {found.fun:.4f} after {found.nit} iterations; it cannot be less than {least:.4f}")
    assert least < found.fun < 1.0001 * least
    save_picture(sections(found.x))


if __name__ == "__main__":
    main()
