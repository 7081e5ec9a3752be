"""Graphs run from tables: one loop with a switch, for all graphs."""
