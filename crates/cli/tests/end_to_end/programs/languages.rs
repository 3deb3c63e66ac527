//! Languages whose runtimes do more than C's: they compile while they run, move stacks, take
//! faults for exceptions, and interrupt their own threads by signals.

use super::{Case, PLAIN};

/// A shell script that writes a source of the folder `languages` into a file of its name.
macro_rules! write {
    ($name:literal) => {
        concat!(
            "cat > ",
            $name,
            " <<'END_OF_SOURCE'\n",
            include_str!(concat!("languages/", $name)),
            "\nEND_OF_SOURCE\n"
        )
    };
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "go",
        needs: &["go"],
        prepare: concat!(
            write!("goroutines.go"),
            "go build -o goroutines goroutines.go\n"
        ),
        command: &["./goroutines"],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "ocaml",
        needs: &["ocamlopt"],
        prepare: concat!(
            write!("threads.ml"),
            "ocamlopt -I +threads unix.cmxa threads.cmxa -o threads threads.ml\n"
        ),
        command: &["./threads"],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "java",
        needs: &["javac"],
        prepare: concat!(write!("Pool.java"), "javac Pool.java\n"),
        command: &["java", "Pool"],
        ..PLAIN
    },
    Case {
        name: "luajit",
        prepare: write!("loops.lua"),
        command: &["luajit", "loops.lua"],
        traced: true,
        ..PLAIN
    },
    Case {
        name: "numpy",
        needs: &["/usr/lib/python3/dist-packages/numpy/__init__.py"],
        prepare: write!("matrices.py"),
        command: &["/usr/bin/python3", "matrices.py"],
        ..PLAIN
    },
    Case {
        name: "ruby",
        prepare: write!("fibers.rb"),
        command: &["ruby", "fibers.rb"],
        ..PLAIN
    },
    Case {
        name: "php",
        prepare: write!("loops.php"),
        command: &[
            "php",
            "-d",
            "opcache.enable_cli=1",
            "-d",
            "opcache.jit_buffer_size=32M",
            "-d",
            "opcache.jit=tracing",
            "loops.php",
        ],
        ..PLAIN
    },
    Case {
        name: "pypy",
        prepare: write!("loops.py"),
        command: &["pypy3", "loops.py"],
        ..PLAIN
    },
];
