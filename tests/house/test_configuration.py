"""`show_config`, the environment variables, and the version that the package has."""

import ast
import importlib.metadata
import os
import platform
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy
from source_rules import FILES, ROOT, nodes_of

import tapegrad as tg
from tapegrad._core.codegen import machine_code, machine_files
from tapegrad._core.config import OF_OTHERS, VARIABLES, given

PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


# --- what show_config says ------------------------------------------------------------------------


def test_versions_are_those_of_the_packages():
    found = tg.show_config(mode="dicts")["versions"]
    assert found["tapegrad"] == tg.__version__
    assert found["numpy"] == np.__version__ and found["scipy"] == scipy.__version__
    assert found["numba"] == importlib.metadata.version("numba")
    assert found["python"].split()[0] == sys.version.split()[0]


def test_a_package_that_is_not_there_is_no_error(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert tg.show_config(mode="dicts")["versions"]["numba"] == "not installed"


def test_the_level_of_the_processor_is_the_widest_that_runs_here():
    names = [one.name for one in machine_code.of_this_processor()] or [platform.machine()]
    assert tg.show_config(mode="dicts")["processor"]["level"] == names[0]


def test_the_cache_is_counted(monkeypatch, tmp_path):
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    empty = {"folder": str(tmp_path), "files": 0, "bytes": 0}
    assert tg.show_config(mode="dicts")["cache"] == empty
    folder = tmp_path / "0123456789abcdef"
    folder.mkdir()
    (folder / f"k_{'5' * 24}.o").write_bytes(b"12345")
    (folder / f"texts_{'a' * 24}.json").write_bytes(b"123")
    (folder / "other").write_bytes(b"1234567")
    assert tg.show_config(mode="dicts")["cache"] == empty | {"files": 2, "bytes": 8}


def test_all_that_a_gradient_left_in_the_cache_is_counted():
    tg.grad(lambda x: np.sum(x * x))(np.ones(3))
    folder = machine_files.cache_folder()
    files = [one for one in folder.iterdir() if one.is_file() and one.suffix != ".tmp"]
    counted = {path for path, _ in machine_files.files_of_all()}
    assert files and {str(one) for one in files} <= counted


def test_settings_and_variables_are_those_of_now(monkeypatch):
    monkeypatch.setenv("TAPEGRAD_WITHOUT", "libmvec")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tg.config, "enter", False)
    found = tg.show_config(mode="dicts")
    assert found["environment"]["TAPEGRAD_WITHOUT"] == "libmvec"
    assert found["environment"]["OMP_NUM_THREADS"] == "3"
    assert "XDG_CACHE_HOME" not in found["environment"]
    assert found["settings"] == {"enter": False, "progress": None}
    assert found["threads"] == {"of map and sum": os.cpu_count()}


def test_it_is_printed_by_default(capsys):
    assert tg.show_config() is None
    printed = capsys.readouterr().out
    found = tg.show_config(mode="dicts")
    assert re.findall(r"^(\w+):", printed, re.MULTILINE) == [*found]
    assert f"  numpy: {np.__version__}\n" in printed
    assert f"  folder: {found['cache']['folder']}\n" in printed


def test_a_home_that_is_nowhere_is_no_error(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("TAPEGRAD_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine_files.Path, "home", homeless)
    assert "Could not determine home" in tg.show_config(mode="dicts")["cache"]["folder"]


def test_another_mode_is_an_error():
    with pytest.raises(ValueError, match="mode is 'stdout' or 'dicts', not 'yaml'"):
        tg.show_config(mode="yaml")


def test_nothing_is_imported_for_it():
    """What is imported late stays so: SciPy, and what of Numba is not there yet."""
    script = (
        "import sys, tapegrad as tg; tg.show_config; before = {*sys.modules}\n"
        "tg.show_config(mode='dicts')\n"
        "late = ('numba', 'llvmlite', 'scipy')\n"
        "print([name for name in {*sys.modules} - before if name.split('.')[0] in late])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=HERE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


HERE = {**os.environ, "PYTHONPATH": str(ROOT)}


# --- variables ------------------------------------------------------------------------------------


def test_the_page_lists_every_variable_with_its_default():
    for table in (VARIABLES, OF_OTHERS):
        rows = [f"| `{name}` | {without} | {what} |" for name, (without, what) in table.items()]
        assert "\n".join(["| --- | --- | --- |", *rows, ""]) in PAGE
    own = {name for name in re.findall(r"TAPEGRAD_\w+", PAGE)}
    assert own == {name for name in VARIABLES if name.startswith("TAPEGRAD_")}


def test_variables_are_read_in_one_place():
    """`environment.given` knows those of the page only; `_build` hands all to its processes."""
    reading, asked = [], set()
    for path in FILES:
        for node in nodes_of(path):
            name = getattr(node, "attr", getattr(node, "id", None))
            if name in ("environ", "environb", "getenv", "getenvb"):
                reading.append(path.name)
            if isinstance(node, ast.Call) and name is None:
                called = getattr(node.func, "attr", getattr(node.func, "id", None))
                if called == "given" and node.args and isinstance(node.args[0], ast.Constant):
                    asked.add(node.args[0].value)
    assert {*reading} == {"config.py", "_build.py"}, "read variables by config.given"
    assert {"TAPEGRAD_CACHE_DIR", "NUMBA_CACHE_DIR"} <= asked <= VARIABLES.keys()
    with pytest.raises(KeyError, match="is not in the table"):
        given("TAPEGRAD_OTHER")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"TAPEGRAD_CACHE_DIR": "/a/b", "NUMBA_CACHE_DIR": "/c"}, "/a/b"),
        ({"TAPEGRAD_CACHE_DIR": "~/b"}, "/home/of/mine/b"),
        ({"TAPEGRAD_CACHE_DIR": "", "NUMBA_CACHE_DIR": "/c"}, "/c/tapegrad"),
        ({"NUMBA_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/d"}, "/c/tapegrad"),
        ({"XDG_CACHE_HOME": "/d"}, "/d/tapegrad"),
        ({}, "/home/of/mine/.cache/tapegrad"),
        ({"TAPEGRAD_CACHE_DIR": "here"}, str(Path.cwd() / "here")),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the user's cache folder is another")
def test_where_the_cache_is(monkeypatch, variables, folder):
    monkeypatch.setenv("HOME", "/home/of/mine")
    for name in ("TAPEGRAD_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(machine_files.every_folder()) == folder
    assert tg.show_config(mode="dicts")["cache"]["folder"] == folder


# --- the version ----------------------------------------------------------------------------------


def test_the_version_is_said_once():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version", "readme"]' in text and 'attr = "tapegrad.__version__"' in text
    assert not re.search(r'^version = "', text, re.MULTILINE)
    assert re.fullmatch(r"\d+\.\d+\.\d+", tg.__version__)


def test_the_classifiers_are_the_versions_that_are_admitted():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    minors = [int(one) for one in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)]
    assert f'requires-python = ">=3.{minors[0]}"' in text
    assert minors == [*range(minors[0], minors[-1] + 1)]
    assert f'target-version = "py3{minors[0]}"' in text


# --- packages -------------------------------------------------------------------------------------


def test_the_address_of_the_repository_is_one():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.urls]\n")[2].partition("\n[")[0]
    fields = dict(re.findall(r'^(\w+) = "(https://[^"]+)"$', section, re.MULTILINE))
    assert [*fields] == ["Repository", "Documentation", "Changelog", "Issues"]
    assert all(address.startswith(fields["Repository"]) for address in fields.values())


def test_links_of_the_packages_page_are_absolute():
    made = runpy.run_path(str(ROOT / "docs" / "links.py"))["absolute"]
    page = made((ROOT / "README.md").read_text(encoding="utf-8"), ROOT, {})
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert len(targets) > 10 and all(target.startswith("https://") for target in targets)


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needs = re.findall(r'"([^"]+)"', re.search(r"^dependencies = (.*)$", text, re.MULTILINE)[1])
    python = re.search(r'^requires-python = "(.*)"$', text, re.MULTILINE)[1]
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    asked = [re.sub(r"^    - ", "", line).replace(" ", "") for line in run.splitlines()]
    assert asked == [f"python{python}", *needs]
    for name, pattern in re.findall(r'load_file="../(.*?)", regex_pattern=\'(.*?)\'', recipe):
        assert re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))[1]
