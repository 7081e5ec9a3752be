"""Ways to other processes: clients of Dask, executors, communicators of MPI.

Each has a part of the partitions evaluated in each process, and gives the results of all of them.
None of the systems is imported here: an object of theirs is recognized by its methods.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import math
import os
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.codegen import process
from ..._core.codegen.progress import Progress
from .pinned import Pinned
from .work import Nodes, answer, evaluated, forget, here, loaded

#: Seconds that a task is to take where workers have more to do: others can run it if it is lost.
_OF_TASK = 0.5
#: Seconds after which the workers of a cluster are looked at again.
_LOOK = 1.0
#: Times that all workers may be lost during an evaluation.
_LOSSES = 2

#: The name of this process in others, which keep what it sends, and its sums that are in use.
_session = [secrets.token_hex(8)]
_live: set[int] = set()
_numbers = itertools.count()


@process.in_child
def _as_another() -> None:
    """A child of this process has another name, and no sums."""
    _session[:] = [secrets.token_hex(8)]
    _live.clear()


class Tasks:
    """Evaluations as tasks, each of several partitions, of a system that runs them somewhere.

    A task names what it needs, and is answered with what is missing: then it is sent once more,
    with that. So a program, and a partition, reaches a process once, also one that joins later.
    """

    def __init__(self, program: tuple[str, Any], partitions: list):
        self.count = len(partitions)
        self._name, self._content = program
        self._partitions = partitions
        self._number = next(_numbers)
        self._seconds = 0.0  # that a partition takes
        _live.add(self._number)

    def run(self, request: dict[str, Any], numbers: Sequence[int], progress: Progress) -> Nodes:
        """The results for some of the partitions."""
        request = {
            **request,
            "here": here(),
            "program": self._name,
            "session": _session[0],
            "sum": self._number,
            "live": {*_live},
            "count": self.count,
        }
        left, losses, count = self._asked(request, numbers), 0, 0
        nodes: Nodes = {}
        while left:
            again = []
            for (place, asked, _), (word, *found) in self._answers(left, progress):
                if word == "done":
                    nodes.update(found[0])
                    taken = found[1] / len(asked["numbers"])  # or by chance long
                    self._seconds = min(taken, 2.0 * self._seconds or taken)
                    count += len(asked["numbers"])
                    progress.done = count
                elif word == "missing":
                    again.append((place, *self._with(asked, found[0])))
                elif word == "lost":
                    if (losses := losses + 1) > _LOSSES * len(left):
                        every = sorted([number for _, one, _ in left for number in one["numbers"]])
                        raise RuntimeError(
                            f"tapegrad.compile: all workers died, {_LOSSES + 1} times, during the "
                            f"evaluation of {named(every)} of {self.count}"
                        )
                    again += self._asked(asked, asked["numbers"])
                elif word == "failed":
                    raise failure(self.count, *found)
                else:
                    raise RuntimeError(
                        f"tapegrad.compile: {self._where(place)} cannot serve: {found[0]}"
                    )
            left = again
        return nodes

    def _asked(self, request: dict[str, Any], numbers: Sequence[int]) -> list[tuple]:
        """A request for each task, with its place before, and nothing sent with it."""
        return [(place, {**request, "numbers": g}, {}) for place, g in self._groups(numbers)]

    def agreed(self, kind: str | None) -> str | None:
        """What is known here of the way of evaluations, where all are asked by this process."""
        return kind

    def _with(self, asked: dict[str, Any], missing: list) -> tuple[dict[str, Any], dict]:
        """A request, and the content of what was missing for it."""
        partitions = {key: self._partitions[key[2]] for key in missing if key != self._name}
        return asked, partitions | ({self._name: self._content} if self._name in missing else {})

    def _groups(self, numbers: Sequence[int]) -> list[tuple[Any, list[int]]]:
        """Partitions that are evaluated by one task each, and where."""
        raise NotImplementedError

    def _answers(self, left: list[tuple], progress: Progress) -> Iterator[tuple[tuple, tuple]]:
        """Requests with their answers, each a place, a request and what is sent with it."""
        raise NotImplementedError

    def _where(self, place) -> str:
        return "a worker" if place is None else f"worker {place}"

    def _pieces(self, numbers: Sequence[int], most: int) -> list[list[int]]:
        """Neighbours, at most so many at once, or fewer where each takes its time."""
        few = most if not self._seconds else math.ceil(_OF_TASK / self._seconds)
        size = max(1, min(most, few))
        return [[*numbers[k : k + size]] for k in range(0, len(numbers), size)]

    def close(self) -> None:
        """Let partitions be forgotten."""
        _live.discard(self._number)
        forget(_session[0], self._number)
        self._partitions.clear()


def failure(count: int, number: int, error: BaseException, place: str = "") -> RuntimeError:
    """The error for a partition whose evaluation has failed, caused by its own."""
    made = RuntimeError(
        f"tapegrad.compile: partition {number} of {count} failed{place}: "
        f"{type(error).__name__}: {error}"
    )
    made.__cause__ = error
    return made


# --- executors ------------------------------------------------------------------------------------


class OfExecutor(Tasks):
    """Tasks of an executor of `concurrent.futures`, or one that is like those."""

    def __init__(self, executor, program: tuple[str, Any], partitions: list):
        super().__init__(program, partitions)
        self._executor = executor

    def _groups(self, numbers):
        slots = getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1
        return [(None, one) for one in self._pieces(numbers, math.ceil(self.count / slots))]

    def _answers(self, left, progress):
        tasks = {}
        try:
            for one in left:
                tasks[self._executor.submit(answer, *one[1:])] = one
            for future in concurrent.futures.as_completed(tasks):
                yield tasks[future], self._result(future, tasks[future][1]["numbers"])
        finally:
            for future in tasks:
                future.cancel()

    def _result(self, future, numbers: list[int]) -> tuple:
        try:
            return future.result()
        except concurrent.futures.BrokenExecutor as error:
            raise RuntimeError(
                f"tapegrad.compile: a process of the executor died during the evaluation of "
                f"{named(numbers)} of {self.count}, and an executor does not go on without it: "
                f"{error}"
            ) from error


def named(numbers: list[int]) -> str:
    """The numbers of partitions as text."""
    if len(numbers) == 1:
        return f"partition {numbers[0]}"
    if [*numbers] == [*range(numbers[0], numbers[-1] + 1)]:
        return f"partitions {numbers[0]} to {numbers[-1]}"
    return f"partitions {', '.join(map(str, numbers[:12]))}{', …' if len(numbers) > 12 else ''}"


# --- Dask -----------------------------------------------------------------------------------------


class OfDask(Tasks):
    """Tasks of a client of Dask.

    Partitions are tasks too, kept in the memory of workers as long as they are needed. Each has a
    worker that it lies in; where that is lost, Dask computes them again in others. An evaluation
    finds those of a worker by their keys: as inputs of its task each would cost the scheduler time.
    A worker that does not have them is asked once more, with the partitions as inputs.
    """

    def __init__(self, client, program: tuple[str, Any], partitions: list):
        if client.asynchronous:
            raise TypeError(
                "tapegrad.compile: over is an asynchronous client of Dask, whose methods give "
                "coroutines; give one that was made without asynchronous=True"
            )
        super().__init__(program, partitions)
        self._client = client
        self._futures: list[Any] = [None] * self.count
        self._places: list[str | None] = [None] * self.count
        self._threads: dict[str, int] = {}
        self._looked = -math.inf
        self._are_there = False  # in the workers that they are to lie in
        graphs = [k for k, one in enumerate(partitions) if hasattr(type(one), "__dask_graph__")]
        computed = client.compute([partitions[k] for k in graphs]) if graphs else []
        for k, future in zip(graphs, computed, strict=True):
            self._futures[k] = future
        for k, one in enumerate(partitions):
            if _is_future(one):
                self._futures[k] = one
        self._are_given = any([one is not None for one in self._futures])
        if not self._are_given:
            self._look()

    def _look(self) -> None:
        """Share the partitions out among the workers that there are now."""
        now = time.monotonic()
        if now < self._looked + _LOOK:
            return
        threads = self._client.nthreads()
        self._looked = now
        if threads == self._threads and threads:
            return
        if self._are_given:  # so that they are somewhere
            sys.modules["distributed"].wait([one for one in self._futures if one is not None])
        first, self._threads = not self._threads, threads
        known = [one for one in self._futures if one is not None]
        found = self._client.who_has(known) if known and (self._are_given or not first) else {}
        holders = [[] if one is None else found.get(one.key, []) for one in self._futures]
        for number, place in self._shared_out(holders):
            self._move(number, place)
        self._are_given = self._are_there = False

    def _shared_out(self, holders: list[Sequence[str]]) -> Iterator[tuple[int, str | None]]:
        """Partitions that are to lie elsewhere than now, and where: neighbours together."""
        share = math.ceil(self.count / max(1, sum(self._threads.values())))
        room = {place: share * threads for place, threads in sorted(self._threads.items())}
        homeless = []
        for number, places in enumerate(holders):
            place = next((one for one in places if room.get(one, 0) > 0), None)
            if place is None:
                homeless.append(number)
            else:
                self._places[number] = place
                room[place] -= 1
        free = (place for place, most in room.items() for _ in range(most))
        for number in homeless:
            yield number, next(free, None)

    def _move(self, number: int, place: str | None) -> None:
        """Let a partition lie in a worker; of one that is lost nothing is awaited any more."""
        before = self._futures[number]
        given = self._partitions[number] if before is None or not self._is_alive(number) else before
        with warnings.catch_warnings():  # the scheduler is to keep it, to have it sent again
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            made = self._client.submit(loaded, given, pure=False, **_in(place))
        self._futures[number], self._places[number] = made, place

    def _is_alive(self, number: int) -> bool:
        """Whether the worker that a partition lies in is there, if it has one."""
        return self._places[number] is None or self._places[number] in self._threads

    def _groups(self, numbers):
        self._look()
        by_place: dict[str | None, list[int]] = {}
        for number in numbers:
            by_place.setdefault(self._places[number], []).append(number)
        found = []
        for place, one in by_place.items():
            threads = self._threads.get(place or "", 1)
            found += [(place, piece) for piece in self._pieces(one, math.ceil(len(one) / threads))]
        return found

    def _answers(self, left, progress):
        if self._are_short(left) and (called := self._called(left)) is not None:
            return zip(left, called, strict=True)
        futures = [self._submitted(*one) for one in left]
        try:
            if not self._are_done(futures, left, progress):
                return [(one, ("lost",)) for one in left]
            answers = self._client.gather(futures)
            self._are_there = True
        except BaseException:
            for one, future in zip(left, futures, strict=True):
                if future.status == "error":
                    self._raise(one[1]["numbers"], future.exception())
            raise
        return zip(left, answers, strict=True)

    def _are_short(self, left: list[tuple]) -> bool:
        """Whether workers seem to have all that these requests need, and little to do."""
        most = max([len(asked["numbers"]) for _, asked, _ in left])
        are_placed = all([place in self._threads for place, *_ in left])
        are_again = any([sent or "as inputs" in asked for _, asked, sent in left])
        is_little = 0.0 < self._seconds * most < _OF_TASK
        return self._are_there and are_placed and is_little and not are_again

    def _called(self, left: list[tuple]) -> list[tuple] | None:
        """The answers of workers that are called, which takes half the time of tasks.

        Their scheduler is passed by, which would keep the arguments of the last thousand tasks. If
        a worker is lost meanwhile there is no answer: as tasks the requests run elsewhere.
        """
        by_place: dict[str, list[dict[str, Any]]] = {}
        for place, asked, _ in left:
            by_place.setdefault(place, []).append(self._by_keys(asked))
        try:
            found = self._client.run(answers_in_worker, by_place, workers=[*by_place])
            by_worker = {place: iter(found[place]) for place in by_place}
        except Exception:  # of any kind: of the network, of a worker that ends
            return None
        return [next(by_worker[place]) for place, *_ in left]

    def _by_keys(self, request: dict[str, Any]) -> dict[str, Any]:
        """A request for partitions that lie in the worker."""
        return {**request, "keys": [self._futures[number].key for number in request["numbers"]]}

    def _are_done(self, futures: list, left: list[tuple], progress: Progress) -> bool:
        """Wait for tasks; whether they have ended, rather than been left without any worker.

        If all workers are lost at once, Dask does not give tasks that were for one of them to
        workers that come later.
        """
        pairs, before = [*zip(futures, left, strict=True)], progress.done
        dask = sys.modules["distributed"]
        while True:
            try:
                dask.wait(futures, timeout=_LOOK)
                return True
            except dask.TimeoutError:  # not Python's before 3.11
                threads = self._client.nthreads()
            done = [len(one[1]["numbers"]) for future, one in pairs if future.status == "finished"]
            progress.done = before + sum(done)
            if threads and all([place is not None and place not in threads for place, *_ in left]):
                self._client.cancel(futures)
                self._looked = -math.inf
                return False

    def _submitted(self, place: str | None, request: dict[str, Any], sent: dict):
        if self._are_there and "as inputs" not in request:
            request, data = self._by_keys(request), []
        else:
            data = [self._futures[number] for number in request["numbers"]]
        return self._client.submit(answer_in_dask, request, sent, *data, pure=False, **_in(place))

    def _with(self, asked, missing):
        sent = {self._name: self._content} if self._name in missing else {}
        if len(sent) == len(missing):
            return asked, sent
        self._looked, self._threads, self._are_given = -math.inf, {}, True  # they lie elsewhere
        return {**asked, "as inputs": True}, sent

    def _raise(self, numbers: list[int], error: Exception) -> None:
        """Raise an error for partitions whose task has failed."""
        for number in numbers:
            if self._futures[number].status == "error":
                raise failure(self.count, number, self._futures[number].exception())
        if type(error).__name__ == "KilledWorker":
            raise RuntimeError(
                f"tapegrad.compile: workers die during the evaluation of {named(numbers)} of "
                f"{self.count}: {error}"
            ) from error
        raise RuntimeError(
            f"tapegrad.compile: a worker cannot evaluate {named(numbers)} of {self.count}: "
            f"{type(error).__name__}: {error}"
        ) from error

    def close(self) -> None:
        super().close()
        self._futures.clear()


def answer_in_dask(request: dict[str, Any], sent: dict, *data) -> tuple:
    """The answer to a request, in a task of Dask, whose worker may have the partitions."""
    if "keys" in request:
        return _by_memory(request, sent, sys.modules["distributed"].get_worker().data)
    return answer(request, sent, *data)


def _by_memory(request: dict[str, Any], sent: dict, memory: Mapping) -> tuple:
    """The answer to a request for partitions that should lie in the memory of a worker."""
    data: tuple = ()
    with contextlib.suppress(KeyError):
        data = tuple([memory[key] for key in request["keys"]])
    return answer(request, sent, *data)


async def answers_in_worker(by_place: dict[str, list[dict[str, Any]]], dask_worker) -> list[tuple]:
    """The answers of a worker of Dask that is called, in its threads for tasks."""
    run = functools.partial(_by_memory, sent={}, memory=dask_worker.data)
    loop, threads = asyncio.get_running_loop(), dask_worker.executors["default"]
    asked = by_place[dask_worker.address]
    made = [loop.run_in_executor(threads, run, request) for request in asked]
    return [await one for one in made]


def _in(place: str | None) -> dict[str, Any]:
    """Options of a task that is to run in a worker, or in another one if that is lost."""
    return {} if place is None else dict(workers=[place], allow_other_workers=True)


def _is_future(one) -> bool:
    """Whether it is a result of Dask that lies in a worker, or will."""
    return all([hasattr(type(one), name) for name in ("status", "add_done_callback", "release")])


# --- MPI ------------------------------------------------------------------------------------------


class OfRanks:
    """Evaluations in the processes of a communicator of MPI, each with partitions of its own.

    All processes call this at once, with the arguments of the first one. Partitions are numbered in
    the order of the processes.
    """

    def __init__(self, comm, compiled, native: bool, partitions: list):
        self._comm, self._partitions = comm, partitions
        rank = comm.Get_rank()
        for other, (found, _) in enumerate(every := comm.allgather((here(), len(partitions)))):
            if found != every[0][0]:
                raise RuntimeError(
                    f"tapegrad.compile: rank {other} has {', '.join(found)}, and rank 0 "
                    f"{', '.join(every[0][0])}; they must be the same"
                )
        self._first = sum([count for _, count in every[:rank]])
        self.count = sum([count for _, count in every])
        self._pinned = Pinned(compiled, native)

    def run(self, request: dict[str, Any], numbers: Sequence[int], progress: Progress) -> Nodes:
        """The results for some of the partitions of all processes."""
        request = self._comm.bcast(request, 0)
        own = range(self._first, self._first + len(self._partitions))
        asked = [number for number in numbers if number in own]
        request = {**request, "numbers": asked, "count": self.count}
        nodes: Nodes = {}
        for word, *found in self._comm.allgather(evaluated(self._pinned, request, self._own)):
            if word == "failed":
                raise failure(self.count, *found)
            nodes.update(found[0])
        return nodes

    def agreed(self, kind: str | None) -> str | None:
        """What the first process knows."""
        return self._comm.bcast(kind, 0)

    def _own(self, number: int):
        place = number - self._first
        found = self._partitions[place] = loaded(self._partitions[place])
        return found

    def close(self) -> None:
        self._partitions.clear()


# --- which of them --------------------------------------------------------------------------------


def transport_to(over, compiled, native: bool, partitions, pickled: Callable):
    """The way to the processes of a client, an executor or a communicator.

    `pickled` gives name and content of the program, for this process or for others.
    """
    has = lambda *names: all([hasattr(over, name) for name in names])
    if has("nthreads", "who_has", "submit", "gather"):
        return OfDask(over, pickled(False), _listed(partitions, blocks=True))
    if has("Get_rank", "allgather", "bcast"):
        return OfRanks(over, compiled, native, _listed(partitions, may_be_empty=True))
    if has("submit", "shutdown"):
        is_here = isinstance(over, concurrent.futures.ThreadPoolExecutor)
        return OfExecutor(over, pickled(is_here), _listed(partitions))
    raise TypeError(
        f"tapegrad.compile: over is {over!r:.60}; it must be a client of Dask, an executor of "
        "concurrent.futures, or a communicator of mpi4py"
    )


def _listed(partitions, blocks: bool = False, may_be_empty: bool = False) -> list:
    """The partitions, each a tuple of arguments, an argument, or a function that returns them.

    Of an array or table of Dask they are the blocks, of several of them tuples of blocks.
    """
    given = partitions if isinstance(partitions, (tuple, list)) else (partitions,)
    if given and all([hasattr(type(one), "to_delayed") for one in given]):
        columns = [*map(_blocks, given)]
        if len({*map(len, columns)}) > 1:
            raise ValueError(
                "tapegrad.compile: the partitions are collections of Dask with "
                f"{', '.join(map(str, map(len, columns)))} blocks; rechunk them alike"
            )
        _check_lengths(given)
        alone = len(columns) == 1
        found = columns[0] if alone else [_together(row) for row in zip(*columns, strict=True)]
    elif isinstance(partitions, (np.ndarray, dict, str)) or not isinstance(partitions, Iterable):
        raise TypeError(
            f"tapegrad.compile: the partitions are of type {type(partitions).__name__}; give a "
            "list of them, as of np.array_split, collections of Dask, or another iterable"
        )
    else:
        found = [_together(one) for one in partitions]
    if not found and not may_be_empty:
        raise ValueError("tapegrad.compile: there are no partitions to sum over")
    if not blocks and any(
        [hasattr(type(one), "__dask_graph__") or _is_future(one) for one in found]
    ):
        raise TypeError("tapegrad.compile: partitions of Dask need a client of Dask as over")
    return found


def _blocks(collection) -> list:
    """The blocks of a collection of Dask along its first axis."""
    if any([number != 1 for number in getattr(collection, "numblocks", ())[1:]]):
        raise ValueError(
            f"tapegrad.compile: an array of Dask has {collection.numblocks} blocks; partitions are "
            "blocks along the first axis: rechunk the others, as by array.rechunk({1: -1})"
        )
    found = collection.to_delayed()
    return found.ravel().tolist() if isinstance(found, np.ndarray) else [*found]


def _check_lengths(collections: Iterable) -> None:
    """Check that the blocks of arrays lie alike, as far as their lengths are known."""
    lengths = dict.fromkeys([one.chunks[0] for one in collections if hasattr(one, "chunks")])
    known = [one for one in lengths if not any(map(math.isnan, one))]
    if len(known) > 1:
        raise ValueError(
            f"tapegrad.compile: arrays of Dask have blocks of {known[0]} and {known[1]} rows; "
            "rechunk them alike"
        )


def _together(one):
    """A partition as it is; one of parts that Dask computes is computed as a whole."""
    if isinstance(one, (tuple, list)) and any(
        [hasattr(type(part), "__dask_graph__") for part in one]
    ):
        return sys.modules["dask"].delayed(tuple)([*one])
    return one
