"""The site: each page has its place, each public name an entry, links lead somewhere, search finds.

What looks at the pages that Sphinx has made is skipped where there are none: build them by
`python -m sphinx -W -b html docs site`.
"""

import collections
import html.parser
import importlib
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import urllib.parse

import pytest
from questions import QUESTIONS
from source_rules import FILES, ROOT, text_of

import tapegrad as tg

DOCS, SITE = ROOT / "docs", ROOT / "site"
#: Folders of pages that are made when the site is built.
MADE = ("api", "internals")
#: Modules whose public names have entries of their own, and those whose names are listed.
DOCUMENTED = ["autograd", "autograd.functional", "autograd.profiler", "nn", "nn.functional"]
DOCUMENTED += ["nn.init", "optim", "math", "testing"]
LISTED = ["numpy", "numpy.fft", "numpy.linalg", "numpy.random", "scipy"]
api = runpy.run_path(str(DOCS / "make_api.py"))
links = runpy.run_path(str(DOCS / "links.py"))
built = pytest.mark.skipif(not (SITE / "searchindex.js").exists(), reason="no site is built")


# --- pages and names ------------------------------------------------------------------------------


def test_each_page_is_in_one_group():
    listed = re.findall(r"^- \[.*?\]\(([^)]+\.md)\)", text_of(DOCS / "index.md"), re.MULTILINE)
    own = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    own = {name for name in own if not name.startswith(MADE)} - {"index.md"}
    outside = {"../tapegrad/README.md", "../CONTRIBUTING.md", "../CHANGELOG.md"}
    assert sorted(listed) == sorted(own | outside)


def test_each_public_name_has_one_entry():
    text = "\n".join(api["pages"]().values())
    found = collections.Counter(re.findall(r"^\.\. auto\w+:: tapegrad\.(\S+)$", text, re.MULTILINE))
    names = [name for name in tg.__all__ if not inspect.ismodule(getattr(tg, name))]
    for module in DOCUMENTED:
        public = importlib.import_module(f"tapegrad.{module}")
        for name in getattr(public, "__all__", ()):
            if not inspect.ismodule(getattr(public, name)):
                names.append(f"{module}.{name}")
    assert len(names) > 450
    assert [name for name in names if found[name] != 1] == []


def test_names_of_stand_ins_are_listed():
    text = "\n".join(api["pages"]().values())
    for module in LISTED:
        section = text.partition(f"## Names of tapegrad.{module}\n")[2].partition("\n#")[0]
        names = importlib.import_module(f"tapegrad.{module}").__all__
        assert sorted(re.findall(r"`(\w+)`", section)) == sorted(names)


def test_words_of_errors_are_those_of_messages():
    """The headings of the page of errors, but those of other libraries, are parts of messages."""
    joined = re.compile(r'"\s*\n\s*f?"')
    package = "\n".join(joined.sub("", text_of(path)) for path in FILES)
    ours = text_of(DOCS / "errors.md").partition("\n## Messages of other libraries")[0]
    headings = re.findall(r"^### (.*)", ours, re.MULTILINE)
    assert len(headings) > 35
    parts = [part.strip(" ,") for text in headings for part in re.split(r"…|\(|\)|; ", text)]
    assert [part for part in parts if part not in package] == []


def test_code_without_prompts_is_in_files_that_run(tmp_path):
    """What is no example for doctest has the name of its file in a comment, or is for MPI."""
    own = [path for path in DOCS.rglob("*.md") if path.parent.name not in MADE]
    blocks = [
        block
        for path in own
        for block in re.findall(r"^```python\n(.*?)^```", text_of(path), re.DOTALL | re.MULTILINE)
        if ">>> " not in block and "mpi4py" not in block
    ]
    files = {re.match(r"# (\w+\.py)\n", block)[1]: block for block in blocks}
    assert {*files} == {"fits.py", "run.py"}
    for name, block in files.items():
        (tmp_path / name).write_text(block, encoding="utf-8")
    known = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "run.py"],
        **{"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": known}},
        **{"capture_output": True, "text": True},
    )
    assert (done.stdout, done.stderr) == ("20\n", "")


# --- links ----------------------------------------------------------------------------------------


def test_links_to_files_lead_to_the_repository():
    made = links["absolute"]
    address = links["repository"]()
    pages = {DOCS / "limits.md": "limits.md"}
    assert made("[a](limits.md#memory)", DOCS, pages) == "[a](limits.md#memory)"
    assert made("[a](docs/limits.md)", ROOT, pages) == "[a](limits.md)"
    assert made("[a](../setup.py)", DOCS, pages) == f"[a]({address}/blob/main/setup.py)"
    assert made("[a](examples)", ROOT, {}) == f"[a]({address}/tree/main/examples)"
    picture = "docs/pictures/tape.svg"
    assert made(f"![a]({picture})", ROOT, {}) == f"![a]({address}/raw/main/{picture})"
    for text in ("[a](https://a.org/b.md)", "[a](#here)", "[a](missing.md)", "x[1](2)"):
        assert made(text, DOCS, pages) == text


class Page(html.parser.HTMLParser):
    """The anchors of a page, and where its links lead."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.targets = {""}, set()
        self.feed(text_of(path))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given.get("id", "")}
        if tag in ("a", "link", "img", "script"):
            self.targets |= {given.get("href"), given.get("src")} - {None}


@built
def test_links_of_the_site_lead_somewhere():
    paths = sorted(SITE.rglob("*.html"))
    pages = {path: Page(path) for path in paths}
    assert len(pages) > 40
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            file = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            anchor = urllib.parse.unquote(url.fragment)
            known = pages[file].anchors if file in pages else {"", anchor}
            if not file.exists() or anchor not in known:
                broken.append(f"{path.relative_to(SITE)}: {target}")
    assert broken == []


# --- search ---------------------------------------------------------------------------------------


@built
def test_newcomers_find_the_page_that_answers():
    """In the first three hits of the site's own search."""
    search = pytest.importorskip("site_search").SiteSearch(SITE)
    found = {(question, words): search.hits(words)[:3] for question, words, _ in QUESTIONS}
    assert len(found) > 30
    wanted = {(question, words): pages.split() for question, words, pages in QUESTIONS}
    assert {asked: hits for asked, hits in found.items() if not {*hits} & {*wanted[asked]}} == {}


@built
@pytest.mark.skipif(shutil.which("node") is None, reason="no program runs the site's scripts")
def test_hits_are_those_of_the_scripts_of_the_site():
    search = pytest.importorskip("site_search").SiteSearch(SITE)
    queries = [words for _, words, _ in QUESTIONS] + [
        "grad",
        "tensor",
        "jacobian hessian",
        "np.sum",
    ]
    script = ROOT / "tests" / "support" / "site_search.js"
    done = subprocess.run(
        ["node", script, SITE, *queries], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [search.hits(query) for query in queries]
