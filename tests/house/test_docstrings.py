"""Docstrings of public names: numpydoc's form, every parameter described. The examples run too."""

import importlib
import inspect
import math
import re
import sys

import numpy as np
from source_rules import every

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


def place_of(name: str) -> str:
    """The file and line of a name, its own name where it has none."""
    value = NAMES[name]
    value = inspect.unwrap(getattr(value, "fget", value))
    try:
        return f"{inspect.getsourcefile(value)}:{inspect.getsourcelines(value)[1]} {name}"
    except (TypeError, OSError):
        return name


def parts_of(text: str) -> list[str]:
    """What comes before the sections of a docstring; of each its title, its line and its text."""
    return re.split(r"(?:^|\n\n)([A-Z][A-Za-z ]+)\n(-{3,})\n", text)


def sections_of(value) -> dict[str, str]:
    """The sections of a docstring by title, in their order; what comes before is ""."""
    parts = parts_of(inspect.getdoc(value) or "")
    return {"": parts[0], **dict(zip(parts[1::3], parts[3::3], strict=True))}


def described(section: str) -> set[str]:
    """The names that a section of parameters describes."""
    heads = [line for line in section.splitlines() if line and not line.startswith(" ")]
    names = [name for head in heads for name in head.partition(" :")[0].split(", ")]
    return {name.lstrip("*") for name in names}


def parameters_of(value) -> set[str]:
    """The names of the parameters in a signature, as `help` shows them."""
    function = value.__init__ if isinstance(value, type) else value
    return {*inspect.signature(function).parameters} - {"self", "cls"}


@every(NAMES)
def test_a_docstring_has_numpydocs_form(name):
    parts, sections = parts_of(inspect.getdoc(NAMES[name]) or ""), sections_of(NAMES[name])
    summary, _, rest = sections[""].partition("\n")
    titles = [*sections][1:]
    rules = {
        "has a line of another length below a title": all(
            len(title) == len(line) for title, line in zip(parts[1::3], parts[2::3], strict=True)
        ),
        "has a section twice": len(titles) == len(parts[1::3]),
        "has no sentence on one line as a summary": summary.endswith(".") and len(summary) <= 96,
        "has no empty line after the summary": not rest or rest.startswith("\n"),
        "has other sections, or in another order": titles == [t for t in SECTIONS if t in titles],
        "has a section without text": all(
            sections.get(title, "-").strip() for title in ("Parameters", "Returns")
        ),
    }
    for words, holds in rules.items():
        if not holds:
            yield f"{place_of(name)} {words}"


@every([name for name in NAMES if inspect.isroutine(NAMES[name])])
def test_every_parameter_is_described(name):
    value = NAMES[name]
    sections = sections_of(value)
    wanted, found = parameters_of(value), described(sections.get("Parameters", ""))
    if "operands" in wanted:
        wanted = found
    of_method = {"x", "a", "value"} if name.split(".")[0] in ("Tensor", "ComplexTensor") else set()
    if found - of_method != wanted - of_method:
        yield f"{place_of(name)} has the parameters {wanted}, described are {found}"
    returns_nothing = inspect.signature(value).return_annotation in (None, "None")
    if not ("Returns" in sections or "Yields" in sections or returns_nothing):
        yield f"{place_of(name)} does not say what it returns"


@every([name for name in NAMES if name.startswith("tapegrad")])
def test_what_is_not_numpys_has_an_example(name):
    value, short = NAMES[name], name.rpartition(".")[2]
    is_numpys = hasattr(np, short) or hasattr(math, short) or id(inspect.unwrap(value)) in MIRRORED
    if ">>>" not in (inspect.getdoc(value) or "") and not is_numpys:
        yield f"{place_of(name)} has no example"
