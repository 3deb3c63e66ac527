//! The sources that a tool or a probe is built with: the crates that it is written with, those of
//! ours that they depend on, the workspace's manifest, which they refer to, and its lock.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::read;

/// The crates that others are written with.
const WRITTEN_WITH: [&str; 2] = ["tool", "probe"];
/// Folders that builds do without.
const LEFT_OUT: [&str; 2] = ["golden", "target"];

/// Puts a list of them into a folder.
pub(crate) fn put(root: &Path, output: &Path) {
    let mut crates = BTreeSet::new();
    for name in WRITTEN_WITH {
        add_with_dependencies(root, name, &mut crates);
    }
    let mut files = Vec::new();
    for name in &crates {
        add_files(root, &format!("crates/{name}"), &mut files);
    }
    let manifest = output.join("workspace.toml");
    let text = with_members(&read(&root.join("Cargo.toml")), &crates);
    fs::write(&manifest, text).expect("the output folder is there");
    let lock = root.join("Cargo.lock");
    read(&lock);
    let mut list = String::from("&[\n");
    let mut add = |name: &str, path: &Path| {
        let path = path.display();
        writeln!(list, "    ({name:?}, include_bytes!(\"{path}\")),").expect("a string takes all");
    };
    add("Cargo.toml", &manifest);
    add("Cargo.lock", &lock);
    for file in &files {
        add(file, &root.join(file));
    }
    list.push(']');
    fs::write(output.join("sources.rs"), list).expect("the output folder is there");
}

/// A crate and those of ours that it depends on.
fn add_with_dependencies(root: &Path, name: &str, crates: &mut BTreeSet<String>) {
    if !crates.insert(name.to_owned()) {
        return;
    }
    let mut counts = false;
    for line in read(&root.join("crates").join(name).join("Cargo.toml")).lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-");
        }
        let dependency = line.strip_prefix("unspool-").filter(|_| counts);
        let end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
        if let Some(dependency) = dependency.and_then(|rest| rest.split(end).next()) {
            add_with_dependencies(root, dependency, crates);
        }
    }
}

/// All files below a folder.
fn add_files(root: &Path, folder: &str, files: &mut Vec<String>) {
    println!("cargo::rerun-if-changed={}", root.join(folder).display());
    let entries = fs::read_dir(root.join(folder)).expect("the folder of a crate");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry")).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = format!("{folder}/{name}");
        match entry.file_type().expect("its type").is_dir() {
            true if LEFT_OUT.contains(&name.as_str()) => {}
            true => add_files(root, &path, files),
            false => files.push(path),
        }
    }
}

/// A workspace's manifest with other members.
fn with_members(manifest: &str, crates: &BTreeSet<String>) -> String {
    const MEMBERS: &str = "members = [";
    let (before, rest) = manifest.split_once(MEMBERS).expect("it has members");
    let (_, after) = rest.split_once(']').expect("the list of members ends");
    let members = crates.iter().map(|name| format!("\"crates/{name}\""));
    let members = members.collect::<Vec<_>>().join(", ");
    format!("{before}{MEMBERS}{members}]{after}")
}
