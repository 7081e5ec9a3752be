"""Random programs as Python text, from a seed: expressions, views, writes and branches.

Each statement is tried on numbers of extended precision, and kept where NumPy can do it and the
numbers stay small. So a program is one that NumPy runs, at least at the point where it was made.
"""

import random
import re
import warnings

import fuzz_expressions as text
import numpy as np
from fuzz_wide import NAMESPACES

LARGEST = 40.0
REFUSED = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError, Warning)
_NAME = re.compile(r"[A-Za-z_]\w*")


class Rejected(Exception):
    """A statement that NumPy does not do."""


class Writer:
    """A program that grows, and what it has computed so far.

    `tensors` are names of what depends on a differentiated argument; arrays among them that are no
    views of an argument are `written` to.
    """

    has_stand_in = False

    def __init__(self, seed: int, arguments: dict, tensors: set):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.kinds: set[str] = set()
        self.arguments = arguments
        self.tensors = set(tensors)
        self.count = 0
        self.run_again()

    # --- what there is --------------------------------------------------------------------------

    def run_again(self):
        self.values = {name: np.copy(value)[()] for name, value in self.arguments.items()}
        self.originals = [owner(value) for value in self.values.values()]
        self.values |= NAMESPACES
        self.execute(self.lines)

    def execute(self, lines):
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            exec("\n".join(lines), self.values)

    def attempt(self, *lines: str, kind: str = "") -> bool:
        """Add lines to the program if NumPy does them."""
        try:
            self.execute(lines)
            self.look()
        except (Rejected, *REFUSED):
            self.run_again()
            return False
        self.lines += lines
        self.kinds |= {kind} - {""}
        return True

    def look(self):
        """Refuse large numbers, and arrays with many elements."""
        for value in self.values.values():
            if isinstance(value, (np.ndarray, np.inexact)) and value.dtype.kind in "fc":
                if value.size > 400 or not (np.abs(value) <= LARGEST).all():
                    raise Rejected
            elif isinstance(value, tuple):
                raise Rejected

    def names(self, axes=None, tensors=False, written=False) -> list[str]:
        """Names of arrays of floats, with so many axes (0: numbers)."""
        found = []
        for name, value in self.values.items():
            array = isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f"
            if array and (axes is None or np.ndim(value) == axes) and len(name) < 4:
                if (tensors or written) and name not in self.tensors:
                    continue
                if not written or self.is_written(value):
                    found.append(name)
        return found

    def is_written(self, value) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.ndim > 0
            and value.flags.writeable
            and not any(owner(value) is one for one in self.originals)
        )

    def shape(self, name):
        return np.shape(self.values[name])

    def pick(self, items):
        if not items:
            raise Rejected
        return self.random.choice(items)

    def new_name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def is_tensor(self, expression: str) -> bool:
        return bool(self.tensors & set(_NAME.findall(expression)))

    # --- expressions ----------------------------------------------------------------------------

    def fill(self, template: str, *operands: str) -> str:
        return template.format(*operands, i=self.random.randint(0, 3))

    def number(self) -> str:
        """A number: of a variable, of a reduction, or a constant."""
        choice = self.random.random()
        if choice < 0.35 and self.names(0):
            return self.pick(self.names(0))
        if choice < 0.6 and self.names(1):
            return self.fill(self.pick(text.PICKED), self.pick(self.names(1)))
        if choice < 0.9:
            arrays = [name for name in self.names() if self.shape(name)]
            return self.fill(self.pick(text.REDUCED), self.pick(arrays))
        return self.pick(["0.3", "-0.6", "1.0", "0.75"])

    def operand(self, shape) -> str:
        """A variable or a number that goes with a shape."""
        names = [n for n in self.names() if fits(self, n, shape)]
        if names and self.random.random() < 0.85:
            return self.pick(names)
        return self.number() if self.random.random() < 0.6 else self.pick(["0.4", "-0.7", "1.2"])

    def expression(self, shape, depth=2) -> str:
        """Text of something that goes with a shape; parentheses around."""
        if depth == 0:
            return self.operand(shape)
        choice = self.random.random()
        if choice < 0.1:
            made = self.fill(self.pick(text.STEPS), self.expression(shape, depth - 1))
        elif choice < 0.5:
            made = self.fill(self.pick(text.UNARY), self.expression(shape, depth - 1))
        else:
            first, second = self.expression(shape, depth - 1), self.operand(shape)
            if self.random.random() < 0.5:
                first, second = second, first
            made = self.fill(self.pick(text.BINARY), first, second)
        return f"({made})"

    def tensor_expression(self, shape, depth=2) -> str:
        """One that depends on a differentiated argument."""
        for _ in range(10):
            made = self.expression(shape, self.random.randint(1, depth))
            if self.is_tensor(made):
                return made
        raise Rejected

    # --- statements -----------------------------------------------------------------------------

    def assign(self, expression: str, kind: str) -> bool:
        name = self.new_name()
        if not self.attempt(f"{name} = {expression}", kind=kind):
            return False
        if self.is_tensor(expression):
            self.tensors.add(name)
        return True

    def compute(self):
        name = self.pick(self.names())
        return self.assign(self.tensor_expression(self.shape(name))[1:-1], "element-wise")

    def reduce(self):
        function = self.pick(["0.5 * ({})", "np.tanh({})", "{} + 0.1"])
        return self.assign(function.format(self.number()), "reductions")

    def make(self):
        axes = self.pick([1, 1, 2])
        template = self.pick(text.MADE_OF_VECTOR if axes == 1 else text.MADE_OF_MATRIX)
        return self.assign(self.fill(template, self.pick(self.names(axes))), "arrays made")

    def view(self):
        name = self.pick(self.names(written=self.random.random() < 0.6))
        axes = len(self.shape(name))
        templates = list(text.VIEWS)
        templates += {1: text.VIEWS_OF_VECTOR, 2: text.VIEWS_OF_MATRIX}.get(axes, []) * 2
        return self.assign(self.fill(self.pick(templates), name), "views")

    def key(self, name: str) -> str:
        axes = len(self.shape(name))
        keys = list(text.KEYS)
        keys += {1: text.KEYS_OF_VECTOR, 2: text.KEYS_OF_MATRIX}.get(axes, [])
        return self.fill(self.pick(keys), name)

    def write_line(self) -> str:
        """A write to a view, an element, a mask or an index array."""
        name = self.pick(self.names(written=True))
        key = self.key(name)
        try:
            part = eval(f"{name}[{key}]", self.values)
        except REFUSED:
            raise Rejected from None
        what = self.random.random()
        if what < 0.3:
            value = self.number()
        elif what < 0.45:
            source = self.pick(self.names(len(self.shape(name))))
            value = f"{source}[{self.key(source)}]"
        else:
            value = self.expression(np.shape(part), self.random.randint(0, 2))
        sign = self.pick(["=", "=", "=", "+=", "-=", "*="])
        if key == "..." and sign != "=" and self.random.random() < 0.7:
            return f"{name} {sign} {value}"
        return f"{name}[{key}] {sign} {value}"

    def write(self):
        line = self.write_line()
        return self.attempt(line, kind="masks, index writes" if _is_index(line) else "writes")

    def add_at(self):
        name = self.pick(self.names(1, written=True))
        indices = self.pick(["[0, 1, 0]", "[1, 1]", "np.array([0, -1, -1])", "np.argsort({0})[:2]"])
        value = self.pick([self.number(), self.pick(self.names(1)) + "[0]"])
        function = self.pick(["np.add.at", "np.subtract.at"])
        line = f"{function}({name}, {indices.format(name)}, {value})"
        return self.attempt(line, kind="ufunc.at")

    def write_by_function(self):
        name = self.pick(self.names(written=True))
        line = self.fill(self.pick(text.WRITERS), name, self.number())
        return self.attempt(line, kind="functions that write")

    def create(self):
        """An array that is no function of one array; it can be written."""
        if not self.has_stand_in:
            raise Rejected
        numbers = self.number(), self.number()
        name, vector = self.new_name(), self.pick(self.names(1))
        line = f"{name} = {self.fill(self.pick(text.CREATORS), *numbers, vector)}"
        if not self.attempt(line, kind="creators"):
            return False
        self.tensors.add(name)
        return True

    def change_number(self):
        """A number changed in place, which NumPy does not do to what it was read from."""
        source, name = self.pick(self.names(1, tensors=True)), self.new_name()
        self.tensors.add(name)
        value = self.number()
        return self.attempt(
            f"{name} = {source}[{self.pick(['0', '-1', '1'])}]",
            f"{name} += {value}",
            kind="numbers",
        )

    def condition(self) -> str:
        limit = self.pick(["0.0", "0.2", "-0.3", "0.6"])
        if self.random.random() < 0.25:
            name = self.pick(self.names(1))
            return self.pick([f"({name} > 0.9).any()", f"np.all({name} < 0.8)"])
        return f"{self.number()} {self.pick(['>', '<', '>=', '<='])} {limit}"

    def branch(self):
        """Both sides change variables that there are, or the same new one."""
        name = self.new_name()
        like = self.pick(self.names(tensors=True))
        lines = [f"if {self.condition()}:"]
        for place in (0, 1):
            lines += [f"    {name} = {self.tensor_expression(self.shape(like))}"]
            if self.random.random() < 0.5 and self.names(written=True):
                line = self.write_line()
                self.check(line)
                lines.append("    " + line)
            lines += ["else:"] if place == 0 else []
        self.tensors.add(name)
        return self.attempt(*lines, kind="branches")

    def check(self, line):
        """Refuse a line that NumPy does not do; the program stays as it is."""
        try:
            self.execute([line])
            self.look()
        except REFUSED:
            raise Rejected from None
        finally:
            self.run_again()

    def complex_results(self) -> list[str]:
        """Names of complex numbers and arrays that depend on an argument; here there are none."""
        return []

    STATEMENTS = [compute, view, write] * 4 + [make, reduce, branch] * 2 + [make, create]
    STATEMENTS += [add_at, change_number, write_by_function, create]

    def write_statements(self, count: int):
        """So many statements, as far as tries go."""
        done = 0
        for _ in range(8 * count):
            if done == count:
                return
            try:
                done += bool(self.pick(self.STATEMENTS)(self))
            except Rejected:
                continue


def owner(value):
    """The array whose memory it is."""
    return value if getattr(value, "base", None) is None else value.base


def fits(writer, name, shape) -> bool:
    """Whether a variable can be broadcast to a shape."""
    try:
        return np.broadcast_shapes(writer.shape(name), shape) == tuple(shape)
    except ValueError:
        return False


def _is_index(line: str) -> bool:
    key = line.split("=")[0]
    return any(part in key for part in ("[[", "np.a", "np.ix", ">", "<", ", ["))
