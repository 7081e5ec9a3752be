"""BLAS for structural kernels: SciPy's `dgemm` and `sgemm`, all arguments addresses (Fortran)."""

from numba import types

from .memory import c_function
from .symbols import from_capsule

_GEMM = types.none(*[types.int64] * 13)
_MODULE = "scipy.linalg.cython_blas"

blas_dgemm = c_function("tapegrad_dgemm", _GEMM)
blas_sgemm = c_function("tapegrad_sgemm", _GEMM)
from_capsule("blas_dgemm", "tapegrad_dgemm", _MODULE, "dgemm")
from_capsule("blas_sgemm", "tapegrad_sgemm", _MODULE, "sgemm")

#: A matrix of a batch, in words: rows, columns, their strides in bytes, address, and the packed
#: copy if the strides do not suit BLAS (0: none; the address is then that of the original).
ROW_COUNT, COLUMN_COUNT, ROW_STRIDE, COLUMN_STRIDE, ADDRESS, PACKED = range(0, 48, 8)
MATRIX_BYTES = 48
#: Working memory of a call: three matrices and the arguments of BLAS.
ARGUMENTS = 3 * MATRIX_BYTES
WORK_BYTES = ARGUMENTS + 80
#: Products of fewer multiplications are cheaper without a call of BLAS.
FEW = 64
