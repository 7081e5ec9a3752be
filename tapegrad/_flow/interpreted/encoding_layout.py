"""The words of the tables that the interpreter reads: of a graph, of a row, of an edge.

All values of a call lie in one file of registers, words of 8 bytes by number. The adjoints lie in
another one, whose last word takes those that are never read.
"""

#: Byte offsets in the table of a graph. Addresses of the rows, of the edges, of lists of registers
#: (int32 each), of the registers at the beginning, constants among them; how many registers there
#: are, parameters of the first block, spaces; the first row of reverse by number of a return.
ROWS, BACK_ROWS, EDGES, LISTS, TEMPLATE, REGISTERS, PARAMETERS, SPACES, RETURNS = range(0, 72, 8)
#: Byte offsets in a row: its code, the register of its result, those of operands in A, B, C. D has
#: what the step has in addition: the space of a load or a store, the number of a reason, that of
#: the second flag in COVERED of a select that was a branch (else 0). F is the number of the user's
#: line. In reverse A, B, C are the adjoints that floats have, and the registers of other operands;
#: D, E, F are the registers of the operands of element-wise operations. A row of a kernel has the
#: first index and the length of a list of operands in A and B, and in C the register with the
#: kernel's address; in LISTS their adjoints follow.
OP, OUT, A, B, C, D, E, F = range(0, 32, 4)
ROW_BYTES = 32
#: Byte offsets in an edge: the row where its block begins; pairs of registers (argument, parameter)
#: that are copied; registers that its block sets and reverse reads; pairs of adjoints (argument,
#: parameter); the row where reverse goes on. A list is its first index in LISTS and its length.
TARGET, MOVES, MOVE_COUNT, SAVES, SAVE_COUNT, PAIRS, PAIR_COUNT, SOURCE = range(0, 32, 4)
EDGE_BYTES = 32
#: A return has the first index and the length of its list in A and B; in rows of reverse its pairs
#: are (register, number of the result). The last row of a block in reverse is `jump`.
