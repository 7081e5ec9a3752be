"""Graphs of blocks evaluated in plain Python, one number at a time: the judge of back ends.

Each float is a node of a record: its value, and the slope to each node that it was computed from.
"""

import functools

import numpy as np
from rows import NUMPY

from tapegrad._core.ops.table import find
from tapegrad._flow.ir.flow_graph import Branch, Jump, Return
from tapegrad._flow.ir.frame import ARITHMETIC, FINISHED, LEFT, TOO_MANY_JUMPS

_compiled = functools.lru_cache(None)(lambda text: compile(text, text, "eval"))


class Left(Exception):
    """The graph was left, for the reason of this number."""


class Node:
    """A float and what it was computed from: (node, slope) pairs."""

    __slots__ = ("adjoint", "parents", "value")

    def __init__(self, value, parents=()):
        self.value, self.parents, self.adjoint = np.float64(value), parents, 0.0


def expressions(op, texts, operands, out=None):
    """Expressions of a declaration, evaluated by NumPy."""
    names = dict(zip(op.inputs, operands, strict=True), np=NUMPY, select=_select, out=out)
    with np.errstate(all="ignore"):
        for name, text in op.needed(*texts):
            names[name] = eval(_compiled(text), names)
        return [np.float64(eval(_compiled(text), names)) for text in texts]


def _select(condition, x, y):
    return x if condition else y


def _fits(number):
    if not -(2**63) <= number < 2**63:
        raise Left(ARITHMETIC)
    return number


def _divided(x, y, quotient):
    if y == 0:
        raise Left(ARITHMETIC)
    return _fits(x // y) if quotient else x % y


def _whole(x):
    if not abs(x) < 2**53:
        raise Left(ARITHMETIC)
    return int(x)


#: What computes with numbers; floats come and go as their values.
PLAIN = {
    "int_add": lambda x, y: _fits(x + y),
    "int_subtract": lambda x, y: _fits(x - y),
    "int_multiply": lambda x, y: _fits(x * y),
    "int_floor_divide": lambda x, y: _divided(x, y, True),
    "int_remainder": lambda x, y: _divided(x, y, False),
    "int_min": min,
    "int_max": max,
    "int_and": lambda x, y: x & y,
    "int_or": lambda x, y: x | y,
    "int_xor": lambda x, y: x ^ y,
    "int_negative": lambda x: _fits(-x),
    "int_absolute": lambda x: _fits(abs(x)),
    "int_equal": lambda x, y: x == y,
    "int_less": lambda x, y: x < y,
    "int_less_equal": lambda x, y: x <= y,
    "float_equal": lambda x, y: bool(x == y),
    "float_less": lambda x, y: bool(x < y),
    "float_less_equal": lambda x, y: bool(x <= y),
    "is_finite": lambda x: bool(np.isfinite(x)),
    "bool_and": lambda x, y: x and y,
    "bool_or": lambda x, y: x or y,
    "bool_xor": lambda x, y: x != y,
    "bool_not": lambda x: not x,
    "bool_to_int": int,
    "float_to_int": _whole,
    "int_select": _select,
    "bool_select": _select,
}


class Run:
    """A call of a graph: `status`, `reason`, `results`; then `gradients`."""

    def __init__(self, graph, values, jumps=10**6):
        self.graph, self.jumps = graph, jumps
        self.memory = [[] for _ in range(graph.spaces)]
        self.covered = set()  # (block number, which of its edges)
        self.nodes = []  # in the order of their making
        self.status, self.reason, self.returned = FINISHED, None, ()
        parameters = self._enter(values)
        self.input_nodes = dict(zip(graph.entry.parameters, parameters, strict=True))
        try:
            self._follow()
        except Left as left:
            self.status, self.reason = LEFT, left.args[0]

    def _node(self, value, parents=()):
        self.nodes.append(Node(value, parents))
        return self.nodes[-1]

    def _enter(self, values):
        """Arrays into memory; the parameters of the first block."""
        parameters, self.at = [], []
        for one, value in zip(self.graph.inputs, values, strict=True):
            if one.ndim is None:
                parameters.append(self._node(value))
                self.at.append(parameters[-1])
                continue
            array = np.asarray(value, float)
            if one.tangent_of is None:
                self.at.append((0, len(self.memory[0]), array.shape))
                parameters += [self.at[-1][1], *array.shape]
                for space in self.memory:
                    space += [self._node(0.0) for _ in range(array.size)]
            else:
                self.at.append((one.space, self.at[one.tangent_of][1], array.shape))
            space, first, _ = self.at[-1]
            self.memory[space][first : first + array.size] = map(self._node, array.flat)
        self.given = [at if isinstance(at, Node) else self._array(*at) for at in self.at]
        return parameters

    def _array(self, space, first, shape):
        words = np.empty(shape, object)
        words[...] = np.array([*self.memory[space][first : first + words.size], None], object)[
            :-1
        ].reshape(shape)
        return words

    def _follow(self):
        block, self.names = self.graph.entry, dict(self.input_nodes)
        while True:
            for step in block.steps:
                result = self._step(step, [self.names[one] for one in step.operands])
                if step.result is not None:
                    self.names[step.result] = result
            if isinstance(block.end, Return):
                self.returned = tuple(self.names[one] for one in block.end.results)
                return
            block = self._go(block)

    def _go(self, block):
        end, which = block.end, 0
        if isinstance(end, Branch):
            which = 0 if self.names[end.condition] else 1
        elif not isinstance(end, Jump):
            raise Left(end.reason)
        self.jumps -= 1
        if self.jumps < 0:
            raise Left(TOO_MANY_JUMPS)
        self.covered.add((block.number, which))
        edge = end.edges[which]
        arguments = [self.names[one] for one in edge.arguments]
        self.names.update(zip(edge.target.parameters, arguments, strict=True))
        return edge.target

    def _step(self, step, operands):
        op = step.op
        if op.endswith("_const"):
            return self._node(step.payload) if op == "float_const" else step.payload
        if op == "check":
            if not operands[0]:
                raise Left(step.payload)
            return None
        if op == "note_choice":
            return None
        if op in ("allocate", "load_float", "load_int", "store_float", "store_int"):
            return self._touch(step, *operands)
        if op == "float_select":
            chosen = operands[1] if operands[0] else operands[2]
            return self._node(chosen.value, [(chosen, 1.0)])
        if op == "int_to_float":
            return self._node(float(operands[0]))
        if op == "to_single":
            (one,) = operands
            return self._node(np.float64(np.float32(one.value)), [(one, 1.0)])
        numbers = [one.value if isinstance(one, Node) else one for one in operands]
        if op in PLAIN:
            return PLAIN[op](*numbers)
        declared = find(op)
        (out,) = expressions(declared, [declared.value], numbers)
        slopes = expressions(declared, declared.partials, numbers, out)
        pairs = zip(operands, slopes, declared.partials, strict=True)
        return self._node(out, [(one, slope) for one, slope, text in pairs if text != "0.0"])

    def _touch(self, step, *operands):
        if step.op == "allocate":
            if operands[0] < 0:
                raise Left(ARITHMETIC)
            for space in self.memory:
                space += [0] * operands[0]
            return len(self.memory[0]) - operands[0]
        space = self.memory[step.payload.space]
        if not 0 <= operands[0] < len(space):
            raise IndexError(f"address {operands[0]} of {len(space)}")
        if step.op.startswith("store"):
            space[operands[0]] = operands[1]
            return None
        word = space[operands[0]]
        if isinstance(word, Node) != (step.op == "load_float"):
            if word != 0:
                raise TypeError(f"{step.op} reads {word!r}")
            word = self._node(0.0) if step.op == "load_float" else 0
        return word

    @property
    def results(self):
        """Numbers of Python's."""
        return [float(one.value) if isinstance(one, Node) else one for one in self.returned]

    def gradients(self, adjoints=(1.0,), shadow=()):
        """The adjoint of each differentiated input; `shadow`: (space, address, adjoint) given."""
        for node in self.nodes:
            node.adjoint = 0.0
        for one, adjoint in zip(self.returned, adjoints, strict=True):
            if isinstance(one, Node):
                one.adjoint += adjoint
        for space, address, adjoint in shadow:
            if isinstance(self.memory[space][address], Node):
                self.memory[space][address].adjoint += adjoint
        with np.errstate(all="ignore"):
            for node in reversed(self.nodes):
                if node.adjoint != 0.0:
                    for parent, slope in node.parents:
                        parent.adjoint += node.adjoint * slope
        return [
            float(given.adjoint) if one.ndim is None else _adjoints(given)
            for one, given in zip(self.graph.inputs, self.given, strict=True)
            if one.differentiated
        ]


def _adjoints(nodes):
    return np.array([node.adjoint for node in nodes.flat], float).reshape(nodes.shape)


def evaluate(graph, values, adjoints=(1.0,), jumps=10**6):
    """The results and gradients of a call that is not left."""
    run = Run(graph, values, jumps)
    assert run.status == FINISHED, (run.status, run.reason)
    return run.results, run.gradients(adjoints)


__all__ = ["Left", "Node", "Run", "evaluate", "expressions"]
