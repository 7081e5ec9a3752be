"""Generated text compiled: it computes what Python computes of the same text."""

import ast
import ctypes
import sys

import numpy as np
import pytest
import special_rows
from text_in_python import functions_of

import tapegrad as tg  # noqa: F401  (declares all operations)
from tapegrad._core.codegen import factory, sources
from tapegrad._core.codegen.text_expressions import NotCompiled
from tapegrad._core.codegen.text_functions import lowered
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


def run(text, numbers, count):
    """What a function returns, and the numbers as it leaves them."""
    memory = np.array(numbers, np.float64)
    address = factory.compile_source(HEAD + text, SIGNATURE)["run"]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    return call(memory.ctypes.data, count), memory.view(np.int64)


#: Operations whose formulas subtract numbers of C's and NumPy's libraries that are nearly equal.
CANCEL = dict.fromkeys(
    ["polygamma", "log_ndtr", "tanh", "complex_tanh_real", "complex_tanh_imag"], 1e-9
)


def check(text, numbers, counts, within=0):
    """Compiled code gives the bits that Python gives, or numbers that are within so much."""
    by_python = functions_of(HEAD + text)["run"]
    for n in counts:
        memory = np.array(numbers, np.float64)
        with np.errstate(all="ignore"):
            status = by_python(memory.ctypes.data, n)
        found, bits = run(text, numbers, n)
        assert found == status
        values, wanted = bits.view(np.float64), memory
        nan = np.isnan(wanted)
        assert np.array_equal(np.isnan(values), nan)
        if within:
            np.testing.assert_allclose(values[~nan], wanted[~nan], rtol=within, atol=1e-320)
            zero = (wanted == 0.0) & ~nan
            assert np.array_equal(np.signbit(values[zero]), np.signbit(wanted[zero]))
        else:
            assert np.array_equal(bits[~nan], wanted.view(np.int64)[~nan])


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


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_values_and_slopes_of_operations(op):
    text, width = text_of(op)
    given = np.random.default_rng(3).permutation(np.tile(SPECIAL, 3 * len(op.inputs)))
    rows = np.zeros((len(given) // len(op.inputs), width))
    rows[:, : len(op.inputs)] = given.reshape(-1, len(op.inputs))
    if op.name == "polygamma":
        rows[:, 0] = 1.0 + np.arange(len(rows)) % 4
    check(text, rows.ravel(), [len(rows)], CANCEL.get(op.name, 1e-15))


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


@pytest.mark.parametrize("name", FLOW)
def test_loops_and_branches(name):
    numbers = np.random.default_rng(1).normal(size=40)
    check(FLOW[name], numbers, [0, 1, 2, 5, 9, 12])


MORE = {
    "a variable that begins as a whole number": """
def run(at, n):
    x = 1
    for k in range(n):
        x = x * 2.0
    return int(x)
""",
    "breaks and rounds that are left early": """
def run(at, n):
    v, total, last = f64s(at), 0.0, -1
    for k in range(40):
        if v[k] < 0.0:
            continue
        if k >= n:
            last = k
            break
        j = 0
        while True:
            j += 1
            if j > 3:
                break
            if j == k:
                continue
            total += v[k] * j
    v[0] = total
    return last
""",
    "steps": """
def run(at, n):
    v, total = f64s(at), 0
    for k in range(n, -1, -2):
        total += k * k
    for k in range(0, 30, n + 1):
        total += 3 * k
    for k in range(20, 0, -n - 1):
        total -= k
    v[0] = total
    return total
""",
    "what is computed only where it is asked for": """
def run(at, n):
    x = load_i64(at, 8 * n) if n < 40 else 0
    small = n > 3 and load_f64(at, 8 * n) > 0.0 or n == 1
    return (x & 7) + (10 if small else 20)
""",
    "quotients, shifts, bits": """
def run(at, n):
    a, b = n // (n - 3), n % (n - 3)
    c, d = (-7 * n) // 4, (-7 * n) % -4
    return (a + 3 * b + 5 * c + 7 * d) ^ (n << 3 | 1) & ~(n >> 1)
""",
    "tuples": """
@helper
def pair(x, n):
    return (x, n + 1), 0.5

def run(at, n):
    v, found, by = f64s(at), (0.0, 0), 1.0
    for k in range(n):
        found, half = pair(found[0] + v[k], found[1])
        by *= half
    x, count = found if n > 2 else (1.5, 7)
    v[0] = x * by
    return count
""",
    "tables of constants": """
TABLE = (0.5, -2.0, 3.25, 7.0)
PLACES = (2, 0, 1)

def run(at, n):
    total = 0.0
    for k in range(n):
        total += TABLE[PLACES[k % 3]] * (k + 1)
    f64s(at)[1] = total + TABLE[3]
    return len(TABLE)
""",
    "arguments that are left out": """
from tapegrad._core.codegen.elements import ITEM

@helper
def scaled(x, by=ITEM):
    return x * by

def run(at, n):
    ITEM = 3
    return scaled(n) + scaled(n, ITEM)
""",
    "functions that are given": """
@helper
def double(x):
    return 2.0 * x

@helper
def both(f, x):
    total = x
    for _ in range(3):
        total = f(total) + f(x)
    return total

def run(at, n):
    v = f64s(at)
    v[0] = both(double, v[n]) + both(np.floor, v[n + 1])
    return 0 < n < 5
""",
}


@pytest.mark.parametrize("name", MORE)
def test_statements(name):
    numbers = np.random.default_rng(2).normal(size=40)
    check(MORE[name], numbers, [0, 1, 2, 4, 5, 9, 12])


def test_a_quotient_by_zero_is_zero():
    text = "def run(at, n):\n    return n // (n - 3) + 10 * (n % (n - 3))\n"
    assert run(text, [0.0], 3)[0] == 0


COMPLEX = """
from tapegrad._core.codegen.intrinsics import c128s

def run(at, n):
    v = c128s(at)
    total = complex(0.0, 1.0)
    for k in range(1, 4):
        total = total * v[k] - v[k - 1] + 2.0
        total += -v[k] * 0.5
    v[0] = total
    return 1 if total == total and total != v[1] and total.real < total.imag else 2
"""


def test_complex_numbers():
    given = np.random.default_rng(5).normal(size=8)
    v, total = given.view(complex), 1j
    for k in range(1, 4):
        total = total * v[k] - v[k - 1] + 2.0
        total += -v[k] * 0.5
    status, bits = run(COMPLEX, given, 0)
    assert bits.view(complex)[0] == total
    assert status == (1 if total.real < total.imag else 2)


NOT_COMPILED = {
    "a variable that may not be there": (
        "    for k in range(n):\n        x = 2 * k + 1\n    return x if n > 0 else 0"
    ),
    "a counter behind its loop": "    for k in range(n):\n        pass\n    return k",
    "a power": "    return int(f64s(at)[2] ** n)",
    "a list": "    x = [n]\n    return x[0]",
    "a loop with else": "    while n > 3:\n        n -= 1\n    else:\n        n = 1\n    return n",
    "tuples of several lengths": "    x = (1, 2)\n    if n > 2:\n        x = (1,)\n    return x[0]",
    "a keyword": "    return load_i64(at, offset=0)",
}


@pytest.mark.parametrize("name", NOT_COMPILED)
def test_what_the_compiler_does_not_know_is_an_error(name):
    text = f"def run(at, n):\n{NOT_COMPILED[name]}\n"
    with pytest.raises(NotCompiled):
        lowered(HEAD + text, {"run": ("run", SIGNATURE["run"])})


def test_a_function_that_calls_itself_is_an_error():
    text = "@helper\ndef f(n):\n    if n > 0:\n        return f(n - 1)\n    return n\n"
    with pytest.raises(NotCompiled, match="calls itself"):
        lowered(HEAD + text, {"symbol": ("f", "int64(int64)")})


class Plain:
    a = 1


def test_text_is_parsed_again_where_another_thread_disturbs(monkeypatch):
    left, parse = [SystemError("AST constructor recursion depth mismatch")] * 3, ast.parse

    def disturbed(*args, **kwargs):
        if left and sys._getframe(1).f_globals["__name__"] != "traceback":
            raise left.pop()
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(sources.expression_in("x+1")) == "x + 1" and not left
    left[:] = [SystemError] * 3
    assert sources.text_of(Plain).startswith("class Plain")
    assert not left or sys.version_info >= (3, 13)  # which finds classes by their lines
    left[:] = [SystemError] * 50
    with pytest.raises(SystemError):
        sources.statements_in("x = 1")
