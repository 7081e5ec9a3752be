"""Objects with parameters, such as a distribution of SciPy's that is frozen."""

from __future__ import annotations

import dataclasses

from .forms import Form, Known


@dataclasses.dataclass(frozen=True, eq=False)
class Parametrised(Form):
    """An object with the methods of another one, called with these arguments after their own."""

    owner: Known
    args: tuple[Form, ...]
    names: tuple[str, ...]
    named: tuple[Form, ...]

    @property
    def head(self) -> tuple:
        return Parametrised, id(self.owner.value), len(self.args), self.names

    @property
    def parts(self) -> tuple[Form, ...]:
        return *self.args, *self.named

    def with_parts(self, parts):
        count = len(self.args)
        return Parametrised(self.owner, parts[:count], self.names, parts[count:])
