"""Floor 3: the tape. Chunks of rows, their lifetime, and the readable form of a recording."""
