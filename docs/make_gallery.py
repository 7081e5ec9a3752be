"""Writes docs/gallery.md from the examples; with `--pictures` runs them, and keeps their pictures.

A picture is kept in 40 kB or less: 800 pixels wide, with few colours.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "pictures" / "gallery"
WIDTH, COLOURS = 800, 48
HEAD = """# Gallery

`python docs/make_gallery.py` generates this page from the examples, which are scripts that run as
tests: `python examples/NAME.py`, with the extra `examples` for the pictures.
"""


def examples() -> list[Path]:
    """Those with a picture first, then the others, by name."""
    found = sorted((ROOT / "examples").glob("*.py"))
    return sorted(found, key=lambda path: not (PICTURES / f"{path.stem}.png").exists())


def entry(path: Path) -> str:
    """What an example says of itself, its picture, and where it is."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    title, _, rest = doc.partition("\n")
    about = rest.partition("Run it with")[0].strip("\n").rstrip()
    parts = [f"## {title.rstrip('.')}\n"]
    if (PICTURES / f"{path.stem}.png").exists():
        parts.append(f"![What {path.name} draws](pictures/gallery/{path.stem}.png)\n")
    parts += [f"{about}\n"] * bool(about)
    return "\n".join([*parts, f"The script: [{path.name}](../examples/{path.name})\n"])


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *map(entry, examples())])


def draw(path: Path) -> None:
    """Run an example in an empty folder, and keep the picture that it saves."""
    import PIL.Image  # of Matplotlib

    with tempfile.TemporaryDirectory() as folder:
        known = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        given = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(known)}
        subprocess.run([sys.executable, str(path)], cwd=folder, env=given, check=True)
        for made in Path(folder).glob("*.png"):
            with PIL.Image.open(made) as image:
                size = (WIDTH, round(image.height * WIDTH / image.width))
                small = image.convert("RGB").resize(size, PIL.Image.Resampling.LANCZOS)
            kept = small.quantize(COLOURS, dither=PIL.Image.Dither.NONE)
            kept.save(PICTURES / f"{path.stem}.png", optimize=True)


if __name__ == "__main__":
    if "--pictures" in sys.argv:
        PICTURES.mkdir(exist_ok=True)
        for one in sorted((ROOT / "examples").glob("*.py")):
            draw(one)
    PAGE.write_text(text(), encoding="utf-8")
