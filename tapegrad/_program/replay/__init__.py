"""Programs, which compute again what was recorded, and its adjoints, in compiled code."""
