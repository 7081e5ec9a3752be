"""Values that a graph does not compute, since no result depends on them, as those of counters."""

from __future__ import annotations

import dataclasses

from .errors import ReadsChanges, Refused
from .forms import Form, Known, Number


@dataclasses.dataclass(frozen=True, eq=False)
class Unfollowed(Form):
    """A value that the graph does not compute: no result may depend on it. `words` describe it.

    One that is `plain` is a number, a string or None: nothing can be written to it. `changed` says
    that the function itself changes it: if a result depends on it, no program of it is right.
    """

    words: str
    plain: bool = False
    changed: bool = False

    @property
    def head(self) -> tuple:
        return Unfollowed, self.plain, self.changed

    def united(self, other: Form) -> Form:
        """The form of a value that is this or another one."""
        plain = self.plain and is_plain(other)
        changed = self.changed or (isinstance(other, Unfollowed) and other.changed)
        if (plain, changed) == (self.plain, self.changed):
            return self
        return dataclasses.replace(self, plain=plain, changed=changed)


def is_plain(form: Form) -> bool:
    """Whether a value is a number, a string or None: nothing can be written to it."""
    if isinstance(form, Known):
        return form.value is None or isinstance(form.value, (bool, int, float, str))
    return isinstance(form, Number) or (isinstance(form, Unfollowed) and form.plain)


def dependence(what: str, form: Unfollowed) -> Refused:
    """The error where something depends on a value that the graph does not compute."""
    return (ReadsChanges if form.changed else Refused)(f"{what} depends on {form.words}")
