"""A random program evaluated in every way, and what differs from NumPy."""

import collections
import functools
import tempfile
import warnings
from dataclasses import dataclass

import fuzz_oracle
import fuzz_torch
import numpy as np
from fuzz_modes import EAGER, INTERPRETED, NATIVE, PREAMBLE, Mode
from fuzz_oracle import RTOL, Rough, truth
from fuzz_programs import generate, laid, point, point_texts, values_of

import tapegrad as tg

#: Results of float32, and what is compared between ways: rounding alone differs.
RTOL_FLOAT32, RTOL_WAYS = 5e-3, 1e-8
ORDER = (0, 0, 1, 2, 0)  # points at which a compiled function is called
#: What tapegrad may say of a program that NumPy runs.
REFUSALS = (
    "cannot be saved: ",
    "cannot be written to a plain NumPy array",
    "an operand is complex, which ",
)
OF_LEAVES = "an input that requires grad cannot be written in place"
#: What it says of derivatives that do not exist.
SINGULAR = (
    "values are equal, and the derivative treats them",
    "singular values are 0, where they have no second derivative",
)
FALLBACK = "runs eagerly, without a program: "
LOST = "is slow: it takes another path at"


class Differs(Exception):
    """What a way of evaluating gave is not right."""


@dataclass
class Finding:
    seed: int
    mode: str
    message: str
    script: str


class Checked:
    """A program with its points and what NumPy says of them."""

    def __init__(self, seed: int):
        self.program = program = generate(seed)
        self.texts = point_texts(program, 3)
        self.k = program.count
        self.wide = program.functions(wide=True)
        self.functions = program.functions()
        self.counts = collections.Counter({"programs": 1})
        self.counts.update(program.kinds)
        self.directions = {name: self.drawn_direction(seed, name) for name in "vw"}
        self.single = any(a.dtype == "float32" for a in program.arguments)
        self.rtol = RTOL_FLOAT32 if self.single else RTOL
        self.truths = [self.truth(text) for text in self.texts]
        self.found: dict[tuple, list] = {}  # what ways gave, by point and kind of result
        self.singular: set[int] = set()  # points at which second derivatives were warned of
        self.findings: list[Finding] = []

    def drawn_direction(self, seed, name) -> str:
        rng = np.random.default_rng([seed, ord(name)])
        arguments = self.program.arguments[: self.k]
        return f"({', '.join(laid(a, values_of(a, rng) + 0.125, 'C') for a in arguments)},)"

    def truth(self, text):
        directions = {name: point(one) for name, one in self.directions.items()}
        f = self.wide["out" if self.program.is_array else "f"]
        try:
            found = truth(f, point(text), self.k, directions)
            if self.program.is_array:
                self.out, found = found, truth(self.wide["f"], point(text), self.k, directions)
            given = point(text)
            with np.errstate(all="ignore"):
                plain = self.functions["f"](*given)
            if any(not np.array_equal(a, b) for a, b in zip(given, point(text), strict=True)):
                raise Rough("what is a copy elsewhere is here a view of an argument, and written")
            if np.ndim(found.value):
                raise Rough("more than one number")
            if not fuzz_oracle.close(np.asarray(plain), found.value, self.rtol / 10):
                raise Rough("in its own precision NumPy chooses otherwise")
        except Rough as rough:
            self.counts[f"points not used: {rough}"] += 1
            return None
        except (AttributeError, TypeError):  # as of a number where another point has an array
            self.counts["points not used: NumPy refuses the program"] += 1
            return None
        self.counts["points"] += 1
        return found, getattr(self, "out", None)

    # --- ways ---------------------------------------------------------------------------------

    @functools.cached_property
    def rows(self) -> int:
        """How many operations are recorded; derivatives of many choices are traced one by one."""
        number = next(k for k, right in enumerate(self.truths) if right)
        arguments = point(self.texts[number])
        f = lambda *d: self.functions["f"](*d, *arguments[self.k :])
        try:
            return len(tg.record(f, *arguments[: self.k]))
        except (TypeError, ValueError):  # refused, or constant, as every way says
            return 0

    def applies(self, mode: Mode) -> bool:
        program = self.program
        size = sum(int(np.prod(a.shape or ())) for a in program.arguments[: self.k])
        has = {
            "small": program.small and not ("nested loops" in program.kinds and size > 6),
            "tiny": size <= 4 and not program.kinds & {"loops", "nested loops", "loops of arrays"},
            "array": program.is_array,
            "no data": self.k == len(program.arguments),
            "real": not any("complex" in a.dtype for a in program.arguments[: self.k]),
            "outside": "creators" not in program.kinds and not program.is_entered,
            "loops": bool(program.kinds & {"loops", "nested loops"}),
            "short": "nested loops" not in program.kinds or self.rows < 3000,
        }
        if mode.gives == "map" and not (has["no data"] and has["real"] and self.k):
            return False
        return all(has[one] for one in mode.needs)

    def check(self, modes):
        if not any(self.truths):
            return
        for mode in modes:
            if self.applies(mode):
                self.check_mode(mode)

    def check_torch(self):
        """Compare with PyTorch, where it runs the program."""
        for number, right in enumerate(self.truths):
            judged = right and fuzz_torch.gradient(self.program, point(self.texts[number]))
            if not judged:
                continue
            self.counts["points judged by PyTorch too"] += 1
            try:
                self.near("PyTorch's value", judged[0], right[0].value)
                self.same_way("gradient", judged[1], number)
            except Differs as error:
                self.report(EAGER[0], f"by PyTorch: {error}", [number])

    def check_mode(self, mode: Mode):
        scope = {**self.functions, "tg": tg, "np": np, "tempfile": tempfile}
        exec(PREAMBLE, scope)
        scope |= {"k": self.k, "A": tuple(range(self.k)), "v": point(self.directions["v"])}
        held, points, done = [], [], []
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                exec(mode.setup, scope)
                for number in ORDER if mode.setup else (0, 1, 2):
                    if self.truths[number] is None:
                        continue
                    done.append(number)
                    points.append(point(self.texts[number]))
                    held.append(self.call(mode, scope, points[-1], number, caught))
                    if len(done) == 2 and mode in NATIVE:
                        scope["c"].wait()
                self.written_again(mode, scope, points, done, caught)
            self.judge_warnings(caught)
            for made, copy in held:
                if not _equal(made, copy):
                    raise Differs("a result was changed by a later call")
        except Differs as error:
            self.report(mode, str(error), done)
        except Exception as error:  # any error is a finding
            self.refused(mode, error, done)
        self.counts[f"way: {mode.name}"] += 1

    def call(self, mode, scope, p, number, caught):
        """Evaluate at a point and compare; the result and a copy of it."""
        before, warned = [np.array(value) for value in p], len(caught)
        made = eval(mode.expression, scope | {"p": p})
        for value, old in zip(p, before, strict=True):
            if not np.array_equal(value, old):
                raise Differs("an argument was changed")
        if any(said in str(one.message) for one in caught[warned:] for said in SINGULAR):
            self.singular.add(number)  # replayed programs do not warn
        if mode.gives in ("second", "hessian") and number in self.singular:
            self.counts["second derivatives not compared, of singular or equal values"] += 1
        else:
            self.compare(mode, made, number)
        return made, _copied(made)

    def written_again(self, mode, scope, points, done, caught):
        """The first arrays with other values in them, as callers do it."""
        if not mode.setup or len({*done}) < 2:
            return
        number = next(n for n in done if n != done[0])
        p, other = points[0], point(self.texts[number])
        arrays = [a for a in p if isinstance(a, np.ndarray)]
        if len(arrays) < len(p) or not all(a.flags.writeable for a in arrays):
            return
        if any(np.shares_memory(a, b) for a in arrays for b in arrays if a is not b):
            return
        if len({id(a) for a in arrays}) < len(arrays):
            return
        self.rewrite(arrays, other)
        with np.errstate(all="ignore"):
            plain = self.functions["f"](*p)
        self.rewrite(arrays, other)  # which the program may have written
        if not fuzz_oracle.close(np.asarray(plain), self.truths[number][0].value, self.rtol / 10):
            self.counts["points not used: what is a view depends on the memory order"] += 1
            return
        done.append(number)
        self.call(mode, scope, p, number, caught)

    @staticmethod
    def rewrite(arrays, values):
        for array, value in zip(arrays, values, strict=True):
            array[...] = value

    # --- comparisons --------------------------------------------------------------------------

    def compare(self, mode, made, number):
        right, out = self.truths[number]
        v, w = (point(self.directions[name]) for name in "vw")
        value = right.value
        if mode.gives == "both":
            self.near("value", made[0], value)
            self.compare_gradient(made[1], number, right, v, w)
        elif mode.gives == "value":
            self.near("value", made, value)
        elif mode.gives == "gradient":
            self.compare_gradient(made, number, right, v, w)
        elif mode.gives == "jvp":
            self.near("value", made[0], value)
            self.near("derivative along v", made[1], right.along["v"])
        elif mode.gives == "second":
            self.same_way("second", made, number)
            self.near("second derivative along v, v", inner(made, v), right.second["vv"])
            self.near("second derivative along v, w", inner(made, w), right.second["vw"])
        elif mode.gives == "hessian":
            rows = [inner_rows(row, v) for row in made]
            self.same_way("hessian", [h for row in made for h in row], number)
            self.near("v' hessian v", inner(rows, v), right.second["vv"])
            self.near("w' hessian v", inner(rows, w), right.second["vw"])
        elif mode.gives == "jacobian":
            self.near("jacobian times v", inner_rows(made, v), out.along["v"])
            self.near("jacobian times w", inner_rows(made, w), out.along["w"])
        elif mode.gives == "map":
            self.near("values of map", made[0], np.stack([value, value]))
            self.near(
                "gradients of map along v", inner([g[1] for g in made[1]], v), right.along["v"]
            )

    def compare_gradient(self, made, number, right, v, w):
        for one, argument in zip(made, self.program.arguments, strict=False):
            shape = argument.shape or ()
            dtype = np.asarray(one).dtype  # of one number a float
            if np.shape(one) != shape or (shape and dtype != argument.dtype):
                raise Differs(
                    f"the gradient of {argument.name} has shape {np.shape(one)} and dtype {dtype}"
                )
        self.same_way("gradient", made, number)
        self.near("gradient along v", inner(made, v), right.along["v"])
        self.near("gradient along w", inner(made, w), right.along["w"])

    def near(self, what, found, wanted):
        found = np.asarray(found)
        if found.shape != np.shape(wanted):
            raise Differs(f"{what}: shape {found.shape}, right is {np.shape(wanted)}")
        if not fuzz_oracle.close(found, wanted, self.rtol):
            raise Differs(f"{what}: {found}, right is {np.asarray(wanted, float)}")

    def same_way(self, kind, made, number):
        """Compare, element by element, with what the first way gave."""
        first = self.found.setdefault((number, kind), _copied(made))
        limit = self.rtol if self.single else RTOL_WAYS
        scale = max([1.0, *(np.abs(a).max(initial=0.0) for a in first)])
        for a, b in zip(made, first, strict=True):
            if not np.all(np.abs(np.asarray(a) - b) <= limit * scale):
                raise Differs(f"{kind}: {a}, another way gave {b}")

    # --- reports ------------------------------------------------------------------------------

    def judge_warnings(self, caught):
        for one in caught:
            text = str(one.message)
            if any(said in text for said in SINGULAR):
                self.counts["warned of singular or equal values"] += 1
                continue
            if LOST in text:
                self.counts["warned of a lost graph"] += 1
                continue
            if FALLBACK not in text:
                raise Differs(f"{one.category.__name__}: {text}")
            reason = text.split(FALLBACK)[1]
            refused = any(said in reason for said in ("NotImplementedError", *REFUSALS))
            if "recorded it raises" in reason and not refused:
                raise Differs(text)
            self.counts["without a program: " + reason[:80]] += 1

    def refused(self, mode, error, done):
        text = f"{type(error).__name__}: {error}"
        if "outside" in mode.needs and OF_LEAVES in text:  # a number is a tensor there, with views
            self.counts[f"refused, {mode.name}: a leaf is written"] += 1
        elif isinstance(error, NotImplementedError) or any(said in text for said in REFUSALS):
            self.counts[f"refused, {mode.name}: {text[:110]}"] += 1
        else:
            self.report(mode, text, done)

    def report(self, mode, message, done):
        script = script_of(self, mode, message, done)
        self.findings.append(Finding(self.program.seed, mode.name, message, script))


def inner(made, v):
    """The sum of products of all elements, of complex ones as pairs of real numbers."""
    return sum(np.sum(np.real(np.conj(a) * b)) for a, b in zip(made, v, strict=True))


def inner_rows(made, v):
    """Matrices of derivatives times a direction, summed over arguments."""
    return sum(
        np.real(np.tensordot(np.conj(a), np.asarray(b), np.ndim(b)))
        for a, b in zip(made, v, strict=True)
    )


def _copied(made):
    if isinstance(made, (tuple, list)):
        return [_copied(one) for one in made]
    return np.array(made)


def _equal(made, copy) -> bool:
    if isinstance(made, (tuple, list)):
        return all(_equal(a, b) for a, b in zip(made, copy, strict=True))
    return np.array_equal(made, copy, equal_nan=True)


def script_of(checked, mode, message, done) -> str:
    """The program as a text that runs alone."""
    points = ",\n    ".join(checked.texts[number] for number in done)
    has_stand_in = checked.program.has_stand_in and not checked.program.is_entered
    said = "\n".join("# " + line for line in message.splitlines()[:12])
    return f"""# seed {checked.program.seed}, {mode.name}
{said}
import tempfile

import {"tapegrad.numpy" if has_stand_in else "numpy"} as np

import tapegrad as tg
import {"" if checked.program.is_entered else "tapegrad."}scipy.linalg as la


{checked.program.text}

{PREAMBLE}

points = [
    {points},
]
k = {checked.k}
A = tuple(range(k))
v = {checked.directions["v"]}
{mode.setup}
for p in points:
    made = {mode.expression}
print(made)
"""


def check_program(seed: int, native: bool = False) -> Checked:
    """A program of a seed in all ways; in native ones too where that is asked for."""
    checked = Checked(seed)
    checked.check(EAGER + INTERPRETED + (NATIVE if native else []))
    checked.check_torch()
    if native:
        checked.counts["native"] += 1
    return checked
