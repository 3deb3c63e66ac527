#!/usr/bin/env python3
"""What engines read of a partitioned data set, and whether they find what the trace holds.

bench/data_set.py TRACE UNSPOOL exports TRACE with each of its threads and asks DuckDB and Spark
(packages duckdb and pyspark; Spark needs Java) for the number of accesses, those of each thread,
and those of one thread within a hundredth of its time, without and with the blocks of time in
which these are. It prints for each the time and the bytes read from files, and ends with an error
where an answer is not that of `unspool info` or of `unspool export --format csv`. The trace should
have 100 million accesses, and several threads.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def bytes_read(process):
    """Bytes that a process and its children have read, from the disk or the kernel's cache."""
    with open(f"/proc/{process}/io") as facts:
        own = int(dict(line.split(": ") for line in facts)["rchar"])
    with open(f"/proc/{process}/task/{process}/children") as children:
        return own + sum(bytes_read(child) for child in children.read().split())


def timed(label, ask):
    """Asks, prints what it took, returns the answer."""
    began, before = time.monotonic(), bytes_read(os.getpid())
    answer = ask()
    seconds, read = time.monotonic() - began, bytes_read(os.getpid()) - before
    print(f"{label:44} {seconds:7.2f} s {read / 1e6:8.1f} MB read  {answer}", flush=True)
    return answer


def with_duckdb(folder, question):
    import duckdb

    accesses = f"FROM read_parquet('{folder}/accesses/**/*.parquet', hive_partitioning = true)"
    return duckdb.execute(question.format(accesses=accesses)).fetchall()


def with_spark(folder):
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.read.parquet(f"{folder}/accesses").createOrReplaceTempView("accesses")

    def ask(_, question):
        rows = spark.sql(question.format(accesses="FROM accesses"))
        return [tuple(row) for row in rows.collect()]

    return ask


def expected_in(unspool, trace, thread, times):
    """Counts the lines of CSV, which come another way."""
    is_counted = f'$2 == {thread} && $1 >= {times.start} && $1 < {times.stop}'
    program = is_counted + ' && ($3 == "read" || $3 == "write") { count++ } END { print +count }'
    export = [unspool, "export", trace, "--format", "csv"]
    with subprocess.Popen(export, stdout=subprocess.PIPE) as process:
        return int(subprocess.check_output(["awk", "-F,", program], stdin=process.stdout))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    trace, unspool = sys.argv[1:]
    about = subprocess.check_output([unspool, "info", "--quick", "--json", trace])
    about = json.loads(about)
    total = about["totals"]["accesses"]
    threads = {thread["thread"]: thread for thread in about["threads"]}
    busiest = max(threads.values(), key=lambda thread: thread["accesses"])
    first, last = busiest["start_time"], busiest["end_time"]
    middle = first + (last - first) // 2
    times = range(middle, middle + (last - first) // 100)
    thread = busiest["thread"]
    expected = expected_in(unspool, trace, thread, times)
    within = f"thread = {thread} AND time >= {times.start} AND time < {times.stop}"
    blocks = f" AND time_block BETWEEN {times.start >> 26} AND {(times.stop - 1) >> 26}"
    questions = {
        "count": ("SELECT count(*) {accesses}", [(total,)]),
        "of each thread": (
            "SELECT thread, count(address) {accesses} GROUP BY thread ORDER BY thread",
            [(number, facts["accesses"]) for number, facts in sorted(threads.items())],
        ),
        "one thread, a hundredth of its time": (
            "SELECT count(address) {accesses} WHERE " + within,
            [(expected,)],
        ),
        "the same, with its blocks of time": (
            "SELECT count(address) {accesses} WHERE " + within + blocks,
            [(expected,)],
        ),
        "sum of all sizes": ("SELECT count(DISTINCT size), sum(size) {accesses}", None),
    }
    with tempfile.TemporaryDirectory(dir=".") as folder:
        folder = os.path.join(folder, "set")
        export = [unspool, "export", trace, "--format", "parquet", "--partitioned", "-o", folder]
        subprocess.check_call(export)
        engines = {"duckdb": with_duckdb, "spark": with_spark(folder)}
        for label, (question, right) in questions.items():
            answers = [
                timed(f"{name}: {label}", lambda ask=ask: ask(folder, question))
                for name, ask in engines.items()
            ]
            right = right or answers[0]
            if any(answer != right for answer in answers):
                sys.exit(f"{label}: {answers}, and not {right}")


if __name__ == "__main__":
    main()
