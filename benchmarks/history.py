"""Times of earlier states of the repository, for curves: `asv` measures them, on one machine.

States are taken evenly from the history of the checked-out branch. Each is built in an environment
of its own and measured by the benchmarks of the working tree; results are added to
`benchmarks/results`, under the name of a machine that says nothing about it. They are comparable
only if one machine made all of them, with nothing else to do. `asv publish` draws the curves,
`asv preview` shows them.

    python -m benchmarks.history                      ten states
    python -m benchmarks.history --states 5 --dry     only print what would be run
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


def spread(commits, count):
    """Return as many commits as asked for, evenly from all, with the first and the last one."""
    if count >= len(commits):
        return list(commits)
    if count == 1:
        return [commits[0]]
    return [commits[round(k * (len(commits) - 1) / (count - 1))] for k in range(count)]


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
    parser.add_argument("--states", type=int, default=10, metavar="COUNT", help="how many states")
    parser.add_argument("--dry", action="store_true", help="run nothing")
    options = parser.parse_args(given)
    if options.states < 1:
        parser.error(f"argument --states: at least 1 state is measured, and {options.states} given")
    log = subprocess.run(
        ["git", "rev-list", "--first-parent", "HEAD"], capture_output=True, text=True, check=True
    )
    states = "\n".join(spread(log.stdout.split(), options.states)) + "\n"
    machine, measure = commands(BENCHMARKS)
    if options.dry:
        print(*machine, "\n" + " ".join(measure), "\n" + states, end="")
        return 0
    subprocess.run(machine, check=True)
    return subprocess.run(measure, input=states, text=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
