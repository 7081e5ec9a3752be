"""BLAS for structural kernels: SciPy's products; all arguments are addresses, as in Fortran."""

from . import machine_types as types
from .external_symbols import fortran_function
from .intrinsics import c_function
from .matmul_tiles import PANEL_BYTES


def _named(name: str, arity: int):
    fortran_function(f"tapegrad_{name}", "blas", name, arity)
    return c_function(f"tapegrad_{name}", types.none(*[types.int64] * arity))


blas_dgemm, blas_sgemm = _named("dgemm", 13), _named("sgemm", 13)
blas_dgemv, blas_sgemv = _named("dgemv", 11), _named("sgemv", 11)
#: Equations with a triangular matrix, for matrices and for vectors.
blas_dtrsm, blas_dtrsv = _named("dtrsm", 11), _named("dtrsv", 8)
#: Products with a triangular matrix.
blas_dtrmm = _named("dtrmm", 11)

#: A matrix of a batch, in words: rows, columns, their strides in bytes, address, and the packed
#: copy if the strides do not suit BLAS (0: none; the address is then that of the original).
ROW_COUNT, COLUMN_COUNT, ROW_STRIDE, COLUMN_STRIDE, ADDRESS, PACKED = range(0, 48, 8)
MATRIX_BYTES = 48
#: Working memory of a call: three matrices, the arguments of BLAS, a panel of tiles.
ARGUMENTS = 3 * MATRIX_BYTES
PANEL = ARGUMENTS + 80
WORK_BYTES = PANEL + PANEL_BYTES
#: Products of fewer multiplications are cheaper without a call of BLAS.
FEW = 64
#: Products of which two sizes are at most this are faster by tiles.
NARROW = 48
#: But those with a vector are not from so many elements of the matrix on, if these are contiguous
#: along columns, or along rows, which tiles copy.
ALONG_COLUMNS, ALONG_ROWS = 1 << 13, 1 << 9
#: The matrices of a product that are added to.
LEFT, RIGHT, OUT = range(3)
#: The size of a product that is taken block by block.
ALONG_M, ALONG_N, ALONG_K = range(3)
#: The largest total size of a block of all matrices of a batch, and the least block.
BLOCK_BYTES, LEAST_BLOCK = 1 << 18, 48
