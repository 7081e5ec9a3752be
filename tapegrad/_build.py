"""Machine code made when the package is built: `python -m tapegrad._build [LEVEL ...]`.

Texts are collected by programs that ask for them, in a process of their own, and compiled for each
level in another one. What is compiled is put into `tapegrad/_prebuilt`, where `prebuilt` finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ._core.codegen import library_files, machine_code, prebuilt
from ._core.codegen.prebuilt import Text
from ._first_uses import use_first


def _collect(path: Path) -> None:
    """Write the texts that programs ask for to a file."""
    asked: list[Text] = []
    prebuilt.collected = asked.append
    use_first()
    found = {text.key: text for text in asked}
    path.write_text(json.dumps([*found.values()]))


def _texts(path: Path) -> list[Text]:
    return [Text(*one) for one in json.loads(path.read_text())]


def _compile(path: Path, out: Path) -> None:
    """Compile texts for the level of this process."""
    level, command = machine_code.made(), library_files.linker()
    assert level is not None and command is not None
    texts = _texts(path)
    content, why = library_files.library(texts, command)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{level.name}.so").write_bytes(content)
    print(f"{level.name}: {len(texts) - len(why)} of {len(texts)} texts, {len(content)} bytes")
    print(*why, sep="\n", end="\n" if why else "")


def _run(*words: str, **environment: str) -> None:
    command = [sys.executable, "-m", __spec__.name, *words]
    subprocess.run(command, check=True, env={**os.environ, **environment})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tapegrad._build", description=__doc__)
    parser.add_argument("levels", nargs="*", choices=[*machine_code.LEVELS, []], metavar="LEVEL")
    parser.add_argument("--out", type=Path, default=prebuilt.FOLDER, help="where libraries are put")
    parser.add_argument("--texts", type=Path, help="a file of collected texts")
    parser.add_argument("--collect", action="store_true", help="collect texts only")
    given = parser.parse_args()
    if given.collect:
        _collect(given.texts)
    elif machine_code.made():
        _compile(given.texts, given.out)
    else:
        _build(given)


def _build(given: argparse.Namespace) -> None:
    if library_files.linker() is None:
        sys.exit("tapegrad: no library is made, for cc, gcc, clang or ld is not found")
    wanted = given.levels or [one.name for one in machine_code.of_this_processor()[:1]]
    with tempfile.TemporaryDirectory() as name:
        path = given.texts or Path(name, "texts.json")
        if not given.texts:
            _run("--collect", "--texts", str(path))
        for level in wanted:
            more = machine_code.environment(machine_code.LEVELS[level])
            _run("--texts", str(path), "--out", str(given.out), **more)


if __name__ == "__main__":
    main()
