"""Links of pages: those to other pages stay, those to other files lead to the repository.

`conf.py` reads pages by `absolute`, and `setup.py` the README for the package's page. The address
is the field `Repository` of pyproject.toml.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: A link or a picture of Markdown: what comes before the target, the target, its anchor.
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)(#[^)\s]*)?\)")


def repository(root: Path = ROOT) -> str:
    """The address of the repository, without a slash at its end."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return re.search(r'^Repository = "(.*?)/?"', text, re.MULTILINE)[1]


def absolute(text: str, folder: Path, pages: Mapping[Path, str], root: Path = ROOT) -> str:
    """The text of a page in a folder, its links to files led to the repository.

    `pages` has the targets of links to files that are pages themselves.
    """

    def changed(found: re.Match[str]) -> str:
        before, target, anchor = found[1], found[2], found[3] or ""
        file = Path(os.path.normpath(folder / target))
        if "://" in target or not file.is_relative_to(root) or not file.exists():
            return found[0]
        if file in pages:
            return f"{before}{pages[file]}{anchor})"
        kind = "raw" if before.startswith("!") else "tree" if file.is_dir() else "blob"
        place = file.relative_to(root).as_posix()
        return f"{before}{repository(root)}/{kind}/main/{place}{anchor})"

    return LINK.sub(changed, text)
