//! Applications of this machine: large programs, most of which compile code while they run.
//!
//! They run natively and under `unspool run`, and each has a limit of its own.

use super::catalogue::{Argument, Origin, Program, Sharing};
use super::inputs::Input;

use Argument::{Classes, Fixed, Folder, FolderOf, Generated, Installed, Script, Size};

/// All of them, in the order of the tables.
pub(crate) const APPLICATIONS: &[Program] = &[
    application("start", 3.6, "true", &[]),
    application("start_of_eight", 3.6, "sh", &[Script("eight_commands.sh")]),
    toolchain(
        "rustc",
        &["which", "rustc"],
        &[Script("hello.rs"), Fixed("-o"), Folder("hello")],
    ),
    toolchain(
        "rustc_optimised",
        &["which", "rustc"],
        &[
            Fixed("-O"),
            Script("hello.rs"),
            Fixed("-o"),
            Folder("hello"),
        ],
    ),
    application(
        "cargo",
        1.6,
        "sh",
        &[
            Script("cargo_build.sh"),
            Installed("rustup"),
            Folder("crate"),
        ],
    ),
    application(
        "node_workers",
        1.5,
        "node",
        &[Script("node_workers.js"), Fixed("2"), Size("150", "30")],
    ),
    application(
        "erlang",
        2.0,
        "escript",
        &[Script("erlang_mix.escript"), Size("150", "40")],
    ),
    application(
        "qemu_user",
        2.0,
        "qemu-x86_64",
        &[Argument::Program("map_sort.cpp"), Size("12", "3")],
    ),
    application(
        "javac",
        2.0,
        "javac",
        &[
            Fixed("-d"),
            Folder("classes"),
            Generated(Input::JavaSource, 60, 10),
        ],
    ),
    application(
        "java_garbage",
        1.8,
        "java",
        &[
            Fixed("-Xmx96m"),
            Fixed("-cp"),
            Classes("Garbage.java"),
            Fixed("Garbage"),
            Fixed("2"),
            Size("150", "30"),
        ],
    ),
    application(
        "chromium",
        2.0,
        "sh",
        &[
            Script("browser.sh"),
            Installed("chromium"),
            Script("browser_page.html"),
        ],
    ),
    application(
        "firefox",
        2.0,
        "sh",
        &[
            Script("browser.sh"),
            Installed("firefox-esr"),
            Script("browser_page.html"),
        ],
    ),
    application(
        "postgresql",
        1.4,
        "sh",
        &[
            Script("pgbench.sh"),
            FolderOf(&[
                "/usr/lib/postgresql/15/bin/pgbench",
                "/usr/lib/postgresql/16/bin/pgbench",
                "/usr/lib/postgresql/17/bin/pgbench",
                "/usr/bin/pgbench",
            ]),
            Folder("postgresql"),
            Size("10000", "2000"),
        ],
    ),
];

/// A program of the Rust toolchain: rustup says where it is, and would only start it.
const fn toolchain(
    name: &'static str,
    question: &'static [&'static str],
    arguments: &'static [Argument],
) -> Program {
    let origin = Origin::Installed {
        command: "rustup",
        ask_real_path: Some(question),
    };
    Program {
        origin,
        ..application(name, 1.6, "rustup", arguments)
    }
}

const fn application(
    name: &'static str,
    run_limit: f64,
    command: &'static str,
    arguments: &'static [Argument],
) -> Program {
    let origin = Origin::Installed {
        command,
        ask_real_path: None,
    };
    Program {
        name,
        sharing: Sharing::Alone,
        origin,
        arguments,
        run_limit: Some(run_limit),
    }
}
