"""The build step: machine code for the wheel, made by the package itself (`tapegrad._build`).

`TAPEGRAD_BUILD` names the levels of processors, or says "none"; by default it is the level of this
machine, and what cannot be made is left to be compiled where it is first used. `TAPEGRAD_TEXTS`
names a file of what is compiled, in place of the little that the build step collects.
"""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py


class Build(build_py):
    """Copies the package, and makes machine code of the copy; not for an editable install."""

    def run(self):
        super().run()
        wanted = os.environ.get("TAPEGRAD_BUILD", "").split()
        if not self.editable_mode and wanted != ["none"]:
            self._compile(wanted)

    def _compile(self, wanted):
        made = Path(self.build_lib).resolve()
        out = made / "tapegrad" / "_prebuilt"
        shutil.rmtree(out, ignore_errors=True)
        words = ["--out", str(out), *wanted]
        if texts := os.environ.get("TAPEGRAD_TEXTS"):
            words += ["--texts", str(Path(texts).resolve())]
        path = os.pathsep.join(filter(None, [str(made), os.environ.get("PYTHONPATH")]))
        cache = str(made.parent / "compiled")
        done = subprocess.run(
            [sys.executable, "-m", "tapegrad._build", *words],
            cwd=made,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "PYTHONPYCACHEPREFIX": cache,  # else bytecode would be in the wheel
                "TAPEGRAD_CACHE_DIR": cache,
            },
        )
        shutil.rmtree(cache, ignore_errors=True)
        if done.returncode and wanted:
            sys.exit(done.returncode)

    def get_outputs(self, include_bytecode=True):
        made = Path(self.build_lib, "tapegrad", "_prebuilt")
        return [*super().get_outputs(include_bytecode), *map(str, made.glob("*.so"))]


class Wheel(bdist_wheel):
    """A wheel with machine code is for one platform, and for every version of Python."""

    def run(self):
        self.run_command("build")
        build = self.get_finalized_command("build")
        if [*Path(build.build_lib, "tapegrad", "_prebuilt").glob("*.so")]:
            self.root_is_pure = False
            self.distribution.has_ext_modules = lambda: True
        super().run()

    def get_tag(self):
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ("py3", "none", platform)


def readme():
    """The README for the package's page, where relative links would lead nowhere."""
    root = Path(__file__).resolve().parent
    links = runpy.run_path(str(root / "docs" / "links.py"))
    return links["absolute"]((root / "README.md").read_text(encoding="utf-8"), root, {})


setup(
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
