"""What tests of effects share: the line that changes something, and the warnings of calls."""

import warnings


def line_of(make) -> str:
    """`file:line` of the line in `make` that ends with a comment "here"."""
    path = make.__code__.co_filename
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    first = make.__code__.co_firstlineno
    number = next(k for k in range(first, len(lines)) if lines[k - 1].rstrip().endswith("# here"))
    return f"{path}:{number}"


def warned(call) -> list:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return found
