"""Writes tapegrad/_functions.pyi, the types of the functions at top level, from their signatures.

A function of tensors gives a tensor, one of complex tensors a complex one, and where no operand is
a tensor it gives what NumPy's gives, which is not said. `RESULTS` holds the others.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import tapegrad as tg
from tapegrad._core.tensor.apply import ELEMENTWISE_OF_COMPLEX
from tapegrad._core.tensor.registry import OF_COMPLEX
from tapegrad._functions import __all__ as NAMES

STUB = Path(tg.__file__).parent / "_functions.pyi"

HEAD = """# Made by `python docs/make_stub.py`; do not edit it.

from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex, overload

from numpy.typing import ArrayLike, DTypeLike

from ._core.tensor.tensor_classes import (
    Axis,
    ComplexDType,
    ComplexLike,
    ComplexTensor,
    Kind,
    Mode,
    Order,
    RealLike,
    Shape,
    Tensor,
)
"""

#: What a function of tensors gives, one of complex tensors, and one of anything else.
SAME = ("Tensor", "ComplexTensor", "Any")
REAL, COMPLEX = ("Tensor", "Tensor", "Any"), ("ComplexTensor", "ComplexTensor", "Any")
RESULTS = {
    name: result
    for names, result in (
        ("abs absolute fabs angle imag real hfft irfft irfft2 irfftn", REAL),
        ("all any eigvalsh svdvals norm matrix_norm vector_norm std var", REAL),
        ("fft fft2 ifft ifft2 rfft rfft2 rfftn ihfft", COMPLEX),
        ("isfinite isinf isnan logical_not signbit spacing positive ldexp", "Tensor"),
        ("copyto fill_diagonal put put_along_axis putmask place", "None"),
        ("array_split split hsplit vsplit dsplit", tuple(f"list[{one}]" for one in SAME)),
        ("unstack broadcast_arrays meshgrid", tuple(f"tuple[{one}, ...]" for one in SAME)),
        ("divmod frexp modf polydiv", tuple(f"tuple[{one}, {one}]" for one in SAME)),
        # These depend on other arguments, on values or, without an axis, on the shape.
        ("fftn ifftn real_if_close", "Any"),
        ("apply_along_axis astype atleast_1d atleast_2d atleast_3d average eig eigvals", "Any"),
        ("einsum_path gradient intersect1d ix_ linspace lstsq matrix_rank nextafter", "Any"),
        ("eigh histogram histogram2d histogramdd polyfit qr slogdet svd", "Any"),
        ("piecewise ravel_multi_index roots where", "Any"),
        ("unique unique_all unique_counts unique_inverse", "Any"),
    )
    for name in names.split()
}

#: Functions that give tensors of anything, complex ones of complex values or for such a dtype.
MAKING = set(
    "arange asarray conj conjugate copy empty empty_like eye full full_like geomspace identity "
    "logspace ones ones_like tensor zeros zeros_like".split()
)

#: Arguments that are tensors or arrays, and those that are sequences of them.
OPERANDS = set(
    "x y x1 x2 a b z m v arr ary ar ar1 ar2 xp fp p u q val values filt array seq_of_zeros a1 a2 "
    "weights beta f xs xi data prototype fill_value".split()
)
SEQUENCES = set("arrays tup choices choicelist operands".split())
ARGUMENTS = {
    "axis": "Axis",
    "order": "Order",
    "dtype": "DTypeLike",
    "shape": "Shape",
    "new_shape": "Shape",
    "kind": "Kind",
    "stable": "bool",
    "N": "SupportsIndex",
    "n": "SupportsIndex",
    "M": "SupportsIndex",
    "start": "RealLike",
    "stop": "RealLike",
    "start_or_stop": "RealLike",
    "copy": "bool",
    "where": "ArrayLike",
    "keepdims": "bool",
    "hermitian": "bool",
    "subscripts": "str",
    "func": "Callable[..., Any]",
    "func1d": "Callable[..., Any]",
    "UPLO": 'Literal["L", "U"]',
}
#: By their functions, where the name alone does not say.
BY_FUNCTION = {
    "argsort.order": "None",
    "sort.order": "None",
    "partition.kind": "str",
    "partition.order": "None",
    "take.mode": "Mode",
    "put.mode": "Mode",
    "choose.mode": "Mode",
    "convolve.mode": 'Literal["full", "same", "valid"]',
    "correlate.mode": 'Literal["full", "same", "valid"]',
    "histogramdd.sample": "ArrayLike",
    "kaiser.M": "SupportsIndex",
    "einsum.operands": "ArrayLike",
    "divmod.y": "RealLike",
}


def type_of(name: str, one: inspect.Parameter) -> str:
    """The type of an argument that is no operand."""
    if found := BY_FUNCTION.get(f"{name}.{one.name}") or ARGUMENTS.get(one.name):
        return found
    default = {bool: "bool", int: "SupportsIndex", float: "float", str: "str"}
    return default.get(type(one.default), "Any")


def written(name: str, signature: inspect.Signature, own: dict[str, str]) -> str:
    """The arguments of a function; `own` are the types of its operands.

    A dtype among them must be given, by its name.
    """
    found, last, starred = [], None, False
    for one in signature.parameters.values():
        if last is one.POSITIONAL_ONLY and one.kind is not last:
            found.append("/")
        by_name = one.kind is one.KEYWORD_ONLY or (one.name == "dtype" and "dtype" in own)
        if by_name and not starred:
            found.append("*")
        starred = starred or by_name or one.kind is one.VAR_POSITIONAL
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = own.get(one.name) or type_of(name, one)
        found.append(f"{stars}{one.name}: {kind}{default(name, one, own)}")
        last = one.kind
    return ", ".join([*found, "/"] if last is one.POSITIONAL_ONLY else found)


def default(name: str, one: inspect.Parameter, own: dict[str, str]) -> str:
    """How the default of an argument is written, with None as a further type."""
    if one.default is one.empty or (one.name == "dtype" and "dtype" in own):
        return ""
    if one.default is None:
        has_none = one.name not in own and type_of(name, one) in ("Any", "None")
        return " = None" if has_none else " | None = None"
    is_plain = isinstance(one.default, (bool, int, float, str))
    return f" = {one.default!r}" if is_plain else " = ..."


def operands_of(name: str, signature: inspect.Signature) -> tuple[list[str], list[str]]:
    """The arguments that tensors may be: those that must be given, those that may be."""
    needed, others = [], []
    for one in signature.parameters.values():
        if f"{name}.{one.name}" in BY_FUNCTION or one.name not in OPERANDS | SEQUENCES:
            continue
        (needed if one.default is one.empty else others).append(one.name)
    return needed, others


def cases(name: str, signature: inspect.Signature) -> list[tuple[dict[str, str], str]]:
    """Types of operands, and of the result, one after the other as they are tried."""
    needed, others = operands_of(name, signature)

    def of(kind: str, *names: str) -> dict[str, str]:
        return {one: f"Sequence[{kind}]" if one in SEQUENCES else kind for one in names}

    if name in MAKING:
        by_dtype = [({**of("ArrayLike", *needed), "dtype": "ComplexDType"}, "ComplexTensor")]
        of_complex = [(of("ComplexLike", *needed), "ComplexTensor")]
        of_real = [(of("RealLike", *needed), "Tensor")]
        named = by_dtype if "dtype" in signature.parameters else []
        return named + of_real + (of_complex if needed else [])
    anything, results = of("ArrayLike", *needed, *others), RESULTS.get(name, SAME)
    if isinstance(results, str):
        return [(anything, results)]
    real = of("RealLike", *needed, *others)
    found = [(real | of("Tensor", one), results[0]) for one in needed]
    declared = getattr(tg, name).__name__
    for one in needed if declared in OF_COMPLEX or declared in ELEMENTWISE_OF_COMPLEX else ():
        found.append((anything | of("ComplexTensor", one), results[1]))
        if len(needed) > 1:
            beside = of("ComplexLike", *{*needed} - {one})
            found.append((anything | beside | of("Tensor", one), results[1]))
    return [*found, (anything, results[2])]


def function(name: str) -> str:
    signature = inspect.signature(getattr(tg, name))
    lines = [
        f"def {name}({written(name, signature, own)}) -> {result}: ...\n"
        for own, result in cases(name, signature)
    ]
    return "".join(f"@overload\n{line}" for line in lines) if len(lines) > 1 else lines[0]


def text() -> str:
    names = "".join(f'    "{name}",\n' for name in NAMES)
    return f"{HEAD}\n__all__ = [\n{names}]\n\n" + "\n".join(map(function, sorted(NAMES)))


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
