#!/usr/bin/env python3
"""What primitives of the tool interface cost: nanoseconds each, above the same run without them.

    bench/primitives.py [--judge] TOOL_CHECKS [OTHER_TOOL_CHECKS...]

TOOL_CHECKS is a path to the executable `tool-checks`, which `cargo build --release -p
unspool-tool-checks` makes; further builds are measured beside it. Each primitive runs in turn, seven
rounds. A row is what the primitive costs each time that it is made: the difference between the least
processor time with it and the least of the run that it is compared with; then the least and the
spread of both; and, where a floor is set for it, whether the first build is within it. A difference
tells nothing if the rounds of either run lie more than 10 % apart.

With --judge the exit status is 1 if a floor is missed, and 2 if none is and one cannot be judged.
`python3 -m doctest bench/primitives.py` tests how it judges.
"""

import os
import subprocess
import sys
import tempfile

ROUNDS = 7
# How far the rounds of a run that counts lie apart at most, relative to the least.
AGREEMENT = 0.1
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs/primitives.c")
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
    "append1-consumed": (LOOP, "nothing"),
    "append4": (LOOP, "nothing"),
    "append-if-never": (LOOP, "nothing"),
    "append-if-always": (LOOP, "nothing"),
    "version-off": (LOOP, "nothing"),
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
# What each may cost, in nanoseconds: an inlined call, an append of four fields, a test of a word of
# shadow memory, entry and exit of a routine, a wrapper, a vector register, a guarded read.
FLOORS = {
    "empty": 0.6,
    "add": 0.6,
    "address": 0.6,
    "thread": 0.6,
    "append4": 1.2,
    "shadow": 0.8,
    "shadow-word": 0.8,
    "entry-exit": 6,
    "wrap": 40,
    "vector": 50,
    "guarded": 10,
}


def spread(seconds):
    """How far rounds lie apart, relative to the least.

    >>> spread([2.0, 3.0, 2.5])
    0.5
    """
    return (max(seconds) - min(seconds)) / min(seconds)


def cost(seconds, without, times):
    """Nanoseconds each time, least over least.

    >>> cost([3.0, 2.0], [1.5, 1.0], 1_000_000_000)
    1.0
    """
    return (min(seconds) - min(without)) / times * 1e9


def judgement(name, seconds, without, times):
    """Whether a primitive is within its floor: None if it has none.

    >>> steady, base = [1.59, 1.60], [1.0, 1.05]
    >>> judgement("add", steady, base, 10**9)
    'met'
    >>> judgement("add", [1.61, 1.62], base, 10**9)
    'MISSED'
    >>> judgement("append4", [1.61, 1.62], base, 10**9)
    'met'

    Rounds that do not agree tell nothing, on either side:

    >>> judgement("add", [1.61, 1.80], base, 10**9)
    'UNSTEADY'
    >>> judgement("add", steady, [1.0, 1.2], 10**9)
    'UNSTEADY'
    >>> judgement("append1", steady, base, 10**9)
    """
    floor = FLOORS.get(name)
    if floor is None:
        return None
    if max(spread(seconds), spread(without)) > AGREEMENT:
        return "UNSTEADY"
    return "met" if cost(seconds, without, times) <= floor else "MISSED"


def summary(judgements):
    """What is said at the end, and the exit status with --judge.

    >>> summary({"add": "met", "wrap": "met"})
    (['all 2 floors are met'], 0)
    >>> summary({"add": "MISSED", "wrap": "UNSTEADY", "guarded": "met"})
    (['floors missed: add (0.6 ns)', 'not judged, since rounds differ by more than 10 %: wrap'], 1)
    >>> summary({"wrap": "UNSTEADY", "guarded": "met"})[1]
    2
    """
    named = lambda state: [name for name, found in judgements.items() if found == state]
    missed, unsteady = named("MISSED"), named("UNSTEADY")
    lines = []
    if missed:
        floors = ", ".join(f"{name} ({FLOORS[name]} ns)" for name in missed)
        lines.append(f"floors missed: {floors}")
    if unsteady:
        differ = f"not judged, since rounds differ by more than {AGREEMENT:.0%}"
        lines.append(f"{differ.replace('%', ' %')}: {', '.join(unsteady)}")
    if not lines:
        lines.append(f"all {len(judgements)} floors are met")
    return lines, 1 if missed else 2 if unsteady else 0


def processor_seconds(command):
    """User and system time of a command that must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status:#x}")
    return usage.ru_utime + usage.ru_stime


# What is made elsewhere than at accesses, and by what the tool counts how often.
COUNTED_BY = {"version-off": "superblocks"}


def passages(build, program, name, rounds):
    """How often something is made, as the tool counts it."""
    counted = COUNTED_BY.get(name, "count")
    command = [build, "costs", counted, "--", program, str(rounds), "0"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(said.split()[0])


def measure(builds):
    """Processor seconds of each round, and how often the primitive is made, by primitive and build."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "primitives")
        subprocess.run(["gcc", "-O1", SOURCE, "-o", program], check=True)
        times = {
            (name, build): calls or passages(build, program, name, rounds)
            for name, ((rounds, calls), _) in PRIMITIVES.items()
            for build in builds
        }
        taken = {key: [] for key in times}
        for _ in range(ROUNDS):
            for name, build in taken:
                (rounds, calls), _ = PRIMITIVES[name]
                command = [build, "costs", name, "--", program, str(rounds), str(calls)]
                taken[name, build].append(processor_seconds(command))
    return taken, times


def main():
    builds = [word for word in sys.argv[1:] if word != "--judge"]
    if not builds or builds[0].startswith("-"):
        sys.exit(__doc__)
    taken, times = measure(builds)
    print(f"{'':12} {'cost':>10} {'floor':>6} {'':8} {'with':>8} {'spread':>6} {'without':>8} spread")
    judgements = {}
    for (name, build), seconds in taken.items():
        _, compared = PRIMITIVES[name]
        if compared is None:
            continue
        without = taken[compared, build]
        each = cost(seconds, without, times[name, build])
        state = judgement(name, seconds, without, times[name, build]) if build == builds[0] else None
        if state:
            judgements[name] = state
        print(
            f"{name:16} {each:7.2f} ns {FLOORS.get(name, '') if state else '':>6} {state or '':8}"
            f" {min(seconds):6.2f} s {spread(seconds):6.0%} {min(without):6.2f} s {spread(without):6.0%}"
            f"  {build}"
        )
    lines, status = summary(judgements)
    print("\n".join(lines))
    if "--judge" in sys.argv[1:]:
        sys.exit(status)


if __name__ == "__main__":
    main()
