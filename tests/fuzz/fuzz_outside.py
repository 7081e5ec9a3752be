"""Random programs that read data from outside in ten ways, which change between calls.

`python fuzz_outside.py --seed 5 --count 1 --native 1` runs the program of seed 5, natively from the
start; see random_outside.py for what they consist of. A second world with the same data, changed
alike, says what is right: the function of it is called eagerly. The exit status is 1 where
something differs or crashes.
"""

import collections
import linecache
import math
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import random_outside
import seed_runs
from fuzz_branches import arguments, differs, is_refused_eagerly, outcome, ways_of

import tapegrad as tg
import tapegrad.math
import tapegrad.numpy

CALLS, BATCH = 10, 25
#: Of the transforms other than values and gradients, one call in so many; of calls, those that are
#: made after a change.
SELDOM, CHANGED = 5, 0.4
#: So often a function may be called in the call that finds that it is to run eagerly.
MOST_CALLS = 8
#: Warnings that the documents describe.
DOCUMENTED = re.compile(
    "runs eagerly, without a program: |when it is recorded and compared, but not in later calls|"
    "is slow: it takes another path"
)
#: Reasons that are faults.
FAULTS = re.compile("a call gives|failed|please report|internal")


class World:
    """A program with data of its own."""

    def __init__(self, seed: int, plain: bool = False):
        text, file = random_outside.program(seed).text, f"<random outside {seed}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        names = {"np": tapegrad.numpy, "math": tapegrad.math, "__name__": "random_outside"}
        if plain:
            names |= {"np": np, "math": math}
        exec(compile(text, file, "exec"), names)
        self.f, self.changes = names["f"], names["changes"]
        self.state, self.restore = names["state"], names["restore"]


class Twins:
    """A compiled function and the same one with data of its own, called eagerly."""

    def __init__(self, seed: int, native: bool):
        self.program = random_outside.program(seed)
        self.own, self.other = World(seed, seed_runs.are_plain()), World(seed)
        f, g = self.own.f, self.other.f
        verify = ("never", "once")[seed % 2]
        self.c = c = tg.compile(f, argnums=(0, 1), native=native, verify=verify)
        first = tg.compile(f, native=native, verify=verify)
        self.ways = ways_of(c, first, g)

    @property
    def is_eager(self) -> bool:
        return self.c._reason is not None

    def change(self, number: int):
        for world in (self.own, self.other):
            outcome(world.changes[number])

    def said(self, name: str, args) -> tuple[str, bool]:
        """What is wrong with a call, or nothing; whether it raises eagerly, too.

        A function that runs eagerly is as good as its own state; one that has a program is to give
        what it gives if each call has counted.
        """
        compiled, eager = self.ways[name]
        before, was_eager = self.own.state(), self.is_eager
        found = outcome(compiled, *args)
        if was_eager:
            self.other.restore(before)
        wanted = outcome(eager, *args)
        if is_refused_eagerly(wanted) and not isinstance(found, tuple):
            return "", True
        text = differs(found, wanted)
        if text and not was_eager and self._is_of_a_later_call(found, eager, args, before):
            text = ""
        return text, isinstance(wanted, tuple)

    def _is_of_a_later_call(self, found, eager, args, before) -> bool:
        """Whether the function gives a result when it is called once more, or several times.

        It is recorded, compared, and called again where it asks for types; its state says how often
        it was called, but for one that has been found to run eagerly just now.
        """
        self.other.restore(before)
        for _ in range(MOST_CALLS):
            same = not differs(found, outcome(eager, *args))
            if same and (self.is_eager or repr(self.other.state()) == repr(self.own.state())):
                return True
        return False


def check(seed: int, native: bool) -> tuple[collections.Counter, list[str]]:
    """Call a program at other inputs, with other data; returns counts, and what went wrong."""
    rng, wrong, counts = np.random.default_rng(seed), [], collections.Counter(programs=1)
    twins = Twins(seed, native)
    program, c = twins.program, twins.c
    counts.update(f"with a {way}" for way in program.ways)
    counts["that read what they change"] += program.reads
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        changed = 0
        for k in range(CALLS):
            if native and k == CALLS // 2:
                c.wait()
            if k and rng.random() < CHANGED and changed < len(twins.own.changes):
                twins.change(changed)
                changed += 1
            args = arguments(rng, k)
            for number, name in enumerate(twins.ways):
                if number > 1 and (program.reads or (k + number) % SELDOM):
                    continue
                text, raises = twins.said(name, args)
                counts["calls that raise" if raises else "calls"] += 1
                if text:
                    wrong.append(f"{name}, call {k} after {changed} changes: {text}")
        wrong += loaded(twins, rng, counts)
        c.explain()
    for text in {str(one.message) for one in caught}:
        if text.startswith("tapegrad.compile: "):
            kind = DOCUMENTED.search(text)
            counts[f"warnings: {kind[0].strip(': ')}" if kind else "warnings: others"] += 1
            wrong += [] if kind and not FAULTS.search(text) else [f"warning: {text}"]
    wrong += count_reasons(c, counts)
    return counts, [f"seed {seed}, {one}" for one in wrong]


def count_reasons(c, counts: collections.Counter) -> list[str]:
    """Count graphs, and why there are none; returns what is a fault."""
    flows = c._flows
    outcome_of = "a graph" if flows.found else "no graph"
    if not flows.found and c._reason is None and not flows.refused:
        outcome_of = "no need of a graph"
    counts[f"programs with {outcome_of}" if c._reason is None else "programs run eagerly"] += 1
    counts["recordings"] += sum(one.recorded for one in c._families.found.values())
    for flow in flows.found.values():
        counts["evaluations by graphs"] += sum(graph.calls for graph in flow.tiers)
        counts["left"] += sum(graph.left for graph in flow.tiers)
    if c._reason is not None:
        counts[f"eager: {_in_general(c._reason)}"] += 1
    elif not flows.found:
        counts.update(f"no graph: {_in_general(one)}" for one in {*flows.refused.values()})
    return [one for one in flows.refused.values() if FAULTS.search(one)]


def _in_general(reason: str) -> str:
    """A reason without lines and names."""
    reason = re.sub(r" \(?(at )?<?random outside.*?( in \w+)?\)", "", reason)
    return re.sub(r"\b(changes|depends on|with|of) \w+,", r"\1 …,", reason)[:120]


def loaded(twins: Twins, rng, counts: collections.Counter) -> list[str]:
    """What is wrong with the programs of a file; calls that these do not serve raise."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        try:
            twins.c.save(path)
            found = tg.load(path)
        except ValueError:
            counts["not saved"] += 1
            return []
    counts["saved"] += 1
    twins.other.restore(twins.own.state())
    wrong = []
    for k in range(3):
        args = arguments(rng, k)
        wanted = outcome(twins.ways["value and gradient"][1], *args)
        given = outcome(found.value_and_grad, *args)
        is_refused = isinstance(given, tuple) and given[0] is RuntimeError
        counts["calls of files that raise" if is_refused else "calls of files"] += 1
        if not is_refused and (text := differs(given, wanted)):
            wrong.append(f"saved and loaded, call {k}: {text}")
    return wrong


def batch(first: int, count: int, native: frozenset):
    """What the checks of some seeds say."""
    return seed_runs.batch_of(
        lambda seed: check(seed, seed in native),
        lambda seed: random_outside.program(seed).text,
        range(first, first + count),
    )


def main() -> int:
    given = seed_runs.parser(__doc__, "natively from the start").parse_args()
    native = seed_runs.first_seeds(given, given.native)
    return seed_runs.run(given, "outside", batch, native, size=BATCH)


if __name__ == "__main__":
    sys.exit(main())
