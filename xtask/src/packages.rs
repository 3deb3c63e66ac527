//! The Debian packages that hold what the tests observe.

use std::path::{Path, PathBuf};

use crate::step;

/// Something that tests use, and where Debian and its children have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    /// The package's name.
    name: &'static str,
    /// How to see that it is there.
    sign: Sign,
}

#[derive(Debug, Clone, Copy)]
enum Sign {
    /// A program on the search path.
    Program(&'static str),
    /// A file in some folder whose name starts so, under this one.
    FileUnder(&'static str, &'static str, &'static str),
}

const fn program(program: &'static str, name: &'static str) -> Package {
    Package {
        name,
        sign: Sign::Program(program),
    }
}

const PACKAGES: &[Package] = &[
    program("gcc", "gcc"),
    program("g++", "g++"),
    program("gfortran", "gfortran"),
    program("clang", "clang"),
    program("clang-19", "clang-19"),
    program("llvm-dwp-19", "llvm-19"),
    Package {
        name: "libomp-dev",
        sign: Sign::FileUnder("/usr/lib", "llvm-", "lib/libomp.so"),
    },
    Package {
        name: "libc6-dev",
        sign: Sign::FileUnder("/usr/lib", "x86_64-linux-gnu", "libc.a"),
    },
    program("mpicc.mpich", "libmpich-dev"),
    program("mpirun.mpich", "mpich"),
    program("mpicc.openmpi", "libopenmpi-dev"),
    program("mpirun.openmpi", "openmpi-bin"),
    program("awk", "mawk"),
    program("bash", "bash"),
    program("bwrap", "bubblewrap"),
    program("bzip2", "bzip2"),
    program("dwz", "dwz"),
    program("gdb", "gdb"),
    program("git", "git"),
    program("gzip", "gzip"),
    program("go", "golang-go"),
    program("find", "findutils"),
    Package {
        name: "libboost-context-dev",
        sign: Sign::FileUnder("/usr/include", "boost", "context/fiber.hpp"),
    },
    Package {
        name: "libclang-rt-dev",
        sign: Sign::FileUnder("/usr/lib/clang", "", "lib/linux/libclang_rt.msan-x86_64.a"),
    },
    Package {
        name: "libunwind-dev",
        sign: Sign::FileUnder("/usr/include", "x86_64-linux-gnu", "libunwind.h"),
    },
    program("luajit", "luajit"),
    program("make", "make"),
    program("man", "man-db"),
    program("objdump", "binutils"),
    program("perf", "linux-perf"),
    program("perl", "perl"),
    program("php", "php-cli"),
    program("memcached", "memcached"),
    program("pigz", "pigz"),
    program("python3", "python3"),
    Package {
        name: "python3-numpy",
        sign: Sign::FileUnder("/usr/lib", "python3", "dist-packages/numpy/__init__.py"),
    },
    program("ruby", "ruby"),
    program("redis-server", "redis-server"),
    program("sqlite3", "sqlite3"),
    program("tar", "tar"),
    program("xz", "xz-utils"),
    program("zstd", "zstd"),
];

/// What this machine does not have.
pub(crate) fn missing() -> Vec<Package> {
    PACKAGES
        .iter()
        .copied()
        .filter(|package| !is_there(package.sign))
        .collect()
}

fn is_there(sign: Sign) -> bool {
    match sign {
        Sign::Program(program) => find_program(program).is_some(),
        Sign::FileUnder(folder, start, file) => {
            let Ok(entries) = std::fs::read_dir(folder) else {
                return false;
            };
            entries.flatten().any(|entry| {
                entry
                    .file_name()
                    .as_encoded_bytes()
                    .starts_with(start.as_bytes())
                    && entry.path().join(file).exists()
            })
        }
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// Installs packages as root, or by sudo where it asks for no password. Says whether all of
/// it worked.
pub(crate) fn install(packages: &[Package]) -> bool {
    if find_program("apt-get").is_none() {
        return false;
    }
    let Some(prefix) = become_root() else {
        return false;
    };
    let mut words = prefix.to_vec();
    words.extend([
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--quiet=2",
    ]);
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> = words.iter().chain(arguments).copied().collect();
        step::run(step::command(words[0], &words[1..]))
    };
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(packages.iter().map(|package| package.name));
    // The lists of packages may be missing or too old to install from.
    let result = apt(&["update"]).and_then(|()| apt(&install));
    match result {
        Ok(()) => true,
        Err(problem) => {
            eprintln!("{problem}");
            false
        }
    }
}

/// What to put before a command that only root may run; nothing where this is root already.
fn become_root() -> Option<&'static [&'static str]> {
    // SAFETY: geteuid only returns a number.
    if unsafe { libc::geteuid() } == 0 {
        return Some(&[]);
    }
    let mut sudo = step::command("sudo", &["--non-interactive", "true"]);
    let may = sudo.output().is_ok_and(|output| output.status.success());
    may.then_some(&["sudo", "--non-interactive"])
}

/// Says what is missing, and how to get it.
pub(crate) fn report(packages: &[Package]) {
    if packages.is_empty() {
        return;
    }
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    eprintln!("missing: {}", names.join(", "));
    eprintln!("help: apt-get install {}", names.join(" "));
    eprintln!("Tests that need them will be reported as ignored.");
    if names.contains(&"gcc") && !Path::new("/usr/bin/cc").exists() {
        eprintln!("Without a C compiler nothing can be linked: the tests cannot be built.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_seen_where_they_are() {
        assert!(is_there(Sign::Program("sh")));
        assert!(!is_there(Sign::Program("no-such-program")));
        assert!(is_there(Sign::FileUnder("/proc", "sel", "maps")));
        assert!(!is_there(Sign::FileUnder("/proc", "sel", "no-such-file")));
        assert!(!is_there(Sign::FileUnder("/no-such-folder", "a", "b")));
    }
}
