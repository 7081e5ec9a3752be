"""Times of earlier states of the repository, for curves: `asv` measures them, on one machine.

The states are of main, about one a day, and the state that is checked out. Each is built in an
environment of its own and measured by the benchmarks of the working tree; results are added to
`benchmarks/results`, under the name of a machine that says nothing about it. They are comparable
only if one machine made all of them, with nothing else to do. `asv publish` draws the curves,
`asv preview` shows them.

    python -m benchmarks.history              all of them
    python -m benchmarks.history HEAD v0.1    some
    python -m benchmarks.history --dry        only print what would be run
"""

import argparse
import subprocess
import sys

#: What is measured: a name of asv each, with all its parameters.
BENCHMARKS = (
    "record.track_scalar",
    "reverse.track_scalar",
    "memory.track_bytes_per_scalar_node",
    "startup.track_import",
    "programs.track_filter",
)
MACHINE = "reference"
#: States of main, about one a day, that have all that is measured.
STATES = (
    *("918c1477", "68c9137e", "747c32bd", "27f3b6c3", "693e4b43"),
    *("1f65122c", "b75925ac", "6e5fe40f", "aa2dd740", "HEAD"),
)


def commands(names):
    """Return the commands of asv that describe the machine and measure."""
    chosen = "^(" + "|".join(name.replace(".", r"\.") for name in names) + r")\b"
    machine = ["asv", "machine", "--yes", "--machine", MACHINE]
    for what in ("os", "arch", "cpu", "num_cpu", "ram"):
        machine += [f"--{what}", "not said"]
    return machine, ["asv", "run", "--machine", MACHINE, "--bench", chosen, "HASHFILE:-"]


def main(given=None):
    """Measure, or print the commands and the states."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("states", nargs="*", default=STATES, help="commits, by default ten")
    parser.add_argument("--dry", action="store_true", help="run nothing")
    options = parser.parse_args(given)
    log = subprocess.run(
        ["git", "rev-parse", *options.states], capture_output=True, text=True, check=True
    )
    states = log.stdout
    machine, measure = commands(BENCHMARKS)
    if options.dry:
        print(" ".join(machine), " ".join(measure), states, sep="\n", end="")
        return 0
    subprocess.run(machine, check=True)
    return subprocess.run(measure, input=states, text=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
