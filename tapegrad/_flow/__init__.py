"""Functions with loops and branches as graphs of blocks: read, run, differentiated."""
