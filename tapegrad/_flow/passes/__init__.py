"""Graphs changed into others: simpler ones, those of derivatives along directions."""
