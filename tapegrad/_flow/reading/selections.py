"""One of two forms, by a truth."""

from __future__ import annotations

from ..ir.flow_graph import Edge, Value
from .forms import Form, bound, kinds_of, unbound
from .joins import joined
from .matching import matched


def selected(reader, condition: Value, a: Form, b: Form) -> Form:
    """`a` where the condition holds, else `b`."""
    build = reader.builder
    form = unbound(joined(a, b, reader.unite))
    after = build.begin(*kinds_of(form))
    then, other = build.begin(), build.begin()
    build.branch(condition, Edge(then, []), Edge(other, []))
    for block, given in ((then, a), (other, b)):
        build.block = block
        build.jump(after, *matched(build, form, given))
    build.block = after
    return bound(form, iter(after.parameters))
