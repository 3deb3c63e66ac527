//! Builds what is loaded into programs that run natively, as shared libraries: the collector, the
//! runtime of instrumented programs, and the probes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The target of every shared library, whatever this build is for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    let crates = here.parent().expect("this crate is in a folder of crates");
    let sources = [
        "collector",
        "dbg-runtime",
        "openmp-record",
        "preload",
        "container",
        "probes",
        "probe",
        "binary",
        "sample-slots",
        "timer-sampler",
        "unwind",
        "instructions",
    ];
    for watched in sources.iter().chain(&["../Cargo.lock"]) {
        println!("cargo::rerun-if-changed={}", crates.join(watched).display());
    }
    // Frame pointers are how the collector knows where the program called it from.
    for package in ["collector", "dbg-runtime"] {
        build(package, &["-Cforce-frame-pointers=yes"], crates, &out);
    }
    build("timer-sampler", &[], crates, &out);
    // Probes begin before all other libraries, so that they miss nothing of these.
    build("probes", &["-Clink-arg=-Wl,-z,initfirst"], crates, &out);
}

/// Builds a package.
fn build(package: &str, flags: &[&str], crates: &Path, out: &Path) {
    let target = out.join("target");
    let mut command = Command::new(variable("CARGO"));
    command
        .args(["rustc", "--quiet", "--release", "--lib", "--locked"])
        .args(["--package", &format!("unspool-{package}")])
        .args(["--crate-type", "cdylib", "--target", TARGET, "--target-dir"])
        .arg(&target)
        .current_dir(crates.join(package))
        // The workspace's own flags make static programs.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        // What cargo tells this script is not meant for another build, and lints have their
        // own.
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        // Its code runs seldom and briefly, so that it is fetched anew each time: there must be
        // little of it.
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    let status = command.status().expect("cargo starts again");
    assert!(status.success(), "building {package} failed: {command:?}");
    let name = format!("libunspool_{}.so", package.replace('-', "_"));
    let built = target.join(TARGET).join("release").join(&name);
    copy(&built, &out.join(&name));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

fn copy(from: &Path, to: &Path) {
    if let Err(problem) = fs::copy(from, to) {
        panic!("copying {} to {}: {problem}", from.display(), to.display());
    }
}
