//! A trace as text with disassembly and lines of the source, from files that may have changed.

use std::fs;

use libtest_mimic::Trial;
use unspool_guests::Requirement;

use crate::observer::{Verdict, natively, require, run_well, traced, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("show::disassembly_and_lines".to_owned(), disassembly),
        trial("show::another_build".to_owned(), another_build),
        trial("show::no_file".to_owned(), no_file),
    ]
}

/// Builds a program that writes a number in line 3.
fn build(scratch: &Scratch, number: u32) -> Result<String, Verdict> {
    require(&[Requirement::Program("gcc".into())])?;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let source = format!("long written;\nint main(void) {{\n    written = {number};\n}}\n");
    fs::write(path("write.c"), source)?;
    let [program, source] = [path("write"), path("write.c")];
    let build = natively(scratch, &["gcc", "-g", "-O0", "-o", &program, &source]);
    run_well(scratch, &build)?;
    Ok(program)
}

/// Traces the program, has something done to its file, and gives what is shown of it.
fn shown(
    scratch: &Scratch,
    meanwhile: impl FnOnce(&str) -> Result<(), Verdict>,
) -> Result<Vec<String>, Verdict> {
    let program = build(scratch, 0x4d2)?;
    let file = scratch.path().join("write.unspool");
    run_well(scratch, &traced(scratch, &[], &file, &[&program]))?;
    meanwhile(&program)?;
    let show = unspool(scratch, &["show"]).arguments([&file]);
    let outcome = run_well(scratch, &show)?;
    let text = outcome.stdout_text();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    // All three tests need that something is shown at all, of a program that writes.
    match lines.len() > 1000 && lines.iter().any(|line| line.contains(" w8 0x")) {
        true => Ok(lines),
        false => Err(wrong("a listing", &show, &outcome)),
    }
}

/// The line of the one write to `written`.
fn of_the_write(lines: &[String]) -> Option<&String> {
    let is_it = |line: &&String| line.contains("$0x4D2") || line.contains("$0x4d2");
    lines.iter().find(is_it)
}

fn disassembly(scratch: &Scratch) -> Result<(), Verdict> {
    let lines = shown(scratch, |_| Ok(()))?;
    let line = of_the_write(&lines).ok_or("the instruction is not shown".to_owned())?;
    let is_right = ["main+0x", "(write)", "movq", " w8 0x"]
        .iter()
        .all(|part| line.contains(part));
    match is_right && line.ends_with("write.c:3") {
        true => Ok(()),
        false => Err(Verdict::Wrong(line.clone())),
    }
}

/// Nothing of another build's code is shown as if it had run.
fn another_build(scratch: &Scratch) -> Result<(), Verdict> {
    let lines = shown(scratch, |_| build(scratch, 7).map(drop))?;
    without_code(&lines, "has changed since")
}

/// A pipe in the place of the program's file is not waited for.
fn no_file(scratch: &Scratch) -> Result<(), Verdict> {
    let lines = shown(scratch, |program| {
        fs::remove_file(program)?;
        run_well(scratch, &natively(scratch, &["mkfifo", program]))?;
        Ok(())
    })?;
    without_code(&lines, "not a plain file")
}

fn without_code(lines: &[String], why: &str) -> Result<(), Verdict> {
    let remark = |line: &&String| line.starts_with("# ") && line.contains(why);
    if lines.iter().filter(remark).count() != 1 {
        return Err(Verdict::Wrong(format!("no line says: {why}")));
    }
    let mut of_program = lines.iter().filter(|line| line.contains("write+0x"));
    if of_program.next().is_none() {
        return Err(Verdict::Wrong("the program is not shown".to_owned()));
    }
    match lines
        .iter()
        .find(|line| line.contains(" main+") || line.contains("write.c"))
    {
        None => Ok(()),
        Some(line) => Err(Verdict::Wrong(line.clone())),
    }
}
