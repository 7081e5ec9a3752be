"""Calls of linear algebra, transforms and complex functions with arguments of every sort.

Each is made of plain arguments, of recorded ones, and compiled. What NumPy or SciPy gives the
others give too, with a derivative; where they raise, so do the others, with an error of their type.
A function that does not take an argument says so by name. `python tests/fuzz/hostile_matrices.py
20000` prints what differs, by function.
"""

import collections
import contextlib
import io
import random
import sys
import warnings

import numpy as np
import scipy.fft
import scipy.linalg
from hostile_arguments import leaf

import tapegrad as tg
import tapegrad.scipy.fft
import tapegrad.scipy.linalg
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._core.tensor.values import is_recorded, is_tensor, value_of

R = np.random.default_rng(17)
A = R.normal(size=(3, 3))
C = A + 1j * R.normal(size=(3, 3))
#: Of floats and complex numbers, most of them square; then what no function of matrices takes.
MATRICES = [
    A, A @ A.T + np.eye(3), C, C @ np.conj(C).T + np.eye(3), A[:2], A[:, :2], C[:2], A[0], C[1],
    np.zeros((3, 3)), np.ones((3, 3)), np.ones((2, 2)) * 1j, np.eye(2), np.eye(3)[[1, 0, 2]],
    np.full((2, 2), np.nan), np.array([[1.0, np.inf], [2.0, 3.0]]), np.diag([1.0, np.nan]),
    np.diag([1.0, -1.0, 2.0]), np.stack([A, A + np.eye(3)]), np.stack([C, C.T]),
    np.stack([A] * 2)[:, :2],
    np.zeros((0, 0)), np.zeros((3, 0)), np.zeros((0, 3)), np.zeros((0, 3, 3)), np.zeros((2, 0, 0)),
    np.zeros(0), np.zeros((0, 0), complex), np.array(2.0), np.array(1 + 2j), np.ones((1, 1)),
    A.T, A[::-1], A[:, ::-1], np.asfortranarray(C), C.T, A.astype("f4"), C.astype("c8"),
    np.diag([1e-300, 1.0]), np.diag([1e300, 1e300]), np.triu(A), np.tril(C), np.arange(4.0),
    C[0] * 0,
]  # fmt: skip
OTHERS = [
    np.arange(9).reshape(3, 3), np.array([[2, 1], [1, 3]]), np.eye(2, dtype=bool), np.ones(3, bool),
    A.astype("f2"), np.array([["a", "b"], ["c", "d"]]), np.array([[None, 1.0], [2.0, 3.0]], object),
    A.tolist(), [[1.0], [1.0, 2.0]], None, "text", 3, 0.5, 2j, True, (), [], {}, A.astype(">f8"),
    np.longdouble(A), np.ma.masked_array(A, A > 0), np.array([[1, 2], [3, 4]], np.uint8), object(),
]  # fmt: skip
KEYWORDS = [None, -1, 0, 1, 2, 3, -5, 1.5, "text", "fro", "nuc", np.inf, (0, 1), (0,), 10**6]
#: Functions by how many matrices they take, then keywords that may be given.
OF_ONE = {
    np.linalg: "inv det slogdet cholesky:upper eigvalsh:UPLO eigh:UPLO "
    "svd:full_matrices,compute_uv svdvals pinv:rcond,rtol qr:mode norm:ord,axis,keepdims cond:p "
    "matrix_rank eig eigvals "
    "matrix_transpose trace:offset diagonal vector_norm:axis,ord matrix_norm:ord",
    scipy.linalg: "inv det cholesky:lower expm logm sqrtm lu lu_factor qr:mode svd svdvals eigh "
    "eigvalsh pinv cho_factor polar toeplitz circulant block_diag null_space orth schur norm "
    "tanhm signm hessenberg eig eigvals",
    np.fft: "fft:n,axis,norm ifft:n,axis,norm rfft:n,axis,norm irfft:n,axis,norm hfft:n ihfft:n "
    "fft2:s,axes ifft2 rfft2 irfft2 fftn:s,axes ifftn rfftn irfftn fftshift:axes ifftshift:axes",
    scipy.fft: "fft:n,axis,norm rfft irfft dct:type,n,axis,norm idct:type dst:type idst dctn fft2 "
    "fftn hfft ihfft fftshift",
    np: "exp log sqrt abs angle:deg conj real imag sin tanh arcsin arctan2 square sign sum:axis "
    "prod:axis mean:axis var std cumsum max sort argmax unique median floor real_if_close isfinite "
    "trace diag diagonal tril triu transpose where clip round power negative reciprocal log1p "
    "logaddexp maximum hypot cbrt ptp iscomplexobj isreal nan_to_num unwrap i0 sinc",
}
OF_TWO = {
    np.linalg: "solve lstsq:rcond matmul multi_dot tensorsolve vecdot outer cross matrix_power",
    scipy.linalg: "solve:assume_a,lower lstsq solve_triangular:lower,trans eigh solve_sylvester "
    "cho_solve lu_solve solve_toeplitz solve_banded solveh_banded solve_continuous_lyapunov "
    "solve_discrete_lyapunov fractional_matrix_power expm_frechet toeplitz block_diag khatri_rao "
    "matmul_toeplitz solve_circulant orthogonal_procrustes",
    np: "matmul dot vdot inner outer kron tensordot convolve correlate add multiply divide power "
    "maximum where arctan2 less equal isclose append concatenate stack cross einsum linspace full "
    "interp polyval subtract logaddexp floor_divide remainder hypot allclose array_equal",
}


def listed(table):
    for module, names in table.items():
        for one in names.split():
            name, _, keywords = one.partition(":")
            yield module, name, keywords.split(",") if keywords else []


CALLS = [(*one, 1) for one in listed(OF_ONE)] + [(*one, 2) for one in listed(OF_TWO)]
#: What takes its arguments in another form.
FORMS = {
    "cho_solve": lambda f: lambda a, b, **k: f((a, True), b, **k),
    "lu_solve": lambda f: lambda a, b, **k: f((a, np.arange(len(a))), b, **k),
    "solve_banded": lambda f: lambda a, b, **k: f((1, 1), a, b, **k),
    "multi_dot": lambda f: lambda a, b, **k: f([a, b], **k),
    "concatenate": lambda f: lambda a, b, **k: f([a, b], **k),
    "stack": lambda f: lambda a, b, **k: f([a, b], **k),
    "einsum": lambda f: lambda a, b, **k: f("...ij,...jk->...ik", a, b, **k),
    "where": lambda f: lambda a, b=0.5, **k: f(np.asarray(value_of(a)) == 1.0, a, b, **k),
    "clip": lambda f: lambda a, **k: f(a, -0.5, 0.5, **k),
    "full": lambda f: lambda a, b, **k: f((2, 3, 3), a, **k),
    "arctan2": lambda f: lambda a, b=0.5, **k: f(a, b, **k),
}
#: Functions whose results are one of many: bases, signs.
NOT_UNIQUE = (
    "eigh eig svd qr schur null_space orth eigvals hessenberg lu lu_factor orthogonal_procrustes "
    "logm polar signm"
).split()
STAND_INS = {scipy.linalg: tapegrad.scipy.linalg, scipy.fft: tapegrad.scipy.fft}


#: What SciPy says of arrays without elements, for which there may be a result too.
EMPTY = "zero-size", "at least 1 element"


class Difference(Exception):
    """A call of recorded values that is not as of plain ones."""


class MatrixCall:
    """A function and its arguments."""

    def __init__(self, rng):
        self.module, self.name, keywords, count = rng.choice(CALLS)
        self.args = [
            rng.choice(MATRICES) if rng.random() < 0.8 else rng.choice(OTHERS) for _ in range(count)
        ]
        if count == 2 and rng.random() < 0.4:
            self.args[1] = self.args[0]
        given = rng.sample(keywords, min(len(keywords), 1)) if rng.random() < 0.5 else []
        self.keywords = {name: rng.choice(KEYWORDS) for name in given}

    def __str__(self):
        shown = [
            f"{np.array_repr(x)[:300]}" if isinstance(x, np.ndarray) else repr(x)[:100]
            for x in self.args
        ]
        return f"{self.module.__name__}.{self.name}({', '.join(shown)}, **{self.keywords})"

    def call(self, args, stand_in=False):
        module = STAND_INS.get(self.module, self.module) if stand_in else self.module
        function = getattr(module, self.name)
        return FORMS.get(self.name, lambda f: f)(function)(*args, **self.keywords)

    def is_alike(self, error, right) -> bool:
        """Whether an error is of the type that it should be, or named; of several, any."""
        if isinstance(error, type(right)) or "tapegrad" in str(error):
            return True
        one_wrong = len(self.args) == 1 and not self.keywords
        return not one_wrong and not isinstance(right, np.linalg.LinAlgError)

    def is_finite(self) -> bool:
        """Whether all numbers given are; of others NumPy's results differ by version."""
        arrays = [np.asarray(x) for x in self.args if isinstance(x, np.ndarray)]
        return all(np.isfinite(x).all() for x in arrays if x.dtype.kind in "fc")

    def is_single(self) -> bool:
        """Whether some number is of single or half precision."""
        return any(isinstance(x, np.ndarray) and x.dtype.char in "efF" for x in self.args)

    def outcome(self, args, stand_in=True):
        """The result, or the error."""
        try:
            return self.call(args, stand_in), None
        except Exception as error:
            return None, error


def is_taken(x) -> bool:
    """Whether it may be recorded."""
    return type(x) is np.ndarray and x.dtype.str in ("<f8", "<c16", "<f4", "<c8")


def plain_leaves(result):
    return [np.asarray(value_of(one)) for _, one in tree_leaves(result)]


def compare(call, found, error, wanted, right):
    """What recorded values gave beside what plain ones gave."""
    words = f"{type(error).__name__}: {str(error)[:200]}"
    if right is not None:
        if error is None and not any(one in str(right) for one in EMPTY):
            raise Difference(f"no error; right is {type(right).__name__}: {str(right)[:100]}")
        if error is not None and not call.is_alike(error, right):
            raise Difference(f"{words}; right is {type(right).__name__}: {str(right)[:100]}")
        return
    if error is not None:
        if "tapegrad" not in str(error):
            raise Difference(f"{words}; right is a value")
        return
    ours, theirs = plain_leaves(found), plain_leaves(wanted)
    if [x.shape for x in ours] != [x.shape for x in theirs]:
        raise Difference(f"shapes {[x.shape for x in ours]}, right are {[x.shape for x in theirs]}")
    if [x.dtype.kind for x in ours] != [x.dtype.kind for x in theirs]:
        raise Difference(f"dtypes {[x.dtype for x in ours]}, right are {[x.dtype for x in theirs]}")
    if call.name in NOT_UNIQUE or not call.is_finite():
        return
    numbers = [b[np.isfinite(b)] for b in theirs if b.dtype.kind in "fc"]
    scale = max([1.0, *(np.max(np.abs(b), initial=0.0) for b in numbers)])
    for a, b in zip(ours, theirs, strict=True):
        if b.dtype.kind not in "fc":
            same = np.array_equal(a, b)
        else:
            if call.name == "divide":  # by complex 0: NaN where NumPy has an infinity in some part
                a, b = (np.where(np.isfinite(x), x, np.nan) for x in (a, b))
            limit = 1e-3 if call.is_single() else 1e-9
            same = np.allclose(a, b, rtol=1e-6, atol=limit * scale, equal_nan=True)
        if not same:
            raise Difference(f"{a}, right is {b}")


#: Functions of which no part depends smoothly on arguments, or that say so by a plain result.
CONSTANT = (
    "sign floor round isfinite iscomplexobj isreal argmax matrix_rank less equal isclose allclose "
    "array_equal floor_divide imag angle full interp polyval where"
).split()


def compare_recorded(call, found, args):
    """The derivative of no result is lost."""
    if call.name in CONSTANT or not any(is_recorded(x) and np.size(value_of(x)) for x in args):
        return
    leaves = [one for _, one in tree_leaves(found)]
    floats = [one for one in leaves if np.asarray(value_of(one)).dtype.kind == "f"]
    if any(np.size(value_of(one)) for one in floats) and not any(map(is_recorded, floats)):
        raise Difference(f"no result is recorded: {floats}")


#: Faults of SciPy's own (1.17, 1.18), and NumPy's: functions, what is in the message, and why.
KNOWN = [
    ("cholesky solve_triangular", "keyword lower", "only 0 and 1 are taken for true and false"),
    ("cholesky solve_triangular", "'lower': (0", "a tuple is read as its first number"),
    ("cholesky solve_triangular", "keyword (lower)", "only 0 and 1 are taken for true and false"),
    ("solve", "can only convert an array of size 1", "`lower` is read for matrices of one row"),
    ("sqrtm", "[[1.41421356]], right is [[7.3890561]]", "of a number the exponential"),
    ("sqrtm", "[[1.27201965]], right is [[-1.13120438]]", "of a number the exponential"),
    ("logm", "argmax of an empty sequence", "an empty matrix is refused"),
    ("fractional_matrix_power", "index -1 is out of bounds", "an empty matrix is refused"),
    ("lu", "out of bounds for axis 1 with size 3", "a big-endian matrix is read as it lies"),
    ("solve_continuous_lyapunov", "real `a` and complex `q`, right is", "it is no solution"),
    ("solve_discrete_lyapunov", "float16", "its products are of float16"),
    ("lstsq", "illegal value in 4-th argument", "a matrix without columns as right side"),
    ("lstsq", "rows (0 != 2).; right is a value", "without equations `b` is not looked at"),
    ("svdvals", "shapes [(0, 3)], right are [(0, 0)]", "an empty stack"),
    ("solve", "Singular matrix; right is a value", "without right sides `a` is not looked at"),
    ("eigh", "infs or NaNs; right is a value", "of an empty `a`, `b` is not looked at"),
    ("solve_toeplitz", "shapes [(3, 0, 3)], right are [(3, 0, 0)]", "an empty stack"),
    ("solve_toeplitz matmul_toeplitz", "shapes [(0, 3)], right are [(0, 0)]", "without rows"),
    ("lu_solve", "None", "a matrix of objects"),
    ("eigh", "right are [(2, 0), (2, 0, 0)]", "`b` of an empty stack is an operand, too"),
    ("fractional_matrix_power", "array type float128 is unsupported in linalg", "t is 2.0"),
    ("polyval", "right are [dtype('O')]", "without coefficients x is not looked at"),
    ("khatri_rao", "shapes [(0, 0), (0, 0)], right are [(0, 0)]", "the same without columns"),
    ("khatri_rao", "0, 3)], right are [(", "without rows the result has the dtype of `a`"),
    ("khatri_rao", "shapes [(2, 0, 0), (2, 0, 0)], right are [(2, 0, 0)]", "the same, a stack"),
    ("expm", "[nan nan]], right is [[inf 0.]", "overflow in products"),
    ("expm_frechet", "[[inf 0.] [ 0. inf]], right is [[nan nan]", "overflow in products"),
    ("expm_frechet", "must not contain infs or NaNs", "of float16 with complex numbers overflow"),
    ("pinv", "could not convert string to float", "of an empty matrix `rcond` is not read"),
    ("lstsq", "float() argument must be", "of an empty matrix `rcond` is not read"),
    ("solve", "inhomogeneous", "the first operand is looked at before the second is read"),
    ("fractional_matrix_power", "must not contain infs", "by the logarithm, if t is recorded"),
    ("power", "bad operand type for abs", "no elements are raised to a power of any type"),
    ("cross", "Both input arrays must be (arrays of) 3-dimensional", "NumPy 2.5 refuses two axes"),
    # Of a number that is recorded, and could become another, the result is complex.
    ("fractional_matrix_power", "shapes [(3, 3), (3, 3)], right are [(3, 3)]", "t is 2.0"),
    ("fractional_matrix_power", "shapes [(2, 2), (2, 2)], right are [(2, 2)]", "t is 2.0"),
]


def is_known(call, message: str) -> bool:
    kinds = [np.asarray(x).dtype.kind for x in call.args if isinstance(x, np.ndarray)]
    if call.name == "solve_continuous_lyapunov" and kinds == ["f", "c"]:
        message = f"real `a` and complex `q`{message[message.find(', right') :]}"
    message = " ".join(f"{call}: {message}".split())
    return any(call.name in names.split() and words in message for names, words, _ in KNOWN)


def check_call(call, rng, compiling: float):
    with contextlib.redirect_stdout(io.StringIO()):
        wanted, right = call.outcome(call.args, stand_in=False)
        taken = [k for k, x in enumerate(call.args) if is_taken(x)]
        chosen = [k for k in taken if rng.random() < 0.8] or taken[:1]
        args = [leaf(x) if k in chosen else x for k, x in enumerate(call.args)]
        found, error = call.outcome(args)
        compare(call, found, error, wanted, right)
        if error is None and right is None:
            pairs = [leaves for x in args for _, leaves in tree_leaves(x)]
            compare_recorded(call, found, [x for x in pairs if is_tensor(x)])
        if not chosen or rng.random() > compiling:
            return
        compiled = tg.compile(lambda *xs: call.call(merged(call.args, chosen, xs), stand_in=True))
        for _ in range(2):
            try:
                found, again = compiled(*[call.args[k] for k in chosen]), None
            except Exception as raised:
                found, again = None, raised
            compare(call, found, again, wanted, right)


def merged(args, places, values):
    made = list(args)
    for place, value in zip(places, values, strict=True):
        made[place] = value
    return made


def hostile_matrices(rng, compiling=0.1):
    """One call; AssertionError where it differs."""
    call = MatrixCall(rng)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            check_call(call, rng, compiling)
        except Difference as error:
            if is_known(call, str(error)):
                return
            raise AssertionError(f"{call}: {error}") from None
        except BaseException as error:
            raise AssertionError(f"{call}: {type(error).__name__}: {error}") from error


def main(count: int, seed: int):
    rng, found = random.Random(seed), collections.defaultdict(list)
    for number in range(count):
        try:
            hostile_matrices(rng)
        except AssertionError as error:
            found[str(error).partition("(")[0]].append(f"call {number}: {error}")
    for name, several in sorted(found.items()):
        print(f"--- {name}: {len(several)}")
        for one in several[:2]:
            print(one)
    print(f"{count} calls, seed {seed}: {sum(map(len, found.values()))} differ")
    return bool(found)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(main(given[0] if given else 20_000, given[1] if len(given) > 1 else 1))
