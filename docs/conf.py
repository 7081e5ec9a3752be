"""The site: `python -m sphinx -W -b html docs site`, with the extra `docs`; no network is needed.

`index.md` says which pages there are and in which groups. Pages that lie elsewhere, and those of
the public names, are written to the folders `internals` and `api` when the site is built.
"""

import re
import runpy
from pathlib import Path

import tapegrad

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
LINKS = runpy.run_path(str(DOCS / "links.py"))
API = runpy.run_path(str(DOCS / "make_api.py"))["pages"]()

project = "tapegrad"
author = copyright = "the tapegrad authors"
version = release = tapegrad.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["*.py"]
html_theme = "furo"
html_title = f"tapegrad {release}"
html_static_path, html_css_files = ["static"], ["site.css"]
html_search_scorer = str(DOCS / "static" / "scorer.js")
html_show_sourcelink = html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]
smartquotes_action = "D"  # dashes alone: words of messages are searched for as they are
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
napoleon_google_docstring = False
napoleon_use_rtype = napoleon_use_param = False  # types are words, and no names to link
napoleon_use_ivar = True
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries = False

#: Pages that lie outside of this folder, by their names here.
OUTSIDE = {
    "internals/core": ROOT / "tapegrad" / "README.md",
    "internals/contributing": ROOT / "CONTRIBUTING.md",
    "internals/changes": ROOT / "CHANGELOG.md",
}
#: Pages for those who change the code, which a search would show before what users look for.
UNSEARCHED = ("modules", "internals/changes")
#: A page of the list of pages: what the side bar calls it, and where it lies.
PAGE = re.compile(r"^- \[(.*?)\]\(([^)]+)\.md\)", re.MULTILINE)
#: A link that has the name of a file as its text: here it gets the title of the page.
NAMED = re.compile(r"\[[\w/.]+\.md\]\((?=[^)]+\.md[#)])")
#: The empty line that ends an example for doctest.
LAST = re.compile(r"\n\n```(?=\n)")


def sources():
    """The files of all pages, and their names here."""
    own = {path: str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    return own | {path: name for name, path in OUTSIDE.items()}


def targets(name):
    """What links from a page to other pages, and to pictures, look like."""
    up = "../" * name.count("/")
    pictures = {path: path.relative_to(DOCS) for path in (DOCS / "pictures").rglob("*.*")}
    pages = {path: f"{other}.md" for path, other in sources().items()}
    return {path: f"{up}{other}" for path, other in {**pages, **pictures}.items()}


def of_site(name, path, text):
    """The text of a page here, from a file elsewhere or here."""
    text = LINKS["absolute"](LAST.sub("\n```", text), path.parent, targets(name))
    return NAMED.sub("[](", text)


def write(name, text):
    """A page that is made; one that is as before keeps its time, so it is not read again."""
    path = DOCS / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_pages(app):
    for name, path in OUTSIDE.items():
        write(name, of_site(name, path, path.read_text(encoding="utf-8")))
    for name, text in API.items():
        write(f"api/{name}", text)


def read_page(app, name, text):
    if name in UNSEARCHED:
        text[0] = f"---\nnosearch: true\n---\n{text[0]}"
    if name not in OUTSIDE and not name.startswith("api/"):
        text[0] = of_site(name, DOCS / f"{name}.md", text[0])
    if name == "index":
        text[0] = text[0].replace("\n## Internals\n", f"{api_list()}\n## Internals\n")
        text[0] += side_bar(text[0])


def api_list():
    """The pages of the public names, in the list of pages."""
    titles = {name: text.partition("\n")[0] for name, text in API.items()}
    titles = {
        name: title.removeprefix("# ").removeprefix("API: ") for name, title in titles.items()
    }
    return "".join(
        f"- [{title if '.' in title else title[0].upper() + title[1:]}](api/{name}.md)\n"
        for name, title in titles.items()
    )


def side_bar(text):
    """The groups of the side bar: the sections of the list of pages."""
    made = []
    for section in text.split("\n## ")[1:]:
        caption, pages = section.partition("\n")[0], PAGE.findall(section)
        head = f"\n\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n\n"
        made += [head, *(f"{title} <{page}>\n" for title, page in pages), "```\n"]
    return "".join(made)


def read_docstring(app, kind, name, value, options, lines):
    """Docstrings are plain text with code in backticks: the rest has no markup."""
    text, _, methods = "\n".join(lines).partition("\n\nMethods\n-------\n")
    _, _, rest = methods.partition("\n\n")  # methods have docstrings of their own
    text = f"{text}\n\n{rest}" if rest else text
    parts = re.split(r"(`[^`\n]+`|^ *(?:>>>|\.\.\.) .*$)", text, flags=re.MULTILINE)
    parts[::2] = [re.sub(r"\*(?=\w)|\|", r"\\\g<0>", part) for part in parts[::2]]
    lines[:] = "".join(parts).splitlines()


def setup(app):
    app.connect("autodoc-process-docstring", read_docstring, priority=400)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", read_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
