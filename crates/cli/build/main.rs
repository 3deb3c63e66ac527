//! Puts into the command what it carries: the chapters of the book about writing tools, which
//! `unspool help book` prints, and the sources that a new tool is built with.

mod book;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    // Asked for now: whoever has compiled this may have had it elsewhere.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../..");
    let output = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    book::put(&root.join("docs/book/pages"), &output);
    sources::put(&root, &output);
}

/// A file that this build depends on.
fn read(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => panic!("cannot read {}: {error}", path.display()),
    }
}
