"""What ends the reading of a function, or begins it again."""

from __future__ import annotations


class Refused(Exception):
    """A function has no graph, for this reason."""


class Again(Exception):
    """Reading has to begin again with another choice for what is made at a site."""

    def __init__(self, site, choice: str):
        super().__init__(f"{choice} at {site}")
        self.site, self.choice = site, choice
