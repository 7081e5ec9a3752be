"""Subscripts of einsum: labels of the axes of operands and of the result."""

from __future__ import annotations

import functools


def as_text(subscripts, operands):
    """The form `einsum(a, [0, 1], b, [1, 2], [0, 2])` as subscripts and operands."""
    if isinstance(subscripts, str):
        return subscripts, operands
    items = (subscripts, *operands)
    out = items[-1] if len(items) % 2 else None
    lists = [*items[1::2]] + ([out] if out is not None else [])
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    texts = ["".join("..." if i is Ellipsis else letters[i] for i in one) for one in lists]
    count = len(items) // 2
    text = ",".join(texts[:count]) + ("->" + texts[count] if out is not None else "")
    return text, items[: 2 * count : 2]


@functools.lru_cache(maxsize=512)
def parse(subscripts: str, shapes: tuple) -> tuple[tuple, tuple]:
    """Labels of each operand and of the result; axes under an ellipsis count from the right."""
    text = subscripts.replace(" ", "")
    terms, arrow, wanted = text.partition("->")
    parts = terms.split(",")
    if len(parts) != len(shapes):
        raise ValueError(
            f"tapegrad.einsum: the subscripts {subscripts!r} name {len(parts)} operands, but "
            f"{len(shapes)} were given"
        )
    labels = [_labels(subscripts, p, len(s)) for p, s in zip(parts, shapes, strict=True)]
    _check_sizes(subscripts, labels, shapes)
    numbers = sorted({x for one in labels for x in one if isinstance(x, int)})
    if arrow:
        head, dots, tail = wanted.partition("...")
        if numbers and not dots:
            raise ValueError(
                f"tapegrad.einsum: the result of {subscripts!r} has no '...', but operands of "
                f"shapes {' and '.join(map(str, shapes))} have {len(numbers)} axes under theirs"
            )
        out = (*head, *(numbers if dots else ()), *tail)
    else:
        letters = [x for one in labels for x in one if isinstance(x, str)]
        out = (*numbers, *sorted(x for x in set(letters) if letters.count(x) == 1))
    known = {x for one in labels for x in one}
    for x in out:
        if x not in known or out.count(x) > 1:
            raise ValueError(
                f"tapegrad.einsum: the result of {subscripts!r} has {x!r} "
                f"{'more than once' if x in known else 'which no operand has'}"
            )
    return tuple(labels), out


def _labels(subscripts: str, part: str, ndim: int) -> tuple:
    head, dots, tail = part.partition("...")
    letters = head + tail
    if not all(x.isalpha() and x.isascii() for x in letters):
        raise ValueError(
            f"tapegrad.einsum: {part!r} in {subscripts!r} holds something that is not a letter, "
            "a comma, '...' or '->'"
        )
    hidden = ndim - len(letters)
    if hidden < 0 or (hidden and not dots):
        raise ValueError(
            f"tapegrad.einsum: {part!r} in {subscripts!r} names {len(letters)} axes, but its "
            f"operand has {ndim}"
        )
    return (*head, *range(-hidden, 0), *tail)


def _check_sizes(subscripts, labels, shapes) -> None:
    sizes: dict = {}
    for one, shape in zip(labels, shapes, strict=True):
        own: dict = {}
        for x, n in zip(one, shape, strict=True):
            if own.setdefault(x, n) != n or (n != 1 and sizes.setdefault(x, n) != n):
                axis = f"axis {x}" if isinstance(x, int) else repr(x)
                raise ValueError(
                    f"tapegrad.einsum: operands of shapes {' and '.join(map(str, shapes))} give "
                    f"{axis} in {subscripts!r} several sizes; they must be equal (or 1)"
                )
