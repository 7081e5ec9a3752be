"""Checks in text for LLVM: before each load and store a call with its address and size.

All ways of a module to memory are either checked, or named here with a reason, or an error.
"""

import re

ACCESS, LANE = "checked_access", "checked_lane"
DECLARATIONS = f"""
declare void @{ACCESS}(ptr, i64, ptr)
declare void @{LANE}(ptr, i64, ptr, i1 zeroext)
"""
_OPENING, _CLOSING = "([{<", ")]}>"
_INSTRUCTION = re.compile(
    r"  (?:%(?:\"[^\"]*\"|[^ ]+) = )?(?:(?:tail|musttail|notail) )?"
    r"(load|store|atomicrmw|cmpxchg|call|invoke|va_arg) (.*)"
)
_CALLED = re.compile(r"@(?:\"([^\"]+)\"|([\w.$]+))\((.*)\)")
_ALLOCA = re.compile(r"  (%\S+) = alloca (.*?), align")
_BITS = {"ptr": 64, "double": 64, "float": 32, "half": 16}
#: They move no memory, though they name it.
_HARMLESS = ("llvm.lifetime.", "llvm.assume", "llvm.experimental.noalias", "llvm.prefetch")


def split(text):
    """The parts between commas that are in no brackets."""
    parts, depth, start, quoted = [], 0, 0, False
    for k, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()]


def typed(text):
    """A type and what is after it."""
    depth = 0
    for k, letter in enumerate(text):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == " " and depth == 0:
            return text[:k], text[k + 1 :]
    return text, ""


def bits(kind):
    """How many bits a load of a type reads."""
    if found := re.fullmatch(r"[<\[](\d+) x (.+)[>\]]", kind):
        return int(found[1]) * bits(found[2])
    if found := re.fullmatch(r"i(\d+)", kind):
        return int(found[1])
    if kind not in _BITS:
        raise NotImplementedError(f"a load or store of type {kind}")
    return _BITS[kind]


def size(kind):
    """How many bytes a load of a type reads."""
    if kind.startswith("{"):
        end = 0
        for part in split(kind[1:-1]):
            step = 8 if part[0] in _OPENING else size(part)
            end = -(-end // step) * step + size(part)
        return end
    return -(-bits(kind) // 8)


class _Function:
    """The checks of a function, and the names of its sites."""

    def __init__(self, head, sites):
        self.name = re.search(r'@"?([^"(]+)', head)[1]
        self.sites = sites
        self.own = {}  # variables on the stack: their sizes
        self.count = 0

    def line(self, text):
        """A line, after the checks of what it reads and writes."""
        if found := _ALLOCA.match(text):
            self.own[found[1]] = size(found[2])
        found = _INSTRUCTION.match(text)
        return [*getattr(self, f"_{found[1]}")(found[2]), text] if found else [text]

    def _site(self, is_store, what):
        text = f"{self.name}: {what}"[:400].encode("ascii", "replace").decode()
        text = text.replace("\\", "/").replace('"', "'")
        name = f"@checked.{len(self.sites)}"
        kind = f"[{len(text) + 3} x i8]"
        self.sites.append(
            f'{name} = internal global {kind} c"\\00\\0{int(is_store)}{text}\\00", align 1'
        )
        return name

    def _check(self, pointer, length, is_store, what):
        """`pointer` without its type; `length` a number, or an i64 as it stands in the text."""
        if isinstance(length, int) and length <= self.own.get(pointer, -1):
            return []
        site = self._site(is_store, what)
        return [f"  call void @{ACCESS}(ptr {pointer}, i64 {length}, ptr {site})"]

    def _load(self, rest):
        kind, pointer = split(_plain(rest))[:2]
        return self._check(_value(pointer), size(kind), False, "load " + rest)

    def _store(self, rest):
        given, pointer = split(_plain(rest))[:2]
        return self._check(_value(pointer), size(typed(given)[0]), True, "store " + rest)

    def _atomicrmw(self, rest):
        pointer, given = split(rest)[:2]
        length = size(typed(given)[0])
        return self._check(pointer.split(" ptr ")[1], length, True, "atomicrmw " + rest)

    def _cmpxchg(self, rest):
        pointer, given = split(rest)[:2]
        length = size(typed(given)[0])
        return self._check(pointer.split("ptr ")[1], length, True, "cmpxchg " + rest)

    def _call(self, rest):
        found = _CALLED.search(rest)
        if not found:
            return []
        name = found[1] or found[2]
        arguments = split(found[3])
        for begin, checks in _CALLS.items():
            if name == begin or begin.startswith("llvm.") and name.startswith(begin):
                return checks(self, arguments, rest)
        points = any(typed(argument)[0] in ("ptr", "<") for argument in arguments)
        if name.startswith("llvm.") and points and not name.startswith(_HARMLESS):
            raise NotImplementedError(f"an intrinsic that is given addresses: {rest}")
        return []

    def _invoke(self, rest):
        raise NotImplementedError(f"code that raises: invoke {rest}")

    def _va_arg(self, rest):
        raise NotImplementedError(f"arguments that are counted: va_arg {rest}")

    def _copy(self, arguments, rest):
        target, source, length = [_value(argument) for argument in arguments[:3]]
        checks = self._range(source, length, False, arguments[1], rest)
        return checks + self._range(target, length, True, arguments[0], rest)

    def _fill(self, arguments, rest):
        target, _, length = [_value(argument) for argument in arguments[:3]]
        return self._range(target, length, True, arguments[0], rest)

    def _range(self, value, length, is_store, argument, rest):
        """Checks of many bytes at an address, which C functions are given as an integer."""
        if typed(argument)[0] == "ptr":
            return self._check(value, length, is_store, rest)
        self.count += 1
        pointer = f"%checked.{self.count}"
        made = f"  {pointer} = inttoptr i64 {value} to ptr"
        return [made, *self._check(pointer, length, is_store, rest)]

    def _gather(self, arguments, rest):
        addresses, mask = arguments[0], arguments[-2]
        return self._lanes(addresses, mask, typed(arguments[-1])[0], False, rest)

    def _scatter(self, arguments, rest):
        given, addresses, mask = arguments[0], arguments[1], arguments[-1]
        return self._lanes(addresses, mask, typed(given)[0], True, rest)

    def _masked_load(self, arguments, rest):
        pointer, mask = arguments[0], arguments[-2]
        return self._lanes(pointer, mask, typed(arguments[-1])[0], False, rest)

    def _masked_store(self, arguments, rest):
        given, pointer, mask = arguments[0], arguments[1], arguments[-1]
        return self._lanes(pointer, mask, typed(given)[0], True, rest)

    def _lanes(self, addresses, mask, kind, is_store, rest):
        """A check for each lane: `addresses` of all of them, or of the first of many in a row."""
        count, element = re.fullmatch(r"<(\d+) x (.+)>", kind).groups()
        site, length, lines = self._site(is_store, rest), size(element), []
        mask, value, each = _without_attributes(mask), _value(addresses), typed(addresses)[0]
        for lane in range(int(count)):
            self.count += 1
            used, pointer = f"%checked.{self.count}.used", f"%checked.{self.count}"
            if each == "ptr":
                place = f"getelementptr {element}, ptr {value}, i64 {lane}"
            else:
                place = f"extractelement {each} {value}, i64 {lane}"
            lines += [
                f"  {used} = extractelement {mask}, i64 {lane}",
                f"  {pointer} = {place}",
                f"  call void @{LANE}(ptr {pointer}, i64 {length}, ptr {site}, i1 {used})",
            ]
        return lines


#: By the beginning of its name what a function does to memory that it is given.
_CALLS = {
    "llvm.memcpy.": _Function._copy,
    "llvm.memmove.": _Function._copy,
    "llvm.memset.": _Function._fill,
    "memcpy": _Function._copy,
    "memmove": _Function._copy,
    "memset": _Function._fill,
    "llvm.masked.gather.": _Function._gather,
    "llvm.masked.scatter.": _Function._scatter,
    "llvm.masked.load.": _Function._masked_load,
    "llvm.masked.store.": _Function._masked_store,
}
_ATTRIBUTE = re.compile(
    r"^(?:(?:align \d+|\w+\([^()]*\)|noundef|nonnull|nocapture|readonly|writeonly|noalias|zeroext|"
    r"signext|immarg|returned) )+"
)


def _plain(rest):
    """A load or store without what is said of other threads."""
    rest = re.sub(r"^(atomic |volatile )+", "", rest)
    orders = "unordered|monotonic|acquire|release|acq_rel|seq_cst"
    return re.sub(rf"(?: syncscope\([^()]*\))? (?:{orders}), align", ", align", rest)


def _without_attributes(argument):
    """An argument as its type and its value."""
    kind, rest = typed(argument)
    return f"{kind} {_ATTRIBUTE.sub('', rest)}"


def _value(argument):
    """The value of an argument, without its type and attributes."""
    return typed(_without_attributes(argument))[1]


def with_checks(text):
    """The text of a module that calls the checks."""
    lines, sites, function = [], [], None
    for line in text.splitlines():
        if line.startswith("define "):
            function = _Function(line, sites)
        elif line == "}":
            function = None
        lines += function.line(line) if function else [line]
    return "\n".join([*lines, *sites, DECLARATIONS])
