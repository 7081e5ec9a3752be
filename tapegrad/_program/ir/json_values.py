"""Values of JSON, asked for type by type: what is read comes from anywhere."""

from __future__ import annotations

#: The limit of integers, so that sums of a few fit into 64 bits.
_LARGEST = 2**60


def integer(item) -> int:
    if type(item) is not int or abs(item) > _LARGEST:
        raise ValueError(f"{short(item)} is no integer")
    return item


def text(item) -> str:
    if type(item) is not str:
        raise ValueError(f"{short(item)} is no text")
    return item


def label(item) -> str:
    """A text that people are shown."""
    return printable(text(item))


def printable(name: str) -> str:
    """A name with escapes in place of what terminals obey and nobody sees."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in name)


def truth(item) -> bool:
    if type(item) is not bool:
        raise ValueError(f"{short(item)} is neither true nor false")
    return item


def items(item, count: int | None = None) -> list:
    if type(item) is not list or (count is not None and len(item) != count):
        raise ValueError(f"{short(item)} is no list" + (f" of {count}" if count else ""))
    return item


def pairs(item) -> list[list]:
    return [items(one, 2) for one in items(item)]


def integers(item) -> tuple[int, ...]:
    return tuple(map(integer, items(item)))


def fields(item, *names: str) -> list:
    """The values of an object that has exactly these names."""
    if type(item) is not dict or set(item) != set(names):
        raise ValueError(f"{short(item)} is no object of {', '.join(names)}")
    return [item[name] for name in names]


def short(item) -> str:
    """What is read, as errors show it."""
    shown = repr(item)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
