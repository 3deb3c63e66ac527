//! Programs that put themselves, or what they start, under seccomp filters.

use super::{Case, PLAIN};

/// A filter as bytes: `sethostname` fails with `EPROTO`, everything else is allowed.
const FILTER: &str = r"printf '\040\0\0\0\0\0\0\0\025\0\0\001\252\0\0\0\006\0\0\0\107\0\005\0\006\0\0\0\0\0\377\177' > filter";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "manual_page",
        needs: &["/usr/share/man/man1/man.1.gz"],
        command: &["man", "-P", "cat", "man"],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "bubblewrap",
        needs: &["bwrap", "hostname"],
        prepare: FILTER,
        command: &[
            "sh",
            "-c",
            "bwrap --seccomp 9 --ro-bind / / --dev /dev --proc /proc --unshare-pid \
             sh -c 'grep ^Seccomp /proc/self/status; hostname another; echo $?; ls / | sort' \
             9< filter",
        ],
        ..PLAIN
    },
];
