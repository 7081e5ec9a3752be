"""The scripts here are run by hand; the one that draws needs matplotlib, the tests do not."""

collect_ignore = ["make_pictures.py"]
