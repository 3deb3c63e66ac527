//! Programs over files and text: large trees, sorting on two threads, shells.

use super::{Case, PLAIN};

const NUMBERS: &str = "awk 'BEGIN { x = 7; for (i = 0; i < 60000; i++) { x = (x * 16807) % 2147483647; print x } }' > numbers";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "true",
        command: &["true"],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "ls_tree",
        command: &["ls", "-lR", "/usr/lib"],
        ..PLAIN
    },
    Case {
        name: "ls",
        command: &["ls", "-l", "/usr/bin"],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "sort_parallel",
        prepare: NUMBERS,
        command: &[
            "sort",
            "--parallel=2",
            "-S",
            "2M",
            "-n",
            "-o",
            "sorted",
            "numbers",
        ],
        inspect: "sort -nc sorted; cksum sorted",
        traced: true,
        ..PLAIN
    },
    Case {
        name: "find_xargs",
        needs: &["find", "xargs", "wc"],
        command: &[
            "bash",
            "-c",
            "find /usr/include -name '*.h' -print0 | sort -z | head -z -n 300 | xargs -0 -n 40 wc -l",
        ],
        ..PLAIN
    },
    Case {
        name: "grep_sed_awk",
        prepare: NUMBERS,
        command: &[
            "bash",
            "-c",
            "grep -c 7 numbers; sed -n 's/12\\(3*\\)4/<\\1>/p' numbers | head -n 20; \
             awk '{ s[$1 % 10] += $1 } END { for (i = 0; i < 10; i++) print i, s[i] }' numbers",
        ],
        ..PLAIN
    },
    Case {
        name: "bash_pipelines",
        command: &[
            "bash",
            "-c",
            "set -o pipefail; seq 1 2000 | tr 1 x | rev | sort | uniq -c | tail -n 3; \
             false | true; echo $? ${PIPESTATUS[@]}; echo $(echo nested $(echo deep)); \
             while read -r a b; do echo \"$b $a\"; done < <(printf '1 2\\n3 4\\n'); \
             cat <<< here; exec 3>&1; echo third >&3; (exit 41); echo $?",
        ],
        ..PLAIN
    },
    Case {
        name: "bash_traps",
        command: &[
            "bash",
            "-c",
            "trap 'echo usr1' USR1; trap 'echo bye $?' EXIT; kill -USR1 $$; \
             (trap 'echo sub; exit 3' TERM; kill -TERM $BASHPID; sleep 5); echo $?; \
             sleep 20 & kill -KILL $!; wait $! 2>/dev/null; echo $?; kill -TERM $$",
        ],
        ..PLAIN
    },
    Case {
        name: "bash_jobs",
        command: &[
            "bash",
            "-mc",
            "sleep 0.1 & sleep 0.2 & jobs -r | wc -l; wait; (sleep 0.05; exit 6) & wait $!; echo $?; \
             coproc cat; echo through >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo $line; \
             kill %cat; sleep 20 & kill -STOP $!; kill -CONT $!; kill $!; wait $! 2>/dev/null; echo $?",
        ],
        ..PLAIN
    },
    Case {
        name: "bash_recursion",
        command: &[
            "bash",
            "-c",
            "f() { if (($1 < 2)); then echo $1; else echo $(($(f $(($1-1))) + $(f $(($1-2))))); fi; }; f 7",
        ],
        ..PLAIN
    },
    Case {
        name: "dash_and_env",
        command: &[
            "env",
            "-i",
            "A=1",
            "/bin/sh",
            "-c",
            "echo $A ${B-unset}; ulimit -n; umask; exit 17",
        ],
        ..PLAIN
    },
    Case {
        name: "tar",
        prepare: "mkdir tree; for i in 1 2 3 4 5 6 7 8 9; do mkdir tree/$i; seq $i 500 > tree/$i/f; done",
        command: &[
            "tar",
            "--sort=name",
            "--mtime=@0",
            "-cf",
            "tree.tar",
            "tree",
        ],
        inspect: "tar -tf tree.tar; mkdir out; tar -xf tree.tar -C out; diff -r tree out/tree",
        ..PLAIN
    },
    Case {
        name: "killed_by_signal",
        command: &["sh", "-c", "kill -QUIT $$"],
        ..PLAIN
    },
    Case {
        name: "date_and_id",
        command: &["bash", "-c", "date -d @86400; id; uname -a; nproc"],
        ..PLAIN
    },
];
