"""The table of operations: what an operation is, and how a row refers to its operands."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import math
import operator
import re
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..codegen import process
from ..codegen.sources import expression_in
from ..codegen.vector_math import NO_PARTIAL, refuse
from ..remembered import remembered

# --------------------------------------------------------------------------------------------------
# References of a row to its operands, and the operands as the rules of its operation see them.
# The `site` of a layout is a function of the operands and the output that a row names, as (row,
# view or number) each, with −1 for the row of a constant. It gives the arguments of a rule.


class Keywords(dict):
    """The keyword arguments of an operation, as a row holds them; they never change."""

    def __hash__(self):
        return hash(tuple(self))

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.items())


class Site(NamedTuple):
    """The operands of a row as a rule sees them.

    `operands` are (row, view or number) pairs, `static` the keyword arguments of the operation.
    `out` is the output as the rule sees it, a view of the row's array of shape `shape`; None if
    the row's value is a number, which is then to be reshaped. Where operands are `broadcast`
    against each other their tangents get as many axes as the operand of most.
    """

    operands: list[tuple[int, Any]]
    static: dict[str, Any]
    out: np.ndarray | None
    shape: tuple[int, ...]
    broadcast: bool = False


class Layout(NamedTuple):
    """Encodings of references to operands.

    `operands` names what each reference before the output is, for programs from files: "array",
    "number", or "output", a view that shows all of the output as the operation computes it. They
    are legal where `fits(out, *operands)` does not raise ValueError: it has the shape of the
    output, the shapes of the arrays, and the numbers.
    """

    site: Callable[[list], Site]
    operands: tuple[str, ...] = ()
    fits: Callable[..., None] | None = None

    @property
    def shown(self) -> int | None:
        """The operand that shows the output; None if there is none."""
        return self.operands.index("output") if "output" in self.operands else None


@functools.lru_cache(1024)
def grouped_axes(shape, lines: int, groups: int | None = None) -> tuple[int, ...]:
    """The axes, counted from the end, that make groups of a number of lines along the last axis.

    Without elements their number does not follow from that of the lines, but from the groups.
    """
    for kept in range(len(shape)):
        if math.prod(shape[kept:-1]) == lines and groups in (None, math.prod(shape[:kept])):
            return tuple(range(kept - len(shape), 0))
    raise AssertionError("a view along axes without its lines")


def check_lines(shape, lines: int) -> int:
    """The number of groups of a number of lines along the last axis; ValueError if not whole.

    Without elements any number of lines fits.
    """
    whole = math.prod(shape[:-1])
    fits = 0 < lines <= whole and whole % lines == 0
    if not fits and (math.prod(shape) or not 0 <= lines <= whole):
        raise ValueError(f"groups of {lines} of {whole} lines")
    return whole // lines if lines else 0


def _groups_fit(out, array, lines: int) -> None:
    if math.prod(out) != check_lines(array, lines) and math.prod(array):
        raise ValueError("not a result for each group")


def _shapes_fit(_out, array, lines: int, shown) -> None:
    check_lines(array, lines)
    if shown != array:
        raise ValueError("a result of another shape")


def reduction(found) -> Site:
    """An operand with the reduced axes last, lines of a group, the output: axes stay as 1."""
    operand, (_, lines), (_, out) = found
    shape = operand[1].shape
    axes = grouped_axes(shape, lines, 1 if out is None else out.size)
    kept = shape[: len(shape) - len(axes)] + (1,) * len(axes)
    return Site([operand], {"axes": axes}, None if out is None else out.reshape(kept), kept)


def same_shape(found) -> Site:
    """An operand with the axes last, lines of a group, the output as seen from it, the output."""
    operand, (_, lines), (_, seen), _ = found
    shape = operand[1].shape
    return Site([operand], {"axes": grouped_axes(shape, lines)}, seen, shape)


def plain(found) -> Site:
    """The keyword arguments, the operands, the output."""
    (_, static), *operands, (_, out) = found
    return Site(operands, static, out, () if out is None else out.shape, True)


def bare(found) -> Site:
    """The operands, the output."""
    *operands, (_, out) = found
    return Site(operands, {}, out, () if out is None else out.shape)


def links(found) -> Site:
    """Views of operands, each followed by the view of the output over the same shape."""
    *pairs, (_, out) = found
    return Site(pairs[::2], {"targets": [target for _, target in pairs[1::2]]}, out, out.shape)


def without_derivative(found) -> Site:
    """An object that the row keeps, the operands, the output."""
    _, *operands, (_, out) = found
    return Site(operands, {}, out, () if out is None else out.shape)


#: Encodings by the names that declarations use.
LAYOUTS: dict[str, Layout] = {
    "reduction": Layout(reduction, ("array", "number"), _groups_fit),
    "same shape": Layout(same_shape, ("array", "number", "output"), _shapes_fit),
    "plain": Layout(plain),
    "operands": Layout(bare),
    "links": Layout(links),
    "scatter_add": Layout(bare),
    "call": Layout(without_derivative),
}


# --- Products of adjoints and partial derivatives, some of which select ---------------------------
# A partial derivative with a branch `0.0`, such as `select(x > y, 1.0, 0.0)`, selects: in this
# branch another operand or piece was taken, and the value does not depend on the input. The product
# is 0 there whatever the adjoint, infinite or NaN. Any other partial derivative that happens to be
# 0 gives NaN for an infinite adjoint, as in IEEE arithmetic.
#
# Derivatives of a branch `0.0` are 0 as well. A partial derivative that is 0 at a point, but not
# its own derivatives, is an expression there, such as `y / x` where y = 0.


@functools.lru_cache(4096)
def branches(expression: str) -> tuple[str, str, str] | None:
    """The condition and the two branches of an expression that is a `select`, else None."""
    if "select(" not in expression:
        return None
    node = expression_in(expression)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "select":
        condition, first, second = map(ast.unparse, node.args)
        return condition, first, second
    return None


@functools.lru_cache(4096)
def selects(partial: str) -> bool:
    """Whether a partial derivative has a branch in which it is 0 whatever the adjoint."""
    found = branches(partial)
    return found is not None and any(one == "0.0" or selects(one) for one in found[1:])


@functools.lru_cache(4096)
def taken(partial: str) -> str:
    """The condition under which a partial derivative is not in a branch `0.0`."""
    found = branches(partial) if selects(partial) else None
    if found is None:
        return "False" if partial == "0.0" else "True"
    condition, first, second = found[0], taken(found[1]), taken(found[2])
    parts = [f"({condition})" if first == "True" else f"({condition}) & ({first})"]
    parts = [] if first == "False" else parts
    if second != "False":
        other = f"(({condition}) != True)"
        parts.append(other if second == "True" else f"{other} & ({second})")
    return " | ".join(f"({part})" for part in parts)


def in_branches(partial: str, each: Callable[[str], str]) -> str:
    """An expression in which `each` was applied to the branches of a selection, or to all of it."""
    found = branches(partial) if selects(partial) else None
    if found is None:
        return each(partial)
    condition, *both = found
    first, second = [one if one == "0.0" else in_branches(one, each) for one in both]
    return f"select({condition}, {first}, {second})"


def product(adjoint: str, partial: str, nonzero: bool = False) -> str:
    """Text of an adjoint, a name, times a partial derivative; `nonzero` says that it is not 0.

    An adjoint of exactly 0 gives 0 however steep the partial derivative.
    """
    return in_branches(partial, functools.partial(_plain_product, adjoint, nonzero))


def _plain_product(adjoint: str, nonzero: bool, partial: str) -> str:
    number = number_in(partial)
    if number in (1.0, -1.0):
        return adjoint if number == 1.0 else f"(-{adjoint})"
    if nonzero or number is not None:
        return f"{adjoint} * ({partial})"
    return f"select({adjoint} == 0.0, 0.0, {adjoint} * ({partial}))"


def symmetric_product(tangent: str, partial: str) -> str:
    """Text of a tangent times a partial derivative, names or 1.0 or -1.0: 0 where either is 0."""
    if partial in ("1.0", "-1.0"):
        return tangent if partial == "1.0" else f"-{tangent}"
    return f"select(({tangent} == 0.0) | ({partial} == 0.0), 0.0, {tangent} * {partial})"


#: A name in an expression; the letter in 1e-3 is none.
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]")


@functools.lru_cache(4096)
def number_in(partial: str) -> float | None:
    """The value of a constant, which is finite; None for other expressions."""
    if _NAME.search(partial):
        return None  # most are no constants, and take long to parse
    node, sign = expression_in(partial), 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return sign * value if abs(value) < float("inf") else None


# --- The table: what an operation is, and the list of all of them, independent of tapes -----------


#: The operations of tapegrad, by name.
TABLE: dict[str, Any] = {}
#: Operations of traces and programs only: comparisons, logic and choices, by name.
STEERING: dict[str, Any] = {}
#: Powers of constant exponents, by name.
POWERS: dict[str, Any] = {}
#: Operations on complex operands that belong to operations on whole arrays, by name.
COMPLEX: dict[str, Any] = {}
#: Operations on whole arrays of programs only, which passes create, by name.
PASSED: dict[str, Any] = {}
#: Operations declared by users, by name. They are added while compiled code is running already.
USERS: dict[str, Any] = {}
#: All of them by code, which counts from 1 and is never stored on disk.
BY_CODE: dict[int, Any] = {}
#: By the last part of a name: modules and the element-wise operations that their functions are.
_MEANT: dict[str, list[tuple[str, Any]]] = {}
#: The largest number of operands of an operation in switches.
OPERANDS = 3
#: Tables by code have this fixed size: they never move while a sweep reads them.
MOST_CODES = 4096
#: Held while an operation gets its code and name: threads import families of operations at once.
declaring = process.lock()


def words_of(*expressions: str) -> set[str]:
    """The names in expressions."""
    return set(re.findall(r"\b[A-Za-z_]\w*", " ".join(expressions)))


def needed(steps: Collection[tuple[str, str]], *expressions: str) -> list[tuple[str, str]]:
    """Of steps, each a name and an expression of earlier ones, those that expressions read."""
    wanted, found = words_of(*expressions) if steps else set(), []
    for name, text in reversed([*steps]):
        if name in wanted:
            found.append((name, text))
            wanted |= words_of(text)
    return found[::-1]


class ValueAndPartials:
    """Expressions of a value and of the partial derivative by each input, in names of the inputs.

    They read `out`, the value, too; what they share is in `steps`.
    """

    inputs: tuple[str, ...]
    value: str
    partials: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]

    def needed(self, *expressions: str) -> list[tuple[str, str]]:
        """The steps that expressions read, in order."""
        return needed(self.steps, *expressions)

    def read(self, *expressions: str) -> set[str]:
        """The inputs, and `out`, that expressions read."""
        texts = [text for _, text in self.needed(*expressions)]
        return words_of(*expressions, *texts) & {*self.inputs, "out"}

    def read_by(self, wanted: Iterable[int]) -> set[str]:
        """Those that the partial derivatives by some inputs read."""
        return self.read(*[self.partials[j] for j in wanted])

    @remembered
    def sloping(self) -> tuple[int, ...]:
        """The inputs, by number, whose partial derivative is not 0 everywhere."""
        return tuple([j for j, partial in enumerate(self.partials) if partial != "0.0"])

    @remembered
    def signs(self) -> tuple[int, ...]:
        """By input: 1 or −1 where this is the partial derivative everywhere, else 0."""
        return tuple([{"1.0": 1, "-1.0": -1}.get(partial, 0) for partial in self.partials])


@dataclasses.dataclass(frozen=True)
class Pointwise(ValueAndPartials):
    """An element-wise operation: expressions of the value, and of the partial for each input.

    The expressions are in NumPy names of the inputs and `out`, branch-free, with `select`; they are
    compiled, evaluated by NumPy, and called with tensors to record derivatives of any order. What
    they share is in `steps`: names with an expression each, which may read the steps before it.

    `functions` are the full names of those of other modules that mean it; `numpy` is the one that
    computes arrays. One that is `apart` can be declared while compiled code is running.
    """

    name: str
    inputs: tuple[str, ...]
    value: str
    partials: tuple[str, ...]
    doc: str
    domain: tuple[tuple[float, float], ...]
    awkward: str
    numpy: str
    code: int
    steps: tuple[tuple[str, str], ...] = ()
    graph: str = ""
    functions: tuple[str, ...] = ()
    apart: bool = False

    @property
    def of_numbers(self) -> bool:
        """Whether rows of numbers may hold it: their switches contain all such operations.

        Parts of complex functions are too long for these; of numbers they are rows of arrays.
        Powers of numbers are rows of one operation, for all exponents.
        """
        is_part = self.name.startswith("complex_") or self.name in POWERS
        return len(self.inputs) <= 2 and not is_part and not self.is_apart

    @remembered
    def test(self) -> str:
        """The condition of an operation whose value is 1.0 where one holds, else 0.0; or ""."""
        found = branches(self.value)
        return found[0] if found is not None and found[1:] == ("1.0", "0.0") else ""

    @property
    def is_fixed(self) -> bool:
        """Whether it is declared here, not by a user: NumPy or SciPy computes it."""
        return bool(self.numpy)

    @property
    def is_apart(self) -> bool:
        """Whether switches over operations do not contain it: kernels of its own compute it."""
        return self.apart or len(self.inputs) > OPERANDS

    @remembered
    def refuses(self) -> bool:
        """Whether it has no partial derivative by some input."""
        return any(partial.startswith(NO_PARTIAL) for partial in self.partials)

    def check(self, wanted: Iterable[int]) -> None:
        """Raise the error of a partial derivative that does not exist, if one is wanted.

        Compiled code has NaN in its place, since it may be made and never run.
        """
        for j in wanted:
            refuse(self.partials[j])

    @remembered
    def used(self) -> int:
        """Bits of the values that the partials read: inputs in order, then the output."""
        read = self.read(*self.partials)
        return sum(1 << k for k, name in enumerate((*self.inputs, "out")) if name in read)


@dataclasses.dataclass(frozen=True)
class Structural:
    """An operation on whole arrays: value, derivative rules, compiled kernels where they exist.

    `value(*operands, **static)` computes with arrays. The rules are texts for every reading: they
    compute with the namespace that they are given first, on arrays, on tensors, and on tensors of
    a traced program. `vjp(np, g, out, *operands, **static)` returns the adjoint of each operand,
    None for one that never has any; an entry may be a function without arguments, which is called
    if that operand is differentiated. `jvp(np, t, out, *operands, **static)` returns the tangent
    of the output; `t` is None for an operand without tangent. Without a `jvp` the `vjp`, which is
    linear in `g`, is transposed.

    - `g` and `t` may have one axis more, in front: several adjoints, directions. So axes count
      from the end. With `batch="loop"` a rule is called for each.
    - An adjoint may have the shape of the output where an operand was broadcast, and any floating
      dtype: it is summed and converted afterwards.
    - A rule never asks Python about a value. `np.times(g, partial)` is their product, 0 where `g`
      is 0.
    - A parameter whose name begins with an underscore is read for its shape and dtype alone.

    For a batch (`tg.vmap`) `value` is called with an axis in front of the operands, with
    `batch="loop"` for each element. Where that is not the value of each, or the layout has rows
    without `value`, `batched(np, t, out, *operands, **static)` gives the outputs of all elements:
    `t` holds the operands with that axis, None for one that is the same for all; the others are
    those of one element, as is `out`.

    `layout` says how a row refers to its operands, for programs from files too: a name in
    `references.LAYOUTS`, or a `references.Layout` of this operation alone.
    `adjoint(frame, id, references, task)` and its `helpers` are Python functions in the language of
    kernels; without one a sweep calls `vjp`. So is `value_kernel`, with the same arguments: it
    writes the output, an array of doubles, for programs. In the plain layout it needs `shape`,
    which gives that of the output from those of the operands and the keyword arguments, and raises
    ValueError where `value` does; its first reference is an array of the keyword arguments, which
    have to be whole numbers or truths. What has no derivative has neither adjoint nor rules, and no
    rows. `refusal` words what a kernel says that has set the frame's status to REFUSED.

    `tangent` is a kernel too: it sets the tangents of the output. An operation that has one, and
    whose adjoint reads values, has `second_order` as well, the kernel of adjoints as seed 0 and
    their tangents as seed 1.

    An operation that multiplies and adds numbers tells how often: `products(out, *operands)` counts
    for the shape of the output and operands as its `Layout.fits` takes them. Where they are few,
    programs call `expanded(apply, *operands)` with arrays of slots instead of a kernel: it writes
    the value as operations on numbers, each `apply(code, *slots)` for arrays of one shape, and
    returns the slots of the results, in C order of the output as the row shows it. An operation
    that its rule differentiates has `small(numbers, static, *operands)` for that, in native
    programs; `numbers` is what `small_matrices` says.

    Arrays `in_pairs` have a last axis of real and imaginary parts; the value kernel reads and
    writes complex numbers.

    The derivative of a `constant` operation is 0: its rule gives None for every operand. Values
    computed from it have the derivative with respect to the operands themselves.

    For an operation that its rule differentiates, `work(static, out, *operands)` gives for the
    keyword arguments and the shapes the number of arithmetic operations, to estimate times; without
    it numbers are counted as often as a matrix has rows.

    `example` is an expression that records one such row of a tensor `x` with one axis, `examples`
    are others for two axes; the elements of `x` lie in `domain`. `graph` is PyTorch's name in
    graphs, or gives it for the operands that a row names.
    """

    name: str
    code: int
    doc: str
    value: Any = None
    vjp: Any = None
    jvp: Any = None
    layout: str | Layout = "plain"
    batch: str = "axis"
    batched: Any = None
    adjoint: Callable | None = None
    shape: Callable | None = None
    value_kernel: Callable | None = None
    tangent: Callable | None = None
    second_order: Callable | None = None
    helpers: tuple[Callable, ...] = ()
    products: Callable[..., int] | None = None
    expanded: Callable[..., Any] | None = None
    work: Callable[..., float] | None = None
    small: Callable[..., Any] | None = None
    writes: bool = False
    in_pairs: bool = False
    constant: bool = False
    refusal: Callable[[int], Exception] | None = None
    example: str = ""
    examples: tuple[str, ...] = ()
    domain: tuple[float, float] = (0.5, 1.5)
    awkward: str = ""
    graph: str | Callable[[list], str] = ""

    @remembered
    def used(self) -> int:
        """Bits of the values that `vjp` reads: the output, then the operands in order."""
        return read_by(self.vjp)

    @remembered
    def used_forwards(self) -> int:
        """The same of `jvp`."""
        return read_by(self.jvp)

    @property
    def references(self) -> Layout:
        """The kind of a row's references to its operands."""
        return LAYOUTS[self.layout] if isinstance(self.layout, str) else self.layout

    @property
    def is_by_rule(self) -> bool:
        """Whether its rule alone differentiates it, in programs too."""
        return self.layout == "plain" and self.adjoint is None and self.vjp is not None

    @property
    def may_refuse(self) -> bool:
        """Whether its value may raise for values of operands, in programs too."""
        return self.is_by_rule and (self.refusal is not None or self.value_kernel is None)

    def static_words(self, static: dict[str, Any]) -> list[int]:
        """Keyword arguments as the value kernel reads them, in the order of `value`.

        Raises TypeError for other arguments than those of `value`, and for numbers that are not
        whole.
        """
        known = self.keywords
        if not static.keys() <= known.keys():
            raise TypeError(f"{self.name} takes no keyword arguments {set(static) - set(known)}")
        return [operator.index(value) for value in {**known, **static}.values()]

    @remembered
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments that `value` has, with their defaults."""
        found = inspect.signature(self.value).parameters.values()
        return {one.name: one.default for one in found if one.kind is one.KEYWORD_ONLY}

    @remembered
    def operand_count(self) -> int:
        """How many operands `value` takes."""
        found = inspect.signature(self.value).parameters.values()
        return sum(one.kind is not one.KEYWORD_ONLY for one in found)


def read_by(rule: Callable | None) -> int:
    """Bits of the values that a rule reads: the output, then the operands in order."""
    if rule is None:
        return -1
    found, kinds = 0, inspect.Parameter
    for k, one in enumerate([*inspect.signature(rule).parameters.values()][2:]):
        if one.kind is kinds.VAR_POSITIONAL and not one.name.startswith("_"):
            return found | -1 << k
        if one.kind is kinds.POSITIONAL_OR_KEYWORD and not one.name.startswith("_"):
            found |= 1 << k
    return found


def pointwise(
    name,
    inputs,
    value,
    *partials,
    doc,
    domain=None,
    awkward="",
    numpy=None,
    also="",
    graph="",
    steps=(),
    apart=False,
    table=TABLE,
) -> Pointwise:
    """Declare an element-wise operation; `domain`, for the tests, is one (low, high) per input.

    `numpy` is the function that computes it, by default NumPy's of the same name. `also` are others
    that mean the same, by default that of `math`; None says that not even `numpy` does. `graph` is
    PyTorch's name for it in graphs, where it does not follow from ours. `apart` keeps an operation
    that is rarely used out of the switches over all.
    """
    names = tuple(inputs.split())
    if len(partials) != len(names):
        raise ValueError(f"{name}: {len(names)} inputs, {len(partials)} partials")
    if isinstance(domain, tuple) and not isinstance(domain[0], tuple):
        domain = (domain,) * len(names)
    domain = domain or ((-2.0, 2.0),) * len(names)
    numpy = numpy or f"numpy.{name}"
    functions = () if also is None else (numpy, *(also.split() or [f"math.{name}"]))
    fields = (name, names, value, partials, doc, domain, awkward, numpy)
    op = _entered(
        table,
        lambda code: Pointwise(*fields, code, steps, graph, functions, apart),
    )
    for function in functions:
        module, _, last = function.rpartition(".")
        _MEANT.setdefault(last, []).append((module, op))
    return op


def meant_by(function) -> Pointwise | None:
    """The element-wise operation that a function of NumPy, SciPy, `math` or `operator` is."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        return None
    for module, op in _MEANT.get(name, ()):
        if getattr(sys.modules.get(module), name, None) is function:
            return op
    return None


def structural(name, adjoint=None, *, table=TABLE, **fields) -> Structural:
    """Declare an operation on whole arrays, with the fields of `Structural`.

    One that `writes` changes the buffer of its first operand and has no result.
    """
    op = Structural(name, 0, adjoint=adjoint, **fields)
    if op.is_by_rule and op.value_kernel is not None and op.shape is None:
        raise ValueError(f"{name} has a value kernel, which needs shape=")
    return _entered(table, lambda code: dataclasses.replace(op, code=code))


def _entered(table: dict[str, Any], make: Callable[[int], Any]) -> Any:
    """Enter the operation that `make(code)` returns: by its code first, then by its name."""
    with declaring:
        code = len(BY_CODE) + 1
        op = BY_CODE[code] = make(code)
        table[op.name] = op
        return op


def users_name(wanted: str) -> str:
    """A name for an operation of a user's: the one wanted, with a number where it is taken.

    Who declares it holds `declaring` until then.
    """
    name, count = wanted, 1
    while find(name) is not None:
        count += 1
        name = f"{wanted}_{count}"
    return name


def declare(make: Callable[[int], Any]) -> Any:
    """Register the operation that `make(code)` returns; None if there is no room."""
    with declaring:
        return _entered(USERS, make) if len(BY_CODE) + 1 < MOST_CODES else None


def find(name: str) -> Any:
    """The operation of a name, None if there is none."""
    found = TABLE.get(name) or STEERING.get(name) or POWERS.get(name)
    return found or USERS.get(name) or COMPLEX.get(name)
