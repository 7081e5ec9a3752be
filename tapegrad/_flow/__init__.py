"""Functions with loops and branches as graphs of blocks: read from bytecode, run, differentiated."""
