"""The checked build finds what is planted.

`python tests/support/checked_build.py tests/support/planted_errors.py` runs these tests.

Compiled code of each kind is changed to reach one element further than it may, in a process and a
cache of its own, since no such code may be left over.
"""

import os
import re
import subprocess
import sys

import pytest

SCRIPT = r"""
import contextlib, inspect, linecache, re, sys, textwrap
import numpy as np
import checked_plugin
import tapegrad as tg
from tapegrad._core.codegen import factory, strided_memory as strided
from tapegrad._program.replay import move_kernels


def plant(module, name, old, new):
    # in a helper, for all modules that know it; compilers ask for the text of a function
    usual = getattr(module, name)
    f = usual.py_func
    text = textwrap.dedent(inspect.getsource(f))
    assert old in text
    scope = {**f.__globals__, **inspect.getclosurevars(f).nonlocals}
    text, path = text.replace(old, new), f"<planted in {name}>"
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    exec(compile(text, path, "exec"), scope)
    for other in list(sys.modules.values()):
        for known in [key for key, value in vars(other).items() if value is usual]:
            setattr(other, known, scope[f.__name__])


def plant_text(word, old, new):
    # in the texts that have a word, whatever compiles them
    for name in ("_compile", "lowered", "assembled"):
        usual = getattr(factory, name)

        def changed(source, *others, usual=usual):
            return usual(re.sub(old, new, source) if word in source else source, *others)

        setattr(factory, name, changed)


def found(name, run):
    print("=== before", checked_plugin.reports())
    run()
    print(f"=== {name}", checked_plugin.reports())


X, LONG = np.linspace(0.1, 1.0, 5), np.linspace(0.1, 1.0, 300)
BEFORE = "values = floats(load_i64(run, RUN_VALUES)); values[-1] = values[-1] + 1.0"


def backward():
    x = tg.tensor(X, requires_grad=True)
    np.sum(x.T * np.ones(5)).backward()
    return x.grad


def parts(x):
    return np.sum(np.concatenate([x[1::2], x[::2]]) ** 3)


def picked(x):
    return np.sum(x[np.arange(40) * 3 % 5].reshape(10, 4) @ np.ones(4))


def steps(x):
    s = 0.0
    for k in range(5, len(x)):
        s = s * 0.5 + np.sin(x[k]) * x[k - 3]
    return s


def branched(x):
    s = 0.0
    for k in range(len(x)):
        if x[k] > 0.5:
            s = s + x[k] * x[k]
        else:
            s = s - x[k]
    return s


def by_graph():
    f = tg.compile(branched, verify="never", native=True)
    for most in (1.0, 0.4, 0.7):
        with contextlib.suppress(RuntimeError):  # which says that native code is wrong
            f.grad(most * X)
            f.wait()


def replayed(f, x, **settings):
    f = tg.compile(f, verify="never", **settings)
    f.grad(x)
    f.wait()
    f.grad(x)


plant_text("def take(", r"seed\), size\)", "seed), size + 8)")
plant(strided, "add_run64", "range(n)", "range(n + 1)")
plant(move_kernels, "pick_forward", "at = places", f"{BEFORE}; at = places")
plant_text("def kernel(elements, arguments):", r"range\(elements\)", "range(elements + 1)")
plant_text("def independent0(", r"range\(first, stop\)", "range(first - 60, stop)")
plant_text("def independent0(", r"V\[\d+\] = flag", "V[-1] = flag")
plant_text("@forward_inside(", r"ptr %covered, i64 \d+", "ptr %covered, i64 -1")
plant_text("@reverse_inside(", r"ptr %seeds, i64 \d+", "ptr %seeds, i64 -1")
found("sweep", backward)
found("kernel", lambda: tg.grad(lambda x: np.sum(tg.expit(x)))(X))
found("strided", lambda: tg.grad(parts)(X))
found("part", lambda: replayed(picked, X))
found("native", lambda: replayed(steps, LONG, native=True))
found("graph", by_graph)
"""
#: The function in which an error is planted, by the kind of code.
WHERE = {
    "sweep": "_call",
    "kernel": "_kernel",
    "strided": "add_run",
    "part": "pick_forward",
    "native": r"text\.values",
    "graph": r"\w+_inside",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What was found, by the kind of code."""
    folder = tmp_path_factory.mktemp("planted")
    options = f"{os.environ['ASAN_OPTIONS']}:log_path={folder}/report"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "ASAN_OPTIONS": options}
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return dict(part.split(" ", 1) for part in done.stdout.split("=== ")[1:])


@pytest.mark.parametrize("what", ["load", "store"])
@pytest.mark.parametrize("kind", WHERE)
def test_what_is_planted_is_found(reports, kind, what):
    assert re.search(f"{what} of .*\n.*{WHERE[kind]}: ", reports[kind])


def test_nothing_else_is_found(reports):
    assert not reports["before"].strip()
