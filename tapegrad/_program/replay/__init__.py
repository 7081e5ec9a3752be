"""Floor 2: programs, which compute again what was recorded, and its adjoints, in compiled code."""
