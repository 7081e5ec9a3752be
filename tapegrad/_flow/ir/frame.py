"""The words that a call of a graph shares with compiled code, and its status."""

#: A call's outcome: finished; left (word REASON has why); more words of tape, of the arena needed.
FINISHED, LEFT, TAPE_FULL, ARENA_FULL = range(4)
#: Reasons without a number of the graph's: more jumps than JUMPS; an address not in use, where
#: that is checked; an integer that does not fit, a divisor or length that does not exist, less the
#: number of the line.
TOO_MANY_JUMPS, OUTSIDE, ARITHMETIC = -1, -2, -3

#: Byte offsets of the words of a frame. Pointers are addresses.
#: The arena of space s begins `8 * s * ARENA_WORDS` bytes after ARENA; SHADOW has adjoints of its
#: words in the same layout. The arena's first ARENA_USED words are in use: arrays among the inputs
#: lie there before the call; what is allocated follows and is set to 0 (the shadow is 0 before
#: reverse).
REASON = 0
ARENA = 8
ARENA_WORDS = 16
ARENA_USED = 24
SHADOW = 32
TAPE = 40
TAPE_WORDS = 48
TAPE_USED = 56
#: A word for each parameter of the first block: a double, or an integer.
INPUTS = 64
#: A word for each result; a truth is 0 or 1.
OUTPUTS = 72
#: A double for each result, read by reverse (0 for what is no float).
OUTPUT_ADJOINTS = 80
#: A double for each parameter of the first block, written by reverse.
INPUT_ADJOINTS = 88
#: A byte for each edge, in the order of blocks and of edges in their ends, then two for each branch
#: that became a select, by its number: set to 1 where a call took it; 0 if edges are not requested.
COVERED = 96
#: The largest number of jumps of a call before it leaves, which protects from infinite loops.
JUMPS = 104
FRAME_BYTES = 112
#: Words of tape and arena of a first call.
FIRST_TAPE_WORDS, FIRST_ARENA_WORDS = 1 << 12, 1 << 8
