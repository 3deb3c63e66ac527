#!/usr/bin/env python3
"""How many unwinds fail, with unwind information and without any.

bench/unwinds.py UNSPOOL [--seconds S] [--builds N] [--seed SEED] compiles programs statically, by each compiler
that is here, at many levels, and runs each under `unspool profile`, 10,000 samples a second: as it was
compiled, and again without symbols and call-frame information, also of the C library in it. A row has unwinds, those
that found no caller (failed), those that were led to what calls nothing (wrong), those that were cut off at
the end of what was copied of the stack, and the rate of failed and wrong ones.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Sources, and arguments that make them run for longer than they are looked at.
SOURCES = {
    "interpreter.c": ["100000"],
    "black_scholes.c": ["100000"],
    "mutex_pipeline.c": ["1000000000"],
    "hash_table.c": ["100000"],
    "exp_log.c": ["1000000"],
    "virtual_calls.cpp": ["10000000"],
    "map_sort.cpp": ["100000"],
    "stencil3d.f90": ["100000"],
    "../../crates/unwind/tests/corpus/frames.c": [],
}
COMPILERS = {".c": ["gcc", "clang", "clang-19"], ".cpp": ["g++", "clang++", "clang++-19"], ".f90": ["gfortran"]}
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
FRAME_POINTERS = ["-fomit-frame-pointer", "-fno-omit-frame-pointer"]
BARE = ["--strip-all", "--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr"]


def builds():
    for source, arguments in SOURCES.items():
        for compiler in COMPILERS[os.path.splitext(source)[1]]:
            if shutil.which(compiler):
                for level in LEVELS:
                    for pointer in FRAME_POINTERS:
                        yield source, arguments, [compiler, level, pointer]


def unwinds(unspool, program, arguments, seconds, folder):
    """Counts of unwinds: all, failed, wrong, cut off; none where nothing was sampled."""
    report = os.path.join(folder, "report")
    own = [unspool, "profile", "--backend=perf", "--frequency=10000", "--json", "--report", report, "--"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*own, program, *arguments], **quiet) as command:
        time.sleep(seconds)
        with open(f"/proc/{command.pid}/task/{command.pid}/children") as children:
            for child in children.read().split():
                os.kill(int(child), signal.SIGKILL)
    with open(report) as file:
        told = json.load(file)
    os.remove(report)
    ends = told["unwinds"]
    whole = ends["complete"] + ends["cut_off"] + ends["failed"]
    return [whole, ends["failed"], told["steps"]["wrong"], ends["cut_off"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("unspool")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--builds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"--seed {options.seed}")
    chosen = list(builds())
    random.Random(options.seed).shuffle(chosen)
    all_of = {"as compiled": [0] * 4, "without any": [0] * 4}
    with tempfile.TemporaryDirectory() as folder:
        for source, arguments, (compiler, *flags) in chosen[: options.builds]:
            program, bare = (os.path.join(folder, name) for name in ("program", "bare"))
            command = [compiler, "-g", "-w", "-static", "-pthread", *flags, "-J", folder, "-o", program]
            if compiler != "gfortran":
                command = [word for word in command if word not in ("-J", folder)]
            done = subprocess.run([*command, os.path.join(HERE, "programs", source), "-lm"], capture_output=True)
            if done.returncode != 0:
                sys.exit(f"{compiler} {flags} {source}: {done.stderr.decode()}")
            subprocess.run(["objcopy", *BARE, program, bare], check=True)
            for form, file in zip(all_of, (program, bare)):
                counts = unwinds(options.unspool, file, arguments, options.seconds, folder)
                all_of[form] = [one + other for one, other in zip(all_of[form], counts)]
                if counts[1] + counts[2] > 0:
                    print(f"{form}: {counts}: {compiler} {' '.join(flags)} {source}", flush=True)
    print("                 unwinds   failed    wrong   cut off      rate")
    for form, (whole, failed, wrong, cut) in all_of.items():
        rate = (failed + wrong) / whole if whole else float("nan")
        print(f"{form:14}{whole:10}{failed:9}{wrong:9}{cut:10}   {rate:.2e}")


if __name__ == "__main__":
    main()
