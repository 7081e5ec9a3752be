"""Docstrings of public functions: entries common to many of them are written here, once.

A docstring in the source has a summary, particulars, and examples. Entries of parameters that mean
the same wherever they occur are added, unless the docstring has its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

_OPERAND = "array_like", "A tensor, an array, a number, or nested lists of them."
_AXES = "int or tuple of ints", "Axes that are reduced; by default all."
_FLAT = "int", "The axis along which the function works; by default the operand is flattened."
#: Type and description of parameters, by name.
PARAMETERS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("x", "y", "a", "b", "v", "arr", "x1", "x2", "val", "ar1", "ar2"), _OPERAND),
    "xs": ("array_like", "The operands."),
    "a1": ("array_like", "Coefficients of a polynomial, the highest power first; or a `poly1d`."),
    "a2": ("array_like", "Coefficients of the other polynomial, or a `poly1d`."),
    "arrays": ("sequence of array_like", "The operands; tensors and others may be mixed."),
    "tup": ("sequence of array_like", "The operands; tensors and others may be mixed."),
    "assume_unique": ("bool", "Whether the elements of each operand are known to be distinct."),
    "axes": ("sequence of ints", "The axes of the transform; by default the last, or all."),
    "axis": ("int", "The axis along which the function works."),
    "axis1": ("int", "The first axis."),
    "axis2": ("int", "The second axis."),
    "bins": ("int or array_like", "The number of bins, or their edges; as in NumPy."),
    "casting": ('{"no", "equiv", "safe", "same_kind", "unsafe"}', "Which conversions are allowed."),
    "condition": ("array_like of bool", "Where elements are selected."),
    "ddof": ("int", "The divisor is the number of elements minus `ddof`."),
    "density": ("bool", "Whether counts are divided by their total and the sizes of the bins."),
    "dtype": ("dtype", "The dtype in which the result is computed."),
    "hermitian": ("bool", "If true, matrices are symmetric; one triangle is read."),
    "indices": ("array_like of ints", "The indices."),
    "indices_or_sections": ("int or sequence of ints", "The number of parts, or their boundaries."),
    "initial": ("number", "Included in each reduction as an additional element."),
    "k": ("int", "The diagonal: 0 is the main diagonal, positive numbers are above it."),
    "keepdims": ("bool", "Whether the reduced axes stay in the result, with length 1."),
    "kind": ("str", "The algorithm, as in NumPy; recorded elements are sorted stably."),
    "mask": ("array_like of bool", "Where elements are written."),
    "method": ("str", 'How elements are interpolated: "linear", or another method of NumPy.'),
    "n": ("int", "The size of the transform, to which the operand is cut or padded."),
    "norm": ('{"backward", "ortho", "forward"}', "Which transforms are scaled, as in `fft`."),
    "offset": ("int", "The diagonal: 0 is the main diagonal, positive numbers are above it."),
    "ord": ("number or str", "The order of the norm, as in `norm`."),
    "order": ('{"C", "F", "A", "K"}', "The memory order; A means F for operands in order F only."),
    "out": ("Tensor or ndarray", "Where the result is written; a tensor if it is recorded."),
    "overwrite_input": ("bool", "Has no effect: the operand is never overwritten."),
    "p": ("array_like", "Coefficients of a polynomial, the highest power first; or a `poly1d`."),
    "q": ("array_like", "The order of the quantile, one or several; it may be recorded."),
    "range": ("tuple of two numbers", "The outer edges of the bins; by default the extremes."),
    "rcond": ("number", "Singular values of at most `rcond` times the largest count as 0."),
    "s": ("sequence of ints", "The size along each of `axes`; −1 is the size of the operand."),
    "stable": ("bool", "Whether equal elements keep their order; those of tensors always do."),
    "subok": ("bool", "Has no effect: it applies to subclasses of arrays."),
    "UPLO": ('{"L", "U"}', "Which triangle of a matrix is read."),
    "values": ("array_like", "The values, which may be recorded."),
    "weights": ("array_like", "Weights of the elements; they may be recorded."),
    "where": ("array_like of bool", "Elements where it is false are ignored."),
}
_RETURNS = """Tensor, ndarray or number
    A tensor if an operand is one, else what NumPy's function returns."""
_REQUIRED = object()
#: The sections that docstrings have, in numpydoc's order.
_ORDER = ("Parameters", "Returns", "Raises", "Warns", "See Also", "Notes", "Examples")
_HEADING = {title: f"\n\n{title}\n{'-' * len(title)}\n" for title in _ORDER}
_ENTRY = re.compile(r"\n(?=\S)")


#: A docstring of NumPy or SciPy: its signature if it has one, its summary, the rest.
_THEIRS = re.compile(r"(\s*)((?:\w+\([^\n]*(?:\n +[^\n]+)*\n\s*\n)?.+?)(\n\s*\n.*|\s*)", re.DOTALL)


def with_note(text: str | None, note: str) -> str | None:
    """A docstring of NumPy or SciPy with a note after its summary."""
    found = _THEIRS.fullmatch(text or "")
    if found is None or not note:
        return text
    start, summary, rest = found.groups()
    margin = "\n" + start.rpartition("\n")[2]
    return f"{start}{summary}\n{margin}{margin.join(note.splitlines())}{rest}"


def completed(function: Callable, numpy_name: str = "") -> str:
    """The docstring of a function in numpydoc form; `numpy_name` is NumPy's function."""
    return _completed(function, PARAMETERS, _RETURNS, numpy_name)


def sharing(entries: dict[str, tuple[str, str]], returns: str = "") -> Callable:
    """A decorator that adds the entries of parameters which the functions of a module share."""

    def decorate(function: Callable) -> Callable:
        function.__doc__ = _completed(function, entries, returns)
        return function

    return decorate


def _completed(function: Callable, entries: dict, returns: str, numpy_name: str = "") -> str:
    head, sections = _parts(function.__doc__ or "")
    sections["Parameters"] = _parameters(function, sections.get("Parameters", ""), entries)
    sections.setdefault("Returns", returns)
    sections.setdefault("See Also", numpy_name)
    given = [title for title in _ORDER if sections.get(title)]
    return head + "".join([_HEADING[title] + sections[title] for title in given])


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """The text before the sections of a docstring, and the sections by title."""
    if "\n---" not in text:  # not yet without the indentation of the source
        text = text.replace("\n    ", "\n")
    text, sections = text.rstrip(), {}
    if "\n---" in text:
        for title in reversed(_ORDER):
            text, heading, body = text.partition(_HEADING[title])
            if heading:
                sections[title] = body
    return text, sections


def _parameters(function: Callable, given: str, entries: dict) -> str:
    """The entries of all parameters in the order of the signature, those that are given first."""
    own = {}
    for text in _ENTRY.split(given) if given else ():
        for name in text.partition("\n")[0].partition(" :")[0].split(", "):
            own[name.strip("*")] = text
    found, defaults = [], _defaults(function)
    for name, default in defaults.items():
        if name in own:
            if own[name] not in found:
                found.append(own[name])
        elif name in entries:
            optional = "" if default is _REQUIRED else ", optional"
            kind, text = entries[name]
            if entries is PARAMETERS and name == "axis":
                kind, text = _axis(defaults)
            found.append(f"{name} : {kind}{optional}\n    {text}")
    return "\n".join(found)


def _axis(defaults: dict) -> tuple[str, str]:
    """The entry of the parameter `axis`: of reductions, of functions that flatten, of others."""
    if "keepdims" in defaults:
        return _AXES
    return _FLAT if defaults["axis"] is None else PARAMETERS["axis"]


def _defaults(function: Callable) -> dict[str, object]:
    """The defaults of the parameters of a function, in the order of these."""
    if (signature := vars(function).get("__signature__")) is not None:
        empty = inspect.Parameter.empty
        given = signature.parameters.values()
        return {one.name: _REQUIRED if one.default is empty else one.default for one in given}
    function = getattr(function, "__wrapped__", function)
    code, names = function.__code__, function.__code__.co_varnames
    positional, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    given, named = function.__defaults__ or (), function.__kwdefaults__ or {}
    values = [_REQUIRED] * (positional - len(given)) + [*given]
    found = dict(zip(names, values, strict=False))
    stars = iter(names[count:])
    if code.co_flags & inspect.CO_VARARGS:
        found[next(stars)] = _REQUIRED
    found.update([(name, named.get(name, _REQUIRED)) for name in names[positional:count]])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found[next(stars)] = _REQUIRED
    return found
