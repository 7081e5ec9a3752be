"""The tape. Chunks of rows, their lifetime, and the readable form of a recording."""
