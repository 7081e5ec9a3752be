"""Memory of the checked build: every block as large as what is in it, and none used twice.

What tapegrad cuts from larger blocks, to begin it at a line of the cache or a page, is followed by
bytes that belong to it no less. Here they belong to nobody.
"""

import ctypes

import numpy as np

from tapegrad._core.codegen import adjoint_memory, machine_code
from tapegrad._core.codegen import machine_types as types
from tapegrad._core.codegen.intrinsics import c_function, helper, load_i64
from tapegrad._core.codegen.layout import BLOCK, CACHE_LINE
from tapegrad._core.codegen.sweep_frame import ADJOINT_HEADER
from tapegrad._core.sweep import elementwise_run_layout
from tapegrad._core.tape import sweeps, workspace
from tapegrad._core.tensor import copies
from tapegrad._program.replay import parts

_word = types.int64
_poison = c_function("__asan_poison_memory_region", types.none(_word, _word))
#: The place of PyDataMem_DefaultHandler in NumPy's table for C.
_DEFAULT_HANDLER = 306


_leave = ctypes.pythonapi.__asan_poison_memory_region
_leave.argtypes, _leave.restype = [ctypes.c_void_p, ctypes.c_size_t], None


def cut(array, block):
    """Leave nobody the bytes of `block` before and after `array`, which lies in it."""
    first, start = block.ctypes.data, array.ctypes.data
    _leave(first, start - first)
    _leave(start + array.nbytes, first + block.nbytes - start - array.nbytes)
    return array


def _aligned(count, dtype=np.float64):
    size = count * np.dtype(dtype).itemsize
    block = np.zeros(size + 3 * CACHE_LINE, np.uint8)
    start = -block.ctypes.data % CACHE_LINE + CACHE_LINE
    return cut(block[start : start + size].view(dtype), block)


def _empty(shape, dtype=np.float64):
    """An array that begins with a page only if it happens to: large ones are not used again."""
    return np.empty(shape, dtype)


def _begin_work(self, usual=workspace.Work.__init__):
    usual(self)
    start = -self.scratch.ctypes.data % CACHE_LINE
    scratch = cut(self.scratch[start : start + elementwise_run_layout.SCRATCH_BYTES], self.scratch)
    for end in range(
        elementwise_run_layout.AT_VALUES + 8 * BLOCK,
        len(scratch),
        elementwise_run_layout.BLOCK_BYTES,
    ):
        _leave(scratch.ctypes.data + end, elementwise_run_layout.BLOCK_BYTES - 8 * BLOCK)


def _adopt(self, tensor, usual=sweeps.Sweep.adopt):
    made = block = usual(self, tensor)
    if made.size == 0:  # NumPy lets it begin anywhere
        return made
    while block.base is not None:
        block = block.base
    start = made.ctypes.data - ADJOINT_HEADER - block.ctypes.data
    cut(block[start : start + ADJOINT_HEADER + made.nbytes], block)
    return made


_usual_memory_for = adjoint_memory.memory_for


@helper
def _memory_for(frame, size, clear):
    found = _usual_memory_for(frame, size, clear)
    given = load_i64(found, 24)
    _poison(given, found - given)
    _poison(found + size, given + CACHE_LINE - found)
    return found


def cut_to_size():
    """Let all that tapegrad makes be of the size that it needs."""
    parts.aligned = _aligned
    copies.empty = _empty
    workspace.Work.__init__ = _begin_work
    sweeps.Sweep.adopt = _adopt
    adjoint_memory.memory_for = _memory_for
    adjoint_memory.POOL_LEAST = 1 << 62
    adjoint_memory.SEED_STEP = 8  # what is left between two seeds is less than an element


def plain_arrays(library):
    """Let NumPy ask for memory each time, in all threads, and keep no small blocks."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[_DEFAULT_HANDLER]
    usual = pointer(ctypes.py_object.from_address(address).value, b"mem_handler")
    plain = ctypes.addressof(ctypes.c_char.in_dll(library, "checked_handler"))
    ctypes.memmove(usual, plain, library.checked_handler_bytes())


def check_blas(library):
    """Let calls of BLAS check the matrices that they are given."""
    for name in ("dgemm", "sgemm", "dgemv", "sgemv"):
        symbol = f"tapegrad_{name}"
        usual = machine_code.LOADERS[symbol]
        machine_code.LOADERS[symbol] = _checked(library, name, usual)


def _checked(library, name, usual):
    def load():
        usual()
        real = machine_code.address_of(f"tapegrad_{name}")
        ctypes.c_void_p.in_dll(library, f"real_{name}").value = real
        checked = ctypes.cast(getattr(library, f"checked_{name}"), ctypes.c_void_p).value
        machine_code.name_address(f"tapegrad_{name}", checked)

    return load
