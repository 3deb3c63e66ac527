#!/usr/bin/env python3
"""How fast a trace is converted: accesses for each second of one processor.

bench/exports.py TRACE UNSPOOL [OTHER_UNSPOOL…] runs each build with each format in turn, five
rounds, and prints the best round of each and how far the worst was from it. The figure is accesses
over user and system time, so that it is the speed of one core on a busy machine, too. The trace
should have 20 million accesses or more.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

ROUNDS = 5
FORMATS = {
    "none": [],
    "csv": ["-o", "/dev/null"],
    "csv, to a file": ["-o", "{folder}/lines.csv"],
    "tsv": ["-o", "/dev/null"],
    "json": ["-o", "/dev/null"],
    "parquet": ["-o", "{folder}/tables"],
    "parquet, ordered": ["--ordered", "-o", "{folder}/tables"],
    "parquet, partitioned": ["--partitioned", "-o", "{folder}/set"],
}


def processor_seconds(command):
    """User and system time of a command that must succeed."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status:#x}")
    return usage.ru_utime + usage.ru_stime


def main():
    trace, *builds = sys.argv[1:]
    if not builds:
        sys.exit(__doc__)
    information = subprocess.check_output([builds[0], "info", "--quick", "--json", trace])
    accesses = json.loads(information)["totals"]["accesses"]
    taken = {(label, build): [] for label in FORMATS for build in builds}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for _ in range(ROUNDS):
            for label, build in taken:
                options = [option.format(folder=folder) for option in FORMATS[label]]
                kind = label.split(",")[0]
                command = [build, "export", trace, "--format", kind, *options]
                taken[label, build].append(processor_seconds(command))
                shutil.rmtree(os.path.join(folder, "set"), ignore_errors=True)
    print(f"{accesses} accesses; million a second and core: best of {ROUNDS}, spread")
    for (label, build), seconds in taken.items():
        rates = [accesses / second / 1e6 for second in seconds]
        spread = (max(seconds) - min(seconds)) / min(seconds)
        print(f"{label:18} {max(rates):7.1f} {spread:6.0%}  {build}")


if __name__ == "__main__":
    main()
