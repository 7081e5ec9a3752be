"""Draws the pictures of docs/idea.md from real recordings.

`python docs/make_pictures.py` writes SVG files to docs/pictures; a folder may be named, and with
`--png` it writes PNG files too. It needs matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tapegrad as tg
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tape.tape import BLUE, FONT, GREEN, INK, PALE, RED, Tape

try:
    import matplotlib.pyplot as plt
except ImportError:  # the tests import this file and draw nothing
    plt = None

HERE = Path(__file__).resolve().parent / "pictures"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tapegrad",
    "font.size": 10,
    "font.family": FONT,
}


def canvas(width: float, height: float):
    """Axes whose unit is 1/10 inch, y pointing down, without frame."""
    figure = plt.figure(figsize=(width / 10, height / 10))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def box(axes, x, y, width, text="", colour="white", height=3.0, bold=False):
    axes.add_patch(plt.Rectangle((x, y), width, height, facecolor=colour, edgecolor=INK, lw=0.8))
    label(axes, x + width / 2, y + height / 2, text, ha="center", weight="bold" if bold else None)


def label(axes, x, y, text, **style):
    axes.text(x, y, text, **{"va": "center", "color": INK, "parse_math": False, **style})


def arrow(axes, start, end, colour=INK, bend=0.0):
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.0, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops={**style, "connectionstyle": f"arc3,rad={bend}"})


def short(value) -> str:
    return f"{value:.4g}".replace("-", "−")


def adjoints(tape: Tape) -> list[float]:
    """Adjoints of the scalar rows of a tape, by the table's partials: the sweep in ten lines."""
    found = [0.0] * len(tape)
    found[tape.outputs[0]] = 1.0
    for number in reversed(range(len(tape))):
        row = tape.rows[number]
        if row.op == "input":
            continue
        values = [tape.rows[o[0]].value if isinstance(o, tuple) else o for o in row.operands]
        names = dict(zip(TABLE[row.op].inputs, values, strict=True))
        for operand, partial in zip(row.operands, TABLE[row.op].partials, strict=True):
            if isinstance(operand, tuple):
                value = eval(partial, {"np": np}, {**names, "out": row.value})
                found[operand[0]] += found[number] * value
    return found


def draw_tape():
    """Rows, values, and the adjoints that the sweep leaves."""
    tape = tg.record(lambda x, y: x * y + np.sin(x), 2.0, 3.0)
    swept = adjoints(tape)
    assert np.allclose(swept[:2], tg.grad(lambda x, y: x * y + np.sin(x), (0, 1))(2.0, 3.0))
    figure, axes = canvas(76, 31)
    left, wide = 14, (5, 11, 12, 10, 12)
    at = [left + sum(wide[:k]) for k in range(len(wide))]
    for x, width, text in zip(at, wide, ("row", "op", "operands", "value", "adjoint"), strict=True):
        box(axes, x, 6, width, text, PALE, bold=True)
    for number, row in enumerate(tape.rows):
        y = 9 + 3 * number
        operands = ", ".join(str(operand[0]) for operand in row.operands)
        cells = (str(number), row.op, operands, short(row.value), short(swept[number]))
        colours = ("white", BLUE if row.op == "input" else "white", "white", GREEN, RED)
        for x, width, text, colour in zip(at, wide, cells, colours, strict=True):
            box(axes, x, y, width, text, colour)
    bottom = 9 + 3 * len(tape)
    label(axes, 38, 2.5, "z = x * y + np.sin(x)   at x = 2, y = 3", ha="center", weight="bold")
    arrow(axes, (11, 9.5), (11, bottom - 0.5))
    label(axes, 5.2, bottom / 2 + 3, "record:\ntop down", ha="center")
    arrow(axes, (67, bottom - 0.5), (67, 9.5), "#a02020")
    label(axes, 71.8, bottom / 2 + 3, "sweep:\nbottom up", ha="center")
    label(axes, 38, bottom + 2.8, "seed 1 at the output; the inputs' adjoints are the gradient",
          ha="center")  # fmt: skip
    return figure


def cells(axes, x, y, values, colours, width=6.0):
    for k, (value, colour) in enumerate(zip(values, colours, strict=True)):
        text = value if isinstance(value, str) else short(value)
        box(axes, x + k * width, y, width, text, colour)


def brace(axes, x, width, y, text, below=False):
    """A line over or under some cells, with its name."""
    side = 1 if below else -1
    axes.plot([x, x, x + width, x + width], [y, y + side, y + side, y], color=INK, lw=0.9)
    label(axes, x + width / 2, y + 2.4 * side, text, ha="center")


def draw_views():
    """A buffer, two views of it, and its adjoint buffer with the same views."""

    def f(x):
        return np.sum((x[1:] - x[:-1]) ** 2)

    x = np.array([1.0, 2.0, 4.0, 7.0, 8.0])
    tape = tg.record(f, x)
    subtract = tape.rows[1]
    assert subtract.op == "subtract" and [o[0] for o in subtract.operands] == [0, 0]
    base = tape.rows[0].value.ctypes.data
    starts = [(operand[1].ctypes.data - base) // 8 for operand in subtract.operands]
    gradient = tg.grad(f)(x)
    step = 2 * subtract.value  # the adjoint of x[1:] − x[:-1]
    figure, axes = canvas(76, 38)
    title = "d = x[1:] - x[:-1];   z = np.sum(d**2)"
    label(axes, 38, 2.5, title, ha="center", weight="bold")
    left = 23
    cells(axes, left, 9, x, [GREEN] * 5)
    label(axes, 21, 10.5, "buffer of x", ha="right")
    brace(axes, left + 6 * starts[0] + 0.4, 23.2, 8.6, "x[1:]: offset 1, length 4")
    brace(axes, left + 6 * starts[1] + 0.4, 23.2, 12.4, "x[:-1]: offset 0, length 4", below=True)
    cells(axes, left + 3, 19, step, [RED] * 4)
    label(axes, 24, 20.5, "adjoint of d", ha="right")
    arrow(axes, (left + 13, 22.2), (left + 13, 28.6), "#a02020")
    label(axes, left + 12, 25.2, "added where x[:-1] lies: −", ha="right")
    arrow(axes, (left + 17, 22.2), (left + 17, 28.6), "#a02020")
    label(axes, left + 18, 25.2, "added where x[1:] lies: +", ha="left")
    cells(axes, left, 29, gradient, [RED] * 5)
    label(axes, 21, 30.5, "adjoint buffer of x", ha="right")
    label(axes, 38, 35, "a view costs no row: its adjoint is the same view of the adjoint buffer",
          ha="center")  # fmt: skip
    return figure


def draw_write():
    """An in-place write: what is kept, and how the sweep undoes it."""

    def f(x):
        y = np.zeros_like(x)
        y[0] = x[0]
        y[1] = y[0] * x[1]
        y[:1] = 5.0
        return y[1]

    tape = tg.record(f, np.array([2.0, 3.0]))
    write = [row for row in tape.rows if row.op == "write"][-1]
    kept, new = (float(np.squeeze(one)) for one in write.operands[1:])
    other = float(tape.rows[-1].value)
    assert (kept, new) == (2.0, 5.0)
    figure, axes = canvas(76, 29)
    label(axes, 38, 2.5, "y[:1] = 5.0", ha="center", weight="bold")
    for x, title in ((13, "before"), (34, "after the write"), (58, "after its sweep")):
        label(axes, x + 6, 6, title, ha="center")
    label(axes, 11.5, 9.5, "buffer of y", ha="right")
    cells(axes, 13, 8, (kept, other), (GREEN, GREEN))
    cells(axes, 34, 8, (new, other), (BLUE, GREEN))
    cells(axes, 58, 8, (kept, other), (GREEN, GREEN))
    arrow(axes, (26, 9.5), (33, 9.5))
    arrow(axes, (47, 9.5), (57, 9.5), "#a02020")
    label(axes, 52, 7.6, "undone", ha="center")
    label(axes, 11.5, 15.5, "row", ha="right")
    box(axes, 29.5, 14, 21, f"write y[:1], kept {short(kept)}", PALE)
    label(axes, 11.5, 21.5, "adjoint of y", ha="right")
    cells(axes, 34, 20, ("g", "1"), (RED, RED))
    cells(axes, 58, 20, (0.0, "1"), ("white", RED))
    arrow(axes, (47, 21.5), (57, 21.5), "#a02020")
    label(axes, 38, 26.5, "g goes to what was written (here a number: nowhere), then the cell is 0",
          ha="center")  # fmt: skip
    return figure


def save_program(path) -> None:
    """A program's own picture: Rosenbrock's nine rows have become one step."""

    def rosenbrock(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    compiled = tg.compile(rosenbrock)
    compiled(np.ones(10))
    compiled.draw(path)


PICTURES = {"tape": draw_tape, "views": draw_views, "write": draw_write}


def main(arguments) -> None:
    folder = Path(next((a for a in arguments if not a.startswith("-")), HERE))
    plt.switch_backend("Agg")
    plt.rcParams.update(STYLE)
    for name, draw in PICTURES.items():
        figure = draw()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        if "--png" in arguments:
            figure.savefig(folder / f"{name}.png", dpi=110)
        plt.close(figure)
    save_program(folder / "program.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
