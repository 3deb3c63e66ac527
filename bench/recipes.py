#!/usr/bin/env python3
"""What the larger recipes of the book cost: processor time over that of the program alone.

bench/recipes.py EXAMPLES [--rounds N] takes the folder of the tools that `cargo build --release --examples
-p unspool-tool` makes, compiles programs of bench/programs, and runs each natively and under the recipe, in
turn, in the same minutes. A row has the least of the native rounds in seconds, and the least under the recipe
over that; behind each how far the greatest lies above the least. A ratio of rounds that lie more than 10 %
apart says little, and is marked.
"""

import argparse
import os
import subprocess
import sys
import tempfile

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
# Source, flags, arguments.
RUNS = {
    "races": [
        ("black_scholes.c", ["-fno-tree-vectorize"], ["80"]),
        ("private_phases.c", [], ["400"]),
        ("false_sharing.c", [], ["15000000"]),
        ("mutex_pipeline.c", [], ["400000"]),
        ("contended_counter.c", [], ["1000000"]),
    ],
    "undefined": [
        ("private_phases.c", [], ["100"]),
        ("hash_table.c", [], ["100"]),
    ],
    "filtered_cache": [
        ("private_phases.c", [], ["400"]),
        ("hash_table.c", [], ["500"]),
        ("stencil2d.c", ["-fopenmp"], ["60"]),
    ],
}
LEAST_ROUNDS = 5
AGREEMENT = 0.1


def processor_seconds(command):
    """User and system time; none where it failed."""
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2")
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime if process.returncode == 0 else None


def print_row(row, native, under):
    """The least of both, as a ratio, and whether the rounds agree."""
    if None in native or None in under:
        print(row, "failed", flush=True)
        return
    apart = max(under) / min(under) - 1
    mark = "" if apart <= AGREEMENT else "  rounds do not agree"
    print(
        f"{row}{min(native):7.3f} s ({max(native) / min(native) - 1:4.0%})"
        f"{min(under) / min(native):9.2f} ({apart:4.0%}){mark}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("examples")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.rounds < LEAST_ROUNDS:
        print(f"fewer than {LEAST_ROUNDS} rounds: no figure to be quoted")
    print("recipe           program               native (spread)    ratio (spread)")
    with tempfile.TemporaryDirectory() as folder:
        for recipe, programs in RUNS.items():
            tool = os.path.join(options.examples, recipe)
            if not os.path.exists(tool):
                sys.exit(f"{tool} is not there: cargo build --release --examples -p unspool-tool")
            for source, flags, arguments in programs:
                program = os.path.join(folder, "program")
                command = ["gcc", "-O2", "-pthread", *flags, "-o", program]
                subprocess.run([*command, os.path.join(PROGRAMS, source), "-lm"], check=True)
                alone = [program, *arguments]
                rounds = [
                    (processor_seconds(alone), processor_seconds([tool, "--", *alone]))
                    for _ in range(options.rounds)
                ]
                print_row(f"{recipe:17}{source:20}", *zip(*rounds))


if __name__ == "__main__":
    main()
