"""Random programs by their seeds, checked in processes: options, counts, scripts of findings."""

import argparse
import collections
import concurrent.futures
import datetime
import logging
import multiprocessing
import os
import signal
import traceback
from pathlib import Path

#: Seconds for a program.
PATIENCE = 120


def parser(doc: str, native: str) -> argparse.ArgumentParser:
    """The options that all such tools have; `native` says what those of --native are."""
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    today = int(datetime.date.today().strftime("%Y%m%d")) * 100_000
    options.add_argument("--seed", type=int, default=today, help="the first program's")
    options.add_argument("--count", type=int, default=300, help="of programs")
    options.add_argument("--native", type=int, default=20, help=f"of them, {native}")
    options.add_argument("--jobs", type=int, default=2, help="processes at a time")
    options.add_argument("--out", type=Path, default=Path("build/fuzz"), help="for scripts")
    add_plain(options)
    return options


#: Set in processes in which the programs have plain imports, and are entered; or SciPy's functions.
_PLAIN, _SCIPY = "TAPEGRAD_PLAIN_PROGRAMS", "TAPEGRAD_SCIPY_PROGRAMS"


def add_plain(options: argparse.ArgumentParser) -> None:
    """The option by which programs import NumPy and `math` themselves, and are entered."""
    options.add_argument("--plain", action="store_true", help="entered, with plain imports")


def set_plain(given) -> None:
    """Let the processes that are started know of the option."""
    os.environ[_PLAIN] = "1" if given.plain else ""
    os.environ[_SCIPY] = "1" if getattr(given, "scipy", False) else ""


def are_plain() -> bool:
    """Whether programs have plain imports."""
    return bool(os.environ.get(_PLAIN))


def have_scipy() -> bool:
    """Whether programs call SciPy's functions, too."""
    return bool(os.environ.get(_SCIPY))


def first_seeds(given, count: int) -> frozenset:
    """The seeds of the first programs."""
    return frozenset(range(given.seed, given.seed + count))


def hangs(*_):
    raise TimeoutError(f"a program took more than {PATIENCE} s")


def batch_of(check, text_of, seeds: range) -> tuple[collections.Counter, list]:
    """What `check(seed)` says, with `text_of(seed)`; text of errors where one crashes or hangs."""
    logging.disable()
    signal.signal(signal.SIGALRM, hangs)
    counts, wrong = collections.Counter(), []
    for seed in seeds:
        signal.alarm(PATIENCE)
        try:
            found, said = check(seed)
        except Exception:
            found, said = {"crashed": 1}, [f"seed {seed}: {traceback.format_exc()}"]
        signal.alarm(0)
        counts.update(found)
        wrong += [(seed, one[:900], text_of(seed)) for one in said]
    return counts, wrong


def run(given, name: str, batch, *subsets: frozenset, size: int) -> int:
    """Check all seeds, some at a time; print what is wrong, and counts, also when it is stopped.

    `batch(first, count, *subsets)` returns counts by name and a list of (seed, text, script).
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    set_plain(given)
    print(f"seeds {given.seed} to {given.seed + given.count - 1}", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    counts, findings, end = collections.Counter(), 0, given.seed + given.count
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        tasks = {
            first: pool.submit(batch, first, min(size, end - first), *subsets)
            for first in range(given.seed, end, size)
        }
        for first, task in tasks.items():
            try:
                found, wrong = task.result()
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                break
            except Exception as error:  # a process that died
                text = f"seeds from {first}: {error!r}"
                found, wrong = {"crashed": 1}, [(first, text, f"# {text}\n")]
            counts.update(found)
            for seed, text, script in wrong:
                (given.out / f"{name}-{seed}.py").write_text(script)
                print(f"\nseed {seed}, {text}", flush=True)
            findings += len(wrong)
            print(f"programs to {first + size - 1} done, {findings} findings", flush=True)
    for kind, number in sorted(counts.items()):
        print(f"{number:8d}  {kind}")
    print(f"{findings} findings; their scripts lie in {given.out}")
    return bool(findings)
