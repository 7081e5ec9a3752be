"""Generated text compiled without Numba: the bits that Numba's code gives, or left to Numba."""

import ast
import ctypes

import numpy as np
import pytest
import special_rows
from assumed import needs

import tapegrad as tg  # noqa: F401  (declares all operations)
from tapegrad._core.codegen import factory, parsing
from tapegrad._core.codegen.plain_expressions import NotPlain
from tapegrad._core.codegen.plain_functions import lowered
from tapegrad._core.ops.table import TABLE

HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import (
    apart, f64s, helper, i64s, inside, load_f64, load_i32, load_i64, load_u8, multiply_add,
    store_f64, store_i64, sum_of, unaliased,
)
from tapegrad._core.codegen.vector_math import select

INF, NAN = float("inf"), float("nan")
LEAST = 3
"""
SIGNATURE = {"run": "int64(int64, int64)"}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-320, 1e308, 7.25, -3.5]
OPERATIONS = [op for op in TABLE.values() if special_rows.is_ordinary(op)]


def run(compile_, text, numbers, count):
    """What a function returns, and the numbers as it leaves them."""
    memory = np.array(numbers, np.float64)
    address = compile_(HEAD + text, SIGNATURE)["run"]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    return call(memory.ctypes.data, count), memory.view(np.int64)


@pytest.fixture
def only_plain(monkeypatch):
    """Fails where a text is left to Numba."""

    def fails(*_):
        raise AssertionError("left to Numba")

    return lambda: monkeypatch.setattr(factory, "compile_source", fails)


def check(text, numbers, counts, only_plain):
    expected = [run(factory.compile_source, text, numbers, n) for n in counts]
    only_plain()
    for n, (status, memory) in zip(counts, expected, strict=True):
        found = run(factory.compile_plain, text, numbers, n)
        assert found[0] == status
        nan = np.isnan(memory.view(np.float64))
        assert np.array_equal(np.isnan(found[1].view(np.float64)), nan)
        assert np.array_equal(found[1][~nan], memory[~nan])


def text_of(op):
    """A loop over the value and the slopes of an operation, of columns of numbers."""
    texts = [op.value, *op.partials]
    steps = op.needed(*texts)
    width = len(op.inputs) + len(texts)
    lines = [f"        {name} = v[{width} * k + {j}]" for j, name in enumerate(op.inputs)]
    lines += [f"        {name} = {text}" for name, text in steps]
    lines.append(f"        out = {op.value}")
    for j, text in enumerate(texts):
        lines.append(f"        v[{width} * k + {len(op.inputs) + j}] = {text}")
    head = "def run(at, n):\n    v = f64s(at)\n    for k in range(n):\n"
    return head + "\n".join(lines) + "\n    return n\n", width


@needs("numba-intrinsics")
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_values_and_slopes_of_operations(op, only_plain):
    text, width = text_of(op)
    given = np.random.default_rng(3).permutation(np.tile(SPECIAL, 3 * len(op.inputs)))
    rows = np.zeros((len(given) // len(op.inputs), width))
    rows[:, : len(op.inputs)] = given.reshape(-1, len(op.inputs))
    if op.name == "polygamma":
        rows[:, 0] = 1.0 + np.arange(len(rows)) % 4
    check(text, rows.ravel(), [len(rows)], only_plain)


FLOW = {
    "sums by loops and tables": """
def run(at, n):
    v, bytes_ = f64s(at), at
    total = 0.0
    last = -1.0
    for k in range(n):
        for j in range(k, 7):
            if load_u8(bytes_, 8 * j + 7) != 0:
                total = total + v[j] * k
            else:
                last = total - j
        total += 1
    v[0] = total
    v[1] += last
    return 0
""",
    "results on the way": """
def run(at, n):
    v = f64s(at)
    for k in range(2, 9):
        x, y = v[k], v[k - 1]
        if not (x == y or (x != x and y != y)) and k >= n:
            store_i64(at, 0, k)
            store_f64(at, 8, x)
            return LEAST
    return -n
""",
    "while, integers, truths": """
def run(at, n):
    k = n
    odd = False
    while k > 0 and not odd:
        k = k - 1
        odd = (k // 3) * 3 != k
    if odd:
        return k
    elif n > 4:
        k = max(n, 7) * 100 + min(k, -2)
    return -(k + 5) // 4
""",
    "helpers with loops": """
@helper
def added(v, n, by):
    inside()
    unaliased()
    bad = 0.0
    for k in range(n):
        v[k] = multiply_add(v[k], by, 1.0)
        bad = sum_of(bad, v[k] * 0.0)
    return bad

@helper
def twice(pair, n):
    apart()
    v, w = pair
    if added(v, n, 2.0) != 0.0:
        return True
    return added(w, n, 3) == 0.0

def run(at, n):
    found = twice((f64s(at), f64s(at + 48)), n)
    return 1 if found else 2
""",
    "a loop that is not entered": """
def run(at, n):
    v = f64s(at)
    p = v
    for k in range(5, n):
        p = v
        v[k] = INF
    q = f64s(at + 8)
    x = select(n > 2, NAN, 4.0)
    q[0] = x if n < 9 else -INF
    return load_i64(at, 0) - n
""",
}


@needs("numba-intrinsics")
@pytest.mark.parametrize("name", FLOW)
def test_loops_and_branches(name, only_plain):
    numbers = np.random.default_rng(1).normal(size=40)
    check(FLOW[name], numbers, [0, 1, 2, 5, 9, 12], only_plain)


LEFT = {
    "a variable that may not be there": (
        "    for k in range(n):\n        x = 2 * k + 1\n    return x if n > 0 else 0"
    ),
    "a counter behind its loop": "    for k in range(n):\n        pass\n    return k",
    "several types": "    x = 1\n    for k in range(n):\n        x = x * 2.0\n    return int(x)",
    "a power": "    return int(f64s(at)[2] ** 2)",
    "what is computed only where it is asked for": "    return load_i64(at, n) if n < 40 else 0",
    "a quotient of integers": "    return n // (n - 3)",
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_numba(name):
    text = f"def run(at, n):\n{LEFT[name]}\n"
    with pytest.raises(NotPlain):
        lowered(HEAD + text, {"run": ("run", SIGNATURE["run"])})
    numbers = np.arange(6.0) + 3.0
    expected = run(factory.compile_source, text, numbers, 4)
    found = run(factory.compile_plain, text, numbers, 4)
    assert found[0] == expected[0]


def test_a_function_that_calls_itself_is_left_to_numba():
    text = "@helper\ndef f(n):\n    if n > 0:\n        return f(n - 1)\n    return n\n"
    with pytest.raises(NotPlain, match="calls itself"):
        lowered(HEAD + text, {"symbol": ("f", "int64(int64)")})


class Plain:
    a = 1


def test_text_is_parsed_again_where_another_thread_disturbs(monkeypatch):
    left, parse = [SystemError("AST constructor recursion depth mismatch")] * 3, ast.parse

    def disturbed(*args, **kwargs):
        if left:
            raise left.pop()
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parsing.expression_in("x+1")) == "x + 1" and not left
    left[:] = [SystemError] * 3
    assert parsing.text_of(Plain).startswith("class Plain") and not left
    left[:] = [SystemError] * 50
    with pytest.raises(SystemError):
        parsing.statements_in("x = 1")
