"""Settings of this process, and the environment variables that are read."""

from __future__ import annotations

import os

# --------------------------------------------------------------------------------------------------
# The environment variables that are read here, each with what it does; nothing else reads any.


#: Name → what it is without, what it says. docs/configuration.md has this table.
VARIABLES = {
    "TAPEGRAD_CACHE_DIR": (
        "`tapegrad` in `NUMBA_CACHE_DIR`, else in the user's cache folder",
        "the folder of compiled code",
    ),
    "TAPEGRAD_BUILD_LEVEL": (
        "this processor",
        "the level of processors that the build step compiles for",
    ),
    "TAPEGRAD_PROGRESS": (
        "in terminals",
        "1 or 0: whether progress is shown of what takes more than two seconds",
    ),
    "TAPEGRAD_WITHOUT": (
        "all that holds",
        "assumptions to do without, with commas between them "
        "([CONTRIBUTING.md](../CONTRIBUTING.md#versions))",
    ),
    "NUMBA_CACHE_DIR": (
        "the user's cache folder",
        "where Numba keeps its own code; compiled code of tapegrad is in `tapegrad` there",
    ),
    "NUMBA_CPU_NAME": ("the processor's", "LLVM's name of the processor that code is for"),
    "NUMBA_CPU_FEATURES": ("the processor's", "LLVM's names of the features that code uses"),
    "XDG_CACHE_HOME": ("`~/.cache`", "the user's cache folder, but on Windows and macOS"),
    "LOCALAPPDATA": (r"`~\AppData\Local`", "the user's cache folder on Windows"),
}
#: The same of those that the libraries read which compute here.
OF_OTHERS = {
    "OPENBLAS_NUM_THREADS": ("all cores", "threads of SciPy's and NumPy's linear algebra"),
    "OMP_NUM_THREADS": ("all cores", "the same, where the former is not set"),
    "MKL_NUM_THREADS": ("all cores", "the same of NumPy and SciPy built with MKL"),
    "NPY_DISABLE_CPU_FEATURES": ("none", "features of the processor that NumPy does not use"),
}


def given(name: str) -> str | None:
    """The value of a variable; None where it is not set."""
    if name not in VARIABLES:
        raise KeyError(f"{name} is not in the table of variables")
    return os.environ.get(name)


def all_given() -> dict[str, str]:
    """The values of those that are set, also of those that other libraries read."""
    return {name: os.environ[name] for name in (*VARIABLES, *OF_OTHERS) if name in os.environ}


# --- Settings of this process ---------------------------------------------------------------------


class Config:
    """Settings of this process, as attributes.

    Attributes
    ----------
    enter : bool
        Whether transforms enter functions, by default true: inside `tg.grad` and its like, and
        `tg.compile`, calls of NumPy, SciPy and `math` in the user's functions are those of
        `tapegrad.numpy`, `tapegrad.scipy` and `tapegrad.math`. Functions of installed packages
        that are called by their names are entered too, as far as they are Python; those that are
        faces of compiled code, or have state of their own, are left out. The option `enter` of a
        transform names packages that it enters all the same; `enter=()` enters none.
    progress : bool or None
        Whether progress is shown on stderr of what takes more than two seconds: a bar of tqdm, if
        that is installed, or one line. By default None, in terminals; or as the environment
        variable TAPEGRAD_PROGRESS says, 1 or 0.
    """

    __slots__ = "_enter", "_progress"

    def __init__(self):
        self._enter = True
        self._progress = {"1": True, "0": False}.get(given("TAPEGRAD_PROGRESS") or "")

    @property
    def progress(self) -> bool | None:
        return self._progress

    @progress.setter
    def progress(self, given: bool | None) -> None:
        if given is not None and type(given) is not bool:
            raise TypeError(f"tapegrad.config.progress is True, False or None, not {given!r:.60}")
        self._progress = given

    @property
    def enter(self) -> bool:
        return self._enter

    @enter.setter
    def enter(self, given: bool) -> None:
        if type(given) is not bool:
            raise TypeError(f"tapegrad.config.enter is True or False, not {given!r:.60}")
        self._enter = given

    def __repr__(self) -> str:
        return f"<tapegrad.config: enter={self.enter}, progress={self.progress}>"


config = Config()
