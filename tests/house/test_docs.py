"""The documentation agrees with the code: generated pages, links, the list of files, the diff."""

import re
import runpy

import pytest
import scipy
from source_rules import FILES, ROOT, text_of

#: But those that are made when the site is built.
OWN = [p for p in (ROOT / "docs").rglob("*.md") if p.parent.name not in ("api", "internals")]
PAGES = [*ROOT.glob("*.md"), *OWN, ROOT / "tapegrad" / "README.md"]


def test_the_page_of_operations_is_what_the_table_gives():
    made = runpy.run_path(str(ROOT / "docs" / "make_operations.py"))["text"]()
    committed = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert committed == made, "run `python docs/make_operations.py`"


def test_the_gallery_is_what_the_examples_say():
    made = runpy.run_path(str(ROOT / "docs" / "make_gallery.py"))
    assert text_of(ROOT / "docs" / "gallery.md") == made["text"](), "run `docs/make_gallery.py`"
    sizes = [path.stat().st_size for path in made["PICTURES"].iterdir()]
    assert len(sizes) >= 10 and max(sizes) <= 40_000


def test_the_page_of_scipys_names_is_what_the_package_does():
    made = runpy.run_path(str(ROOT / "docs" / "make_scipy.py"))
    if not scipy.__version__.startswith(made["VERSION"]):
        pytest.skip("the page is that of another version of SciPy")
    committed = (ROOT / "docs" / "scipy_names.md").read_text(encoding="utf-8")
    assert committed == made["text"](), "run `python docs/make_scipy.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_tests_that_are_named_are_there():
    """In pages, in the package, in what makes pages, and in commands of continuous integration."""
    made = [
        path for folder in ("docs", "benchmarks", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    named = {
        (path, name)
        for path in [*PAGES, *FILES, *made, *(ROOT / ".ci").iterdir(), ROOT / "pyproject.toml"]
        for name in re.findall(r"\btests/[\w/]+\.(?:py|txt)\b", text_of(path))
    }
    assert len(named) > 50
    assert [(path, name) for path, name in sorted(named) if not (ROOT / name).exists()] == []


def test_folders_of_tests_are_those_that_contributing_lists():
    """Nothing but what pytest reads first lies beside them, and no two files have one name."""
    section = re.search(r"\n## Tests\n(.*?)\n## ", text_of(ROOT / "CONTRIBUTING.md"), re.DOTALL)[1]
    listed = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)))
    files = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")]
    assert {path.parts[0] for path in files} == {*listed, "conftest.py"}
    packages = {path.parent for path in files if path.name == "__init__.py"}
    names = [path.name for path in files if path.parent not in packages]
    assert sorted(names) == sorted({*names})


def test_the_page_of_modules_is_what_the_files_say():
    made = runpy.run_path(str(ROOT / "docs" / "make_modules.py"))["text"]()
    committed = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    assert committed == made, "run `python docs/make_modules.py`"


def test_the_diffs_in_contributing_are_in_the_source():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    diffs = re.findall(r"```diff\n--- a/(\S+)\n\+\+\+ b/(\S+)\n(.*?)\n```", text, re.DOTALL)
    assert len(diffs) == 2
    for before, after, diff in diffs:
        added = [line[1:] for line in diff.splitlines()]
        assert before == after and "\n".join(added) in (ROOT / after).read_text(encoding="utf-8")
