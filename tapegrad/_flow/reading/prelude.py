"""Python functions that iterate over their arguments, written in Python: they are followed.

They do the same as the built-in ones, in the same order, so that ties and NaNs agree.
"""


def sum(iterable, start=0):
    total = start
    for item in iterable:
        total = total + item
    return total


def min_of(iterable):
    is_first = True
    found = None
    for item in iterable:
        if is_first:
            found = item
            is_first = False
        elif item < found:
            found = item
    if is_first:
        raise ValueError
    return found


def max_of(iterable):
    is_first = True
    found = None
    for item in iterable:
        if is_first:
            found = item
            is_first = False
        elif item > found:
            found = item
    if is_first:
        raise ValueError
    return found


def min_by(iterable, key):
    is_first = True
    found = None
    least = None
    for item in iterable:
        value = key(item)
        if is_first:
            found, least = item, value
            is_first = False
        elif value < least:
            found, least = item, value
    if is_first:
        raise ValueError
    return found


def max_by(iterable, key):
    is_first = True
    found = None
    most = None
    for item in iterable:
        value = key(item)
        if is_first:
            found, most = item, value
            is_first = False
        elif value > most:
            found, most = item, value
    if is_first:
        raise ValueError
    return found


def min_or(iterable, default):
    is_first = True
    found = default
    for item in iterable:
        if is_first:
            found = item
            is_first = False
        elif item < found:
            found = item
    return found


def max_or(iterable, default):
    is_first = True
    found = default
    for item in iterable:
        if is_first:
            found = item
            is_first = False
        elif item > found:
            found = item
    return found


def min_2(a, b):
    return b if b < a else a


def max_2(a, b):
    return b if b > a else a


def any(iterable):
    for item in iterable:
        if item:
            return True
    return False


def all(iterable):
    for item in iterable:
        if not item:
            return False
    return True


def list(iterable):
    made = []
    for item in iterable:
        made.append(item)
    return made


def map(function, iterable):
    for item in iterable:
        yield function(item)
