"""Random functions of one code over data of many kinds: closures, defaults, globals.

`sequence(seed)` has the text of a function that makes such functions of data `a` and `b`, and draws
data: equal ones, the same ones, and others that differ in a kind, a sign or an identity.
"""

import copy
import random
from collections.abc import Callable

import numpy as np
from closure_data import KINDS, OURS, Settings

WAYS = {
    "closure": "def make(a, b):\n{closure}\n",
    "default": "def make(a, b):\n{default}\n",
    "global": "{globally}\n\ndef make(c, d):\n    global a, b\n    a, b = c, d\n    return f\n",
    "inner": "def make(c, d):\n    def use(v, k, x, a=c, b=d):\n        return {use}\n\n{inner}\n",
}


class Sequence:
    """Text of a function `make`, and data for it, of one seed."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        pick = self._random.choice
        self.kinds = [pick([*KINDS])] * 2
        if self._random.random() < 0.3:
            self.kinds[1] = pick([*KINDS])
        self.way = pick(["closure", "closure", "closure", "default", "global", "inner"])
        self.has_effects = self._random.random() < 0.25
        self.text = self._text(pick)
        self.code = compile(self.text, f"<random closures {seed}>", "exec")
        self._drawn: list = []

    def _use(self, pick) -> str:
        one = self._random.randrange(2)
        names = {"a": "ab"[one], "b": "ab"[1 - one]}
        return pick(KINDS[self.kinds[one]].uses).format(**names)

    def _text(self, pick) -> str:
        head = pick(
            [
                "for k in range(len(x)):\n    v = x[k]",
                "for k, v in enumerate(x):",
                "k = 1\nfor v in x:",
            ]
        )
        uses = [self._use(pick) for _ in range(4)]
        use = uses[0] if self.way != "inner" else "use(v, k, x)"
        plain = pick([0.0, 0.2, -0.3])
        limit = (
            pick([f"{plain}", f"{plain}", f"0.1 * ({uses[3]})"])
            if self.way != "inner"
            else f"{plain}"
        )
        other = pick([f"total - v * {pick([0.5, 2.0])}", f"total + ({uses[1]})"])
        if self.way == "inner":
            other = "total - v"
        lines = [*head.split("\n"), f"    if v > {limit}:", f"        total = total + ({use})"]
        lines += ["    else:", f"        total = {other}"]
        if self.has_effects and self.way != "inner":
            one = self._random.randrange(2)
            if effects := KINDS[self.kinds[one]].effects:
                lines.insert(0, "k = 0")
                lines.insert(1, pick(effects).format(a="ab"[one]))
        end = pick(["return total", "return total", "return total * 0.5 + np.sum(x * x)"])
        body = ["total = 0.0", *lines, end]
        made = {
            "closure": ["def f(x):", *_indented(body), "return f"],
            "default": ["def f(x, a=a, b=b):", *_indented(body), "return f"],
            "globally": ["def f(x):", *_indented(body)],
            "inner": ["def f(x):", *_indented(body), "return f"],
        }
        texts = {
            k: "\n".join(one if k == "globally" else _indented(one)) for k, one in made.items()
        }
        return WAYS[self.way].format(**texts, use=uses[0])

    def make(self, data) -> Callable:
        """A function of data."""
        names = {"np": np, "Settings": Settings, "__name__": "random_closures"}
        exec(self.code, names)
        return names["make"](*data)

    def data(self) -> tuple:
        """Two objects: new ones, those of before, or copies of these."""
        pick = self._random.choice
        if self._drawn and self._random.random() < 0.75:
            found = pick(self._drawn)
            way = pick(
                [
                    "copied",
                    "copied",
                    "copied",
                    "copied",
                    "a new",
                    "b new",
                    "same",
                    "turned",
                    "one",
                    "inner",
                ]
            )
            one, two = copied(found) if way == "copied" else found
            if way == "a new":
                one = KINDS[self.kinds[0]].draw(pick)
            elif way == "b new":
                two = KINDS[self.kinds[1]].draw(pick)
            elif way == "turned" and self.kinds[0] == self.kinds[1]:
                one, two = two, one
            elif way == "one" and self.kinds[0] == self.kinds[1]:
                two = one
            elif way == "inner" and hasattr(one, "table") and not isinstance(one, tuple):
                one.table = two if self.kinds[1] == "sequence" else one.table
        else:
            one, two = [KINDS[kind].draw(pick) for kind in self.kinds]
            if self.kinds[0] == self.kinds[1] and self._random.random() < 0.2:
                two = one
        self._drawn.append((one, two))
        return one, two

    def change(self, data) -> None:
        """Change data in place, where that is possible."""
        pick = self._random.choice
        one = pick(data)
        try:
            if isinstance(one, (list, np.ndarray)):
                one[0] = pick([1.0, 2.0, 0.0, -0.0, 3, float("nan")])
            elif isinstance(one, dict):
                one["p"] = pick([1.0, 2.0, 3, [1.0, 2.0]])
            elif hasattr(one, "table"):
                setattr(one, pick(["rate", "table"]), pick([0.5, 0.25, (1.0, 2.0), [2.0, 1.0]]))
        except (TypeError, ValueError, IndexError, AttributeError):
            pass


def copied(data: tuple) -> tuple:
    """The same data again: what is one object is one object again. Functions are as they are."""
    return copy.deepcopy(data, {id(one): one for one in OURS})


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
