"""The documentation agrees with the code: generated pages, links, the list of files, the diff."""

import re
import runpy

import pytest
import scipy
from source_rules import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tapegrad" / "README.md"]


def test_the_page_of_operations_is_what_the_table_gives():
    made = runpy.run_path(str(ROOT / "docs" / "make_operations.py"))["text"]()
    committed = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert committed == made, "run `python docs/make_operations.py`"


def test_the_page_of_scipys_names_is_what_the_package_does():
    made = runpy.run_path(str(ROOT / "docs" / "make_scipy.py"))
    if not scipy.__version__.startswith(made["VERSION"]):
        pytest.skip("the page is that of another version of SciPy")
    committed = (ROOT / "docs" / "scipy_names.md").read_text(encoding="utf-8")
    assert committed == made["text"](), "run `python docs/make_scipy.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


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
