"""Recorded derivatives, and forward mode."""
