"""Types of the public surface: what checkers make of a user's text, and stubs beside what runs."""

import ast
import importlib.util
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
import typing
import warnings
from pathlib import Path

import every_call
import numpy as np
import pytest
import typing_extensions
from source_rules import ROOT

import tapegrad as tg

TEXTS = ROOT / "tests" / "typing"
#: Commands of this environment, which need not be active, and others.
PATHS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
#: pyright, or the package of it that pip installs as a whole; pyproject.toml has its rules.
PYRIGHT = shutil.which("pyright", path=PATHS) or shutil.which("basedpyright", path=PATHS)
CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"],
    "pyright": [PYRIGHT, "--pythonpath", sys.executable, "--level", "error"],
}
#: A place of a text and what is wrong there, as both checkers print it.
FOUND = re.compile(r"(\w+\.py):(\d+)[\d:]*(?: -)? error")


IS_INSTALLED = {
    "mypy": importlib.util.find_spec("mypy") is not None,
    "pyright": PYRIGHT is not None,
}
STUB = ROOT / "tapegrad" / "_functions.pyi"


# --- checkers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_find_mistakes_and_nothing_else(checker):
    if not IS_INSTALLED[checker]:
        pytest.skip(f"{checker} is not installed")
    if checker == "pyright" and np.lib.NumpyVersion(np.__version__) < "2.3.0":
        pytest.skip("NumPy 2.2 declares results as floating[Any]")
    texts = [TEXTS / "user.py", TEXTS / "misuses.py"]
    run = subprocess.run(
        [*CHECKERS[checker], *map(str, texts)], cwd=ROOT, capture_output=True, text=True
    )
    found = {(file, int(line)) for file, line in FOUND.findall(run.stdout)}
    lines = enumerate(texts[1].read_text().splitlines(), 1)
    wanted = {("misuses.py", k) for k, line in lines if "# mistake" in line}
    assert found == wanted, run.stdout + run.stderr


def holds(value, declared) -> bool:
    """Whether a value is of a type that the text of a user asserts."""
    outer, inner = typing.get_origin(declared), typing.get_args(declared)
    if hasattr(outer, "__value__"):  # an alias, as NDArray is in NumPy 2.5
        return holds(value, outer.__value__[inner])
    if declared is typing.Any:
        return True
    if outer is np.ndarray:
        (scalar,) = typing.get_args(inner[1])
        wanted = np.generic if scalar is typing.Any else scalar
        return isinstance(value, np.ndarray) and np.issubdtype(value.dtype, wanted)
    if outer is dict:
        return isinstance(value, dict) and all(holds(one, inner[1]) for one in value.values())
    if outer is tuple:
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return isinstance(value, tuple) and [*map(holds, value, each)] == [True] * len(each)
    return isinstance(value, declared)


def test_the_text_of_a_user_runs_and_its_types_hold(monkeypatch):
    def check(value, declared):
        assert holds(value, declared), (value, declared)

    monkeypatch.setattr(typing_extensions, "assert_type", check)
    runpy.run_path(str(TEXTS / "user.py"))


# --- functions at top level -----------------------------------------------------------------------

DEFINITIONS = [one for one in ast.parse(STUB.read_text()).body if isinstance(one, ast.FunctionDef)]
NAMES = sorted({one.name for one in DEFINITIONS})
TENSORS = {"Tensor": tg.tensor, "ComplexTensor": lambda x: tg.tensor(x) * (1.0 + 0.1j)}


def test_the_stub_is_what_the_functions_say():
    made = runpy.run_path(str(ROOT / "docs" / "make_stub.py"))["text"]()
    assert STUB.read_text(encoding="utf-8") == made, "run `python docs/make_stub.py`"


def is_of(result, declared: str) -> bool:
    """Whether a result is of a type that the stub names."""
    outer, _, inner = declared.rstrip("]").partition("[")
    if inner:
        kinds = {"list": list, "tuple": tuple}
        wanted = inner.split(", ")[0]
        return isinstance(result, kinds[outer]) and all(is_of(one, wanted) for one in result)
    return result is None if outer == "None" else isinstance(result, getattr(tg, outer))


def declared_for(name: str, place: int, kind: str) -> str | None:
    """What the stub says of a function with a tensor at a place."""
    for one in DEFINITIONS:
        arguments = [*one.args.posonlyargs, *one.args.args]
        if one.name == name and place < len(arguments):
            annotation = ast.unparse(arguments[place].annotation)
            if annotation in (kind, f"Sequence[{kind}]"):
                return ast.unparse(one.returns)
    return None


@pytest.mark.parametrize("name", NAMES)
def test_results_are_what_the_stub_says(name):
    function = getattr(tg, name)
    names = list(inspect.signature(function).parameters)
    for call in every_call.calls_of(function, 2):
        args, _, places = call.arguments()
        if "out" in names[: len(args)]:
            continue
        for place in places:
            for kind, make in TENSORS.items():
                declared = isinstance(place, int) and declared_for(name, place, kind)
                if not declared or "Any" in declared:
                    continue
                value = args[place]
                given = [make(v) for v in value] if isinstance(value, list) else make(value)
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    try:
                        result = call.at(place, given)
                    except (TypeError, ValueError):  # refused, which types do not tell
                        continue
                assert is_of(result, declared), (str(call), place, declared, type(result))


@pytest.mark.parametrize("name", tg.__all__)
def test_signatures_name_the_arguments(name):
    """`help` shows them: none is `*args` that stands for others."""
    function = getattr(tg, name)
    if inspect.isroutine(function) and name not in ("record", "vjp"):
        kinds = {one.name: one.kind for one in inspect.signature(function).parameters.values()}
        assert "operands" not in kinds or name.startswith("einsum")


@pytest.mark.parametrize("module", [tg, tg.autograd], ids=lambda one: one.__name__)
def test_private_names_are_not_listed(module):
    names = {name for name in dir(module) if not name.startswith("__")}
    assert {*module.__all__} <= names and not any(name.startswith("_") for name in names)
