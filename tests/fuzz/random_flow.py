"""Random graphs with nested loops, branches and memory."""

import numpy as np

from tapegrad._flow.ir.flow_graph import Builder, Edge, Graph, GraphInput, validate

_UNARY = "sin cos tanh exp negative absolute square sqrt arctan sigmoid".split()
_BINARY = "add subtract multiply divide minimum maximum hypot copysign".split()
_CELLS = 6


class RandomGraph:
    """A graph of two floats and two arrays of at least 4 numbers; one is copied to memory."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        graph = self.graph = Graph()
        regions = [graph.region("f") for _ in range(2)]
        graph.inputs = [GraphInput(None, True), GraphInput(None, bool(seed % 2))]
        graph.inputs += [GraphInput(1, bool(seed % 3), regions[0]), GraphInput(1, True, regions[1])]
        entry = graph.block()
        for one in graph.inputs:
            entry.parameters += [graph.value(kind) for kind in one.parameters]
        x, y, self.first, self.n, self.second, _ = entry.parameters
        b = self.b = Builder(graph, entry)
        self.cells = graph.region("f")
        self.memory = b.step("allocate", b.constant(_CELLS))
        floats = self.block([x, y, b.constant(0.5)], [b.constant(1), b.constant(2)], 0)
        if self.rng.random() < 0.3:
            self.early(floats)
        b.give(floats[0], floats[1])
        validate(graph)

    def pick(self, values):
        return values[self.rng.integers(len(values))]

    def block(self, floats, ints, depth):
        """Some statements; returns the floats at the end: as many as there were."""
        count, floats = len(floats), list(floats)
        for _ in range(self.rng.integers(2, 6)):
            kind = self.rng.random()
            if kind < 0.2 and depth < 3:
                floats[:count] = self.branch(floats[:count], ints, depth)
            elif kind < 0.4 and depth < 3:
                floats[:count] = self.loop(floats[:count], ints, depth)
            elif kind < 0.6:
                floats[self.rng.integers(count)] = self.touch(floats, ints)
            else:
                floats.append(self.number(floats))
                floats[self.rng.integers(count)] = floats[-1]
        return floats[:count]

    def number(self, floats):
        if self.rng.random() < 0.5:
            return self.b.step(self.pick(_UNARY), self.pick(floats))
        if self.rng.random() < 0.2:
            holds = self.b.step("float_less", self.pick(floats), self.pick(floats))
            return self.b.step("float_select", holds, self.pick(floats), self.pick(floats))
        return self.b.step(self.pick(_BINARY), self.pick(floats), self.pick(floats))

    def touch(self, floats, ints):
        """A load, or a store into memory and a load."""
        b, which = self.b, self.rng.integers(3)
        if which < 2:
            at = b.step("int_remainder", self.pick(ints), b.constant(4))
            return b.load(int(which), b.step("int_add", (self.first, self.second)[which], at))
        for access in (b.store, b.load):
            at = b.step("int_remainder", self.pick(ints), b.constant(_CELLS))
            at = b.step("int_add", self.memory, at)
            found = access(self.cells, at, *[self.pick(floats)][: access == b.store])
        return found

    def condition(self, floats):
        return self.b.step("float_less", self.pick(floats), self.pick(floats))

    def branch(self, floats, ints, depth):
        b, join = self.b, self.b.begin(*"f" * len(floats))
        arms = b.begin(), b.begin()
        b.branch(self.condition(floats), Edge(arms[0], []), Edge(arms[1], []))
        for arm in arms:
            b.block = arm
            b.jump(join, *self.block(floats, ints, depth + 1))
        b.block = join
        return join.parameters

    def loop(self, floats, ints, depth):
        """Up to three rounds, with a way out in the middle."""
        b, rounds = self.b, self.b.constant(int(self.rng.integers(0, 4)))
        head, body = b.begin("i", *"f" * len(floats)), b.begin()
        after, end = b.begin(), b.begin(*"f" * len(floats))
        b.jump(head, b.constant(0), *floats)
        b.block = head
        i, *carried = head.parameters
        b.branch(b.step("int_less", i, rounds), Edge(body, []), Edge(end, carried))
        b.block = body
        changed = self.block(carried, [*ints, i], depth + 1)
        less = b.step("float_less", b.constant(3.0), self.pick(changed))
        b.branch(less, Edge(end, changed), Edge(after, []))
        b.block = after
        b.jump(head, b.step("int_add", i, b.constant(1)), *changed)
        b.block = end
        return end.parameters

    def early(self, floats):
        b, away, on = self.b, self.b.begin(), self.b.begin()
        b.branch(self.condition(floats), Edge(away, []), Edge(on, []))
        b.block = away
        b.give(floats[1], floats[0])
        b.block = on

    def values(self):
        """Inputs of the graph."""
        numbers = self.rng.uniform(-1.5, 1.5, (2, 4))
        return [*self.rng.uniform(-1.5, 1.5, 2).tolist(), *numbers]
