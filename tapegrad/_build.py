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

import numpy as np

import tapegrad as tg

from ._core.codegen import levels, library_files, prebuilt
from ._core.codegen.prebuilt import Text


def scenarios() -> None:
    """Ask for the texts of the first gradient, the first compiled call, the first Hessian."""
    x = np.linspace(0.1, 0.9, 4)
    for function in (_of_array, _of_slices, _of_numbers, _of_matrices):
        tg.value_and_grad(function)(x)
        tg.hessian(function)(x)
        compiled = tg.compile(function)
        for _ in range(3):
            compiled.value_and_grad(x)
        compiled.hessian(x)
        compiled.hvp(x, x)
    tg.compile(_with_branches).value_and_grad(x)


def _of_array(x):
    y = np.exp(-x * x) * np.sin(x) + np.cos(2.0 * x) - np.tanh(x) / (1.0 + x**2)
    return np.sum(np.log(1.0 + y * y) + np.sqrt(np.abs(x)) - x[::-1]) + np.mean(x) * np.max(x)


def _of_slices(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def _of_numbers(x):
    total = x[0] * 2.0 - 1.0
    for k in range(1, len(x)):
        total = total * x[k] + np.sin(x[k]) / x[0] - x[k] ** 2
    return total


def _of_matrices(x):
    matrix = x[:, None] * x + 2.0 * np.eye(len(x))
    total = np.dot(x, np.linalg.solve(matrix, x)) + np.sum(matrix @ matrix)
    return total + np.linalg.slogdet(matrix)[1]


def _with_branches(x):
    total = 0.0
    for k in range(len(x)):
        if x[k] > 0.5:
            total = total + np.sin(x[k])
        else:
            total = total + x[k] * x[k]
    return total


def _collect(path: Path) -> None:
    """Write the texts that programs ask for to a file."""
    asked: list[Text] = []
    prebuilt.collected = asked.append
    scenarios()
    found = {text.key: text for text in asked}
    path.write_text(json.dumps([*found.values()]))


def _texts(path: Path) -> list[Text]:
    return [Text(*one) for one in json.loads(path.read_text())]


def _compile(path: Path, out: Path) -> None:
    """Compile texts for the level of this process."""
    level, command = levels.made(), library_files.linker()
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
    parser.add_argument("levels", nargs="*", choices=[*levels.LEVELS, []], metavar="LEVEL")
    parser.add_argument("--out", type=Path, default=prebuilt.FOLDER, help="where libraries are put")
    parser.add_argument("--texts", type=Path, help="a file of collected texts")
    parser.add_argument("--collect", action="store_true", help="collect texts only")
    given = parser.parse_args()
    if given.collect:
        _collect(given.texts)
    elif levels.made():
        _compile(given.texts, given.out)
    else:
        _build(given)


def _build(given: argparse.Namespace) -> None:
    if library_files.linker() is None:
        sys.exit("tapegrad: no library is made, for cc, gcc, clang or ld is not found")
    wanted = given.levels or [one.name for one in levels.of_this_processor()[:1]]
    with tempfile.TemporaryDirectory() as name:
        path = given.texts or Path(name, "texts.json")
        if not given.texts:
            _run("--collect", "--texts", str(path))
        for level in wanted:
            more = levels.environment(levels.LEVELS[level])
            _run("--texts", str(path), "--out", str(given.out), **more)


if __name__ == "__main__":
    main()
