"""A plugin of pytest: what the package asks to be compiled in the run is added to texts.json.

`python -m tapegrad._build --texts texts.json` makes machine code of it. Each process of the run
adds what it has asked for; nothing is found in libraries meanwhile.
"""

import fcntl
import json
import os
from pathlib import Path

from tapegrad._core.codegen import library_files, prebuilt
from tapegrad._core.codegen.prebuilt import Text

_PATH = Path("texts.json").resolve()
_asked: dict[str, Text] = {}
#: Tests of the compiler: their texts are their own.
_OF_COMPILER = "tests/machine_code/"


def _note(text):
    in_test_of_compiler = os.environ.get("PYTEST_CURRENT_TEST", "").startswith(_OF_COMPILER)
    if not in_test_of_compiler and library_files.is_of_the_package(text):
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
