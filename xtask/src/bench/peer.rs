//! Programs of others that observe programs: what is measured beside ours on demand.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;

use super::prepare::{Places, compile, search_path};

/// A way to run programs under one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The mode's name.
    pub(crate) mode: &'static str,
    /// The command that must be installed, and its options.
    words: &'static [&'static str],
    /// Debian's package of it.
    package: &'static str,
    /// What of ours is to be loaded.
    loads: Loads,
    /// Whether it takes so long that once is enough.
    pub(crate) runs_once: bool,
}

/// What a peer loads, which is compiled for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loads {
    Nothing,
    /// A plugin of QEMU's, which is to do this.
    Plugin(&'static str),
    /// A library before all others.
    Interposer,
}

const fn valgrind(mode: &'static str, words: &'static [&'static str], runs_once: bool) -> Peer {
    Peer {
        mode,
        words,
        package: "valgrind",
        loads: Loads::Nothing,
        runs_once,
    }
}

const fn qemu(mode: &'static str, loads: Loads) -> Peer {
    Peer {
        mode,
        words: &["qemu-x86_64"],
        package: "qemu-user",
        loads,
        runs_once: false,
    }
}

impl Peer {
    /// All of them: without instrumentation first.
    pub(crate) const ALL: [Peer; 8] = [
        valgrind(
            "valgrind-none",
            &["valgrind", "--quiet", "--trace-children=yes", "--tool=none"],
            false,
        ),
        // Instructions, accesses and branches are counted.
        valgrind(
            "valgrind-counts",
            &[
                "valgrind",
                "--tool=lackey",
                "--trace-children=yes",
                "--log-file=/dev/null",
            ],
            false,
        ),
        // Every access is printed, to nowhere: that takes a hundred times the native time and more.
        valgrind(
            "valgrind-lackey",
            &[
                "valgrind",
                "--tool=lackey",
                "--trace-mem=yes",
                "--trace-children=yes",
                "--log-file=/dev/null",
            ],
            true,
        ),
        qemu("qemu", Loads::Nothing),
        qemu("qemu-instructions", Loads::Plugin("what=instructions")),
        qemu("qemu-blocks", Loads::Plugin("what=blocks")),
        qemu("qemu-addresses", Loads::Plugin("what=addresses")),
        Peer {
            mode: "interposed-malloc",
            words: &["env"],
            package: "coreutils",
            loads: Loads::Interposer,
            runs_once: false,
        },
    ];

    /// Compiles what it needs. Returns the words before the program's own to run it this way.
    ///
    /// # Errors
    /// If it is not installed, or its plugin does not compile.
    pub(crate) fn prepare(&self, places: &Places) -> anyhow::Result<Vec<OsString>> {
        let (command, package) = (self.words[0], self.package);
        search_path(command)
            .with_context(|| format!("{command} is not installed (apt-get install {package})"))?;
        let mut words: Vec<OsString> = self.words.iter().map(OsString::from).collect();
        let built = |name: &str, source| {
            let flags = ["-O2", "-shared", "-fPIC"];
            compile(name, source, &flags, places).map(PathBuf::into_os_string)
        };
        match self.loads {
            Loads::Nothing => {}
            Loads::Plugin(task) => {
                let mut plugin = built("qemu_plugin.so", "../peers/qemu_plugin.c")?;
                plugin.push(",");
                plugin.push(task);
                words.extend(["-plugin".into(), plugin]);
            }
            Loads::Interposer => {
                let library = built("malloc_interposer.so", "../peers/malloc_interposer.c")?;
                let mut variable = OsString::from("LD_PRELOAD=");
                variable.push(library);
                words.push(variable);
            }
        }
        Ok(words)
    }
}
