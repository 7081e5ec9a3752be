"""One reverse sweep from Python: seeds in, adjoints of inputs out, kernels compiled when wanted."""

import ctypes
import functools

import numpy as np

from ..codegen.factory import compile_source, functions
from ..ops.table import TABLE
from ..codegen import layout
from ..sweep import kernels, reverse
from ..codegen.frame import MIRROR_HEADER
from ..sweep.pointwise_run import SCRATCH_BYTES
from . import store


@functools.cache
def _compiled() -> dict:
    return functions(reverse.source(), reverse.EXPORTS, keep_lock=False)


@functools.cache
def _pointwise() -> int:
    return compile_source(reverse.POINTWISE_SOURCE, {"pointwise": "int64(int64, int64)"})["pointwise"]


@functools.cache
def _tables() -> dict[int, np.ndarray]:
    """Kernel addresses by width of the element (8, 4; 0: structural), filled as wanted."""
    count = len(TABLE) + 2
    sizes = {8: count * 8, 4: count * 8, 0: count}
    return {width: np.zeros(size, np.int64) for width, size in sizes.items()}


class FreedError(RuntimeError):
    """A row that the sweep needs was used up by an earlier backward pass."""


class Sweep:
    """Memory and state of one reverse sweep with `seeds` right-hand sides at once."""

    def __init__(self, seeds: int = 1, retain: bool = False):
        store.sweeping.add(id(self))
        store.seal()
        self.seeds = seeds
        self.retain = retain
        slots = max(store.chunks) + 1
        self.sequence = np.array(store.input_slots + store.order, np.int64)
        self.places = np.zeros(slots, np.int64)
        self.places[self.sequence] = np.arange(len(self.sequence))
        self.adjoints = np.zeros(slots, np.int64)
        self.lowest = np.full(slots, layout.ROWS, np.int64)
        self.table = store.table
        self.scratch = _scratch()
        self.frame = np.zeros(layout.FRAME_BYTES // 8, np.int64)
        self.address = self.frame.ctypes.data
        tables = _tables()
        words = {
            layout.FRAME_CHUNKS: self.table.ctypes.data,
            layout.FRAME_ADJOINTS: self.adjoints.ctypes.data,
            layout.FRAME_LOWEST: self.lowest.ctypes.data,
            layout.FRAME_ORDER: self.places.ctypes.data,
            layout.FRAME_SEQUENCE: self.sequence.ctypes.data,
            layout.FRAME_SEEDS: seeds,
            layout.FRAME_KERNELS64: tables[8].ctypes.data,
            layout.FRAME_KERNELS32: tables[4].ctypes.data,
            layout.FRAME_STRUCTURAL: tables[0].ctypes.data,
            layout.FRAME_USED: store.used_table().ctypes.data,
            layout.FRAME_SCRATCH: self.scratch.ctypes.data,
            layout.FRAME_FIRST: len(self.sequence),
            layout.FRAME_FLOAT32: id(np.dtype(np.float32)),
            layout.FRAME_FLOAT64: id(np.dtype(np.float64)),
            layout.FRAME_RETAIN: int(retain),
            layout.FRAME_POINTWISE: _pointwise(),
        }
        for offset, value in words.items():
            self.frame[offset // 8] = value

    def cells(self, number: int) -> np.ndarray:
        """The cells of a row, one per seed: adjoints of a scalar row."""
        address = _compiled()["cell_of"](self.address, number)
        return _doubles(address, self.seeds)

    def mirror(self, number: int, array: np.ndarray) -> np.ndarray:
        """The adjoint of `array`, which lies in the buffer of row `number`: shape (seeds, …)."""
        found = _compiled()["mirror_of"](self.address, number)
        if found == 0:
            raise FreedError
        span, low = _words(found, 2)
        memory = (ctypes.c_char * (span * self.seeds)).from_address(found + MIRROR_HEADER)
        offset = array.__array_interface__["data"][0] - int(low)
        strides = (int(span), *array.strides)
        return np.ndarray((self.seeds, *array.shape), array.dtype, memory, offset, strides)

    def touched(self, number: int) -> bool:
        """Whether the sweep has reached the row."""
        address = self.adjoints[number >> layout.ROWS_BITS]
        if not address:
            return False
        at = int(address) + (number & (layout.ROWS - 1)) * 8 * self.seeds
        return ctypes.c_int64.from_address(at).value != layout.UNTOUCHED

    def run(self) -> None:
        """Sweep from the newest row to the oldest one that is reached."""
        frame, compiled = self.frame, _compiled()
        start = len(self.sequence) - 1
        position = store.word(store.order[-1], layout.USED_ROWS) - 1 if store.order else 0
        for offset, value in (
            (layout.FRAME_AT_ORDER, start),
            (layout.FRAME_AT_POSITION, position),
            (layout.FRAME_START_ORDER, start),
            (layout.FRAME_START_POSITION, position),
        ):
            frame[offset // 8] = value
        try:
            while (status := compiled["reverse"](self.address)) != layout.DONE:
                if status == layout.MET_FREED:
                    raise FreedError
                _compile_wanted(status, frame)
        finally:
            compiled["redo"](self.address)
            if not self.retain:
                store.release_freed(self._swept())

    def _swept(self) -> list[int]:
        """Slots of the chunks of rows that the sweep has reached."""
        return [slot for slot in self.sequence.tolist() if self.adjoints[slot]]

    def close(self) -> None:
        """Give back the memory."""
        store.sweeping.discard(id(self))
        _compiled()["end"](self.address, len(self.adjoints))
        _scratches.append(self.scratch)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def touched_inputs(self) -> list[int]:
        """Numbers of the tensors made with `requires_grad=True` that the sweep has reached."""
        return [number for number in list(store.leaves) if self.touched(number)]

    def read(self, tensor) -> np.ndarray:
        """The adjoint of an input of a transform, shape (seeds, …); zeros if not reached."""
        array = getattr(tensor, "_array", None)
        if not self.touched(tensor._id):
            shape = () if array is None else array.shape
            return np.zeros((self.seeds, *shape), np.float64 if array is None else array.dtype)
        if array is None:
            return np.array(self.cells(tensor._id))
        return self.take(tensor._id, array)

    def take(self, number: int, array: np.ndarray) -> np.ndarray:
        """The adjoint of an input of shape (seeds, …) as an array of its own; frees the mirror."""
        result = self.mirror(number, array).copy()
        found = _compiled()["mirror_of"](self.address, number)
        _libc_free(found)
        self.cells(number).view(np.int64)[0] = layout.UNTOUCHED
        return result


def _doubles(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_double * count).from_address(address), np.float64)


def _words(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_int64 * count).from_address(address), np.int64)


def _libc_free(address: int) -> None:
    _compiled()["free_memory"](address)


_scratches: list[np.ndarray] = []


def _scratch() -> np.ndarray:
    """Working memory of a sweep, used again when the sweep is over."""
    return _scratches.pop() if _scratches else np.empty(SCRATCH_BYTES, np.uint8)


def _compile_wanted(status: int, frame: np.ndarray) -> None:
    """Compile the kernel that the sweep has asked for."""
    code = int(frame[layout.FRAME_WANTED // 8])
    op = kernels.by_code()[code]
    if status == layout.WANT_STRUCTURAL:
        _tables()[0][code] = kernels.compile_structural(op)
        return
    mask = int(frame[layout.FRAME_WANTED_MASK // 8])
    width = int(frame[layout.FRAME_WANTED_DTYPE // 8])
    _tables()[width][code * 8 + mask] = kernels.compile_adjoint(op, mask, width)

