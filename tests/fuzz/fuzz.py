"""Random programs held against NumPy, in processes of their own since they may crash.

`python fuzz.py --seed 5 --count 1 --native 1` runs the program of seed 5, natively too; a count of
10 000 those of seeds 5 to 10 004. The exit status is 1 where something differs or crashes.
"""

import argparse
import collections
import datetime
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

import seed_runs
from fuzz_programs import LONG

#: Programs that a process runs, and seconds after which it is taken to hang.
BATCH, PATIENCE = 100, 900
#: Findings of one kind that are printed in full.
IN_FULL = 2


def worker(first: int, count: int, native: set):
    """Run programs; a line of JSON before and after each."""
    from fuzz_checks import check_program

    for seed in range(first, first + count):
        print(json.dumps({"seed": seed}), flush=True)
        checked = check_program(seed, seed in native)
        findings = [vars(one) for one in checked.findings]
        print(json.dumps({"counts": checked.counts, "findings": findings}), flush=True)


class Runner:
    """Batches run in processes, each started again behind a program that it died of."""

    def __init__(self, first, count, native, folder):
        self.counts: collections.Counter = collections.Counter()
        self.findings: list[dict] = []
        self.native, self.folder = native, folder
        self.lock = threading.Lock()
        self.batches: queue.Queue = queue.Queue()
        for start in range(first, first + count, BATCH):
            self.batches.put((start, min(BATCH, first + count - start)))

    def run(self, jobs: int):
        threads = [threading.Thread(target=self.work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self):
        while True:
            try:
                start, count = self.batches.get_nowait()
            except queue.Empty:
                return
            end = start + count
            while start < end:
                start = self.batch(start, end - start)
            print(f"programs to {end - 1} done, {len(self.findings)} findings", flush=True)

    def batch(self, start, count) -> int:
        """Run a batch in a process; the seed to go on from."""
        native = [str(s) for s in range(start, start + count) if s in self.native]
        command = [sys.executable, __file__, "--worker", str(start), str(count), *native]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()))
        reader.start()
        seed, watch = start, None
        for line in process.stdout:
            if watch is not None:
                watch.cancel()
            watch = threading.Timer(PATIENCE, process.kill)
            watch.start()
            found = json.loads(line)
            seed = found.get("seed", seed)
            if "counts" in found:
                with self.lock:
                    self.counts.update(found["counts"])
                    for one in found["findings"]:
                        self.found(one)
        if watch is not None:
            watch.cancel()
        status = process.wait()
        reader.join()
        if status == 0:
            return start + count
        script = f"# python tests/fuzz/fuzz.py --seed {seed} --count 1 --native 1\n{said[0]}"
        tail = said[0].strip().rpartition("\n")[2]
        message = f"ended with {status}: {tail}"
        with self.lock:
            self.found(dict(seed=seed, mode="process", message=message, script=script))
        return seed + 1

    def found(self, one: dict):
        same = [x for x in self.findings if x["mode"] == one["mode"]]
        self.findings.append(one)
        name = f"{one['seed']}-{one['mode'].replace(' ', '-').replace(',', '')}.py"
        (self.folder / name).write_text(one["script"] + "\n")
        print(f"\nseed {one['seed']}, {one['mode']}: {one['message'][:300]}", flush=True)
        if len(same) < IN_FULL:
            print(one["script"], flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    today = int(datetime.date.today().strftime("%Y%m%d")) * 100_000
    parser.add_argument("--seed", type=int, default=today, help="the first program's")
    parser.add_argument("--count", type=int, default=300, help="of programs")
    parser.add_argument("--native", type=int, default=20, help="of them, natively too")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="for failing programs")
    seed_runs.add_plain(parser)
    return parser.parse_args()


def spread(first: int, count: int, native: int) -> set:
    """Seeds of the programs that run natively too: those with long loops first."""
    seeds = sorted(range(first, first + count), key=lambda seed: (seed % LONG, seed))
    return set(seeds[:native])


def main() -> int:
    given = arguments()
    seed_runs.set_plain(given)
    given.out.mkdir(parents=True, exist_ok=True)
    print(f"seeds {given.seed} to {given.seed + given.count - 1}", flush=True)
    native = spread(given.seed, given.count, given.native)
    runner = Runner(given.seed, given.count, native, given.out)
    runner.run(given.jobs)
    print(f"\nPrograms by kind, from seed {given.seed}:")
    for name, number in sorted(runner.counts.items()):
        print(f"{number:8d}  {name}")
    by_mode = collections.Counter(one["mode"] for one in runner.findings)
    for mode, number in sorted(by_mode.items()):
        seeds = sorted({one["seed"] for one in runner.findings if one["mode"] == mode})[:8]
        print(f"{number:8d}  findings, {mode}: seeds {', '.join(map(str, seeds))}")
    print(f"{len(runner.findings)} findings; failing programs lie in {given.out}")
    return bool(runner.findings)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        first, count, *native = map(int, sys.argv[2:])
        worker(first, count, set(native))
    else:
        sys.exit(main())
