"""Random programs that read data from outside in ten ways: text of functions f(p, q, d, m).

They are those of random_branches.py, with data in lists, dicts, objects, modules and the like, read
and changed at random places; `changes` are functions that change the data between calls.
"""

import re
from typing import NamedTuple

from outside_ways import CLASSES, WAYS, Way
from random_branches import CONDITIONS, EXPRESSIONS, HEAD, LOOPS, TAIL, Writer

#: Out of so many lines one changes something outside; the part of programs that read that.
EFFECTS, READS = 0.4, 0.4
#: Expressions that graphs cannot read, in a part of the programs.
UNREAD = [
    "np.linalg.solve(np.eye(2) * 2.0, d[:2])[0] * {a}", "np.cumprod(0.5 + 0.1 * d)[-1] * {a}",
    "sum(sorted([{a}, {b}])[:1])", "np.median(d) * {a}",
]  # fmt: skip
#: Changes between calls.
CHANGES = 6


class OutsideWriter(Writer):
    """Writes the lines of one program, which reads data of some ways."""

    def __init__(self, seed: int):
        super().__init__(seed)
        some = self.random.sample([*WAYS], self.random.choice([1, 1, 1, 2, 2, 3]))
        self.ways = {name: WAYS[name] for name in WAYS if name in some}
        effects = [text for way in self.ways.values() for text in way.effects]
        self.effects = effects if self.random.random() < 0.7 else []
        reads = [text for way in self.ways.values() for text in way.reads]
        #: Whether a result may read what the function itself changes.
        self.reads = reads if self.effects and self.random.random() < READS else []
        self.closed = self.random.random() < 0.5
        self.unread = UNREAD if self.random.random() < 0.25 else []

    def pick(self, among):
        """One of the data as often as another; the texts of other lists are as they were."""
        kinds = {id(EXPRESSIONS): 1, id(CONDITIONS): 2, id(LOOPS): 3}
        if (place := kinds.get(id(among))) is None:
            return super().pick(among)
        if place == 1 and self.reads and self.random.random() < 0.25:
            return self.random.choice(self.reads)
        if place == 1 and self.unread and self.random.random() < 0.2:
            return self.random.choice(self.unread)
        if self.random.random() < 0.5:
            among = [text for way in self.ways.values() for text in way[place]] or among
        return self.random.choice(among)

    def body(self) -> str:
        """The lines, of which one reads data of each way."""
        for _ in range(self.random.choice([1, 2, 2])):
            self.block(1, self.random.choice([1, 2, 2, 3]))
        for way in self.ways.values():
            if way.expressions:
                self.put(1, self.fill("{x} = " + self.random.choice(way.expressions)))
            elif self.effects:
                self.effect(1)
        return "\n".join(self.lines)

    def effect(self, indent: int):
        for line in self.fill(self.random.choice(self.effects)).split("\n"):
            self.put(indent, line)

    def block(self, indent: int, depth: int):
        if self.effects and self.random.random() < EFFECTS:
            self.effect(indent)
        super().block(indent, depth)

    def change(self) -> str:
        """A statement that changes data."""
        text = self.random.choice([text for way in self.ways.values() for text in way.changes])
        value = round(self.random.uniform(-1.5, 1.5), 2)
        return text.format(v=value, j=self.random.randrange(3))


def _indented(text: str, by: int) -> str:
    return re.sub("^(?=.)", "    " * by, text, flags=re.M)


def assigning(name: str, header: str, body: str, names: list[str], word: str) -> str:
    """A function, with the declaration of the variables outside that it assigns."""
    targets = re.findall(r"^ *((?:[\w.\[\]':]+, )*[\w.\[\]':]+) (?:[-+*]?=) ", body, re.M)
    found = {one for target in targets for one in target.split(", ")}
    own = [one for one in names if one in found]
    declared = f"    {word} {', '.join(own)}\n" if own else ""
    return f"def {name}({header}):\n{declared}{_indented(body, 1)}\n"


def names_of(way: Way) -> list[str]:
    """The variables of the data that are rebound, or count."""
    every = re.findall(r"^([\w., ]+?) = ", way.data, re.M)
    return [one for names in every for one in names.split(", ") if "." not in one] + ["halved"]


class Program(NamedTuple):
    """The text of a program, whether results read what it changes, and its ways."""

    text: str
    reads: bool
    ways: tuple[str, ...]


def program(seed: int) -> Program:
    """The program of a seed: `f`, `changes`, and functions that give and restore its state."""
    writer = OutsideWriter(seed)
    body = re.sub("^    ", "", writer.body(), flags=re.M)
    classes, _, head = HEAD.partition("def f(p, q, d, m):\n")
    tail = re.sub("^    ", "", TAIL, flags=re.M)
    names = [name for way in writer.ways.values() for name in names_of(way)]
    word = "nonlocal" if writer.closed else "global"
    inner = re.sub("^    ", "", head, flags=re.M) + body + "\n" + tail
    states = [way.state for way in writer.ways.values() if way.state]
    parts = ["".join(way.data + "\n" for way in writer.ways.values())]
    if writer.closed:  # a function of the module may be another between calls, too
        parts[0] = "halved = globals()['halved']\n" + parts[0]
    parts.append(assigning("f", "p, q, d, m", inner.rstrip("\n"), names, word))
    for k in range(CHANGES):
        parts.append(assigning(f"change_{k}", "", writer.change(), names, word))
    parts.append("changes = [" + ", ".join(f"change_{k}" for k in range(CHANGES)) + "]\n")
    given = "".join(f"({value}), " for value, _ in states)
    parts.append(f"def state():\n    return [{given}]\n")
    restored = [f"s = states[{k}]\n{text}" for k, (_, text) in enumerate(states)] or ["pass"]
    parts.append(assigning("restore", "states", "\n".join(restored), names, word))
    text = "\n".join(parts)
    if writer.closed:
        ends = "    return f, changes, state, restore\nf, changes, state, restore = world()\n"
        text = f"def world():\n{_indented(text, 1)}{ends}"
    reads = any(_is_in(read, body) for read in writer.reads)
    return Program(f"{CLASSES}{classes}{text}", reads, tuple(writer.ways))


def _is_in(text: str, body: str) -> bool:
    """Whether a body has a text with some operands."""
    return bool(re.search(re.sub(r"\\\{\w\\\}", ".+", re.escape(text)), body))
