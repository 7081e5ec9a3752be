"""`python -m tapegrad cache path|size|clear|warm`: the folder of compiled code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from . import __version__, _first_uses
from ._core.codegen.machine_files import cache_folder, clear_all, every_folder, size_of_all


def main(given: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 where it fails, 2 where it is not understood."""
    parser = _parser()
    chosen = parser.parse_args(given)
    try:
        chosen.run(chosen)
    except (OSError, RuntimeError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tapegrad", description="Tools of tapegrad.")
    parser.add_argument("--version", action="version", version=f"tapegrad {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    about = "the folder of compiled code, which TAPEGRAD_CACHE_DIR names"
    cache = commands.add_parser("cache", help=about, description=f"Manages {about}.")
    verbs = cache.add_subparsers(required=True, metavar="command")

    def verb(name: str, run: Callable, about: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        made.set_defaults(run=run)
        return made

    verb("path", _path, "print the folder, whether it exists or not")
    verb("size", _size, "print the number of its files and of their bytes")
    verb("clear", _clear, "delete the code that all versions of tapegrad have left in it")
    warm = verb("warm", _warm, "compile what first gradients, Hessians and compiled calls need")
    warm.add_argument("--all", action="store_true", help="and every operation, in some minutes")
    return parser


def _path(chosen) -> None:
    print(every_folder())


def _size(chosen) -> None:
    print(_counted(*size_of_all()))


def _clear(chosen) -> None:
    print(f"deleted {_counted(*clear_all())}")


def _warm(chosen) -> None:
    folder = every_folder()
    if cache_folder().parent != folder:
        raise RuntimeError("nothing was compiled, for it would not be kept")
    began, (before, _) = time.perf_counter(), size_of_all()
    _first_uses.use_all() if chosen.all else _first_uses.use_first()
    files, size = size_of_all()
    spent = time.perf_counter() - began
    print(f"{files - before} files more in {spent:.1f} s; {folder} has {_counted(files, size)}")


def _counted(files: int, size: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}, {size} bytes"


if __name__ == "__main__":
    sys.exit(main())
