"""Advice for functions without a graph, and for calls that leave their graph."""

from __future__ import annotations

import re

_RAISES = "the function itself raises an exception there"
#: Patterns of reasons, the first that is found counts, and what to write instead.
_ADVICE = {
    r"itself changes": "pass it as an argument, and change it in the code that calls the function",
    r"a text that is made": "compare the numbers themselves",
    r"depends on the time": "pass the time as an argument",
    r"a (try|with) statement": "put it around the call of the function",
    r"an import": "import at the top of the module",
    r"calls (set|frozenset),": "use a list with a truth for each item: seen = [False] * n",
    r"calls (default_rng|random|normal|uniform|rand|randn),": "draw before the call, and pass the "
    "numbers as an argument",
    r"a list of an array": "write the arrays to the rows of one: out = np.zeros((n, m)), "
    "out[k] = …",
    r"bytecode that is not known": "move functions that call themselves, or are made inside of it, "
    "out of it",
    r"raises|out of bounds|empty|negative length|no elements": _RAISES,
    r"values to unpack|other lengths|is missing": _RAISES,
    r"a division by 0": "numbers of NumPy's and tensors may be divided by 0, Python's floats raise",
    r"math\.\w+ may raise": "the function of that name in NumPy gives an infinity or NaN instead",
    r"power that Python may refuse": "np.power gives NaN where Python's ** gives a complex number",
    r"beyond 63 bits": "integers that grow so large are exact as Python's numbers only; use floats",
    r"may be an int|an int on one branch": "write 0.0 rather than 0 where a float may come instead",
    r"a norm of 0": "np.sqrt(x @ x + tiny) has a derivative at 0",
    r"value is None|compared with None|may be None|not set": "set the variable to a number on each "
    "branch before",
    r"more memory|has no end": "a loop makes too many rounds for a program",
    r"the result is .* on one branch": "return results of one kind and one length from each branch",
    r"a variable is .* and .* (on another|there)|of more than \d+ kinds": "give the variable one "
    "kind on each branch: floats rather than ints or None, arrays and lists of one length",
    r"made on one branch only|made anew": "make the list or object once, before the loop or branch",
    r"it changes a list": "change a copy of it: list(x), dict(x), x.copy()",
    r"lies outside|variable outside": "pass it as an argument, or make it inside of the function",
    r"attribute \w+ of .* from outside": "read it before, and pass it as an argument",
    r"from outside": "pass it as an argument, or keep it as numbers of Python, lists, dicts, "
    "and arrays of float64, int64 or bool",
    r"an argument (has|is)": "pass floats, arrays of float64, int64 or bool, and plain tuples, "
    "lists and dicts of them",
    r"calls itself|nest too deeply": "write the recursion as a loop",
    r"array of . dimensions$|indexed by an array": "np.where(mask, x, 0.0) keeps all elements",
    r"it yields|a generator": "return a list instead of yielding items",
    r"made by \*": "write a comprehension, as in [0.0 for _ in range(n)]",
    r"is gone through|is used elsewhere": "go through a copy of it: list(x)",
    r"array made of|array of (a list|dtype|another)|array of lengths": "fill np.zeros(shape) "
    "item by item",
    r"an array indexed by|an item by|along an axis": "index with integers and slices, take axes "
    "that are written as numbers",
    r"stacks of matrices": "multiply the matrices of a stack one by one",
    r"isinstance": "leave isinstance() out: while it is recorded, a number may be a tensor",
    r"key that is computed|keys are computed|with the key|whose keys": "use a list or array with a "
    "computed index",
    r"too many ways": "use fewer branches in one function, or np.where",
    r"step is computed|with a step": "use a step that is written as a number",
    r"float\(\)": "leave float() out: it would drop the derivative",
    r"of (integers|truths|two truths)": "convert them first, with astype(float) or 1.0 *",
    r"call with \*\*": "name the arguments",
    r"intermediate value twice": "assign it on a line of its own",
    r"it calls|which is not known here|the method": "compile a function of the loops and branches "
    "alone, and call that from this one, which is not compiled then",
    r"where a call gives": "please report this, if the function depends on its arguments alone",
    r"please report": "",
}
#: Advice for functions that have no graph for another reason.
_OTHERS = "np.where, np.maximum or np.clip compute both branches in one program"


def advice_on_leaving(reason: str) -> str:
    """Advice for a call that leaves a graph; "" if there is none."""
    return _found(reason, "")


def advised(reason: str) -> str:
    """Why a function has no graph, and what to write instead."""
    advice = _found(reason, _OTHERS)
    return f"{reason}; {advice}" if advice else reason


def _found(reason: str, other: str) -> str:
    return next((text for pattern, text in _ADVICE.items() if re.search(pattern, reason)), other)
