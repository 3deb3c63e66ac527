//! Scripts: which interpreter runs, with which arguments, and how deep.

use std::ffi::{CString, OsStr};
use std::path::{Path, PathBuf};

use super::crafted::CraftedElf;
use super::scratch::{Scratch, load};
use crate::{ExecutableKind, LoadError, LoadRequest, check, resolve};

fn request(path: &Path, arguments: &[&str]) -> LoadRequest {
    let argv = arguments
        .iter()
        .map(|&text| CString::new(text).expect("no zero"))
        .collect();
    LoadRequest::new(path.to_owned(), argv, Vec::new())
}

/// A program and a chain of scripts that lead to it; the last path is the outermost's.
fn chain(scratch: &Scratch, length: usize) -> Vec<PathBuf> {
    let program = CraftedElf::two_segments().bytes();
    let mut paths = vec![scratch.write("program", &program, 0o755)];
    for number in 1..=length {
        let line = format!("#! {} -{number} \n", paths[number - 1].display());
        paths.push(scratch.write(&format!("script{number}"), line.as_bytes(), 0o755));
    }
    paths
}

#[test]
fn arguments_are_rewritten_for_each_script() {
    let scratch = Scratch::new();
    let paths = chain(&scratch, 2);
    let loaded = load(&request(&paths[2], &["zero", "one"])).expect("a good chain");
    let name = |index: usize| paths[index].to_str().expect("a plain name").to_owned();
    let expected = [
        name(0),
        "-1".into(),
        name(1),
        "-2".into(),
        name(2),
        "one".into(),
    ];
    let argv: Vec<String> = loaded
        .argv
        .iter()
        .map(|text| text.to_str().expect("plain").to_owned())
        .collect();
    assert_eq!(argv, expected);
    assert_eq!(
        loaded.executable,
        std::fs::canonicalize(&paths[0]).expect("it exists")
    );
    assert_eq!(loaded.command_name.to_str(), Ok("script2"));
    assert_eq!(
        check(&paths[1]).expect("a good script"),
        ExecutableKind::Script {
            interpreter: paths[0].clone(),
            runs: Box::new(check(&paths[0]).expect("a good program")),
        }
    );
}

#[test]
fn a_missing_first_argument_becomes_empty() {
    let scratch = Scratch::new();
    let paths = chain(&scratch, 0);
    let loaded = load(&request(&paths[0], &[])).expect("a good program");
    assert_eq!(loaded.argv, [CString::default()]);
}

#[test]
fn five_scripts_are_followed_and_six_are_not() {
    let scratch = Scratch::new();
    let paths = chain(&scratch, 6);
    assert!(check(&paths[5]).is_ok());
    let error = check(&paths[6]).expect_err("one too many");
    assert!(matches!(error, LoadError::ScriptLoop { .. }));
    assert_eq!(error.errno(), libc::ELOOP);
}

#[test]
fn a_missing_interpreter_is_named() {
    let scratch = Scratch::new();
    let path = scratch.write("script", b"#!/no/such/interpreter\n", 0o755);
    let error = check(&path).expect_err("no interpreter");
    assert!(
        error.to_string().contains("/no/such/interpreter"),
        "{error}"
    );
    assert_eq!(error.errno(), libc::ENOENT);
}

#[test]
fn names_are_looked_up_as_execvp_does() {
    let (first, second) = (Scratch::new(), Scratch::new());
    first.write("tool", b"not executable", 0o644);
    let wanted = second.write("tool", b"#!/bin/sh\n", 0o755);
    let both = format!(
        "/nowhere:{}:{}",
        first.as_ref().display(),
        second.as_ref().display()
    );
    let find = |name: &str, path: &str| resolve(OsStr::new(name), Some(OsStr::new(path)));
    assert_eq!(find("tool", &both).expect("it is in the second"), wanted);
    assert_eq!(
        find("./some/tool", &both).expect("not looked up"),
        Path::new("./some/tool")
    );
    let only_first = first.as_ref().to_str().expect("a plain name");
    assert_eq!(
        find("tool", only_first)
            .expect_err("not executable")
            .errno(),
        libc::EACCES
    );
    let error = find("no-such-tool", &both).expect_err("nowhere");
    assert_eq!(error.errno(), libc::ENOENT);
    assert!(error.to_string().contains(&both), "{error}");
    assert_eq!(find("", &both).expect_err("no name").errno(), libc::ENOENT);
    assert!(
        resolve(OsStr::new("sh"), None)
            .expect("every system has one")
            .ends_with("sh")
    );
}

#[test]
fn privileges_are_reported() {
    let scratch = Scratch::new();
    let program = CraftedElf::two_segments().bytes();
    for (mode, user, group) in [
        (0o755, false, false),
        (0o4755, true, false),
        (0o2755, false, true),
        (0o2745, false, false),
    ] {
        let path = scratch.write("program", &program, mode);
        let Ok(ExecutableKind::Elf64 { privileges, .. }) = check(&path) else {
            panic!("a good program")
        };
        assert_eq!(
            (privileges.set_user_id, privileges.set_group_id),
            (user, group),
            "{mode:o}"
        );
        assert_eq!(privileges.any(), user || group);
    }
}
