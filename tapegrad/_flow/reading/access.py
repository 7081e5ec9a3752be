"""Items and attributes of composite values, and iteration over them."""

from __future__ import annotations

import dataclasses
import inspect
import operator
import types

from ..._core.tensor.dependencies import is_open, method_dependencies
from ..ir.flow_graph import Value
from ..kinds.step_kinds import BOOL, INT, SELECT_OF
from . import arena_lists, arrays, dicts, outside_changes, views
from .forms import (
    SINGLE,
    Again,
    ArenaList,
    Array,
    Choice,
    Form,
    Known,
    Maybe,
    Method,
    Number,
    Possible,
    Raises,
    Range,
    Ref,
    Refused,
    Tuple,
    Unfollowed,
    dependence,
    described,
    given_as,
    is_natural,
    shape_of,
    value_kind,
)
from .joins import is_option, selected
from .numbers import (
    arithmetic,
    compared,
    converted,
    folded,
    is_mixed,
    is_number,
    is_strong,
    is_tensor,
    joined_value,
    kind_of,
    number,
    settled,
    widest,
)
from .views import is_slice, natural, position, sliced

# --- Items and attributes of composite values: tuples, lists, dicts, arrays, instances ------------


#: The results of a dict's methods: its present keys and items.
VIEWS = {"items()", "values()", "keys()"}
_FIXED = (bool, int, float, complex, str, bytes, range, slice, type(None), type(Ellipsis))


def is_fixed(value) -> bool:
    """Whether an object never changes, nor what operators make of it."""
    if type(value) is tuple:
        return all(map(is_fixed, value))
    return type(value) in _FIXED


def items_of(reader, form: Form) -> list[Form]:
    """The items of a tuple or list whose items are known one by one."""
    if (outside := outside_changes.unfollowed(reader, form)) is not None:
        raise dependence("its result", outside)
    if isinstance(form, Tuple):
        return list(form.items)
    if isinstance(form, Ref) and reader.contents(form).what in ("list", "set"):
        return list(reader.contents(form).items)
    if (contents := dicts.contents_of(reader, form)) is not None:
        return list(map(Known, dicts.keys_and_items(contents)[0]))
    if isinstance(form, Known) and isinstance(form.value, (tuple, str, range)):
        return [Known(one) for one in form.value]
    if isinstance(form, Method) and form.name in VIEWS:
        return _viewed(reader.contents(form.owner), form.name)
    raise Refused(f"{described(form)} where a sequence of known length is needed")


def _viewed(contents, name: str) -> list[Form]:
    names, items = dicts.keys_and_items(contents)
    keys: list[Form] = list(map(Known, names))
    if name == "items()":
        return [Tuple(pair) for pair in zip(keys, items, strict=True)]
    return keys if name == "keys()" else list(items)


def unpacked(reader, form: Form, count: int) -> list[Form]:
    """The expected number of items; another number raises."""
    if isinstance(form, (Array, ArenaList)):
        given = length(reader, form)
        same = compared(reader.builder, operator.eq, given, Known(count))
        if isinstance(same, Known) and not same.value:
            raise Raises("ValueError: unpacking")
        if isinstance(same, Number):
            reader.builder.check(same.value, "another number of values to unpack")
        return [element(reader, form, Known(k)) for k in range(count)]
    items = items_of(reader, form)
    if len(items) != count:
        raise Raises("ValueError: unpacking")
    return items


def length(reader, form: Form) -> Form:
    """The result of `len`."""
    if isinstance(form, Array):
        if not form.lengths:
            raise Raises("TypeError: len() of unsized object")
        return form.lengths[0]
    if isinstance(form, ArenaList):
        return arena_lists.length(reader, form)
    if isinstance(form, Range):
        return _range_length(reader, form)
    if isinstance(form, Known):
        if not is_fixed(form.value):
            raise Refused(f"the length of {described(form)}, which lies outside of the function")
        return folded(len, form.value)
    if isinstance(form, Method) and form.name in VIEWS:
        form = form.owner
    if (contents := dicts.contents_of(reader, form)) is not None:
        return dicts.length(reader, contents)
    return Known(len(items_of(reader, form)))


def _range_length(reader, form: Range) -> Form:
    if form.step not in (1, -1):
        raise Refused("the length of a range with a step")
    first, last = (form.start, form.stop) if form.step == 1 else (form.stop, form.start)
    difference = converted(
        reader.builder, arithmetic(reader.builder, operator.sub, last, first), INT
    )
    zero = reader.builder.constant(0)
    return Number(INT, reader.builder.step("int_max", difference, zero), natural=True)


def element(reader, form: Form, index: Form) -> Form:
    """An item by a position that is known to exist."""
    if isinstance(form, Array):
        return views.item(reader, form, index)
    if isinstance(form, ArenaList):
        return arena_lists.item(reader, form, index)
    raise Refused(f"an item of {described(form)}")


def get_item(s, owner: Form, index: Form) -> Form:
    """`owner[index]`."""
    reader, index = s.reader, settled(s.builder, index)
    if isinstance(owner, Maybe):
        raise Refused("an item of a value that may be None")
    if (outside := outside_changes.item_of(reader, owner, index)) is not None:
        return outside
    if isinstance(owner, Known) and isinstance(index, Known):
        if is_fixed(owner.value) and is_fixed(index.value):
            return folded(operator.getitem, owner.value, index.value)
        raise Refused(f"an item of {described(owner)}, which lies outside of the function")
    if isinstance(owner, Array):
        return arrays.indexed(reader, owner, index)
    if isinstance(owner, ArenaList):
        return _item_of_row(s, owner, index)
    if (contents := dicts.contents_of(reader, owner)) is not None:
        if kind_of(index) == INT and not isinstance(index, Known):
            return chosen(reader, [*contents.items], dicts.place_of(reader, contents, index))
        return dicts.item(reader, owner, index)
    if isinstance(owner, Ref) and reader.contents(owner).what == "set":
        raise Raises("TypeError: 'set' object is not subscriptable")
    items = items_of(reader, owner)
    if isinstance(index, Known):
        found = folded_item(items, index.value)
        if not isinstance(found, list):
            return found
        if isinstance(owner, Ref):
            return new_list(reader, s.site, tuple(found))
        return Tuple(tuple(found), s.site)
    if (row := reader.laid_out(owner)) is not None:
        return get_item(s, row, index)
    if items and all(map(is_option, items)) and len({*map(shape_of, items)}) == len(items):
        return Choice(position(reader, index, Known(len(items))), tuple(items))
    if isinstance(owner, Ref) and given_as(owner.site) != "from outside":
        raise Again({owner.site}, None)
    return chosen(reader, items, position(reader, index, Known(len(items))))


def _item_of_row(s, owner: ArenaList, index: Form) -> Form:
    reader, length = s.reader, arena_lists.length(s.reader, owner)
    if is_slice(index):
        return arena_lists.copied(reader, s.site, (owner, *sliced(reader, index, length)))
    if kind_of(index) != INT:
        raise Refused(f"a list indexed by {described(index)}")
    return arena_lists.item(reader, owner, position(reader, index, length))


def folded_item(items: list, index):
    try:
        return items[index]
    except (IndexError, TypeError) as error:
        raise Raises(f"{type(error).__name__}: {error}") from None


def chosen(reader, items: list[Form], place: Form) -> Form:
    """An item at a computed place that is there: one of a few."""
    if not 0 < len(items) <= 16:
        raise Refused(f"one of {len(items)} items, by a computed index")
    if all(map(is_number, items)):
        return _chosen_number(reader, items, place)
    made = items[-1]
    for k in range(len(items) - 2, -1, -1):
        made = selected(reader, _is_at(reader, place, k), items[k], made)
    return made


def _chosen_number(reader, items: list[Form], place: Form) -> Form:
    build, kind = reader.builder, widest(items)
    kinds = set(map(kind_of, items))
    if BOOL in kinds and len(kinds) > 1:
        raise Refused("a tuple of truths and other numbers, by a computed index")
    if kind == SINGLE and not all(kind_of(one) == SINGLE for one in items):
        raise Refused("a tuple of numbers of float32 and others, by a computed index")
    name = SELECT_OF[value_kind(kind)]
    made = joined_value(build, items[-1], kind)
    for k in range(len(items) - 2, -1, -1):
        here = _is_at(reader, place, k)
        made = build.step(name, here, joined_value(build, items[k], kind), made)
    mixed = len(kinds) > 1 or any(map(is_mixed, items))
    flags = all(map(is_tensor, items)), False, mixed, any(map(is_strong, items))
    return Number(kind, made, *flags)


def _is_at(reader, place: Form, k: int) -> Value:
    return converted(reader.builder, compared(reader.builder, operator.eq, place, Known(k)), BOOL)


def set_item(reader, owner: Form, index: Form, value: Form) -> None:
    """`owner[index] = value`."""
    index = settled(reader.builder, index)
    if outside_changes.is_outside(reader, owner):
        outside_changes.item_changed(reader, owner, index, value)
        return
    if isinstance(owner, Array):
        arrays.assigned(reader, owner, index, value)
        return
    if isinstance(owner, ArenaList):
        place = position(reader, index, arena_lists.length(reader, owner))
        arena_lists.assign(reader, owner, place, value)
        return
    if not isinstance(owner, Ref):
        raise Refused(f"it writes to {described(owner)}")
    contents = reader.contents(owner)
    if dicts.is_dict(reader, owner):
        dicts.assign(reader, owner, index, value)
        return
    if contents.what != "list":
        raise Refused(f"it writes to {described(owner)}")
    if not isinstance(index, Known) or not isinstance(index.value, int):
        raise Again({owner.site}, None)
    items = list(contents.items)
    try:
        items[index.value] = value
    except IndexError as error:
        raise Raises(str(error)) from None
    reader.update(owner, (), tuple(items))


def delete_item(reader, owner: Form, index: Form) -> None:
    """`del owner[index]` of a dict."""
    if outside_changes.is_outside(reader, owner):
        outside_changes.note_change(reader, owner)
        return
    if not dicts.is_dict(reader, owner):
        raise Refused(f"it deletes an item of {described(owner)}")
    dicts.taken(reader, owner, index)


def new_list(reader, site, items: tuple[Form, ...]) -> Form:
    """A list: in the heap, or in the arena if an earlier reading required that."""
    if site in reader.choices:
        return arena_lists.new(reader, site, items)
    return reader.make(site, "list", (), items)


def attribute(reader, owner: Form, name: str) -> Form:
    """`owner.name`."""
    if outside_changes.is_container(owner) or isinstance(owner, Unfollowed):
        return outside_changes.attribute(reader, owner, name)
    if isinstance(owner, Known):
        return reader.outside_attribute(owner.value, name)
    if isinstance(owner, Array):
        return views.attribute(reader, owner, name)
    if isinstance(owner, Ref) and reader.contents(owner).what == "instance":
        contents = reader.contents(owner)
        names = contents.keys[1]
        if name in names:
            return _present(reader, contents.items[names.index(name)], name)
        found = inspect.getattr_static(contents.keys[0], name, None)
        if isinstance(found, (types.FunctionType, staticmethod)):
            return Method(owner, name)
        if given_as(owner.site) is not None:  # another instance may have one of its own
            raise Refused(f"the attribute {name}, which no recorded call has read")
        if found is None and not hasattr(contents.keys[0], "__getattr__"):
            raise Raises(f"AttributeError: {name}")
        if found is None or hasattr(type(found), "__get__"):
            raise Refused(f"the attribute {name} of an instance")
        return reader.outside_attribute(contents.keys[0], name)
    if isinstance(owner, Choice):
        raise Refused(f"the attribute {name} of {described(owner)}")
    if isinstance(owner, Number) and name in ("real", "T"):
        return owner
    if isinstance(owner, Tuple) and name in owner.names:
        return owner.items[owner.names.index(name)]
    return Method(owner, name)


def getter(reader, owner: Form, name: str) -> Form | None:
    """The function of a property of an instance; None for other attributes."""
    return reader.getter(_class_of(reader, owner), name)


def special_method(reader, owner: Form, name: str) -> Form | None:
    """A method of a user's class that Python calls for operators; None for other objects.

    Python does not look for it in the instance. That there is none can change, too.
    """
    kind = _class_of(reader, owner)
    if is_open(kind):
        reader.dependencies += method_dependencies(kind, name)
    found = inspect.getattr_static(kind, name, None)
    if not isinstance(found, types.FunctionType):
        return None
    if isinstance(owner, Known):
        return Known(types.MethodType(found, owner.value))
    return Method(owner, name)


def _class_of(reader, owner: Form) -> type:
    """The class of an instance; NoneType where it does not matter."""
    if isinstance(owner, Known):
        return type(owner.value)
    is_made = isinstance(owner, Ref) and reader.contents(owner).what == "instance"
    return reader.contents(owner).keys[0] if is_made else type(None)


def _present(reader, form: Form, name: str) -> Form:
    """An attribute, checked to be there."""
    if isinstance(form, Possible):
        there = converted(reader.builder, form.there, BOOL)
        reader.builder.check(there, f"an attribute that is not set: {name}")
        return form.form
    return form


def set_attribute(reader, owner: Form, name: str, value: Form) -> None:
    """`owner.name = value`."""
    if isinstance(owner, Known):
        if name == "__class__":
            raise Refused("it gives an object another class")
        outside_changes.attribute_changed(reader, owner.value, name, value)
        return
    if not (isinstance(owner, Ref) and reader.contents(owner).what == "instance"):
        raise Refused(f"it sets the attribute {name} of an object that it has not created")
    if (why := given_as(owner.site)) is not None:
        raise Refused(f"it sets the attribute {name} of an object {why}")
    contents = reader.contents(owner)
    kind, names = contents.keys
    if hasattr(type(inspect.getattr_static(kind, name, None)), "__set__"):
        raise Refused(f"it sets the property {name}")
    made = dict(zip(names, contents.items, strict=True))
    made[name] = value
    reader.state.heap[owner.site] = dataclasses.replace(
        contents, keys=(kind, tuple(made)), items=tuple(made.values())
    )


# --- Iterators: whether there is a next item, and which -------------------------------------------


#: Lists of numbers from outside with more items are gone through in a loop.
FEW = 8
_ITERATORS = frozenset("range sequence elements backwards zip enumerate generator".split())


def backwards(reader, site, form: Form) -> Ref:
    """An iterator over a list from its end."""
    if (row := reader.laid_out(form, FEW)) is not None:
        form = row
    if isinstance(form, ArenaList):
        return reader.make(site, "backwards", (), (form, length(reader, form)))
    return reader.make(site, "sequence", (0, len(items_of(reader, form))), (form,))


def over(reader, site, form: Form) -> Ref:
    """An iterator over a sequence whose items are known one by one, or over one in the arena."""
    if (outside := outside_changes.unfollowed(reader, form)) is not None:
        raise dependence("its result", outside)
    if (row := reader.laid_out(form, FEW)) is not None:
        form = row
    if isinstance(form, Ref):
        contents = reader.contents(form)
        if contents.what in _ITERATORS:
            return form
        if contents.what not in ("list", "set") and not dicts.is_dict(reader, form):
            raise Refused(f"iteration over {described(form)}")
        return reader.make(site, "sequence", (0, None), (form,))
    if isinstance(form, Known) and isinstance(form.value, (tuple, str)):
        form = Tuple(tuple(map(Known, form.value)))
    if isinstance(form, Known) and isinstance(form.value, range):
        r = form.value
        form = Range(Known(r.start), Known(r.stop), r.step)
    if isinstance(form, Range):
        return reader.make(site, "range", (form.step,), (form.start, form.stop))
    if isinstance(form, Tuple) or (isinstance(form, Method) and form.name in VIEWS):
        return reader.make(site, "sequence", (0, None), (form,))
    if not isinstance(form, (Array, ArenaList)):
        raise Refused(f"iteration over {described(form)}")
    return reader.make(site, "elements", (), (form, Known(0)))


def has_next(reader, iterator: Ref) -> Form:
    """Whether there is a next item, a truth."""
    contents = reader.contents(iterator)
    build = reader.builder
    if contents.what == "range":
        op = operator.lt if contents.keys[0] > 0 else operator.gt
        return compared(build, op, *contents.items)
    if contents.what == "sequence":
        at, count = contents.keys
        there = len(items_of(reader, contents.items[0]))
        if count not in (None, there):
            raise Refused("a list that changes while it is gone through from its end")
        return Known(at < there)
    if contents.what == "elements":
        return compared(build, operator.lt, contents.items[1], length(reader, contents.items[0]))
    if contents.what == "backwards":
        return _has_next_backwards(reader, *contents.items)
    if contents.what == "enumerate":
        return has_next(reader, contents.items[0])
    if contents.what == "zip":
        found = [has_next(reader, one) for one in contents.items]
        (strict,) = contents.keys
        return _alike(reader, found) if strict else any_or_all(reader, found, False)
    raise Refused(f"iteration over {contents.what}")


def _has_next_backwards(reader, form: Form, count: Form) -> Form:
    """The same for a list from its end, of which `count` items are left."""
    build = reader.builder
    there = compared(build, operator.le, count, length(reader, form))
    build.check(converted(build, there, BOOL), "a list that shrinks while it is gone through")
    return compared(build, operator.gt, count, Known(0))


def _alike(reader, found: list[Form]) -> Form:
    """One of truths that are equal, or else the call leaves the graph: Python raises."""
    error = "ValueError: zip() with strict of arguments of other lengths"
    if len({one.value for one in found if isinstance(one, Known)}) > 1:
        raise Raises(error)
    first, *others = sorted(found, key=lambda one: not isinstance(one, Known))
    build = reader.builder
    for one in others:
        if not isinstance(one, Known):
            differ = build.step("bool_xor", *[converted(build, x, BOOL) for x in (first, one)])
            build.check(build.step("bool_not", differ), f"the function raises {error}")
    return first


def any_or_all(reader, found: list[Form], decides: bool) -> Form:
    """Whether any truth holds, or if False `decides`, whether all do."""
    if any(isinstance(one, Known) and bool(one.value) is decides for one in found):
        return Known(decides)
    left = [converted(reader.builder, one, BOOL) for one in found if not isinstance(one, Known)]
    if not left:
        return Known(not decides)
    value = left[0]
    for one in left[1:]:
        value = reader.builder.step("bool_or" if decides else "bool_and", value, one)
    return number(value)


def advanced(reader, iterator: Ref) -> Form:
    """The next item, which is known to exist; the iterator advances."""
    contents = reader.contents(iterator)
    if contents.what == "range":
        position, stop = contents.items
        after = arithmetic(reader.builder, operator.add, position, Known(contents.keys[0]))
        if is_natural(position) and contents.keys[0] > 0:
            after = natural(after)
        reader.update(iterator, contents.keys, (after, stop))
        return position
    if contents.what == "sequence":
        at, count = contents.keys
        reader.update(iterator, (at + 1, count), contents.items)
        items = items_of(reader, contents.items[0])
        return items[at if count is None else count - 1 - at]
    if contents.what == "elements":
        form, position = contents.items
        item = element(reader, form, position)
        after = natural(arithmetic(reader.builder, operator.add, position, Known(1)))
        reader.update(iterator, (), (form, after))
        return item
    if contents.what == "backwards":
        form, count = contents.items
        position = natural(arithmetic(reader.builder, operator.sub, count, Known(1)))
        reader.update(iterator, (), (form, position))
        return element(reader, form, position)
    if contents.what == "enumerate":
        inner, count = contents.items
        after = arithmetic(reader.builder, operator.add, count, Known(1))
        if is_natural(count):
            after = natural(after)
        item = advanced(reader, inner)
        reader.update(iterator, (), (inner, after))
        return Tuple((count, item))
    if contents.what == "zip":
        return Tuple(tuple([advanced(reader, one) for one in contents.items]))
    raise Refused(f"iteration over {contents.what}")
