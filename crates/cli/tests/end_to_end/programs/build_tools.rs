//! Compilers, make and git: many processes, pipes between them, temporary files.

use super::{Case, PLAIN};

const C_PROGRAM: &str = r#"cat > p.c <<'E'
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    int n[500];
    for (int i = 0; i < 500; i++) n[i] = i * 7919 % 1009;
    qsort(n, 500, sizeof *n, compare);
    printf("%d %d\n", n[0], n[499]);
    return 12;
}
E"#;

const CPP_PROGRAM: &str = r#"cat > p.cpp <<'E'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main() {
    std::map<std::string, int> m;
    for (int i = 0; i < 1000; i++) m[std::to_string(i * i % 137)]++;
    std::cout << m.size() << ' ' << std::regex_match("2024", std::regex("\\d+")) << std::endl;
}
E"#;

const MAKEFILE: &str = r"
for i in 1 2 3 4 5 6; do echo 'int f'$i'(void) { return '$i'; }' > f$i.c; done
{ for i in 1 2 3 4 5 6; do echo 'int f'$i'(void);'; done
  echo 'int main(void) { return f1() + f2() + f3() + f4() + f5() + f6(); }'; } > main.c
printf 'all: program\nprogram: main.o f1.o f2.o f3.o f4.o f5.o f6.o\n\t$(CC) -o $@ $^\n%%.o: %%.c\n\t$(CC) -c -o $@ $<\n' > Makefile
";

const GIT: &str = "
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_CONFIG_NOSYSTEM=1
git init -q -b main repository; cd repository
for i in 1 2 3 4; do seq 1 $((i * 300)) > f$i; git add .; git commit -q -m \"commit $i\"; done
git log --stat --oneline; git diff HEAD~2 | tail -n 3; git checkout -q -b side HEAD~1; echo x > x
git add x; git commit -q -m side; git merge -q main -m merged; git gc -q; git fsck; git rev-parse HEAD
git status --short; git blame f1 | tail -n 1; git archive HEAD | cksum
";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "gcc",
        prepare: C_PROGRAM,
        command: &["gcc", "-O2", "-pipe", "-o", "p", "p.c"],
        inspect: "./p && exit 1 || echo $?; strip p; cksum < p",
        ..PLAIN
    },
    Case {
        name: "gxx",
        prepare: CPP_PROGRAM,
        command: &["g++", "-O1", "-o", "p", "p.cpp"],
        inspect: "./p; strip p; cksum < p",
        ..PLAIN
    },
    Case {
        name: "gcc_refuses",
        prepare: "echo 'int main(void) { return undeclared; }' > p.c",
        command: &["gcc", "-c", "p.c"],
        ..PLAIN
    },
    Case {
        name: "make",
        needs: &["gcc"],
        prepare: MAKEFILE,
        command: &["make", "-s", "-j2", "CC=gcc"],
        inspect: "./program && exit 1 || echo $?; make -q CC=gcc",
        ..PLAIN
    },
    Case {
        name: "git",
        needs: &["git"],
        command: &["bash", "-euc", GIT],
        ..PLAIN
    },
    Case {
        name: "gdb_batch",
        command: &["gdb", "-nx", "-batch", "-ex", "print 6*7"],
        ..PLAIN
    },
    Case {
        name: "readelf",
        command: &["readelf", "-Ws", "/bin/ls"],
        ..PLAIN
    },
    Case {
        name: "objdump",
        command: &["objdump", "-d", "--no-show-raw-insn", "/bin/true"],
        ..PLAIN
    },
];
