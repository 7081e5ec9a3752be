"""A random program from a seed: its text, its arguments, and points to evaluate it at."""

import random
import re
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import seed_runs
from fuzz_loops import LoopWriter
from fuzz_matrices import MatrixWriter
from fuzz_wide import NAMESPACES, as_wide

import tapegrad.numpy
import tapegrad.scipy.linalg

#: Programs whose seeds are these, of so many, have `import tapegrad.numpy as np`.
STAND_IN, OF = (1, 3), 5
#: In programs that choose between elements.
CHOOSES = re.compile(r"max|min|sort|median|ptp|where|abs|clip|if |[<>]|//|%")
#: One program in so many has matrices and complex numbers.
MATRICES = 4
#: One program in so many has long loops.
LONG = 15
#: How an array of some values lies in memory; `{0}` is the array in C order.
LAYOUTS = {
    "C": "{0}",
    "F": "np.asfortranarray({0})",
    "negative strides": "np.ascontiguousarray(np.flip({0}))[(slice(None, None, -1),) * {0}.ndim]",
    "sliced": "np.repeat({0}, 2, axis=-1)[..., ::2]",
    "sliced rows": "np.repeat({0}, 3, axis=0)[1::3]",
    "transposed": "np.ascontiguousarray({0}.T).T",
    "read-only": "np.frombuffer({0}.tobytes(), {0}.dtype).reshape({0}.shape)",
    "broadcast": "np.broadcast_to({0}[..., :1], {0}.shape)",
}


@dataclass
class Argument:
    name: str
    shape: tuple | None  # None: a Python float
    dtype: str
    differentiated: bool


@dataclass
class Program:
    """`body` makes `out`, the result of a function; where that is an array, `f` sums it."""

    seed: int
    arguments: list[Argument]
    lines: list[str]
    result: str
    is_array: bool
    kinds: set[str] = field(default_factory=set)
    small: bool = True  # few enough numbers for a matrix of second derivatives

    @property
    def has_stand_in(self) -> bool:
        """Whether `np` is `tapegrad.numpy`."""
        return self.seed % OF in STAND_IN

    @property
    def is_entered(self) -> bool:
        """Whether its imports are plain where others have stand-ins."""
        return self.has_stand_in and seed_runs.are_plain()

    @property
    def count(self) -> int:
        """How many arguments are differentiated; they come first."""
        return sum(one.differentiated for one in self.arguments)

    @property
    def text(self) -> str:
        names = ", ".join(one.name for one in self.arguments)
        name = "out" if self.is_array else "f"
        lines = [f"def {name}({names}):", *["    " + x for x in self.lines]]
        lines.append(f"    return {self.result}")
        if self.is_array:
            lines += ["", "", "def f(*args):", "    made = out(*args)"]
            lines += ["    weights = np.cos(np.arange(float(made.size)) + 0.5)"]
            lines += ["    return np.sum(made * weights.reshape(made.shape))"]
        return "\n".join(lines)

    def functions(self, wide=False) -> dict:
        """`f`, and `out` where it has one, with its own NumPy or that of extended precision."""
        own = {"np": tapegrad.numpy if self.has_stand_in else np, "la": tapegrad.scipy.linalg}
        if self.is_entered:
            own = {"np": np, "la": scipy.linalg}
        found = dict(NAMESPACES) if wide else own
        exec(compile(self.text, f"<program {self.seed}>", "exec"), found)
        return found


def drawn_arguments(rng: random.Random, long: bool) -> list[Argument]:
    """Differentiated ones first, then data."""
    flavour = "long" if long and rng.random() < 0.5 else rng.choice(["short"] * 7 + ["zero"])
    n = rng.choice([2, 3, 4, 5, 6, 8]) if flavour != "long" else rng.choice([30, 59, 60, 75, 300])
    dtype = rng.choice(["float64"] * 9 + ["float32"])
    shapes: list = [(n,), rng.choice([(n,), (n,), (2, 3), (3, 2), (n, 2), (2, n), (3, 3), (1,)])]
    shapes += [None] * (rng.random() < 0.3) + [(rng.choice([2, 3]),) * 2] * (rng.random() < 0.4)
    shapes += [()] * (rng.random() < 0.1) + [(2, 1, 3)] * (rng.random() < 0.1)
    if flavour == "zero":
        shapes.append(rng.choice([(0,), (0, 3), (2, 0)]))
    shapes = [one for one in shapes if one is None or np.prod(one) <= 300]
    found = [Argument("xyzwqrpo"[k], s, dtype, True) for k, s in enumerate(shapes)]
    if dtype == "float32" and rng.random() < 0.4:
        found[-1].dtype = "float64"
    for one in found:
        one.dtype = "float64" if one.shape is None else one.dtype
    data = []
    for name, kind in (("d", "float64"), ("k", "int64"), ("m", "bool"), ("e", "float32")):
        if rng.random() < (0.3 if name != "e" else 0.05):
            data.append(Argument(name, (n,), kind, False))
    if len(found) > 1 and rng.random() < 0.15:
        found[-1].differentiated = False
    return found + data


def with_matrices(arguments, rng: random.Random) -> list[Argument]:
    """Arguments with a matrix more, and complex ones: in front those that are differentiated."""
    n, m = rng.choice([2, 3, 4]), rng.choice([1, 2, 3, 4])
    whole = [Argument("M", (n, m), arguments[0].dtype, True)]
    if rng.random() < 0.3:
        shape = rng.choice([(3,), (2, 3), (2, 2), ()])
        whole.append(Argument("C", shape, "complex128", rng.random() < 0.6))
    together = [*arguments, *whole]
    return sorted(together, key=lambda one: not one.differentiated)


def values_of(one: Argument, rng: np.random.Generator):
    """Values of an argument, as float64, integers or truths."""
    shape = one.shape or ()
    if one.dtype == "int64":
        return rng.integers(-1, 2, shape)
    if one.dtype == "bool":
        return rng.random(shape) < 0.5
    parts = (2,) * (one.dtype == "complex128")
    drawn = np.round(rng.uniform(-1.5, 1.5, shape + parts) * 4096) / 4096
    return drawn[..., 0] + 1j * drawn[..., 1] if parts else drawn


def has_matrices(seed: int) -> bool:
    return seed % MATRICES == 2


def generate(seed: int) -> Program:
    """The program of a seed; of one in LONG with long loops."""
    rng, long = random.Random(seed), seed % LONG == 0
    arguments = drawn_arguments(rng, long)
    if has_matrices(seed):
        arguments = with_matrices(arguments, rng)
    numbers = np.random.default_rng(seed)
    values = {a.name: widened(values_of(a, numbers)) for a in arguments}
    tensors = {a.name for a in arguments if a.differentiated}
    writer = (MatrixWriter if has_matrices(seed) else LoopWriter)(seed, values, tensors)
    writer.long, writer.has_stand_in = long, seed % OF in STAND_IN
    use_data(writer, arguments)
    plan = rng.choice(["loops", "both"] if long else ["straight", "straight", "loops", "both"])
    if plan != "loops":
        counts = [3, 5, 7, 10, 14] if has_matrices(seed) else [1, 2, 4, 6, 9, 12]
        writer.write_statements(rng.choice(counts))
    if plan != "straight":
        writer.write_loops(rng.choice([1, 1, 2]))
    if plan == "both":
        writer.write_statements(rng.choice([1, 2, 3]))
    return finished(seed, writer, arguments, rng)


def widened(value):
    return value.astype(as_wide(value.dtype))


def use_data(writer, arguments):
    """Integers and truths as indices, masks and factors."""
    for one in arguments:
        lines = {
            "k": ["g = x[k % len(x)]", "g = x * k", "g = x[k]", "g = np.take(x, k)",
                  "g = k * x - k"],
            "m": ["h = np.where(m, x, 0.5)", "h = x * m", "h = x[m]", "h = x * ~m", "h = m + x",
                  "h = x * 1.0; h[m] = 0.25", "h = x * 0.5; h[m] += x[m]"],
        }.get(one.name)  # fmt: skip
        if lines and writer.attempt(writer.random.choice(lines), kind="integers and truths"):
            writer.tensors |= {"g", "h"}


def finished(seed, writer, arguments, rng) -> Program:
    """The program with a result of what was made last."""
    made = [n for n in writer.values if n in writer.tensors and _is_float(writer.values[n])]
    made += writer.complex_results()
    names = [n for n in made if n.startswith("v") or n in "gh"]
    names = sorted(names, key=list(writer.values).index)[-4:] or ["x"]
    arrays = [n for n in names if 0 < np.size(writer.values[n]) <= 12 and np.ndim(writer.values[n])]
    arrays = [n for n in arrays if _is_float(writer.values[n])]
    is_array = bool(arrays) and rng.random() < 0.2
    total = " + ".join(_term(writer, name, k) for k, name in enumerate(names))
    result = arrays[-1] if is_array else total
    program = Program(seed, arguments, writer.lines, result, is_array, set(writer.kinds))
    sizes = [int(np.prod(a.shape or ())) for a in arguments if a.differentiated]
    program.small = sum(sizes) <= 16
    program.kinds |= argument_kinds(arguments)
    if program.has_stand_in:
        program.kinds.add("stand-in")
    if is_array:
        program.kinds.add("results with axes")
    return program


def argument_kinds(arguments) -> set[str]:
    found = {f"dtype {one.dtype}" for one in arguments if one.shape is not None}
    found |= {"numbers as arguments" for one in arguments if one.shape is None}
    return found | {"zero sizes" for one in arguments if one.shape and 0 in one.shape}


def _is_float(value) -> bool:
    return isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f"


def _term(writer, name, k) -> str:
    value = writer.values[name]
    if value.dtype.kind == "c":
        return f"np.sum({name}.real * 0.7 - np.abs({name}) ** 2 * 0.2 + {name}.imag) * {k + 0.5}"
    if not np.ndim(value):
        return f"{name} * {k + 0.5}"
    inner = writer.random.choice(["np.tanh({})", "np.sin({})", "{} ** 2", "{}"]).format(name)
    return f"np.sum({inner}) * {k + 1.0}"


# --- points -----------------------------------------------------------------------------------


def point_texts(program: Program, count: int) -> list[str]:
    """Text of tuples of arguments: other values in each, and other layouts."""
    rng = random.Random(program.seed + 1)
    alias = aliased(program, rng)
    found = []
    for k in range(count):
        numbers = np.random.default_rng(program.seed if k == 0 else [program.seed, k])
        values = [values_of(a, numbers) for a in program.arguments]
        if alias and k % 2 == 0:
            found.append(alias(values))
            continue
        parts = []
        for one, value in zip(program.arguments, values, strict=True):
            layout = rng.choice([*LAYOUTS, "C", "C"]) if one.shape and 0 not in one.shape else "C"
            if layout == "broadcast" and one.differentiated and CHOOSES.search(program.text):
                layout = "C"  # equal elements would be tied
            parts.append(laid(one, value, layout))
            if one.shape:
                program.kinds.add(f"memory: {layout}")
        found.append(f"({', '.join(parts)},)")
    return found


def laid(one: Argument, value, layout: str) -> str:
    """Text of an argument."""
    if one.shape is None:
        return repr(float(value))
    array = f"np.array({value.tolist()}, np.{one.dtype.replace('bool', 'bool_')})"
    if not value.size:
        array += f".reshape({value.shape})"
    return array if layout == "C" else f"(lambda a: {LAYOUTS[layout].format('a')})({array})"


def aliased(program: Program, rng):
    """How the first two arguments share memory, if they do: text of all arguments from values."""
    if len(program.arguments) < 2:
        return None
    first, second = program.arguments[:2]
    if first.shape != second.shape or first.dtype != second.dtype or rng.random() < 0.4:
        return None
    n = first.shape[0]
    pair = rng.choice(["a, a", "a, a", f"a[:{n}], a[::-1][:{n}]", f"a[:{n}], a[1:{n + 1}]"])
    if CHOOSES.search(program.text):
        pair = f"a[:{n}], a[1:{n + 1}]"  # no element is in the same place of both: none are tied
    program.kinds.add("aliasing arguments")

    def text(values):
        longer = values[0] if pair == "a, a" else np.concatenate((values[0], values[1][:1]))
        array = f"np.array({longer.tolist()}, np.{first.dtype})"
        others = zip(program.arguments[2:], values[2:], strict=True)
        rest = ", ".join(laid(one, value, "C") for one, value in others)
        return f"(lambda a: ({pair}, {rest}))({array})"

    return text


def point(text: str) -> tuple:
    return eval(text, {"np": np})
