//! Interpreters and a data base: threads, processes, foreign functions, large heaps.

use super::{Case, PLAIN};

const PYTHON_THREADS: &str = "
import threading, queue
jobs, results = queue.Queue(), []
lock = threading.Lock()
def work():
    while (job := jobs.get()) is not None:
        value = sum(i * i for i in range(job))
        with lock:
            results.append(value)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for job in range(200): jobs.put(job)
for _ in threads: jobs.put(None)
for thread in threads: thread.join()
print(sum(results), len(results))
";

const PYTHON_PROCESSES: &str = "
import multiprocessing, os
def square(x):
    return x * x
if __name__ == '__main__':
    for method in ('fork', 'spawn'):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(method, sum(pool.map(square, range(500))))
";

const PYTHON_MIXED: &str = "
import ctypes, subprocess, signal, json, re, hashlib, os, sys, decimal
libc = ctypes.CDLL(None)
libc.qsort.restype = None
numbers = (ctypes.c_int * 200)(*[(i * 7919) % 1000 for i in range(200)])
order = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
libc.qsort(numbers, 200, 4, order(lambda a, b: a[0] - b[0]))
print(numbers[0], numbers[100], numbers[199])
print(subprocess.run(['tr', 'a-z', 'A-Z'], input='piped', capture_output=True, text=True).stdout)
try:
    subprocess.run(['/no/such/program'])
except FileNotFoundError as problem:
    print(problem)
seen = []
signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
while len(seen) < 5:
    json.loads(json.dumps({str(i): [i] * 3 for i in range(50)}))
signal.setitimer(signal.ITIMER_REAL, 0)
print(hashlib.sha256(b'spool' * 1000).hexdigest())
print(len(re.findall(r'(a+)(b+)', 'aabbab' * 1000)))
decimal.getcontext().prec = 60
print(decimal.Decimal(2).sqrt())
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)
sys.setrecursionlimit(5000)
print(depth(2500))
class Cleaned:
    def __del__(self):
        print('cleaned')
Cleaned()
sys.exit(23)
";

const PERL: &str = "
my %count; my $x = 11;
for my $i (1 .. 20000) { $x = ($x * 16807) % 2147483647; $count{$x % 50}++; }
print join(' ', map { qq($_=$count{$_}) } sort { $a <=> $b } keys %count), qq(\\n);
my $text = join ',', 1 .. 3000; my $n = () = $text =~ /(\\d)(?=\\d*3)/g; print qq($n\\n);
$text =~ s/(\\d+)/$1 % 3 ? $1 : q(fizz)/ge; print length $text, qq(\\n);
local $SIG{ALRM} = sub { die qq(timeout\\n) }; eval { alarm 1; select undef, undef, undef, 5; }; print $@;
my $pid = fork; if (!$pid) { exit 9 } waitpid $pid, 0; print $? >> 8, qq(\\n);
print `echo from a shell`; eval { die { code => 5 } }; print $@->{code}, qq(\\n); exit 4;
";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "python_threads",
        command: &["python3", "-c", PYTHON_THREADS],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "python_processes",
        needs: &["python3"],
        // Children that are spawned afresh import the program, so it must be a file.
        prepare: "true",
        command: &[
            "bash",
            "-c",
            "printf '%s' \"$1\" > program.py; python3 program.py",
            "-",
            PYTHON_PROCESSES,
        ],
        ..PLAIN
    },
    Case {
        name: "python_mixed",
        command: &["python3", "-c", PYTHON_MIXED],
        ..PLAIN
    },
    Case {
        name: "perl",
        command: &["perl", "-e", PERL],
        ..PLAIN
    },
    Case {
        name: "sqlite",
        command: &[
            "sqlite3",
            "base",
            "create table t(a integer primary key, b text, c real); \
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
             insert into t select i, 'row ' || (i * 7919 % 10007), i / 7.0 from n; \
             create index by_b on t(b); begin; update t set c = c * 2 where a % 3 = 0; commit; \
             select count(*), sum(c), max(b) from t; \
             select b, count(*) from t group by b order by 2 desc, 1 limit 5; \
             delete from t where a > 5000; vacuum; pragma integrity_check;",
        ],
        inspect: "sqlite3 base 'select count(*), total(c) from t'",
        ..PLAIN
    },
    Case {
        name: "node",
        command: &[
            "node",
            "-e",
            "let s = 0; for (let i = 0; i < 3e6; i++) s = (s + i * i) % 1000003; console.log(s); \
             setTimeout(() => Promise.resolve(5).then(v => console.log(v)), 10);",
        ],
        ..PLAIN
    },
];
