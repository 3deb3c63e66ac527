#!/usr/bin/env python3
"""What instrumenting the sources of OpenMP programs costs: processor time over that of the program alone.

bench/instrumented.py UNSPOOL [--rounds N] compiles programs of bench/programs as they are and as `unspool
openmp instrument` writes them, also with loops left out, and runs them in turn, in the same minutes, with two
threads that sleep while they wait. A row has the least of the native rounds in seconds, and the least of the
instrumented ones over that; behind each how far the greatest lies above the least. A ratio of rounds that lie
more than 10 % apart says little, and is marked.
"""

import argparse
import os
import subprocess
import tempfile

from recipes import LEAST_ROUNDS, PROGRAMS, print_row, processor_seconds

RUNS = [
    ("deviates", ["3000"]),
    ("embarrassingly_parallel", ["3000"]),
    ("conjugate_gradient", ["300"]),
]
WAYS = {"instrumented": [], "without loops": ["--leave-out", "loops"]}


def compile_program(source, program, *flags):
    subprocess.run(["gcc", "-O2", "-fopenmp", "-o", program, source, *flags, "-lm"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("unspool")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    unspool = os.path.abspath(options.unspool)
    if options.rounds < LEAST_ROUNDS:
        print(f"fewer than {LEAST_ROUNDS} rounds: no figure to be quoted")
    print("program                  way              native (spread)    ratio (spread)")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        library = os.path.join(folder, "libunspool_dbg.so")
        subprocess.run([unspool, "openmp", "--output", library, "runtime"], check=True)
        for name, arguments in RUNS:
            source = os.path.join(PROGRAMS, f"{name}.c")
            compile_program(source, "./native")
            for number, choices in enumerate(WAYS.values()):
                written = f"{number}.c"
                command = [unspool, "openmp", "--output", written, *choices, "instrument", source]
                subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
                compile_program(written, f"./{number}", library, f"-Wl,-rpath,{folder}")
            commands = ["./native", *(f"./{number}" for number in range(len(WAYS)))]
            rounds = [
                [processor_seconds([command, *arguments]) for command in commands]
                for _ in range(options.rounds)
            ]
            native, *others = zip(*rounds)
            for way, times in zip(WAYS, others):
                print_row(f"{name:25}{way:15}", native, times)


if __name__ == "__main__":
    main()
