"""Generate docs/modules.md: every module of the package, and what it holds."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, PAGE = ROOT / "tapegrad", ROOT / "docs" / "modules.md"
HEAD = """# Modules

`python docs/make_modules.py` generates this page from the first lines of the modules. Folders
without an underscore are public. [tapegrad/README.md](../tapegrad/README.md) describes how the
modules work together.
"""


def summary(path: Path) -> str:
    """The first sentence or line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def text() -> str:
    """The page."""
    parts = [HEAD]
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    for folder in folders:
        init, *others = sorted(folder.glob("*.py"), key=lambda p: (p.stem != "__init__", p.stem))
        parts.append(f"\n## {folder.relative_to(ROOT).as_posix()}\n\n{summary(init)}\n")
        if others:
            parts.append("\n| module | what it holds |\n| --- | --- |\n")
        for path in others:
            link = f"[{path.stem}](../{path.relative_to(ROOT).as_posix()})"
            parts.append(f"| {link} | {summary(path).replace('|', chr(92) + '|')} |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
