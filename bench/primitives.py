#!/usr/bin/env python3
"""What primitives of the tool interface cost: nanoseconds each, above the same run without them.

bench/primitives.py TOOL_CHECKS [OTHER_TOOL_CHECKS] runs each primitive in turn, seven rounds, and
prints the difference between the least processor time with it and the least without any, for each
time that it is made, and by how much the rounds with it differ. (`cargo build --release -p
unspool-tool-checks` makes the tool.)
"""

import os
import subprocess
import sys
import tempfile

ROUNDS = 7
SOURCE = os.path.join(os.path.dirname(__file__), "programs/primitives.c")
LOOP = (200_000, 0)
FEW = (100, 0)
CALLS = (0, 20_000_000)
# How often each is made: rounds of the loop, calls; and what it is compared with.
PRIMITIVES = {
    "nothing": (LOOP, None),
    "empty": (LOOP, "nothing"),
    "add": (LOOP, "nothing"),
    "address": (LOOP, "nothing"),
    "thread": (LOOP, "nothing"),
    "test": (LOOP, "nothing"),
    "shadow": (LOOP, "nothing"),
    "shadow-word": (LOOP, "nothing"),
    "shadow-cell": (LOOP, "nothing"),
    "shadow-store": (LOOP, "nothing"),
    "append1": (LOOP, "nothing"),
    "append4": (LOOP, "nothing"),
    "guarded": ((2_000, 0), "none-guarded"),
    "none-guarded": ((2_000, 0), None),
    "context": (FEW, "none-context"),
    "vector": (FEW, "context"),
    "none-context": (FEW, None),
    "none-entry": (CALLS, None),
    "entry": (CALLS, "none-entry"),
    "entry-exit": (CALLS, "none-entry"),
    "none-wrap": ((0, 2_000_000), None),
    "wrap": ((0, 2_000_000), "none-wrap"),
}


def processor_seconds(command):
    """User and system time of a command that must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status:#x}")
    return usage.ru_utime + usage.ru_stime


def accesses(build, program, rounds):
    """How often something is made at accesses, as the tool counts them."""
    command = [build, "costs", "count", "--", program, str(rounds), "0"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(said.split()[0])


def main():
    builds = sys.argv[1:]
    if not builds:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "primitives")
        subprocess.run(["gcc", "-O1", SOURCE, "-o", program], check=True)
        times = {
            (name, build): calls or accesses(build, program, rounds)
            for name, ((rounds, calls), _) in PRIMITIVES.items()
            for build in builds
        }
        taken = {key: [] for key in times}
        for _ in range(ROUNDS):
            for name, build in taken:
                (rounds, calls), _ = PRIMITIVES[name]
                command = [build, "costs", name, "--", program, str(rounds), str(calls)]
                taken[name, build].append(processor_seconds(command))
    for (name, build), seconds in taken.items():
        _, without = PRIMITIVES[name]
        if without is None:
            continue
        cost = (min(seconds) - min(taken[without, build])) / times[name, build] * 1e9
        spread = (max(seconds) - min(seconds)) / min(seconds)
        print(f"{name:12} {cost:9.2f} ns {spread:5.0%}  {build}")


main()
