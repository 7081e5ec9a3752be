"""A function recorded on one element of a batch: its rows represent those of all elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.codegen.layout import LEAF, OF_EITHER, OF_NUMPY
from .._core.tape import store
from .._core.tape.sweeps import copied, copy_axes
from .._core.tape.tape import Reader
from .._core.tensor import runtime as rt
from .._core.tensor.plain_data import answering, origin
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.row_listeners import places
from .._core.tensor.trace import SHARED, CustomCall, Guard, Trace, is_differentiated
from .._core.tensor.values import FLOATS, array_of, is_recorded, is_tensor
from .._derivatives.recorded_reverse import without_writes
from .._program.lowering.builder import Originals
from .agreement import DOUBLE, SINGLE
from .recorded_rows import RecordedRows

#: So many rows of earlier batches may be left in the store: a look takes a tenth of the time of a
#: small batch.
_ROWS = 1024


class Unbatched(Exception):
    """Why the elements of a batch are not computed together."""


class _ElementTrace(Trace):
    """A trace that knows the user's line at which it was refused."""

    def refuse(self, reason: str, *, faithful: bool = False) -> None:
        for file, line, _ in places(1):
            reason = f"{reason}, at {file}:{line}"
        super().refuse(reason, faithful=faithful)

    def learn_key(self, tensor) -> None:
        raise Unbatched("a value is a key of a dict or a member of a set")

    def repeat(self, row, call: CustomCall) -> None:
        self.refuse(f"it calls {call.name}, which has no batching rule")


class Element:
    """One call of a function: inputs, rows, guards, and `out`, its result.

    `call` takes the mapped arguments, of which `values` are those of the element; `of` are the
    arguments for the whole batch. `order` are the rows that results and guards need, oldest first,
    read in `rows`; those that depend on earlier rows are `outer`.
    """

    def __init__(self, call: Callable, values: list, of: list):
        self.trace = _ElementTrace(lambda: places(1))
        outer = rt.trace()
        self.trace.data = {} if outer is None else {**outer.data}
        are_data = [not is_tensor(one) or origin(one) is not None for one in of]
        rt.start()
        store.collect(_ROWS)
        with rt.recording(), rt.tracing(self.trace):
            first = self.trace.now()
            inputs = zip(values, of, are_data, strict=True)
            self.inputs = [self._input(*one) for one in inputs]
            self.out = self._called(call)
            results = [one for _, one in tree_leaves(self.out) if is_recorded(one)]
            if self.trace.sees_old_values(results):
                self.trace.refuse(SHARED)
            if self.trace.refusal is not None:
                raise Unbatched(self.trace.refusal)
            self.guards: list[Guard] = list(self.trace.guards)
            self.leaves = [leaf for _, leaf in tree_leaves(self.out)]
            self._find_rows(first)

    def _called(self, call: Callable):
        """The result; a refusal that the function has caught counts as an error of it."""
        try:
            with answering(self.trace):
                out, error = call(self.inputs), None
        except Exception as raised:
            out, error = None, raised
        error = rt.take_refusal() or error
        if error is not None:
            raise Unbatched(f"recorded it raises {type(error).__name__}: {error}") from error
        return out

    def _input(self, value: np.ndarray, whole, is_data: bool):
        """An argument as an input."""
        if value.dtype.kind not in "biu" and value.dtype not in FLOATS:
            raise Unbatched(f"an argument has dtype {value.dtype}")
        if value.shape == () and value.dtype == np.float64:
            made = rt.scalar_leaf(float(value), OF_EITHER if is_data else OF_NUMPY)
        else:
            made = rt.row(LEAF, copied(value, copy_axes(value)))
        if value.dtype not in FLOATS:
            self.trace.steering.add(made._id)
        if is_data:
            self.trace.data[made._id] = value.dtype.type
        rt.note_input(made._id, is_tensor(whole) and is_differentiated(whole))
        self.trace.held.append(made)
        return made

    def _find_rows(self, first: int) -> None:
        """The rows of results and guards, recorded again without writes if there are any."""
        recorded = [leaf for leaf in self.leaves if is_recorded(leaf)]
        watched = recorded + [guard.tensor for guard in self.guards]
        reader = Reader()
        self.rows = RecordedRows()
        rows = _Needed(reader, self.rows, [one._id for one in watched], reader.time(first))
        if rows.writes:
            self._check_writes(reader, rows)
            stops = [one._id for one in self.inputs] + [*rows.outside]
            try:
                watched = without_writes(watched, stops)
            except NotImplementedError:
                raise Unbatched(
                    "it writes in place, to an array that is not in C order or beside one from "
                    "outside that was written before; write to a copy() of it"
                ) from None
            reader = Reader()
            self.rows = RecordedRows()
            rows = _Needed(reader, self.rows, [one._id for one in watched], reader.time(first))
        self._originals = Originals([*self.trace.originals.values()])
        self.order, self.outer = rows.order, rows.outer
        self.watched = watched
        made = iter(watched)
        self.results = [next(made) if is_recorded(leaf) else None for leaf in self.leaves]
        self.conditions = list(made)

    def _check_writes(self, reader: Reader, rows: _Needed) -> None:
        """Refuse writes that the whole batch cannot do."""
        mine = {one._id for one in self.inputs}
        for buffer, number in rows.writes:
            if buffer in mine:
                raise Unbatched("it writes to its argument in place; write to a copy() of it")
            if buffer in rows.outside:
                raise Unbatched("it writes in place to a tensor that is not its own")
            for guard in self.guards:
                later = reader.time(number) > reader.time(guard.at)
                if guard.tensor._id == buffer and later:
                    raise Unbatched(f"it writes to what Python has read at {guard}")

    def as_read(self, source: int, array):
        """A constant operand with its value when it was read, before a recorded write."""
        is_constant = source < 0 and isinstance(array, np.ndarray)
        return self._originals.of(array) if is_constant else array

    def scale(self) -> tuple[float, float]:
        """The precision of the values of the rows, and the largest finite one, inputs included."""
        found = [array_of(one) for one in self.inputs]
        for number in self.order:
            base = self.rows[number].base
            found.append(np.asarray(self.rows.fields(number)[4] if base is None else base))
        floats = [one for one in found if one.dtype.kind == "f"]
        sizes = [np.max(np.abs(x), initial=0.0, where=np.isfinite(x)) for x in floats]
        is_single = any(one.dtype == np.float32 for one in floats)
        return SINGLE if is_single else DOUBLE, float(max(sizes, default=0.0))


class _Needed:
    """The rows of a recording that some of its rows need, oldest first.

    `outside` are the rows recorded before `start` that they read, `outer` they and all that depend
    on them, `writes` the (buffer, row) of writes in place.
    """

    def __init__(self, reader: Reader, rows: RecordedRows, numbers: list[int], start: int):
        self.outside: set[int] = set()
        self.writes: list[tuple[int, int]] = []
        found: set[int] = set()
        waiting = [number for number in numbers if number >= 0]
        while waiting:
            number = waiting.pop()
            if number in found or number in self.outside:
                continue
            writes = [k for k in reader.writes(number) if reader.time(k) >= start]
            self.writes += [(number, k) for k in writes]
            waiting += writes
            if reader.time(number) < start:
                self.outside.add(number)
                continue
            found.add(number)
            waiting += rows[number].reads
        self.order = sorted(found, key=reader.time)
        self.outer = set(self.outside)
        for number in self.order:
            if not self.outer.isdisjoint(rows[number].reads):
                self.outer.add(number)
