"""What runs in workers: programs and partitions are kept there, evaluated, and summed up.

A request is a dict of plain data, so that any version of tapegrad can read one of another, and
refuse it. An answer is a pair of a word and what belongs to it:

    refused   why this process cannot serve
    missing   keys of what the request needs and this process does not have
    failed    number of a partition, its error, where in the user's code
    done      results, or sums of them, by their places; seconds
"""

from __future__ import annotations

import collections
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from ..._core.tensor.pytree import tree_build, tree_leaves
from .pinned import Pinned

#: Programs that a process keeps, those used last.
_PROGRAMS = 64
_OWN = "tapegrad."
_programs: collections.OrderedDict[tuple, Pinned] = collections.OrderedDict()
#: Partitions by the session that has sent them, the number of the sum, and their own.
_partitions: dict[tuple[str, int, int], Any] = {}

#: Results by the level and place of the node of the tree of sums; those of partitions have level 0.
Nodes = dict[tuple[int, int], Any]


def here() -> list[str]:
    """What must be the same in all processes, since programs and bytecode are exchanged."""
    python = ".".join(map(str, sys.version_info[:2]))
    return [f"tapegrad {sys.modules['tapegrad'].__version__}", f"Python {python}"]


def answer(request: dict[str, Any], sent: dict[tuple, Any], *data) -> tuple:
    """The answer to a request.

    `sent` are programs and partitions by key, which this process was missing; `data` are the
    partitions themselves, where the system that runs this keeps them.
    """
    for own, other in zip(here(), request["here"], strict=False):
        if own != other:
            return "refused", f"it has {own}, and the process that asks {other}"
    _forget_others(request["session"], request["live"])
    key, total = request["program"], (request["session"], request["sum"])
    try:
        for name in sent:
            if name == key:
                found = sent[name]  # as it is in a thread
                found = pickle.loads(found) if isinstance(found, bytes) else found
                _programs[key] = Pinned(found, request["native"])
                while len(_programs) > _PROGRAMS:
                    _programs.popitem(last=False)
    except Exception as error:  # of any kind: it is the user's module that is imported
        return "refused", f"it cannot load the function: {type(error).__name__}: {error}"
    _partitions.update({name: one for name, one in sent.items() if name != key})
    needed = [] if data else [(*total, number) for number in request["numbers"]]
    missing = [name for name in needed if name not in _partitions]
    if missing or key not in _programs:
        return "missing", missing + [key] * (key not in _programs)

    def partition(number: int):
        if data:
            return data[request["numbers"].index(number)]
        name = (*total, number)
        _partitions[name] = found = loaded(_partitions[name])
        return found

    return evaluated(_programs[key], request, partition)


def _forget_others(session: str, live: set[int]) -> None:
    """Forget the partitions of sums that are over."""
    for key in [one for one in list(_partitions) if one[0] == session and one[1] not in live]:
        _partitions.pop(key, None)


def forget(session: str, total: int) -> None:
    """Forget the partitions of a sum in this process."""
    for key in [one for one in list(_partitions) if one[:2] == (session, total)]:
        _partitions.pop(key, None)


def loaded(partition):
    """A partition from what was given for it: a function without arguments returns it."""
    return partition() if callable(partition) else partition


def evaluated(pinned: Pinned, request: dict[str, Any], partition: Callable) -> tuple:
    """The answer to a request by a function that is here: `partition` gives one by its number."""
    start, nodes = time.perf_counter(), {}
    for number in request["numbers"]:
        try:
            given = partition(number)
            own = given if isinstance(given, (tuple, list)) else (given,)
            args = (*request["shared"], *own)
            if request["method"] == "kind":
                nodes[0, number] = pinned.kind_for(args)
            else:
                nodes[0, number] = pinned.evaluate(request["kind"], request["method"], args)
        except Exception as error:
            return "failed", number, _portable(error), _place(error)
    if request["summed"]:
        merge(nodes, request["count"])
    return "done", nodes, time.perf_counter() - start


def _place(error: Exception) -> str:
    """The innermost line of code outside of tapegrad that an error has passed."""
    frames = [one for one, _ in traceback.walk_tb(error.__traceback__)]
    outside = [one for one in frames if not one.f_globals.get("__name__", "").startswith(_OWN)]
    if not outside:
        return ""
    found = traceback.extract_stack(outside[-1], 1)[0]
    return f", at {found.filename}:{found.lineno} in {found.name}"


def _portable(error: Exception) -> Exception:
    """An error that other processes can read."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # as of a class with arguments of its own
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# --- sums in a fixed order ------------------------------------------------------------------------
# Partitions are the leaves of a tree whose nodes add two neighbours; one without a neighbour goes
# up as it is. Whoever has both neighbours adds them, so the order depends on the number of
# partitions alone, and a worker that has a row of them sends one result, or a few.


def merge(nodes: Nodes, count: int) -> None:
    """Add neighbours as far as both are there; `count` is that of all partitions."""
    level = 0
    while count > 1:
        for place in [place for on, place in nodes if on == level and place % 2 == 0]:
            if place + 1 == count:
                nodes[level + 1, place // 2] = nodes.pop((level, place))
            elif (level, place + 1) in nodes:
                pair = nodes.pop((level, place)), nodes.pop((level, place + 1))
                nodes[level + 1, place // 2] = _added(*pair)
        level, count = level + 1, (count + 1) // 2


def _added(a, b):
    """The sum of two results of one structure."""
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return tree_build(a, iter([x + y for (_, x), (_, y) in pairs]))
