"""The words of the tables that the interpreter reads: of a graph, of a row, of an edge.

All values of a call lie in one file of registers, words of 8 bytes by number. The adjoints lie in
another one, whose last word takes those that are never read.
"""

from ..ir.flow_graph import OPERATIONS

#: Byte offsets in the table of a graph. Addresses of the rows, of the edges, of lists of registers
#: (int32 each), of the registers at the beginning, constants among them; how many registers there
#: are, parameters of the first block, spaces; the first row of reverse by number of a return.
ROWS, BACK_ROWS, EDGES, LISTS, TEMPLATE, REGISTERS, PARAMETERS, SPACES, RETURNS = range(0, 72, 8)
#: Byte offsets in a row: its code, the register of its result, those of operands in A, B, C. Loads
#: and stores have their space in C; selects that were branches, and notes of them, have in D the
#: number of their second flag in COVERED, others 0. In reverse A, B, C are the adjoints that
#: operands have, D, E, F the operands; addresses and conditions stay in A. Forwards F is the number
#: of the user's line.
OP, OUT, A, B, C, D, E, F = range(0, 32, 4)
ROW_BYTES = 32
#: Byte offsets in an edge: the row where its block begins; pairs of registers (argument, parameter)
#: that are copied; registers that its block sets and reverse reads; pairs of adjoints (argument,
#: parameter); the row where reverse goes on. A list is its first index in LISTS and its length.
TARGET, MOVES, MOVE_COUNT, SAVES, SAVE_COUNT, PAIRS, PAIR_COUNT, SOURCE = range(0, 32, 4)
EDGE_BYTES = 32

#: Codes of rows: element-wise operations have those of the table, from 1, the others these.
CODES = {name: -1 - k for k, name in enumerate((*OPERATIONS, "jump", "branch", "return", "leave"))}
#: A return has the first index and the length of its list in A and B; in rows of reverse its pairs
#: are (register, number of the result). The last row of a block in reverse is `jump`.
NAMES = "".join(f"{name.upper()} = {code}\n" for name, code in CODES.items())
