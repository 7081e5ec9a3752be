"""operators of tensors, in the order of the table of Python functions for the other cases"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeGuard

from ..._core.ops.powers import OF_NUMBERS
from ..ir.flow_graph import Builder, Value
from ..kinds.step_kinds import BOOL, FLOAT, INT, rounded_to_single
from .forms import (
    FLOATS,
    SINGLE,
    Again,
    Form,
    Known,
    Maybe,
    Number,
    Raises,
    Refused,
    Unfollowed,
    dependence,
    described,
)

_TYPES: dict[str, Callable] = {FLOAT: float, INT: int, BOOL: bool, SINGLE: rounded_to_single}
_LARGEST = 2**62
_FLOATS = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.truediv: "divide",
    operator.floordiv: "floor_divide",
    operator.mod: "remainder",
    operator.pow: "power",
}
_INTS = {
    operator.add: "int_add",
    operator.sub: "int_subtract",
    operator.mul: "int_multiply",
    operator.floordiv: "int_floor_divide",
    operator.mod: "int_remainder",
    operator.and_: "int_and",
    operator.or_: "int_or",
    operator.xor: "int_xor",
}
_TRUTHS = {operator.and_: "bool_and", operator.or_: "bool_or", operator.xor: "bool_xor"}
#: Operations whose result is a number of float32 where their operands are.
_UNROUNDED = frozenset(
    "negative absolute maximum minimum fmax fmin floor ceil rint trunc copysign detached".split()
)
#: Operations whose result is an int where their operands are.
_OF_INTS = _UNROUNDED | frozenset(
    "add subtract multiply floor_divide remainder power square reciprocal sign fmod".split()
)
#: Those that are checked where numbers of both kinds have no ways of their own, as in lists.
_CHECKED = frozenset(["add", "subtract", "multiply", "negative", "absolute"])
#: Integers that floats hold exactly.
EXACT = 2**53
#: What marks that ints and floats go ways of their own.
OWN_KINDS = ("own kinds",)
#: Operations that change nothing.
_NEUTRAL = {operator.add: 0, operator.sub: 0, operator.mul: 1}
#: Comparisons: a step, whether the operands are exchanged, whether the result is turned.
_COMPARISONS: dict[Callable, tuple[str, bool, bool]] = {
    operator.eq: ("equal", False, False),
    operator.ne: ("equal", False, True),
    operator.lt: ("less", False, False),
    operator.le: ("less_equal", False, False),
    operator.gt: ("less", True, False),
    operator.ge: ("less_equal", True, False),
}
COMPARISONS = frozenset(_COMPARISONS)
ARITHMETIC = frozenset((*_FLOATS, *_INTS))

#: The result of an in-place operator for numbers.
IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
}


def kind_of(form: Form) -> str | None:
    """The kind of a number, None for other forms."""
    return form.kind if isinstance(form, (Number, Known)) else None


def is_number(form: Form) -> TypeGuard[Number | Known]:
    return kind_of(form) is not None


def is_tensor(form: Form) -> bool:
    return isinstance(form, Number) and (form.tensor or form.kind == SINGLE)


def is_float(form: Form) -> bool:
    """Whether a form is a number of one of the kinds that have derivatives."""
    return kind_of(form) in FLOATS


def is_strong(form: Form) -> bool:
    return isinstance(form, Number) and form.strong


def refuse_mixed(*forms: Form) -> None:
    """Read again, each kind on its own way, where Python's result may be an int or a float.

    An int is never -0.0, is exact beyond 2**53, and makes arrays of integers.
    """
    if _may_be_int(forms):
        raise Again({OWN_KINDS}, None, "a number that may be an int or a float is computed with")


def _may_be_int(forms: Sequence[Form]) -> bool:
    """Whether Python's result for numbers may be an int or a float."""
    found = [kind_of(form) in (INT, BOOL) or is_mixed(form) for form in forms]
    return all(found) and any(map(is_mixed, forms))


def _check_as_int(builder: Builder, op: str, value: Value) -> None:
    """Leave where an int is another number than this float, such as a large one or -0.0."""
    size = builder.step("absolute", value)
    why = "a number that may be an int or a float"
    builder.check(builder.step("float_less", size, builder.constant(float(EXACT))), why)
    if op in ("multiply", "negative"):
        builder.check(builder.step("float_less", builder.constant(0.0), size), why)


def is_mixed(form: Form) -> bool:
    return isinstance(form, Number) and form.mixed


def joined_value(builder: Builder, form: Form, kind: str) -> Value:
    """The value of a number where it may be one of another kind: an int is one that floats hold."""
    if kind not in FLOATS or kind_of(form) != INT:
        return converted(builder, form, kind)
    if isinstance(form, Known):
        if abs(form.value) > EXACT:
            raise Refused(f"the integer {form.value} is too large where others are floats")
        return converted(builder, form, kind)
    value = converted(builder, form, INT)
    for low, high in ((builder.constant(-EXACT), value), (value, builder.constant(EXACT))):
        holds = builder.step("int_less_equal", low, high)
        builder.check(holds, "an integer beyond 2**53 where others are floats")
    return converted(builder, form, kind)


def widest(forms: Sequence[Form]) -> str:
    """The kind of a number that is one of several, by NumPy's rules."""
    kinds = {kind_of(form) for form in forms}
    found = next(kind for kind in (SINGLE, FLOAT, INT, BOOL) if kind in kinds)
    refuse_float64(found, forms)
    return found


def refuse_float64(kind: str, forms: Sequence[Form]) -> None:
    """Refuse a result of float64 where arrays are of float32; integers of NumPy's make it one."""
    for form in forms:
        if is_strong(form) and (kind == FLOAT or (kind == SINGLE and kind_of(form) == INT)):
            raise Refused("a float and an integer or truth of NumPy's make float64 of float32")


def refuse_narrow(builder: Builder, *forms: Form) -> None:
    """Refuse integers of fewer than 64 bits, where NumPy's result is as narrow."""
    if not builder.single and any(map(is_strong, forms)):
        raise Refused("arithmetic of integers of fewer than 64 bits from outside; make them int64")


def converted(builder: Builder, form: Form, kind: str) -> Value:
    """The value of a number, converted to a kind that holds it."""
    if isinstance(form, Unfollowed):
        raise dependence("its result", form)
    if isinstance(form, Known):
        if form.kind is None:
            raise Refused(f"{described(form)} where a number is needed")
        if form.kind == INT and abs(form.value) >= _LARGEST:
            raise Refused(f"the integer {form.value} is too large")
        return builder.constant(_TYPES[kind](form.value))
    if not isinstance(form, Number) or form.value is None:
        raise Refused(f"{described(form)} where a number is needed")
    value, has = form.value, form.kind
    if has == BOOL and kind != BOOL:
        value, has = builder.step("bool_to_int", value), INT
    if has == INT and kind in FLOATS:
        value, has = builder.step("int_to_float", value), FLOAT
    if has == FLOAT and kind == SINGLE:
        value, has = builder.step("to_single", value), SINGLE
    if has != kind:
        raise Refused(f"{described(form)} where another kind of number is needed")
    return value


def float_value(builder: Builder, form: Form) -> Value:
    """The value of a number as a float, which those of float32 are."""
    return converted(builder, form, SINGLE if kind_of(form) == SINGLE else FLOAT)


def number(value: Value, tensor: bool = False) -> Number:
    return Number(value.kind, value, tensor)


def of_numpy(builder: Builder, kind: str, value: Value, natural: bool = False) -> Number:
    """A number that NumPy has made."""
    is_strong_ = builder.single and kind not in FLOATS
    return Number(kind, value, kind in FLOATS, natural, strong=is_strong_)


def rounded(builder: Builder, form: Number) -> Number:
    """A float as a number of float32."""
    return Number(SINGLE, converted(builder, form, SINGLE), True)


def settled(builder: Builder, form: Form) -> Form:
    """Something that may be None, where it must not be."""
    if isinstance(form, Maybe):
        builder.check(converted(builder, form.there, BOOL), "a value is None")
        return form.form
    return form


def folded(function: Callable, *operands) -> Known:
    """The result for objects that are known."""
    try:
        return Known(function(*operands))
    except Exception as error:
        raise Raises(f"{type(error).__name__}: {error}") from None


def applied(builder: Builder, op: str, *forms: Form) -> Number:
    """An element-wise operation of numbers, of float32 if one of them is."""
    kind = SINGLE if any([kind_of(form) == SINGLE for form in forms]) else FLOAT
    mixed = op in _OF_INTS and _may_be_int(forms)
    if mixed and not (builder.has_own_kinds and op in _CHECKED):
        refuse_mixed(*forms)
    if builder.single:
        refuse_float64(kind, forms)
    elif op != "divide" and not any([kind_of(form) == FLOAT for form in forms]):
        refuse_narrow(builder, *forms)  # NumPy gives float16 or float32
    if op == "power" and isinstance(forms[1], Known) and forms[1].value in OF_NUMBERS:
        op, forms = OF_NUMBERS[forms[1].value].name, forms[:1]
    made = builder.step(op, *[converted(builder, form, kind) for form in forms])
    if kind == SINGLE and op not in _UNROUNDED:
        made = builder.step("to_single", made)
    if mixed:
        _check_as_int(builder, op, made)
    return Number(kind, made, any(map(is_tensor, forms)), mixed=mixed)


def stopped(s, form: Form) -> Form:
    """A number without its derivative. Arrays are refused: theirs would share memory."""
    if kind_of(form) is None:
        raise Refused(f"detach() or stop_gradient of {described(form)}")
    is_varying = isinstance(form, Number) and is_float(form)
    return applied(s.builder, "detached", form) if is_varying else form


def arithmetic(builder: Builder, op: Callable, a: Form, b: Form) -> Form:
    """A Python arithmetic operator between two numbers."""
    kinds = kind_of(a), kind_of(b)
    if None in kinds:
        raise Refused(f"{op.__name__} of {described(a)} and {described(b)}")
    if isinstance(a, Known) and isinstance(b, Known):
        return folded(op, a.value, b.value)
    if is_float(a) or is_float(b) or (op is operator.truediv and kinds != (BOOL, BOOL)):
        return _of_floats(builder, op, a, b)
    if kinds == (BOOL, BOOL) and op in _TRUTHS:
        truths = [converted(builder, one, BOOL) for one in (a, b)]
        return Number(BOOL, builder.step(_TRUTHS[op], *truths), strong=_is_numpys(a, b))
    if kinds == (BOOL, BOOL):  # NumPy's truths are not integers
        raise Refused(f"{op.__name__} of two truths")
    if op is operator.pow:
        return _integer_power(builder, a, b)
    if op not in _INTS:
        raise Refused(f"{op.__name__} of integers")
    for x, y, neutral in ((a, b, _NEUTRAL.get(op)), (b, a, _NEUTRAL.get(op))):
        if neutral is not None and isinstance(y, Known) and y.value == neutral:
            if kind_of(x) == INT and (y is b or op is not operator.sub):
                return x
    is_zero = any(isinstance(one, Known) and one.value == 0 for one in (a, b))
    if op is operator.mul and is_zero and not _is_numpys(a, b):
        return Known(0)
    refuse_narrow(builder, a, b)
    values = [converted(builder, one, INT) for one in (a, b)]
    return Number(INT, builder.step(_INTS[op], *values), strong=_is_numpys(a, b))


def _is_numpys(a: Form, b: Form) -> bool:
    """Whether a result that is no float may be one of NumPy's, where arrays are of float32."""
    return is_strong(a) or is_strong(b)


def _of_floats(builder: Builder, op: Callable, a: Form, b: Form) -> Form:
    if op not in _FLOATS:
        raise Refused(f"{op.__name__} of floats")
    tensor = is_tensor(a) or is_tensor(b)
    if op is operator.pow:
        return _power(builder, a, b, tensor)
    if op in (operator.truediv, operator.floordiv, operator.mod) and not tensor:
        if isinstance(b, Known):
            if b.value == 0:
                raise Raises("ZeroDivisionError")
        else:
            divisor = converted(builder, b, FLOAT)
            is_zero = builder.step("float_equal", divisor, builder.constant(0.0))
            builder.check(builder.step("bool_not", is_zero), "a division by 0")
    return applied(builder, _FLOATS[op], a, b)


def _power(builder: Builder, a: Form, b: Form, tensor: bool) -> Form:
    """x ** y. For Python floats, which may raise or be complex, the result must be finite."""
    refuse_mixed(a, b)
    if isinstance(b, Known) and b.value == 1:
        return applied(builder, "add", a, Known(0.0)) if kind_of(a) != FLOAT else a
    made = applied(builder, "power", a, b)
    if not tensor:
        finite = builder.step("is_finite", made.value)  # type: ignore[arg-type]
        builder.check(finite, "a power that Python may refuse")
    return made


def _integer_power(builder: Builder, a: Form, b: Form) -> Form:
    if not isinstance(b, Known) or not 0 <= b.value <= 64:
        raise Refused("a power of integers whose exponent is not known")
    if is_strong(a) and not b.value:
        raise Refused("a power of one of NumPy's integers")
    result: Form = Known(1)
    for _ in range(b.value):
        result = a if isinstance(result, Known) else arithmetic(builder, operator.mul, result, a)
    return result


def compared(builder: Builder, op: Callable, a: Form, b: Form) -> Number | Known:
    """A comparison of two numbers."""
    if isinstance(a, Known) and isinstance(b, Known):
        return folded(op, a.value, b.value)
    kind = _kind_compared(a, b)
    step, exchanged, turned = _COMPARISONS[op]
    x, y = [
        float_value(builder, one) if kind == FLOAT else converted(builder, one, kind)
        for one in (a, b)
    ]
    if exchanged:
        x, y = y, x
    prefix = "float_" if kind in FLOATS else "int_"
    made = builder.step(prefix + step, x, y)
    made = builder.step("bool_not", made) if turned else made
    strong = builder.single and (kind == SINGLE or _is_numpys(a, b))
    return Number(BOOL, made, strong=strong)


def _kind_compared(a: Form, b: Form) -> str:
    """The kind that two numbers are compared as; float32 and NumPy's integers are as float64."""
    if SINGLE in (kind_of(a), kind_of(b)):
        return FLOAT if _is_numpys(a, b) else SINGLE
    return FLOAT if FLOAT in (kind_of(a), kind_of(b)) else INT


def truth(builder: Builder, form: Form) -> Number | Known:
    """The truth of a number, as in `if`."""
    if isinstance(form, Known):
        return folded(bool, form.value)
    kind = kind_of(form)
    if isinstance(form, Number) and kind == BOOL:
        return form
    zero = Known(0.0 if kind in FLOATS else 0)
    return compared(builder, operator.ne, form, zero)


def negated(builder: Builder, form: Form) -> Form:
    if isinstance(form, Known):
        return folded(operator.not_, form.value)
    return number(builder.step("bool_not", converted(builder, truth(builder, form), BOOL)))


def negative(builder: Builder, form: Form) -> Form:
    if isinstance(form, Known):
        return folded(operator.neg, form.value)
    if is_float(form):
        return applied(builder, "negative", form)
    if kind_of(form) == BOOL:
        raise Refused("the negative of a truth")
    refuse_narrow(builder, form)
    made = builder.step("int_negative", converted(builder, form, INT))
    return Number(INT, made, strong=is_strong(form))
