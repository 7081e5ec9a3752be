"""Random functions made anew of one code over data of many kinds, called in turns.

`python fuzz_closures.py --seed 5 --count 1 --native 1` runs the sequence of seed 5, natively from
the start; see random_closures.py for what it consists of. A function of a copy of the data, called
eagerly, says what is right. The exit status is 1 where something differs or crashes.
"""

import collections
import re
import sys
import warnings

import numpy as np
import random_closures
import seed_runs
from fuzz_branches import differs, is_refused_eagerly, outcome

import tapegrad as tg
from tapegrad._flow.reading import readings

#: Functions and calls of a sequence, and sequences of a process at a time.
FUNCTIONS, CALLS, BATCH = 6, 24, 50
#: So often a function may be called in the call that finds that it is to run eagerly.
MOST_CALLS = 8
#: Warnings and reasons that are faults.
FAULTS = re.compile("a call gives|failed|please report|internal")
TRANSFORMS = {
    "value and gradient": (lambda c, x: c.value_and_grad(x), lambda f, x: tg.value_and_grad(f)(x)),
    "value": (lambda c, x: c(x), lambda f, x: f(x)),
    "gradient": (lambda c, x: c.grad(x), lambda f, x: tg.grad(f)(x)),
    "Hessian": (lambda c, x: c.hessian(x), lambda f, x: tg.hessian(f)(x)),
    "tangent": (lambda c, x: c.jvp((x,), (x,)), lambda f, x: tg.jvp(f, (x,), (x,))),
}


class Function:
    """A compiled function and its data."""

    def __init__(self, sequence, verify: str, native: bool | None):
        self.sequence, self.data = sequence, sequence.data()
        self.c = tg.compile(sequence.make(self.data), verify=verify, native=native)

    def said(self, name: str, x) -> str:
        """What is wrong with a call, or nothing."""
        compiled, eager = TRANSFORMS[name]
        f = self.sequence.make(random_closures.copied(self.data))
        found, wanted = outcome(compiled, self.c, x.copy()), outcome(eager, f, x.copy())
        if _is_of_plain_numbers(wanted) and not isinstance(found, tuple):
            return ""
        text = differs(found, wanted)
        if isinstance(found, tuple) and "depends on something else" in found[1]:
            return "" if self.sequence.has_effects else text
        if isinstance(wanted, tuple) and "complex result" in wanted[1]:
            return "" if isinstance(found, tuple) else text
        has_effects = self.sequence.has_effects
        if has_effects and isinstance(wanted, tuple):  # what graphs do not do raises nothing
            return ""
        if text and (has_effects or self.c._reason is not None):  # called more than once, perhaps
            later = (differs(found, outcome(eager, f, x.copy())) for _ in range(MOST_CALLS))
            text = text if all(later) else ""
        return text


def _is_of_plain_numbers(wanted) -> bool:
    """Whether an operation of NumPy's numbers was refused that tensors have."""
    texts = "multiply sequence", "only 0-dimensional arrays can be converted", "__round__"
    is_of_list = isinstance(wanted, tuple) and any(text in wanted[1] for text in texts)
    return is_of_list or is_refused_eagerly(wanted)


def check(seed: int, native: bool) -> tuple[collections.Counter, list[str]]:
    """Call the functions of a sequence; returns counts, and what went wrong."""
    readings.clear()
    rng, wrong, counts = np.random.default_rng(seed), [], collections.Counter(sequences=1)
    sequence = random_closures.Sequence(seed)
    verify = ("never", "once", "never", "always")[seed % 4]
    functions: list[Function] = []
    each = (1, 3)[seed % 3 > 0]  # calls of a function before the next one is made
    left = 0
    names = [*TRANSFORMS][: 2 if sequence.has_effects else None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(CALLS):
            left -= 1
            if (
                left < 0
                and len(functions) < FUNCTIONS
                and rng.random() < 0.5 + 0.5 * (not functions)
            ):
                left = each - 1
                functions.append(Function(sequence, verify, True if native else None))
            if rng.random() < 0.1:
                sequence.change(functions[rng.integers(len(functions))].data)
            first = max(0, len(functions) - (1 if left else 3))
            number = int(rng.integers(first, len(functions)))
            name = names[0] if rng.random() < 0.7 else names[rng.integers(len(names))]
            x = rng.normal(size=(5, 5, 5, 5, 5, 5, 5, 5, 5, 3, 1, 0, 7)[rng.integers(13)])
            text = functions[number].said(name, x)
            counts["calls"] += 1
            if text:
                wrong.append(f"{verify}, function {number}, {name}, call {call}: {text}")
    for text in {str(one.message) for one in caught}:
        wrong += [f"warning: {text}"] if FAULTS.search(text) else []
    known: list = []
    for one in functions:
        flows = one.c._flows
        counts["functions"] += 1
        counts["functions with a graph"] += bool(flows.found)
        counts["functions without a graph"] += bool(flows.refused) and not flows.found
        shared = [flow.reading.shared for flow in flows.found.values()]
        is_known = any(mine is other for mine in shared for other in known)
        counts["functions with a graph of others"] += is_known
        known += shared
        counts["functions run eagerly"] += one.c._reason is not None
        wrong += [text for text in flows.refused.values() if FAULTS.search(text)]
    return counts, [f"seed {seed}, {one}" for one in wrong]


def batch(first: int, count: int, native: frozenset):
    """What the checks of some seeds say."""
    return seed_runs.batch_of(
        lambda seed: check(seed, seed in native),
        lambda seed: random_closures.Sequence(seed).text,
        range(first, first + count),
    )


def main() -> int:
    given = seed_runs.parser(__doc__, "natively from the start").parse_args()
    native = seed_runs.first_seeds(given, given.native)
    return seed_runs.run(given, "closures", batch, native, size=BATCH)


if __name__ == "__main__":
    sys.exit(main())
