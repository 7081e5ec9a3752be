"""Rules about the text of the package: each file is parsed once, a test lists all offences."""

import ast
import functools
from pathlib import Path

#: The root of the repository.
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tapegrad"
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def nodes_of(path):
    """All nodes of the syntax tree of a file, those of a node after itself."""
    return [*ast.walk(ast.parse(text_of(path)))]


def every(items):
    """Make a test of a rule, a generator of the offences of an item: none has any."""

    def made(rule):
        def test():
            found = [offence for item in items for offence in rule(item)]
            assert not found, "\n".join(["", *found])

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return made


every_file = every(FILES)
