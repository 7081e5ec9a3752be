"""Files of programs damaged at random, loaded and run: a script of its own, since it may crash.

`PYTHONPATH=tests/support python tests/fuzz/fuzz_files.py count seed [unchecked]` prints what became
of them, as JSON. With `unchecked` nothing is checked that the types of JSON do not say.
"""

import collections
import copy
import itertools
import json
import math
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import random_flow
import saved_functions
from fences import fenced, release

import tapegrad as tg
from tapegrad._core.tensor import copies
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._flow import program
from tapegrad._flow.reading.forms import Number, Tuple
from tapegrad._program.dispatch import flow_choice, rule_programs
from tapegrad._program.files import encode, file_format
from tapegrad._program.replay import parts

NUMBERS = [0, 1, -1, 2, 3, 7, 8, 64, 2**31 - 1, 2**31, -(2**31), 2**33, 2**53, 2**59, 2**63, 10**30]
MOST_BYTES = 1 << 22
#: The arguments and the result of random graphs.
RANDOM = (
    [0.5, 1.5, np.linspace(-1, 1, 6), np.linspace(0, 2, 5)],
    Tuple((Number("f", None), Number("f", None))),
)


def places(tree, found):
    """All (container, key) of a tree of JSON."""
    keys = range(len(tree)) if isinstance(tree, list) else list(tree)
    for key in keys:
        found.append((tree, key))
        if isinstance(tree[key], (list, dict)):
            places(tree[key], found)
    return found


def change(header, rng):
    """Change one thing in a header."""
    found = places(header, [])
    inner, key = found[rng.integers(len(found))]
    for _ in range(20):  # mostly a number
        if type(inner[key]) is int:
            break
        inner, key = found[rng.integers(len(found))]
    old = inner[key]
    if type(old) is int:
        near = old + int(rng.integers(-3, 4))
        other = NUMBERS[rng.integers(len(NUMBERS))]
        inner[key] = near if rng.random() < 0.6 else old * 2 if rng.random() < 0.2 else other
    elif type(old) is bool:
        inner[key] = not old
    elif type(old) is list and old:
        k = int(rng.integers(len(old)))
        if rng.random() < 0.5:
            old.append(copy.deepcopy(old[k]))
        elif rng.random() < 0.5:
            del old[k]
        else:
            rng.shuffle(old)
    else:
        other, other_key = found[rng.integers(len(found))]
        inner[key] = copy.deepcopy(other[other_key])


def flip(content, rng):
    """Change some bytes."""
    made = np.frombuffer(content, np.uint8).copy()
    for _ in range(rng.integers(1, 4) if made.size else 0):
        made[rng.integers(made.size)] = rng.integers(256)
    return made.tobytes()


def damage(path, rng):
    """Write a file damaged in one of three places: its header, its numbers, its bytes."""
    header, pools = encode.read(path)
    where = rng.random()
    if where < 0.7:
        for _ in range(1 if rng.random() < 0.8 else 3):
            change(header, rng)
    elif where < 0.9 and pools.pools:
        name = sorted(pools.pools)[rng.integers(len(pools.pools))]
        pool = pools.pools[name]
        pools.pools[name] = np.frombuffer(flip(pool.tobytes(), rng), pool.dtype)
    made = path.with_name("damaged.npz")
    encode.write(made, header, pools.pools)
    if where >= 0.9:
        made.write_bytes(flip(made.read_bytes(), rng))
    return made


def argument(made, leaves, values):
    """An argument of a signature, with values in turn; what is an input lies between fences."""
    if made is not None:
        kind, inner = made
        if kind is dict:
            return {key: argument(item, leaves, values) for key, item, _ in inner}
        return kind(argument(item, leaves, values) for item in inner)
    leaf = next(leaves)
    if len(leaf) == 2:
        return leaf[1]
    dtype, shape, _, *order = leaf
    value, order = next(values), order[0] if order else None
    shape = [np.size(value) if one is None else one for one in shape]
    if not shape:
        return float(np.ravel(value)[0])
    if min(shape) < 0 or 8 * math.prod(shape) > MOST_BYTES:
        raise ValueError(f"no argument has shape {shape}")
    array = fenced(shape if order is None else [shape[k] for k in order], dtype)
    array = array if order is None else array.transpose(np.argsort(order))
    array[...] = np.resize(value, shape)
    return array


def arguments(key, given):
    """Arguments of calls with this key, positional and named."""
    count, *rest = key
    count = count if isinstance(count, int) else count[0]
    names = [item for item in rest if isinstance(item, str)]
    values = itertools.cycle([value for _, value in tree_leaves(given)])
    args = [argument(made, iter(leaves), values) for made, *leaves in rest[len(names) :]]
    return args[:count], dict(zip(names, args[count:], strict=True))


def evaluate(loaded, given):
    for key in list(loaded._families.found):
        args, keywords = arguments(key, given)
        for _ in range(2):
            loaded.value_and_grad(*args, **keywords)
        loaded(*args, **keywords)
        for derived in loaded._derived.values():
            derived(*args, **keywords)
    for key, flow in list(loaded._flows.found.items()):
        args, keywords = arguments(key, given)
        loaded(*args, **keywords)
        if flow.is_number:
            loaded.value_and_grad(*args, **keywords)
            loaded.hessian(*args, **keywords)
            if not keywords:
                loaded.profile(*args, repeats=1)
        if flow_choice._has_derivatives(flow, flow_choice.jacobian_of):
            loaded.jacobian(*args, **keywords)
    loaded.explain()


def attempt(path, given) -> str:
    """What became of a file whose function was called with these arguments."""
    rule_programs._known.clear()  # their memory is given back, too
    try:
        loaded = tg.load(path, most_bytes=MOST_BYTES)
    except ValueError as error:
        assert str(error).startswith("tapegrad.load: "), error
        return "refused"
    try:
        evaluate(loaded, given)
    except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError) as error:
        return f"evaluation: {type(error).__name__}"
    finally:
        release()
    return "evaluated"


def main(count, seed, unchecked):
    if unchecked:
        file_format.check = lambda code, most: None
        file_format.validate_with = lambda graph, blocks, dominators: None
    rng, found = np.random.default_rng(seed), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        saved = []
        for f, given in saved_functions.FUNCTIONS.items():
            path = Path(folder) / f"{f.__name__}.npz"
            saved_functions.compiled(f).save(path)
            saved.append((path, given))
        for f in saved_functions.GRAPHS:
            path, (made, calls) = Path(folder) / f"{f.__name__}.npz", saved_functions.with_graph(f)
            made._families.found.clear()  # the graph is called
            made.save(path)
            saved.append((path, calls[0]))
        for seed in range(12):
            path, (values, form) = Path(folder) / f"random{seed}.npz", RANDOM
            graph = random_flow.RandomGraph(seed).graph
            file_format.save(path, saved_functions.of_graph(graph, values, form))
            saved.append((path, values))
        parts.aligned = fenced
        copies.maker, copies.empty = (
            lambda shape, dtype: fenced,
            fenced,
        )
        program.np = types.SimpleNamespace(**{**vars(np), "zeros": fenced, "empty": fenced})
        file_format.MOST_STEPS = 1 << 22
        for path, given in saved:
            assert attempt(path, given) == "evaluated", path
        for _ in range(count):
            path, given = saved[rng.integers(len(saved))]
            found[attempt(damage(path, rng), given)] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), "unchecked" in sys.argv)
