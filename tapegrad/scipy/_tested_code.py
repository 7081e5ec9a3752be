"""Whether the text of SciPy's functions is one that was tested, and those that run as they are."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import types
from collections.abc import Iterator
from pathlib import Path

from .._core.tensor.trace import DerivativeLost

# --- tested code ----------------------------------------------------------------------------------
# Whether the text of SciPy's functions that are copied is one with which they were tested.
#
# With a version of SciPy that was tested nothing is read. With another one, as 1.16.0, the digest
# of each function that is copied must be that of a tested version of the same series, 1.16, or of
# the newest one if the series was not tested. `python docs/make_tested_code.py` writes the digests.

FILE = Path(__file__).with_name("_tested_code.txt")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@functools.cache
def tested() -> dict[str, frozenset[str]]:
    """By tested versions of SciPy, the digests of the functions of each."""
    found: dict[str, set[str]] = {}
    for line in FILE.read_text(encoding="ascii").splitlines():
        versions, _, digests = line.partition(":")
        for version in versions.split():
            found.setdefault(version, set()).update(digests.split())
    return {version: frozenset(digests) for version, digests in found.items()}


def _series(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


@functools.cache
def _known(version: str) -> frozenset[str] | None:
    """The digests to which those of a version are compared; None if it was tested itself."""
    every = sorted(tested(), key=_series)
    if version in every:
        return None
    same = [one for one in every if _series(one) == _series(version)]
    return frozenset().union(*[tested()[one] for one in same or every[-1:]])


# --- texts ----------------------------------------------------------------------------------------


def _written(node) -> str:
    """The tree of a text without docstrings, the same for each version of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    body = getattr(node, "body", None)
    is_documented = isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and isinstance(body, list)
    fields = dict(ast.iter_fields(node))
    if is_documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
        fields["body"] = fields["body"][1:]
    kept = [f"{key}={_written(one)}" for key, one in fields.items() if one not in (None, [])]
    return f"{type(node).__name__}({','.join(kept)})"


def _root() -> Path:
    return Path(importlib.import_module("scipy").__path__[0]).resolve()


def digest(path: Path, node: ast.AST) -> str:
    """The digest of a function in a file of SciPy."""
    text = f"{path.relative_to(_root()).as_posix()} {_written(node)}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@functools.cache
def functions_in(path: Path) -> dict[tuple[int, str], list[ast.AST]]:
    """The functions in a file, by the lines and names that their code has."""
    found: dict[tuple[int, str], list[ast.AST]] = {}
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, _FUNCTIONS):
            first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
            key = first, getattr(node, "name", "<lambda>")
            found.setdefault(key, []).append(node)
    return found


def digests_of(code: types.CodeType) -> list[str] | None:
    """The digests of a function; None if it is not of SciPy, none if its text is not there."""
    path = Path(code.co_filename).resolve()
    if not path.is_relative_to(_root()):
        return None
    if not path.is_file():
        return []
    nodes = functions_in(path).get((code.co_firstlineno, code.co_name), [])
    return [digest(path, node) for node in nodes]


# --- functions ------------------------------------------------------------------------------------


def _named(function: types.FunctionType) -> Iterator[types.FunctionType]:
    """Functions that a function calls by names, and those that it decorates."""
    held = inspect.getclosurevars(function).nonlocals.values() if function.__closure__ else ()
    yield from [one for one in held if isinstance(one, types.FunctionType)]
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, types.FunctionType):
                yield value


def reached(function: types.FunctionType) -> list[types.FunctionType]:
    """The functions of SciPy that are called if a function is, as far as they are named."""
    found, open_ones = {function: None}, [function]
    while open_ones:
        for one in _named(open_ones.pop()):
            if one not in found and (one.__module__ or "").startswith("scipy."):
                found[one] = None
                open_ones.append(one)
    return [*found]


@functools.cache
def _untested(function: types.FunctionType, with_called: bool, version: str) -> str | None:
    """The name of a function whose text was not tested; None if there is none."""
    known = _known(version)
    if known is None or not isinstance(function, types.FunctionType):
        return None
    for one in reached(function) if with_called else [function]:
        digests = digests_of(one.__code__)
        if digests is not None and not (digests and known.issuperset(digests)):
            return f"{one.__module__}.{one.__qualname__}"
    return None


def check_text(function: types.FunctionType, *, with_called: bool = False) -> None:
    """Refuse a function of SciPy whose text, or that of one it calls, was not tested."""
    version = importlib.import_module("scipy").__version__
    name = _untested(function, with_called, version)
    if name is not None:
        raise DerivativeLost(
            f"tapegrad: the code of {name}() in SciPy {version} is not that of a version with "
            f"which its derivative was tested ({', '.join(tested())}); install one of these, or "
            "compute it with NumPy's functions on the tensor"
        )


# --- functions that run as they are ---------------------------------------------------------------
# Functions of SciPy whose own Python code computes with recorded values, and has derivatives so.
#
# Each has an expression in `tests/scipy/test_scipy_released.py`. Those that iterate until a result
# is close are not among them, since the derivative would be that of their steps.

_BY_MODULE = {
    "fft": "fftfreq rfftfreq",
    "integrate": "fixed_quad",
    "signal": "closest_STFT_dual_window czt_points gausspulse invres invresz kaiser_atten "
    "kaiser_beta sweep_poly",
    "signal.windows": "exponential gaussian general_gaussian",
    "sparse.linalg": "matrix_power",
    "special": "sinc softplus",
    "stats.contingency": "crosstab margins",
}
#: By name below `scipy`; older versions of SciPy lack some of them.
RELEASED = [f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()]


def _by_its_own_code(name: str):
    module, _, own = name.rpartition(".")

    def function(*args, **kwargs):
        theirs = getattr(importlib.import_module(f"scipy.{module}"), own)
        check_text(theirs, with_called=True)
        try:
            return theirs(*args, **kwargs)
        except DerivativeLost as error:
            if not any(map(callable, args)):  # else it may be the caller's function that lost it
                error.args = (
                    f"tapegrad.scipy.{name} has no derivative to an argument that is recorded: "
                    "SciPy's code makes a plain number or array of it; compute it with functions "
                    "of tapegrad, or give x.detach().numpy() if no derivative is needed",
                )
            raise

    function.is_element_wise = module == "special"  # type: ignore[attr-defined]
    return function


def functions() -> dict:
    """These functions by name."""
    return {name: _by_its_own_code(name) for name in RELEASED}
