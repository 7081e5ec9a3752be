"""A compiled function summed over partitions that lie in other processes."""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import pickle
import threading
import weakref
from typing import Any

import numpy as np

from ..._core.codegen.progress import Progress
from ..._core.tensor.pytree import tree_build, tree_leaves
from ..._core.tensor.values import records
from .pinned import GRAPH
from .transports import transport_to
from .work import Nodes, merge

#: The names of functions that other threads evaluate.
_numbers = itertools.count()
#: How functions are evaluated, if that has been chosen.
_kinds: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class Distributed:
    """The sum of a compiled function over partitions, as a function of its other arguments.

    Made by the method `distribute` of a compiled function, see there. The program and the
    partitions are sent once; then an evaluation sends its arguments and receives sums. It is a
    context manager, which lets the partitions be forgotten at the end.

    Methods
    -------
    value_and_grad, grad, hessian, hvp
        Derivatives of the sum, as those of the compiled function.
    map
        Value and gradient of each partition.
    close
        Let the partitions be forgotten.
    """

    def __init__(self, compiled, partitions, over, native: bool | None):
        if compiled._kind != "value":
            raise TypeError(
                f"tapegrad.compile: {compiled._name} gives a derivative itself; compile the "
                "function, and take the derivatives of its sum"
            )
        is_native = bool(compiled._native if native is None else native)
        self._name, self._single = compiled._name, compiled._single
        self._argnums: tuple[int, ...] = compiled._argnums
        self._compiled = compiled
        self._native = is_native
        self._kind: str | None = None
        pickled = functools.partial(_pickled, compiled, is_native)
        self._transport = transport_to(over, compiled, is_native, partitions, pickled)
        self.count = self._transport.count
        self._is_open = weakref.finalize(self, self._transport.close)
        self._lock = threading.Lock()  # of evaluations, which all workers are needed for

    def __call__(self, *args):
        """Compute the sum of the values."""
        value = self._summed("__call__", args, args)
        if np.size(value) != 1:
            raise ValueError(
                f"tapegrad.compile: sums over partitions need a function that returns one number; "
                f"{self._name} returned {type(value).__name__} of shape {np.shape(value)}"
            )
        return float(np.reshape(value, ()))

    def value_and_grad(self, *args):
        """Compute the sum of the values, and its gradient.

        Parameters
        ----------
        *args
            The arguments of the function before those of the partitions.

        Returns
        -------
        value : float
            The sum of the values.
        gradient
            Its gradient, as that of the compiled function.
        """
        self._check_shared(len(args))
        return self._summed("value_and_grad", args, args)

    def grad(self, *args):
        """Compute the gradient of the sum."""
        return self.value_and_grad(*args)[1]

    def hessian(self, *args):
        """Compute the Hessian of the sum."""
        self._check_shared(len(args))
        return self._summed("hessian", args, args)

    def hvp(self, x, v, *others):
        """Compute the product of the Hessian of the sum, by the first argument, with `v`."""
        return self._summed("hvp", (x, *others), (x, v, *others))

    def map(self, *args, gradient=True):
        """Compute the value, and the gradient, of each partition.

        Parameters
        ----------
        *args
            The arguments of the function before those of the partitions.
        gradient : bool, optional
            Whether gradients are computed.

        Returns
        -------
        values : ndarray, shape (n,)
            The value of each partition.
        gradients : ndarray or tuple of ndarrays
            The gradient of each, along the first axis. Only with `gradient`.
        """
        method = "value_and_grad" if gradient else "__call__"
        nodes = self._nodes(method, args, args, summed=False)
        results = [nodes[0, number] for number in range(self.count)]
        values = np.array([value for value, _ in results] if gradient else results, float)
        if values.shape != (self.count,):
            raise ValueError(
                f"tapegrad.compile: map needs a function that returns one number; {self._name} "
                f"returned arrays of shape {values.shape[1:]}"
            )
        return (values, _stacked([found for _, found in results])) if gradient else values

    def close(self) -> None:
        """Let the partitions be forgotten, where they were sent."""
        self._is_open()

    def __enter__(self) -> Distributed:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._is_open.alive else ", closed"
        return f"<{self._name} summed over {self.count} partitions{state}>"

    def _summed(self, method: str, args: tuple, shared: tuple):
        """The sum of the results of a method for all partitions."""
        nodes = self._nodes(method, args, shared, summed=True)
        merge(nodes, self.count)
        (total,) = nodes.values()
        return total

    def _nodes(self, method: str, args: tuple, shared: tuple, summed: bool) -> Nodes:
        """What the processes give; `args` are arguments of the function, `shared` of the method."""
        if records(*[leaf for _, leaf in tree_leaves(shared)]):
            raise TypeError(
                f"tapegrad.compile: the sum of {self._name} over partitions was given a recorded "
                "tensor; it is computed in other processes, which record nothing here: take its "
                "derivatives by its methods"
            )
        if not self._is_open.alive:
            raise ValueError(f"tapegrad.compile: {self!r}: make another one by distribute()")
        with self._lock:
            kind = self._chosen(args)
            request = {"method": method, "shared": shared, "kind": kind, "summed": summed}
            request["native"] = self._native
            what = f"evaluating {self.count} partitions"
            with Progress(what, self.count) as progress:
                return self._transport.run(request, range(self.count), progress)

    def _chosen(self, args: tuple) -> str:
        """How partitions are evaluated in all processes; the first evaluation chooses that."""
        kind = self._kind
        if kind is None:
            known = GRAPH if self._compiled._flows.found else _kinds.get(self._compiled)
            kind = self._transport.agreed(known)
        if kind is None:
            request = {"method": "kind", "shared": args, "kind": "", "summed": False}
            request["native"] = self._native
            with Progress("evaluating the first partition") as progress:
                found = self._transport.run(request, [0], progress)
            kind = _kinds[self._compiled] = found[0, 0]
        self._kind = kind
        return kind

    def _check_shared(self, count: int) -> None:
        """Check that what is differentiated is the same for all partitions."""
        wrong = [number for number in self._argnums if not 0 <= number < count]
        if wrong:
            raise ValueError(
                f"tapegrad.compile: argument {wrong[0]} of {self._name} is differentiated, and "
                f"{count} come before those of the partitions; a sum has a gradient by arguments "
                "that all partitions share: count argnums from the first one, or use map"
            )


def _stacked(results: list):
    """Structures of arrays as one structure, with an axis for the results in front."""
    columns = zip(*[[leaf for _, leaf in tree_leaves(one)] for one in results], strict=True)
    stacked = []
    for column in columns:
        if len({np.shape(one) for one in column}) > 1:
            raise ValueError(
                "tapegrad.compile: the gradients of partitions have the shapes "
                f"{', '.join(map(str, sorted({np.shape(one) for one in column})))}, and are not "
                "stacked; use gradient=False, or partitions of one shape"
            )
        stacked.append(np.stack(column))
    return tree_build(results[0], iter(stacked))


def _pickled(compiled, native: bool, is_here: bool) -> tuple[str, Any]:
    """The name of a compiled function by its content, and this; of one for this process itself."""
    plain = compiled._pinned(None, False)
    if is_here:
        return f"{next(_numbers)} {native}", plain
    try:
        content = importlib.import_module("cloudpickle").dumps(plain)
    except ModuleNotFoundError:
        content = pickle.dumps(plain)
    return f"{hashlib.sha256(content).hexdigest()} {native}", content
