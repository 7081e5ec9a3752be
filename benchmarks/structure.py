"""How much of the package there is, and how much of it one call runs: exact counts, no times.

`python -m benchmarks.structure` prints both: files, lines and class names that occur twice; per
call the calls of the package's Python functions, the functions, their files, and how often one file
or folder follows another. Compiled code counts as nothing.
"""

import ast
import collections
import subprocess
import sys
from pathlib import Path

import numpy as np

import tapegrad as tg

PACKAGE = Path(tg.__file__).parent
COLUMNS = ("calls", "functions", "files", "between files", "between folders")
X = np.array([0.3, 0.7])
XS = np.linspace(0.1, 1.0, 20)
MATRIX = np.array([[4.0, 1.0], [1.0, 3.0]])


def products(x):
    return x[0] * np.sin(x[1])


def loop(x):
    total = 0.0
    for k in range(len(x)):
        total = total + np.sin(x[k]) * x[k]
    return total


def written(x):
    y = np.zeros(2)
    y[:] = x
    y[0] *= 2.0
    return np.sum(y * y)


def branching(x):
    total = 0.0
    for k in range(len(x)):
        total = total + (x[k] ** 2 if x[k] > 0.5 else np.sin(x[k]))
    return total


def solved(x):
    return np.sum(np.linalg.solve(MATRIX * x[0], x) ** 2)


def _compiled(f, way, *before):
    """A call of a compiled function after others; other arguments take other branches."""
    c = tg.compile(f)
    for at in before:
        getattr(c, way)(at)
    return lambda: getattr(c, way)(XS if f in (loop, branching) else X)


def _native(way):
    """A call of a function of a loop that has native code."""
    return _compiled(loop, way, *[XS] * 300)


def _backward():
    def call():
        x = tg.tensor(X, requires_grad=True)
        products(x).backward()

    call()
    return call


#: What is prepared before each call that is counted.
CALLS = {
    "backward": _backward,
    "grad, scalar loop": lambda: lambda: tg.grad(loop)(X),
    "grad, write through a view": lambda: lambda: tg.grad(written)(X),
    "hessian": lambda: lambda: tg.hessian(products)(X),
    "hvp": lambda: lambda: tg.hvp(products)(X, X),
    "vmap of grad": lambda: lambda: tg.vmap(tg.grad(products))(np.ones((3, 2))),
    "compiled, first call": lambda: _compiled(products, "grad"),
    "compiled, second call": lambda: _compiled(products, "grad", X + 0.1),
    "compiled, third call": lambda: _compiled(products, "grad", X + 0.1, X + 0.2),
    "compiled, another branch": lambda: _compiled(branching, "grad", 0.4 * XS),
    "compiled hessian by a graph": lambda: _compiled(branching, "hessian", 0.4 * XS),
    "the same again": lambda: _compiled(branching, "hessian", 0.4 * XS, XS, XS),
    "compiled hessian with solve": lambda: _compiled(solved, "hessian"),
    "native loop": lambda: _native("grad"),
}


def count(name):
    """What one call runs; it ran once before in this process, for what is made once."""
    CALLS[name]()()
    call, ran = CALLS[name](), []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            ran.append(frame.f_code)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    files = [code.co_filename for code in ran]
    folders = [str(Path(one).parent) for one in files]
    numbers = len(ran), len({*ran}), len({*files}), _changes(files), _changes(folders)
    return dict(zip(COLUMNS, numbers, strict=True))


def _changes(places):
    return sum(one != other for one, other in zip(places, places[1:], strict=False))


def size():
    """Of the package: files, lines, names of classes that occur in two places."""
    paths = [*PACKAGE.rglob("*.py")]
    texts = [path.read_text() for path in paths]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    names = collections.Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    twice = sorted(name for name, times in names.items() if times > 1)
    return {"files": len(paths), "lines": sum(text.count("\n") for text in texts), "twice": twice}


class Calls:
    """What one call runs."""

    params = [[*CALLS], [*COLUMNS]]
    param_names = ["call", "of"]
    unit = "count"
    timeout = 300

    def track_run(self, name, column):
        return count(name)[column]


def track_files():
    return size()["files"]


def track_lines():
    return size()["lines"]


def main():
    if sys.argv[1:]:
        print(f"{sys.argv[1]:30}", *(f"{count(sys.argv[1])[one]:>15}" for one in COLUMNS))
        return
    print(size())
    print(f"{'':30}", *(f"{one:>15}" for one in COLUMNS))
    for name in CALLS:  # a process for each
        subprocess.run([sys.executable, "-m", "benchmarks.structure", name], check=True)


if __name__ == "__main__":
    main()
