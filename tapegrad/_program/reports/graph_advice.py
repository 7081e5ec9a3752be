"""Advice for functions without a graph, and for calls that leave their graph."""

from __future__ import annotations

import re

_RAISES = "the function itself raises an exception there"
#: Patterns of reasons, the first that is found counts, and what to write instead.
_ADVICE = {
    r"a (try|with) statement": "put it around the call of the function",
    r"an assignment to a global": "return the value instead",
    r"an import": "import at the top of the module",
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
    r"it yields|a generator": "return a list instead of yielding items",
    r"made by \*": "write a comprehension, as in [0.0 for _ in range(n)]",
    r"is gone through|is used elsewhere": "go through a copy of it: list(x)",
    r"array made of|array of (a list|dtype|another)|array of lengths": "fill np.zeros(shape) of "
    "tapegrad.numpy item by item",
    r"an array indexed by|an item by|along an axis": "index with integers and slices, take axes "
    "that are written as numbers",
    r"stacks of matrices": "multiply the matrices of a stack one by one",
    r"isinstance": "give the variable one type on each branch",
    r"key that is computed|keys are computed|with the key|whose keys": "use a list or array with a "
    "computed index",
    r"too many ways": "use fewer branches in one function, or np.where",
    r"step is computed|with a step": "use a step that is written as a number",
    r"float\(\)": "leave float() out: it would drop the derivative",
    r"of (integers|truths|two truths)": "convert them first, with astype(float) or 1.0 *",
    r"call with \*\*": "name the arguments",
    r"intermediate value twice": "assign it on a line of its own",
    r"it calls": "call it before, and pass what it gives as an argument; functions of NumPy that "
    "graphs have are listed in docs/programs.md",
    r"where a call gives": "please report this, if the function depends on its arguments alone",
    r"please report": "",
}
#: Advice for functions that have no graph for another reason.
_OTHERS = "np.where, np.maximum or np.clip compute both branches in one program"


def advice_on_leaving(reason: str) -> str:
    """Advice for a call that leaves a graph; "" if there is none."""
    return _found(reason, "")


def advice_on_refusal(reason: str) -> str:
    """Advice for a function without a graph."""
    return _found(reason, _OTHERS)


def _found(reason: str, other: str) -> str:
    return next((text for pattern, text in _ADVICE.items() if re.search(pattern, reason)), other)
