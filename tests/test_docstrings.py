"""Docstrings of public names: numpydoc's form, every parameter described. The examples run too."""

import importlib
import inspect
import math
import re
import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.tensor.registry import OF_NUMPY, load_families

#: numpydoc's sections, in their order.
SECTIONS = "Parameters Attributes Methods Returns Yields Raises Warns".split()
SECTIONS += ["See Also", "Notes", "References", "Examples"]
#: Modules whose public names are all documented here; others hold NumPy's and SciPy's functions.
MODULES = ["", ".autograd", ".autograd.functional", ".autograd.profiler", ".math", ".optim"]
MODULES += [".nn", ".nn.functional", ".nn.init"]


def public_names():
    """(name, object) of every public function and class."""
    for module in MODULES:
        found = importlib.import_module(f"tapegrad{module}")
        own = [name for name, value in vars(found).items() if name[0] != "_" and callable(value)]
        own = [name for name in own if getattr(found, name).__module__ == found.__name__]
        for name in getattr(found, "__all__", own):
            value = getattr(found, name)
            if callable(value) and value.__module__.startswith("tapegrad"):
                yield f"tapegrad{module}.{name}", value


def methods_of(kind: type):
    """(name, object) of the public methods and properties of a class, but those of public bases."""
    ours = [one for one in kind.__mro__ if one.__module__ in OURS]
    inherited = {name for one in ours[1:] if one in CLASSES for name in vars(one)}
    for name in {name: None for one in ours for name in vars(one)}:
        value = inspect.getattr_static(kind, name)
        is_described = callable(value) or hasattr(value, "__get__")
        if not name.startswith("_") and name not in inherited and is_described:
            yield f"{kind.__name__}.{name}", getattr(value, "__func__", value)


NAMES = dict(public_names())
CLASSES = {one for one in NAMES.values() if isinstance(one, type)}
CLASSES |= {type(tg.compile(np.sin))}
OURS = {name for name in sys.modules if name.startswith("tapegrad")}
for one in sorted(CLASSES, key=lambda kind: kind.__name__):
    NAMES.update(methods_of(one))
load_families()
MIRRORED = {id(inspect.unwrap(function)) for function in OF_NUMPY.values()}


def sections_of(text: str) -> dict[str, str]:
    """The sections of a docstring by title, in their order; what comes before is ""."""
    parts = re.split(r"(?:^|\n\n)([A-Z][A-Za-z ]+)\n(-{3,})\n", text)
    titles, lines, bodies = parts[1::3], parts[2::3], parts[3::3]
    for title, line in zip(titles, lines, strict=True):
        assert len(title) == len(line), f"the line below {title} has another length"
    return {"": parts[0], **dict(zip(titles, bodies, strict=True))}


def described(section: str) -> set[str]:
    """The names that a section of parameters describes."""
    heads = [line for line in section.splitlines() if line and not line.startswith(" ")]
    names = [name for head in heads for name in head.partition(" :")[0].split(", ")]
    return {name.lstrip("*") for name in names}


def parameters_of(value) -> set[str]:
    """The names of the parameters in a signature, as `help` shows them."""
    function = value.__init__ if isinstance(value, type) else value
    return {*inspect.signature(function).parameters} - {"self", "cls"}


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_has_numpydocs_form(name):
    value = NAMES[name]
    sections = sections_of(inspect.getdoc(value) or "")
    summary, _, rest = sections[""].partition("\n")
    assert summary.endswith(".") and len(summary) <= 96, "a summary is a sentence on one line"
    assert not rest or rest.startswith("\n"), "an empty line follows the summary"
    assert [*sections][1:] == [title for title in SECTIONS if title in sections]
    assert sections.get("Parameters", "-").strip() and sections.get("Returns", "-").strip()


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isroutine(NAMES[name])])
def test_every_parameter_is_described(name):
    value = NAMES[name]
    sections = sections_of(inspect.getdoc(value) or "")
    wanted, found = parameters_of(value), described(sections.get("Parameters", ""))
    if "operands" in wanted:
        wanted = found
    of_method = {"x", "a", "value"} if name.split(".")[0] in ("Tensor", "ComplexTensor") else set()
    assert found - of_method == wanted - of_method
    returns_nothing = inspect.signature(value).return_annotation in (None, "None")
    assert "Returns" in sections or "Yields" in sections or returns_nothing


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("tapegrad")])
def test_what_is_not_numpys_has_an_example(name):
    value, short = NAMES[name], name.rpartition(".")[2]
    is_numpys = hasattr(np, short) or hasattr(math, short) or id(inspect.unwrap(value)) in MIRRORED
    assert ">>>" in inspect.getdoc(value) or is_numpys
