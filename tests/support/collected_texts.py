"""A plugin of pytest: what the package asks to be compiled in the run is added to texts.json.

`python -m tapegrad._build --texts texts.json` makes machine code of it. Each process of the run
adds what it has asked for; nothing is found in libraries meanwhile.
"""

import ast
import fcntl
import json
import os
import sys
from pathlib import Path

from tapegrad._core.codegen import prebuilt
from tapegrad._core.codegen.prebuilt import Text
from tapegrad._core.codegen.sources import statements_in

_PATH = Path("texts.json").resolve()
_asked: dict[str, Text] = {}
#: Tests of the compiler: their texts are their own.
_OF_COMPILER = "tests/machine_code/"


def _is_of_the_package(text: Text) -> bool:
    """Whether a text includes nothing but the package, and what everybody has."""
    known = {*sys.stdlib_module_names, "numba", "tapegrad"}
    for node in ast.walk(statements_in(text.source)):
        if isinstance(node, ast.Import):
            named = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [node.module or ""]
        else:
            continue
        if not {one.partition(".")[0] for one in named} <= known:
            return False
    return True


def _note(text):
    in_test_of_compiler = os.environ.get("PYTEST_CURRENT_TEST", "").startswith(_OF_COMPILER)
    if not in_test_of_compiler and _is_of_the_package(text):
        _asked[text.key] = text


prebuilt.collected = _note


def pytest_sessionfinish():
    with open(_PATH, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = {(one := Text(*fields)).key: one for fields in json.loads(file.read() or "[]")}
        file.seek(0)
        file.truncate()
        file.write(json.dumps([*(known | _asked).values()]))
