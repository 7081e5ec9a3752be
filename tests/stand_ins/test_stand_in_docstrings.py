"""Docstrings and signatures of `tapegrad.numpy` and `tapegrad.scipy`: the originals with a note."""

import importlib
import inspect

import numpy
import pytest

import tapegrad as tg
from tapegrad._core.tensor.registry import with_note
from tapegrad.numpy._lists import of_recorded

POLYNOMIALS = "chebyshev hermite hermite_e laguerre legendre polynomial polyutils".split()
MODULES = ["numpy", "numpy.fft", "numpy.linalg", "numpy.random"]
MODULES += [f"numpy.polynomial.{name}" for name in POLYNOMIALS]
MODULES += [f"scipy.{name}" for name in tg.scipy.__all__]


def signature_of(function):
    """The signature that `help` shows; None if the function is compiled and has none."""
    try:
        return str(inspect.signature(function))
    except ValueError:
        return None


def stand_ins(name):
    """(name, ours, theirs) of the functions of a module that stand for NumPy's or SciPy's."""
    ours, theirs = importlib.import_module(f"tapegrad.{name}"), importlib.import_module(name)
    for public in theirs.__all__:
        found, wanted = getattr(ours, public), getattr(theirs, public)
        if found is not wanted and inspect.isroutine(found):
            yield public, found, wanted


@pytest.mark.parametrize("module", MODULES)
def test_help_shows_the_true_signature_and_all_sections(module):
    for name, ours, theirs in stand_ins(module):
        if "__wrapped__" not in vars(ours) or theirs is numpy.sinc:
            continue  # scipy.special appends to the docstring of NumPy's sinc when it is imported
        assert signature_of(ours) == signature_of(theirs), name
        lines = [line.strip() for line in (ours.__doc__ or "").splitlines()]
        wanted = [line.strip() for line in (theirs.__doc__ or "").splitlines()]
        kept = iter(lines)
        assert all(line in kept for line in wanted), name


def test_notes_say_what_differs():
    notes = {
        "zeros": "to which recorded values can be written",
        "concatenate": "see `tapegrad.concatenate`",
        "sum": "also in lists; see `tapegrad.sum`",
        "argwhere": "has no derivative",
        "less": "has no derivative",
        "array": "become a tensor",
        "bmat": "raises TypeError: np.matrix is",
        "polyval": "may be recorded",
    }
    for name, note in notes.items():
        assert note in getattr(tg.numpy, name).__doc__
    assert "randomness.md" in tg.numpy.random.normal.__doc__
    assert "randomness.md" in tg.numpy.random.Generator.normal.__doc__
    assert "are differentiated" in tg.scipy.linalg.solve.__doc__
    assert "TypeError" in tg.scipy.linalg.schur.__doc__


def test_functions_that_notes_name_exist():
    named = [getattr(numpy, name) for name in numpy.__all__]
    notes = [of_recorded(one) for one in named if callable(one) and not isinstance(one, type)]
    places = [note.split("`")[1].removeprefix("tapegrad.") for note in notes if "`" in note]
    assert len(places) > 200 and all(callable(getattr(tg, place)) for place in places)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("", ""),
        ("Make x.", "Make x.\n\nA,\nb."),
        ("\n  Make x.\n\n  More.\n  ", "\n  Make x.\n\n  A,\n  b.\n\n  More.\n  "),
        (
            "f(x[,y],\n  z)\n\nMake x\nor y.\n\nMore.",
            "f(x[,y],\n  z)\n\nMake x\nor y.\n\nA,\nb.\n\nMore.",
        ),
    ],
)
def test_a_note_follows_the_summary(text, found):
    assert with_note(text, "A,\nb.") == found
    assert with_note(text, "") == text
