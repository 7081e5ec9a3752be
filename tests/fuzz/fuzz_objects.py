"""Random programs that use data as Python objects, held against Python and NumPy.

`python fuzz_objects.py --seed 5 --count 1 --native 1` runs the program of seed 5, natively too; see
random_objects.py for what they consist of. Right is the value of the plain function with its
derivative, an error of the same type, or a refusal in words of tapegrad. A finding is printed as a
script. The exit status is 1 where there are any.
"""

import collections
import copy
import linecache
import re
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import random_objects
import seed_runs

import tapegrad as tg

#: The points of calls in turn; the state changes where there is None.
ORDER = (0, 0, 0, 1, 0, None, 0, 0, 1, 2, 3, 0)
BATCH = 100
RTOL, RTOL_DIFFERENCES = 1e-9, 2e-5
#: Errors that are no refusals, though tapegrad raises them.
UNTRUE = re.compile("replayed gives|please report|internal")
WAYS = {
    "eager gradient": ("tg.value_and_grad(f)", True),
    "compiled gradient": ("tg.compile(f, native=False).value_and_grad", True),
    "compiled value": ("tg.compile(f, native=False)", False),
    "compiled, never verified": (
        'tg.compile(f, native=False, verify="never").value_and_grad', True
    ),
    "compiled value, never verified": ('tg.compile(f, native=False, verify="never")', False),
}  # fmt: skip
NATIVE = {
    "native gradient": ("tg.compile(f, native=True).value_and_grad", True),
    "native value": ("tg.compile(f, native=True)", False),
}


class World:
    """A program with state of its own."""

    def __init__(self, seed: int):
        text, self.seed = random_objects.source(seed), seed
        file = f"<objects {seed}>"
        linecache.cache[file] = len(text), None, text.splitlines(True), file
        self.names: dict = {"__name__": f"objects_{seed}"}
        exec(compile(text, file, "exec"), self.names)
        self.f = self.names["f"]

    def change(self):
        """What the user does between calls."""
        exec(random_objects.CHANGES[self.seed % len(random_objects.CHANGES)], self.names)


def outcome(call, args, names):
    """("value", value, gradient), or ("error", its class, its text)."""
    args = copy.deepcopy(args)  # b stays a
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(*args, **names)
        except Exception as error:  # of any kind
            return "error", type(error), str(error)
    value, gradient = found if isinstance(found, tuple) else (found, None)
    return "value", value, gradient


def differences(world: World, args, names) -> np.ndarray | None:
    """The gradient by central differences; None where the function is not smooth, or raises."""
    found = []
    for step in (1e-6, 1e-5):
        column = []
        for k in range(3):
            ends = []
            for sign in (1.0, -1.0):
                moved = [copy.deepcopy(args[0]), *args[1:]]
                moved[0][k] += sign * step
                kind, value, _ = outcome(world.f, tuple(moved), names)
                if kind == "error" or np.iscomplexobj(value):
                    return None
                ends.append(float(value))
            column.append((ends[0] - ends[1]) / (2.0 * step))
        found.append(np.array(column))
    scale = 1.0 + np.abs(found[0]).max()
    if not np.isfinite(scale) or not np.allclose(*found, rtol=0.0, atol=RTOL_DIFFERENCES * scale):
        return None
    return found[0]


class Right(NamedTuple):
    """What Python and NumPy say of a call: of its value, and where a gradient is asked for.

    There `x` is an object of its own, as in every transform. `smooth` is the gradient, where known.
    """

    value: tuple
    apart: tuple
    smooth: np.ndarray | None


def right(seed: int) -> list[Right | None]:
    """What is right for each call; None where the state changes."""
    world, found = World(seed), []
    for number in ORDER:
        if number is None:
            world.change()
            found.append(None)
            continue
        (x, *rest), names = random_objects.arguments(seed, number)
        value, apart = (outcome(world.f, (one, *rest), names) for one in (x, x.copy()))
        smooth = differences(world, (x.copy(), *rest), names) if apart[0] == "value" else None
        found.append(Right(value, apart, smooth))
    return found


def said(found: tuple, expected: Right, in_gradient: bool) -> str:
    """What is wrong; empty where it is right, "refused" where tapegrad says that it does not."""
    wanted = expected.apart if in_gradient else expected.value
    if found[0] == "error":
        same = wanted[0] == "error" and issubclass(found[1], wanted[1])
        if same or ("tapegrad" in found[2] and not UNTRUE.search(found[2])):
            return "" if same else "refused"
        return f"{found[1].__name__}: {found[2][:200]}, right is {wanted[:2]}"
    if wanted[0] == "error":
        return f"{found[1]}, right is {wanted[1].__name__}: {wanted[2][:100]}"
    value, exact = np.asarray(found[1]), np.asarray(wanted[1])
    if value.shape != exact.shape or np.iscomplexobj(value) != np.iscomplexobj(exact):
        return f"value {found[1]!r}, right is {wanted[1]!r}"
    if not np.allclose(value, exact, rtol=RTOL, atol=RTOL, equal_nan=True):
        return f"value {found[1]}, right is {wanted[1]}"
    if in_gradient and expected.smooth is not None:
        atol = RTOL_DIFFERENCES * (1.0 + np.abs(expected.smooth).max())
        if not np.allclose(found[2], expected.smooth, rtol=0.0, atol=atol):
            return f"gradient {found[2]}, right is {expected.smooth}"
    return ""


def check(seed: int, native: bool = False) -> tuple[collections.Counter, list[tuple[str, str]]]:
    """Evaluate a program in every way; counts, and what is wrong, each with its script."""
    counts, wrong = collections.Counter(programs=1), []
    counts.update(f"with {kind}" for kind in {*random_objects.kinds(seed)})
    wanted = right(seed)
    for name, (way, in_gradient) in (WAYS | (NATIVE if native else {})).items():
        world = World(seed)
        call = eval(way, {"tg": tg, "f": world.f})
        for k, (number, expected) in enumerate(zip(ORDER, wanted, strict=True)):
            if number is None:
                world.change()
                continue
            args, names = random_objects.arguments(seed, number)
            text = said(outcome(call, args, names), expected, in_gradient)
            counts[f"calls {text}" if text in ("", "refused") else "calls wrong"] += 1
            if text not in ("", "refused"):
                wrong.append((f"{name}, call {k}: {text}", script(seed, name, way, k, text)))
                break
    text = loaded(seed, wanted)
    if text:
        wrong.append((text, script(seed, "saved and loaded", "tg.compile(f)", 0, text)))
    return counts, wrong


def loaded(seed: int, wanted: list) -> str:
    """What is wrong with the program of a file, after calls at all points but the last."""
    world = World(seed)
    c = tg.compile(world.f, native=False)
    calls = [(k, n) for k, n in enumerate(ORDER[: ORDER.index(None)])]
    for _, number in calls:
        args, names = random_objects.arguments(seed, number)
        outcome(c, args, names)
        outcome(c.value_and_grad, args, names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        try:
            c.save(path)
            found = tg.load(path)
        except ValueError:
            return ""
        for k, number in calls:
            args, names = random_objects.arguments(seed, number)
            for call, in_gradient in ((found, False), (found.value_and_grad, True)):
                text = said(outcome(call, args, names), wanted[k], in_gradient)
                if text not in ("", "refused"):
                    return f"saved and loaded, call {k}: {text}"
    return ""


def script(seed: int, name: str, way: str, last: int, text: str) -> str:
    """A program of its own that shows a finding."""
    points = sorted({n for n in ORDER[: last + 1] if n is not None})
    shown = {n: random_objects.arguments(seed, n) for n in points}
    lines = [f"# python tests/fuzz/fuzz_objects.py --seed {seed} --count 1 --native 1", f"# {name}"]
    lines += [f"# {line}" for line in textwrap.wrap(text, 90)]
    lines += ["import copy", "import tapegrad as tg", random_objects.source(seed)]
    lines += ["from numpy import array", "points = {"]
    for n, ((x, *args, a, b), names) in shown.items():
        given = ", ".join(map(repr, (x, *args, a, b)))
        lines += [f"    {n}: (({given}), {names}, {a is x}, {b is a}),"]
    lines += ["}", f"call = {way}", f"for k in {ORDER[: last + 1]}:", "    if k is None:"]
    lines += [f"        {random_objects.CHANGES[seed % len(random_objects.CHANGES)]}"]
    lines += [
        "        continue",
        "    (*args, a, b), names, a_is_x, b_is_a = copy.deepcopy(points[k])",
    ]
    lines += ["    a = args[0] if a_is_x else a", "    args = (*args, a, a if b_is_a else b)"]
    lines += ["    try:", "        print(k, call(*args, **names))"]
    lines += ["    except Exception as error:", "        print(k, repr(error)[:200])"]
    return "\n".join(lines) + "\n"


def batch(first: int, count: int, native: frozenset):
    """What the checks of some seeds say."""
    counts, wrong = collections.Counter(), []
    for seed in range(first, first + count):
        found, findings = check(seed, seed in native)
        counts.update(found)
        wrong += [(seed, *one) for one in findings]
    return counts, wrong


def main() -> int:
    given = seed_runs.parser(__doc__, "natively too").parse_args()
    native = seed_runs.first_seeds(given, given.native)
    return seed_runs.run(given, "objects", batch, native, size=BATCH)


if __name__ == "__main__":
    sys.exit(main())
