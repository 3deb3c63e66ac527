#!/bin/sh
# Builds a crate of two files from scratch, and runs it. Arguments: rustup, and a folder for the crate.
set -e
PATH=$(dirname "$("$1" which cargo)"):$PATH
rm -rf "$2"
mkdir -p "$2/src"
cat >"$2/Cargo.toml" <<'END'
[package]
name = "small"
edition = "2024"

[workspace]
END
echo 'mod numbers; fn main() { println!("{}", numbers::sum(10)); }' >"$2/src/main.rs"
echo 'pub fn sum(count: u32) -> u32 { (1..=count).map(|number| number * number).sum() }' >"$2/src/numbers.rs"
cargo run --offline --quiet --manifest-path "$2/Cargo.toml"
