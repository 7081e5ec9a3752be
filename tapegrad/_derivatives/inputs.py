"""Arguments of a function as inputs of the tape, in any structure."""

from __future__ import annotations

import numpy as np

from .._core.codegen.layout import LEAF, OF_NUMPY
from .._core.tape.sweeps import Sweep
from .._core.tensor import copies
from .._core.tensor import runtime as rt
from .._core.tensor.apply import apply
from .._core.tensor.copies import unlisted
from .._core.tensor.plain_data import kind_of_number
from .._core.tensor.pytree import refuse_computed_fields, tree_build, tree_leaves
from .._core.tensor.values import FLOATS, ComplexTensor, is_complex_number, is_recorded, value_of


class InputTensors:
    """Inputs of the tape, with their derivatives after a sweep."""

    def __init__(self, tensors: list):
        self.tensors = tensors

    def prepare(self, sweep: Sweep) -> None:
        """Let the sweep write the adjoints of arrays where they are returned from."""
        self.adjoints = [
            None if type(tensor) is rt.Scalar else sweep.adopt(tensor) for tensor in self.tensors
        ]

    def read(self, sweep: Sweep) -> list[np.ndarray]:
        """Adjoints of the inputs, each of shape (seeds, …)."""
        return [
            np.array([sweep.scalar(tensor, k) for k in range(sweep.seeds)]) if a is None else a
            for tensor, a in zip(self.tensors, self.adjoints, strict=True)
        ]

    def flat(self, sweep: Sweep) -> list:
        """Derivatives for the one seed, in the order of the tensors."""
        return [
            sweep.scalar(tensor) if a is None else plain(a[0])
            for tensor, a in zip(self.tensors, self.adjoints, strict=True)
        ]

    def second(self, sweep: Sweep) -> list:
        """Derivatives for the second of two seeds, in memory of their own."""
        return [
            sweep.scalar(tensor, 1) if a is None else plain(np.array(a[1], order="K"))
            for tensor, a in zip(self.tensors, self.adjoints, strict=True)
        ]


class Inputs(InputTensors):
    """Arguments of a function made inputs of the tape, with their derivatives afterwards."""

    def __init__(self, name: str, args, argnums):
        self.single = isinstance(argnums, (int, np.integer))
        self._order: list[int] | None = None  # of results, if an argument is named twice
        named = self._named(name, len(args), argnums)
        self.trees = [args[number] for number in named]
        super().__init__([])
        self.nested = False  # whether an argument is itself recorded
        made = [self._record(name, tree) for tree in self.trees]
        replaced = list(args)
        for number, tree in zip(named, made, strict=True):
            replaced[number] = tree
        self.args = tuple(replaced)

    def _named(self, name: str, count: int, argnums) -> list[int]:
        """The arguments that are inputs, each once."""
        numbers = [argnums] if self.single else list(argnums)
        for number in numbers:
            if not -count <= number < count:
                raise ValueError(
                    f"tapegrad.{name}: argnums {number} is out of range, the function got "
                    f"{count} positional arguments"
                )
        if len(numbers) == 1:
            return numbers
        numbers = [number % count for number in numbers]
        named = list(dict.fromkeys(numbers))
        if len(named) < len(numbers):
            self._order = [named.index(number) for number in numbers]
        return named

    def _record(self, name, tree):
        if isinstance(tree, (np.ndarray, float)) and not is_complex_number(tree):
            return self._input(name, "", tree)
        refuse_computed_fields(name, tree)
        leaves = [self._input(name, place, value) for place, value in tree_leaves(tree)]
        return tree_build(tree, iter(leaves))

    def _input(self, name, place, value):
        rt.start()
        kind = None
        if is_recorded(value):
            tensor = apply("multiply", value, 1.0)
            self.nested = True
        elif isinstance(value, (float, int)) and not isinstance(value, bool):
            kind = type(value) if isinstance(value, float) else float
            tensor = rt.scalar_leaf(float(value), kind_of_number(kind))
        else:
            array = value if type(value) is np.ndarray else np.asarray(value_of(unlisted(value)))
            if array.dtype.kind in "OUSb" and not isinstance(value, np.ndarray):
                raise not_a_number(name, place, value)
            tensor = array_input(name, place, copies.copy_in_order(array))
            if type(tensor) is rt.Scalar:
                kind = np.ndarray if isinstance(value, np.ndarray) else np.float64
        self.tensors.append(tensor)
        rt.note_input(tensor._id, kind=kind)
        return tensor

    def gradients(self, sweep: Sweep):
        """Derivatives for the one seed, in the structure of the arguments."""
        return self.build(iter(self.flat(sweep)))

    def build(self, values):
        """Values in the structure of the arguments."""
        results = [tree_build(tree, values) for tree in self.trees]
        if self._order is not None:
            return tuple([results[k] for k in self._order])
        return results[0] if self.single else tuple(results)


def not_a_number(name, place, value) -> TypeError:
    """The error for something in an argument to be differentiated that is no number."""
    kind = type(value).__name__
    advice = "give it in an argument of its own, which is not differentiated"
    if hasattr(value, "__dict__"):
        advice = f"make {kind} a dataclass, or give its numbers in a dict or a tuple"
    return TypeError(
        f"tapegrad.{name}: the argument{place} is of type {kind}; only numbers and arrays of them, "
        f"also in tuples, lists, dicts, dataclasses and attrs classes, are differentiated: {advice}"
    )


def array_input(name, place, array):
    """An array argument, which is ours, as an input."""
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: the argument{place} has dtype {array.dtype}; it must hold real "
            "numbers (float64 or float32)"
        )
    if array.ndim == 0 and array.dtype == np.float64:
        return rt.scalar_leaf(float(array), OF_NUMPY)
    return rt.row(LEAF, array)


def plain(value):
    """A result as the caller expects it: a float for a scalar, else an array."""
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else value


def scalar_output(name, out) -> np.ndarray:
    """The value of an output that must be one number."""
    if type(out) is ComplexTensor or is_complex_number(out):
        raise TypeError(
            f"tapegrad.{name}: the function returned a complex result, but a gradient needs a real "
            "one: return its real part or abs(…), or give holomorphic=True"
        )
    value = np.asarray(value_of(out))
    if value.size != 1 or value.dtype.kind not in "fiub":
        kind = f"shape {value.shape}" if value.dtype.kind != "O" else type(out).__name__
        raise ValueError(
            f"tapegrad.{name}: the function returned {kind}, but a gradient needs a scalar: reduce "
            "it, for instance with sum(), or use jacobian or elementwise_grad"
        )
    return value
