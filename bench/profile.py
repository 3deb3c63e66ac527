#!/usr/bin/env python3
"""What sampling costs and how right it is, beside `perf record`.

bench/profile.py UNSPOOL [--rounds N] [--programs NAME,NAME] runs each program natively, under `unspool
profile` by both back ends, and under `perf record` with frame pointers and with copies of stacks (where
perf is installed), in turn, in the same minutes. A row has the elapsed time and the processor time of
the program and whatever observes it: the least of the rounds in seconds, how far the greatest lies above
that, and what the least is above the least of the native runs. `unspool report` and `perf script` are the
time that it takes to read what was recorded.

Behind the programs, a program that spends known shares of its time on known call paths is sampled by each,
and the row is how far the share of a path is off at most, and how many samples have a path from the
function back to where the thread began.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GUESTS = os.path.join(HERE, "../crates/guests/programs")
# Source, flags and arguments; or a command of the machine.
PROGRAMS = {
    "interpreter": ("interpreter.c", [], ["600"]),
    "virtual_calls": ("virtual_calls.cpp", [], ["30000"]),
    "map_sort": ("map_sort.cpp", [], ["60"]),
    "black_scholes": ("black_scholes.c", ["-fno-tree-vectorize", "-pthread"], ["350"]),
    "mutex_pipeline": ("mutex_pipeline.c", ["-pthread"], ["1500000"]),
    "python3": None,
}
COMPILERS = {".c": "gcc", ".cpp": "g++"}
LEAST_ROUNDS = 5
# The shares of `profile/shares.c`: of the function that calls `burn`, in seconds of 1.2.
SHARES = {"left": 0.42, "right": 0.18, "descend": 0.2, "on_signal": 0.2, "other_thread": 0.2}
ALL_SHARES = 1.2


def compiled(source, flags, folder):
    name, suffix = os.path.splitext(os.path.basename(source))
    out = os.path.join(folder, name)
    command = [COMPILERS[suffix], "-O2", "-g", *flags, "-o", out, source, "-lm"]
    done = subprocess.run(command, capture_output=True)
    return out if done.returncode == 0 else None


def measured(command):
    """Elapsed and processor seconds; none where it failed."""
    before = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        return None
    return time.monotonic() - before, usage.ru_utime + usage.ru_stime


def contenders(unspool, command, folder, report):
    """The commands that record, by name, and the file of each."""
    kept = {name: os.path.join(folder, f"{name}.data") for name in
            ("perf", "perf 100", "timer", "off-cpu", "record fp", "record dwarf")}
    own = [unspool, "profile", "--report", report, "--view", "hot-path"]
    commands = {
        "native": (command, None),
        "perf": ([*own, "--backend=perf", "-o", kept["perf"], "--", *command], "unspool"),
        "perf 100": ([*own, "--backend=perf", "--frequency=100", "-o", kept["perf 100"], "--", *command],
                     "unspool"),
        "timer": ([*own, "--backend=timer", "-o", kept["timer"], "--", *command], "unspool"),
        "off-cpu": ([*own, "--backend=perf", "--off-cpu", "-o", kept["off-cpu"], "--", *command],
                    "unspool"),
    }
    if shutil.which("perf"):
        record = ["perf", "record", "-e", "cpu-clock", "-F", "1000"]
        commands["record fp"] = ([*record, "-g", "-o", kept["record fp"], "--", *command], "perf")
        commands["record dwarf"] = (
            [*record, "--call-graph=dwarf,16384", "-o", kept["record dwarf"], "--", *command],
            "perf",
        )
    return commands, kept


def overheads(options, folder):
    report = os.path.join(folder, "report")
    print("program         contender      elapsed (spread)   above    processor (spread)   above")
    for name in options.programs.split(","):
        if PROGRAMS[name] is None:
            command = ["python3", os.path.join(HERE, "programs/python_mix.py"), "40"]
        else:
            source, flags, arguments = PROGRAMS[name]
            program = compiled(os.path.join(HERE, "programs", source), flags, folder)
            if program is None:
                print(f"{name:16}skipped: it cannot be compiled here")
                continue
            command = [program, *arguments]
        commands, _ = contenders(options.unspool, command, folder, report)
        runs = {contender: [] for contender in commands}
        for _ in range(options.rounds):
            for contender, (command, _) in commands.items():
                runs[contender].append(measured(command))
        native = None
        for contender, rounds in runs.items():
            if None in rounds:
                print(f"{name:16}{contender:13}failed")
                continue
            row = f"{name:16}{contender:13}"
            own = [min(values) for values in zip(*rounds)]
            native = native or own
            for values, least, without in zip(zip(*rounds), own, native):
                row += f"{least:8.2f} s ({max(values) / least - 1:5.1%})"
                row += "        - " if contender == "native" else f" {least / without - 1:8.1%} "
            print(row, flush=True)


def of_unspool(unspool, file):
    """For each call path its weight, from `unspool profile --folded`."""
    done = subprocess.run([unspool, "profile", "--folded", file], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        path, _, weight = line.rpartition(" ")
        yield path.split(";"), float(weight)


def of_perf(file):
    """The same, from `perf script`: one for each sample."""
    done = subprocess.run(
        ["perf", "script", "-i", file, "-F", "comm,ip,sym"], capture_output=True, text=True
    )
    path = []
    for line in done.stdout.splitlines() + [""]:
        words = line.split()
        if not words:
            if path:
                yield path[::-1], 1.0
            path = []
        elif line[0].isspace():
            path.append(words[1] if len(words) > 1 else "[unknown]")


def accuracy(options, folder):
    source = os.path.join(GUESTS, "profile/shares.c")
    flags = ["-fomit-frame-pointer", "-pthread", "-I", GUESTS]
    program = compiled(source, flags, folder)
    if program is None:
        print("shares: cannot be compiled here")
        return
    report = os.path.join(folder, "report")
    commands, kept = contenders(options.unspool, [program], folder, report)
    print("\ncontender      farthest share   paths from the thread's start   to read")
    for contender, (command, reader) in commands.items():
        if reader is None:
            continue
        rows = []
        for _ in range(options.rounds):
            if measured(command) is None:
                break
            before = time.monotonic()
            file = kept[contender]
            paths = list(of_unspool(options.unspool, file) if reader == "unspool" else of_perf(file))
            seconds = time.monotonic() - before
            total = sum(weight for _, weight in paths) or 1.0
            shares = dict.fromkeys(SHARES, 0.0)
            whole = 0.0
            for path, weight in paths:
                whole += weight if path[0] in ("_start", "clone3", "__clone3", "clone") else 0.0
                for caller, callee in zip(path, path[1:]):
                    if callee == "burn" and caller in shares:
                        shares[caller] += weight
            off = max(abs(shares[it] / total - SHARES[it] / ALL_SHARES) for it in SHARES)
            rows.append((off, whole / total, seconds))
        if len(rows) < options.rounds:
            print(f"{contender:15}failed")
            continue
        off, whole, seconds = zip(*rows)
        print(f"{contender:15}{min(off):6.1%} to {max(off):6.1%}   {min(whole):6.1%} to {max(whole):6.1%}"
              f"              {min(seconds):6.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("unspool")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args()
    if options.rounds < LEAST_ROUNDS:
        print(f"fewer than {LEAST_ROUNDS} rounds: no figure to be quoted")
    if unknown := set(options.programs.split(",")) - set(PROGRAMS):
        sys.exit(f"there is no {', '.join(unknown)}: there are {', '.join(PROGRAMS)}")
    with tempfile.TemporaryDirectory() as folder:
        overheads(options, folder)
        accuracy(options, folder)


if __name__ == "__main__":
    main()
