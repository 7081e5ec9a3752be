"""LAPACK for complex matrices: `lapack`, with the same names and arguments, for kernels of them.

A complex array is a real one with one axis more, behind the others, of real and imaginary parts.
These may lie apart in operands; in outputs, and for LAPACK, they are side by side.
"""

from . import elements
from . import lapack as real_lapack
from . import machine_types as types
from .intrinsics import (
    c_function,
    free,
    helper,
    load_f64,
    load_i32,
    load_i64,
    malloc,
    store_c128,
    store_i32,
    store_u8,
)
from .layout import ARRAY_NDIM, ARRAY_STRIDES
from .machine_code import fortran_function
from .vector_math import hypot

#: Functions of LAPACK, and one of BLAS, with the number of their arguments.
_ARITIES = {
    **dict(zpotrf=5, zgetrf=6, zgetrs=9, zgetri=7, ztrtrs=10, ztrtri=6),
    **dict(zheevd=13, zgesdd=15, zgeqrf=8, zungqr=9, ztrsm=11),
}


def _function(name: str, arity: int):
    module = "blas" if name == "ztrsm" else "lapack"
    fortran_function(f"tapegrad_{name}", module, name, arity)
    return c_function(f"tapegrad_{name}", types.none(*[types.int64] * arity))


_named = {name: _function(name, arity) for name, arity in _ARITIES.items()}
_zheevd, _zgesdd, _zgetri = _named["zheevd"], _named["zgesdd"], _named["zgetri"]
_ztrsm = _named["ztrsm"]
#: Columns of memory that an inverse is computed with.
_COLUMNS = 32


@helper
def parts_stride(array):
    """The distance of imaginary from real parts, in bytes."""
    return load_i64(load_i64(array, ARRAY_STRIDES), (load_i32(array, ARRAY_NDIM) - 1) * 8)


@helper
def load_number(address, apart):
    """A number of an operand, whose imaginary part is so many bytes away."""
    return complex(load_f64(address, 0), load_f64(address, apart))


@helper
def conjugate(x):
    """The complex conjugate."""
    return complex(x.real, -x.imag)


@helper
def polar(x):
    """A number of size 1, and the size; for 0 both are 0."""
    size = hypot(x.real, x.imag)
    scale = size if size != 0.0 else 1.0
    return complex(x.real / scale, x.imag / scale), size


@helper
def syevd(job, letter, n, matrix, rows, w, work, words, counts, number, answer):
    """Eigenvalues of Hermitian matrices; the memory for real numbers is allocated."""
    size = load_i32(n, 0)
    reals = 1 + 5 * size + 2 * size * size
    more = malloc(8 + reals * 8)
    store_i32(more, 0, reals)
    spare = more + 8
    _zheevd(job, letter, n, matrix, rows, w, work, words, spare, more, counts, number, answer)
    free(more)


@helper
def gesdd(job, m, n, matrix, rows, s, u, u_rows, v, v_rows, work, words, counts, answer):
    """Singular values; the memory for real numbers is allocated."""
    few, many = min(load_i32(m, 0), load_i32(n, 0)), max(load_i32(m, 0), load_i32(n, 0))
    spare = malloc((max(5 * few, 2 * many + 2 * few + 1) + 5) * few * 8)
    _zgesdd(job, m, n, matrix, rows, s, u, u_rows, v, v_rows, work, words, spare, counts, answer)
    free(spare)


@helper
def solve_columns(matrix, n, trans, lower, unit, x, columns):
    """Solve with a triangular matrix, its transpose (1) or that conjugated (2), in place.

    The matrix and right-hand sides have Fortran order.
    """
    call = malloc(56)
    store_u8(call, 0, 76)  # "L", from the left
    store_u8(call, 1, real_lapack.LOWER if lower else real_lapack.UPPER)
    store_u8(call, 2, 78 if trans == 0 else 84 if trans == 1 else 67)  # "N", "T", "C"
    store_u8(call, 3, 85 if unit else 78)  # "U", "N"
    store_i32(call, 8, n)
    store_i32(call, 16, columns)
    store_c128(call, 32, complex(1.0, 0.0))
    size, one = call + 8, call + 32
    _ztrsm(call, call + 1, call + 2, call + 3, size, call + 16, one, matrix, size, x, size)
    free(call)


@helper
def invert_factors(matrix, pivots, n):
    """Make factors in Fortran order the inverse, in place, as `shared_kernels` has it."""
    call = malloc(24 + n * _COLUMNS * elements.PAIR)
    store_i32(call, 0, n)
    store_i32(call, 8, n * _COLUMNS)
    _zgetri(call, matrix, call, pivots, call + 24, call + 8, call + 16)
    free(call)


#: The module that stands for `lapack` in kernels of complex matrices.
lapack = elements.of_width(real_lapack, elements.PAIR)
vars(lapack).update(
    {name[1:]: function for name, function in _named.items()},
    PARTS=1,
    orgqr=_named["zungqr"],
    **{f.__name__: f for f in (parts_stride, load_number, conjugate, polar, syevd, gesdd)},
    solve_columns=solve_columns,
)
