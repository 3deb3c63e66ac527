#!/usr/bin/env python3
"""What sampling costs the program itself, without what the command does before and behind it.

bench/sampling_cost.py UNSPOOL [--rounds N] runs a program with a fixed amount of work below twenty frames, which
tells its own processor time and elapsed time, natively, under `unspool profile` by both back ends, and
under `perf record`, in turn. A row has the least of the rounds, what that is above the least of the native
runs, and the median and greatest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

LEAST_ROUNDS = 5
SOURCE = r"""
#include <stdio.h>
#include <time.h>
static double at(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}
__attribute__((noinline, noipa)) unsigned long work(unsigned long count, int depth) {
    if (depth > 0) {
        unsigned long below = work(count, depth - 1);
        __asm__ volatile("" : "+r"(below));
        return below + 1;
    }
    unsigned long value = count;
    for (unsigned long i = 0; i < count; i++)
        value = value * 6364136223846793005ul + i;
    return value;
}
int main(void) {
    double cpu = at(CLOCK_PROCESS_CPUTIME_ID), wall = at(CLOCK_MONOTONIC);
    unsigned long sum = 0;
    for (int i = 0; i < 20; i++)
        sum += work(40000000ul, 20);
    fprintf(stderr, "own %f %f %lu\n", at(CLOCK_PROCESS_CPUTIME_ID) - cpu, at(CLOCK_MONOTONIC) - wall, sum);
}
"""


def own_times(command):
    done = subprocess.run(command, capture_output=True, text=True)
    for line in done.stderr.splitlines():
        if line.startswith("own "):
            return [float(word) for word in line.split()[1:3]]
    sys.exit(f"{' '.join(command)}: {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("unspool")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if options.rounds < LEAST_ROUNDS:
        print(f"fewer than {LEAST_ROUNDS} rounds: no figure to be quoted")
    with tempfile.TemporaryDirectory() as folder:
        source, program, kept = (os.path.join(folder, name) for name in ("own.c", "own", "kept"))
        with open(source, "w") as file:
            file.write(SOURCE)
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-o", program, source], check=True)
        own = [options.unspool, "profile", "--report=/dev/null", "-o", kept]
        contenders = {
            "native": [program],
            "perf": [*own, "--backend=perf", "--", program],
            "perf 100": [*own, "--backend=perf", "--frequency=100", "--", program],
            "timer": [*own, "--backend=timer", "--", program],
        }
        if shutil.which("perf"):
            record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1000", "-g", "-o", kept, "--"]
            contenders["record fp"] = [*record, program]
        runs = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, command in contenders.items():
                runs[name].append(own_times(command))
    for what, times in (("processor", 0), ("elapsed", 1)):
        native = min(own[times] for own in runs["native"])
        for name, rounds in runs.items():
            values = sorted(own[times] for own in rounds)
            above, median = values[0] / native - 1, values[len(values) // 2]
            print(f"{what:10}{name:10}{values[0]:8.4f} s {above:+7.2%}   {median:8.4f} s {values[-1]:8.4f} s")


if __name__ == "__main__":
    main()
