"""Steps on memory: words that are allocated, loaded and stored."""

from .step_kinds import FLOAT, INT, PLACE, TYPES, declare


def _allocate(code, count: str) -> str:
    code.check(code.let(f"icmp slt i64 {count}, 0"))
    used = code.let("load i64, ptr %used")
    room = code.let(f"sub i64 %arena_words, {used}")
    code.fork(code.let(f"icmp sgt i64 {count}, {room}"), "arena_full")
    code.put(f"store i64 {code.let(f'add i64 {used}, {count}')}, ptr %used")
    size = code.let(f"shl i64 {count}, 3")
    fill = "llvm.memset.p0.i64"
    code.module.declared[fill] = f"declare void @{fill}(ptr, i8, i64, i1)"
    for space in range(code.module.spaces):
        at = code.word(f"%arena{space}", used)
        code.put(f"call void @{fill}(ptr {at}, i8 0, i64 {size}, i1 false)")
    return used


def _load(kind: str):
    def emit(code, place, at: str) -> str:
        return code.read(f"%arena{place.space}", at, TYPES[kind], code.module.alias(place))

    return emit


def _store(kind: str):
    def emit(code, place, at: str, value: str) -> None:
        code.write(f"%arena{place.space}", at, value, TYPES[kind], code.module.alias(place))

    return emit


def _load_back(reverse, step, g: str) -> None:
    base, at, kind, alias = reverse.shadow(step)
    total = reverse.code.let(f"fadd double {reverse.code.read(base, at, kind, alias)}, {g}")
    reverse.code.write(base, at, total, kind, alias)


def _store_back(reverse, step, _g: str) -> None:
    base, at, kind, alias = reverse.shadow(step)
    if step.operands[1] in reverse.variation:
        reverse.add(step.operands[1], reverse.code.read(base, at, kind, alias))
    reverse.code.write(base, at, reverse.code.constant(0.0), kind, alias)


# words, 0 in all spaces; gives the address of the first
declare(
    *("allocate", "i -> i", "load_i64(frame, ARENA_USED)", "stays fresh"),
    holds="x >= 0",
    effect="return allocated(frame, load_i64(data, SPACES), x)",
    native=_allocate,
)
#: By the kind of the word.
LOAD_OF = {
    FLOAT: declare(
        *("load_float", "i -> f", "load_f64(arena + payload * words, 8 * x)", "hot again"),
        payload=PLACE,
        native=_load(FLOAT),
        back="store_f64(place, 0, load_f64(place, 0) + g)",
        native_back=_load_back,
    ),
    INT: declare(
        *("load_int", "i -> i", "load_i64(arena + payload * words, 8 * x)", "again"),
        payload=PLACE,
        native=_load(INT),
    ),
}
STORE_OF = {
    FLOAT: declare(
        *("store_float", "if ->", "", "hot stays"),
        effect="store_f64(arena + payload * words, 8 * x, y)",
        payload=PLACE,
        native=_store(FLOAT),
        back="y += load_f64(place, 0)\nstore_f64(place, 0, 0.0)",
        native_back=_store_back,
    ),
    INT: declare(
        *("store_int", "ii ->", "", "stays"),
        effect="store_i64(arena + payload * words, 8 * x, y)",
        payload=PLACE,
        native=_store(INT),
    ),
}
