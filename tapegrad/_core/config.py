"""Settings of this process."""

from __future__ import annotations


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
    """

    __slots__ = ("_enter",)

    def __init__(self):
        self._enter = True

    @property
    def enter(self) -> bool:
        return self._enter

    @enter.setter
    def enter(self, given: bool) -> None:
        if type(given) is not bool:
            raise TypeError(f"tapegrad.config.enter is True or False, not {given!r:.60}")
        self._enter = given

    def __repr__(self) -> str:
        return f"<tapegrad.config: enter={self.enter}>"


config = Config()
