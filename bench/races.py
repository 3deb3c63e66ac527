#!/usr/bin/env python3
"""What looking for data races costs, beside the tools that a user would take instead.

bench/races.py UNSPOOL [--rounds N] [--programs NAME,NAME] [--contenders NAME,NAME] compiles programs of
bench/programs for two threads and runs each natively, under `unspool race`, with locks followed and with
what another order would show (`--predict`) too, under valgrind's helgrind and drd (where it is installed),
and compiled for ThreadSanitizer (where gcc has it), in turn, in the same minutes. A row has user and system
time and elapsed time, each the least of the rounds in seconds, how far the greatest lies above that, and the
least over the least of the native runs; the peak of memory over native; and in how many of its rounds unspool
found races: the time then holds their report, too. Geometric means are over the programs that every contender
ran.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
# Source, flags, arguments, and whether more than one thread works.
KERNELS = {
    "stencil2d": ("stencil2d.c", ["-fopenmp"], ["60"], True),
    "stencil3d": ("stencil3d.f90", ["-fopenmp"], ["30"], True),
    "conjugate_gradient": ("conjugate_gradient.c", ["-fopenmp"], ["100"], True),
    "fine_grained": ("fine_grained.c", ["-fopenmp"], ["1500"], True),
    "black_scholes": ("black_scholes.c", ["-fno-tree-vectorize", "-pthread"], ["20"], True),
    "private_phases": ("private_phases.c", ["-pthread"], ["100"], True),
    "mutex_pipeline": ("mutex_pipeline.c", ["-pthread"], ["80000"], True),
    "contended_counter": ("contended_counter.c", ["-pthread"], ["1000000"], True),
    "lockfree_queue": ("lockfree_queue.c", ["-pthread"], ["1500000"], True),
    "map_sort": ("map_sort.cpp", [], ["3"], False),
    "interpreter": ("interpreter.c", [], ["30"], False),
    "hash_table": ("hash_table.c", [], ["2500"], False),
}
# Fewer rounds than these say nothing.
LEAST_ROUNDS = 5
# The status of unspool where races were found and the program ended with 0.
RACES_FOUND = 66
CONTENDERS = ["unspool", "locks", "predict", "helgrind", "drd", "tsan"]
COMPILERS = {".c": "gcc", ".cpp": "g++", ".f90": "gfortran"}
LONGEST = 600


def compiled(source, flags, folder, sanitize):
    """The program, compiled; none where it cannot be."""
    name, suffix = os.path.splitext(source)
    out = os.path.join(folder, name + ("-tsan" if sanitize else ""))
    extra = ["-fsanitize=thread"] if sanitize else []
    command = [COMPILERS[suffix], "-O2", "-g", *flags, *extra, "-o", out]
    libraries = ["-lm"]
    done = subprocess.run(command + [os.path.join(PROGRAMS, source)] + libraries, capture_output=True)
    return out if done.returncode == 0 else None


def measured(command):
    """Processor seconds, elapsed seconds, the peak of memory in KiB, and whether races were found; none
    where it failed."""
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2")
    # Reports take long where a runtime library was not compiled for ThreadSanitizer.
    environment["TSAN_OPTIONS"] = "exitcode=0 report_bugs=0"
    before = time.monotonic()
    with subprocess.Popen(
        ["timeout", str(LONGEST), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    found = process.returncode == RACES_FOUND and "race" in command[:2]
    if process.returncode != 0 and not found:
        return None
    return usage.ru_utime + usage.ru_stime, time.monotonic() - before, usage.ru_maxrss, found


def contenders(unspool, program, sanitized, arguments):
    """The commands, by name."""
    commands = {"native": [program, *arguments]}
    commands["unspool"] = [unspool, "race", "--", program, *arguments]
    commands["locks"] = [unspool, "race", "--locks", "--", program, *arguments]
    commands["predict"] = [unspool, "race", "--predict", "--", program, *arguments]
    if shutil.which("valgrind"):
        commands["helgrind"] = ["valgrind", "--tool=helgrind", program, *arguments]
        commands["drd"] = ["valgrind", "--tool=drd", program, *arguments]
    if sanitized:
        commands["tsan"] = [sanitized, *arguments]
    return commands


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("unspool")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", default=",".join(KERNELS))
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="beside native ones")
    options = parser.parse_args()
    if options.rounds < LEAST_ROUNDS:
        print(f"fewer than {LEAST_ROUNDS} rounds: no figure to be quoted")
    if unknown := set(options.programs.split(",")) - set(KERNELS):
        sys.exit(f"there is no {', '.join(unknown)}: there are {', '.join(KERNELS)}")
    wanted = options.contenders.split(",")
    if unknown := set(wanted) - set(CONTENDERS):
        sys.exit(f"there is no {', '.join(unknown)}: there are {', '.join(CONTENDERS)}")
    ratios = {}
    print(
        "program             contender    processor (spread)   ratio    elapsed (spread)   ratio  memory"
        "  rounds with races"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs.split(","):
            source, flags, arguments, is_parallel = KERNELS[name]
            program = compiled(source, flags, folder, sanitize=False)
            if program is None:
                print(f"{name:20}skipped: it cannot be compiled here")
                continue
            sanitized = compiled(source, flags, folder, sanitize=True)
            commands = contenders(options.unspool, program, sanitized, arguments)
            commands = {it: command for it, command in commands.items() if it in ["native", *wanted]}
            runs = {contender: [] for contender in commands}
            for _ in range(options.rounds):
                for contender, command in commands.items():
                    runs[contender].append(measured(command))
            native = None
            for contender, rounds in runs.items():
                if None in rounds:
                    print(f"{name:20}{contender:12}failed, or took longer than {LONGEST} s")
                    continue
                processor, elapsed, memory, found = zip(*rounds)
                own = [min(processor), min(elapsed), min(memory)]
                if contender == "native":
                    native = own
                    if own[0] < 0.05:
                        print(f"{name:20}native      takes too little for a ratio to mean much")
                row = f"{name:20}{contender:12}"
                ratio = [a / max(b, 1e-3) for a, b in zip(own, native)] if native else None
                for values, number in ((processor, 0), (elapsed, 1)):
                    apart = max(values) / max(min(values), 1e-3) - 1
                    row += f"{min(values):8.2f} s ({apart:6.0%})"
                    row += f"{ratio[number]:8.2f} " if ratio else "       - "
                row += f"{ratio[2]:8.2f}" if ratio else "       -"
                # The status of the others says nothing of races.
                row += f"  {sum(found)} of {len(found)}" if contender == "unspool" else "  -"
                print(row, flush=True)
                if ratio and contender != "native":
                    ratios.setdefault((is_parallel, contender), {})[name] = ratio[0]
    for is_parallel in (True, False):
        of_kind = {contender: by for (kind, contender), by in ratios.items() if kind == is_parallel}
        if not of_kind:
            continue
        common = set.intersection(*(set(by) for by in of_kind.values()))
        threads = "two threads" if is_parallel else "one thread"
        for contender, by in of_kind.items():
            if common:
                figure = mean([by[name] for name in common])
                worst = max(by[name] for name in common)
                print(f"{threads}, {len(common)} programs: {contender:10} mean {figure:.2f}, worst {worst:.2f}")


if __name__ == "__main__":
    main()
