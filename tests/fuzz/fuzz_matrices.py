"""Statements of random programs with matrices and complex numbers, on top of those of loops."""

import fuzz_matrix_texts as text
import numpy as np
from fuzz_expressions import KEYS, VIEWS
from fuzz_loops import LoopWriter
from fuzz_writer import Rejected, fits

#: Most rows or columns of a matrix that is factorised.
SIDE = 6


class MatrixWriter(LoopWriter):
    """A writer that factorises matrices, and has complex numbers in variables."""

    def complex_names(self, axes=None, written=False, matrices=False) -> list[str]:
        """Names of complex arrays, with so many axes; no empty ones."""
        found = []
        for name, value in self.values.items():
            is_one = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "c"
            if not is_one or len(name) > 3 or not value.size:
                continue
            if axes is not None and value.ndim != axes or matrices and max(value.shape) > SIDE:
                continue
            if not written or name in self.tensors and self.is_written(value):
                found.append(name)
        return found

    def complex_results(self):
        return [name for name in self.complex_names() if name in self.tensors]

    def matrix(self) -> str:
        shapes = {name: self.shape(name) for name in self.names(2)}
        return self.pick(
            [name for name, (n, m) in shapes.items() if 0 < min(n, m) and max(n, m) <= SIDE]
        )

    def complex_matrix(self) -> str:
        return self.pick(self.complex_names(2, matrices=True))

    def complex_operand(self, shape) -> str:
        """What goes with a shape: complex, or real."""
        names = [n for n in self.complex_names() if fits(self, n, shape)]
        if names and self.random.random() < 0.6:
            return self.pick(names)
        return self.pick([self.operand(shape), "0.4j", "(0.3 - 0.2j)"])

    # --- matrices -------------------------------------------------------------------------------

    def make_of_matrix(self):
        templates = self.pick([text.MATRICES, text.MATRICES, text.VECTORS])
        return self.assign(self.fill(self.pick(templates), self.matrix()), "matrices")

    def number_of_matrix(self):
        return self.assign(self.fill(self.pick(text.NUMBERS), self.matrix()), "matrices")

    def make_of_vector(self):
        vector = self.pick([n for n in self.names(1) if 1 < self.shape(n)[0] <= SIDE])
        return self.assign(self.fill(self.pick(text.OF_VECTOR), vector), "matrices")

    def matrix_rounds(self):
        """A square matrix that goes from round to round."""
        complex_too = self.random.random() < 0.3
        start = self.complex_matrix() if complex_too else self.matrix()
        adjoint = "np.conj(u).T" if complex_too else "u.T"
        rounds = [self.pick(text.ROUNDS).replace("{h}", adjoint) for _ in range(self.pick([1, 2]))]
        lines = [f"u = {start} @ {'np.conj(' + start + ')' if complex_too else start}.T * 0.3"]
        lines += [self.header("i", self.rounds()), *["    " + line for line in rounds]]
        return self.keep(lines, "u", kind="loops of matrices")

    # --- complex numbers ------------------------------------------------------------------------

    def make_complex(self):
        name = self.pick([n for n in self.names(tensors=True) if np.size(self.values[n])])
        made = self.fill(self.pick(text.COMPLEX_MADE), name, self.operand(self.shape(name)))
        return self.assign(made, "complex numbers")

    def complex_expression(self, shape, depth) -> str:
        if depth == 0:
            return self.complex_operand(shape)
        first = self.complex_expression(shape, depth - 1)
        if self.random.random() < 0.6:
            return f"({self.fill(self.pick(text.COMPLEX_UNARY), first)})"
        second = self.complex_operand(shape)
        return f"({self.fill(self.pick(text.COMPLEX_BINARY), first, second)})"

    def compute_complex(self):
        name = self.pick(self.complex_names())
        made = self.complex_expression(self.shape(name), self.pick([1, 1, 2]))
        return self.assign(made[1:-1], "complex numbers")

    def to_real(self):
        name = self.pick(self.complex_names())
        return self.assign(self.fill(self.pick(text.TO_REAL), name), "complex numbers")

    def reduce_complex(self):
        name = self.pick([n for n in self.complex_names() if self.shape(n)])
        return self.assign(self.fill(self.pick(text.COMPLEX_REDUCED), name), "complex numbers")

    def make_of_complex_vector(self):
        name = self.pick(self.complex_names(1, matrices=True))
        templates = self.pick([text.OF_COMPLEX_VECTOR] * 3 + [text.OF_VECTOR])
        return self.assign(self.fill(self.pick(templates), name), "complex numbers")

    def make_of_complex_matrix(self):
        templates = self.pick([text.OF_COMPLEX_MATRIX] * 3 + [text.COMPLEX_VECTORS])
        made = self.fill(self.pick(templates), self.complex_matrix())
        return self.assign(made, "complex matrices")

    def number_of_complex_matrix(self):
        made = self.fill(self.pick(text.COMPLEX_NUMBERS), self.complex_matrix())
        return self.assign(made, "complex matrices")

    def view_complex(self):
        name = self.pick([n for n in self.complex_names() if self.shape(n)])
        templates = [*VIEWS, "{0}.T", "{0}.real", "{0}.imag", "{0}[0]"]
        return self.assign(self.fill(self.pick(templates), name), "complex views")

    def write_complex(self):
        """A write to a complex array, to a part of it, or of it as a whole."""
        name, key = self.pick(self.complex_names(written=True)), self.pick(KEYS)
        if not self.shape(name):
            raise Rejected
        sign = self.pick(["=", "=", "+=", "-=", "*="])
        part = self.pick(["", "", "", "", ".real", ".imag"])
        value = self.pick([self.number(), f"1j * {self.number()}", self.complex_operand(())])
        if self.random.random() < 0.4:
            value = self.complex_expression(self.shape(name), 1)
            key = ":" if sign == "=" else "..."
        if part:
            value = f"np.real({value})"
        return self.attempt(f"{name}{part}[{key}] {sign} {value}", kind="complex writes")

    def create_complex(self):
        if not self.has_stand_in:
            raise Rejected
        name = self.new_name()
        template = self.pick(text.COMPLEX_CREATORS)
        line = f"{name} = {self.fill(template, self.pick(self.complex_names()), self.number())}"
        if not self.attempt(line, kind="complex creators"):
            return False
        self.tensors.add(name)
        return True

    def complex_rounds(self):
        """A complex number that goes from round to round."""
        start = self.pick([*self.complex_names(0), f"complex(0.3, 0.2) * {self.number()}"])
        step = self.pick(text.COMPLEX_ROUNDS).format(self.pick(self.elements("i")))
        lines = [f"const = {start} + 0.1j", "zeta = const * 0.5", self.header("i", self.rounds())]
        result = self.pick(["zeta", "zeta.real - 0.5 * zeta.imag", "abs(zeta)"])
        return self.keep([*lines, f"    {step}"], result, kind="loops of complex numbers")

    STATEMENTS = LoopWriter.STATEMENTS + [
        *[make_of_matrix, make_complex, compute_complex] * 4,
        *[make_of_vector, number_of_matrix, to_real, reduce_complex, write_complex] * 2,
        *[make_of_complex_vector, make_of_complex_matrix, number_of_complex_matrix] * 2,
        *[view_complex, create_complex, create_complex, matrix_rounds, complex_rounds],
    ]  # fmt: skip
    LOOPS = (*LoopWriter.LOOPS, matrix_rounds, matrix_rounds, complex_rounds, complex_rounds)
