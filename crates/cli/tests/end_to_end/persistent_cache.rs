//! Translations that are kept are used again, and only for the code that they were made of.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::observer::{
    COMMAND, Verdict, natively, require, run, run_well, translated, translated_persistently, trial,
    unspool, wrong,
};
use crate::scratch::Scratch;
use unspool_guests::{Ending, Invocation, Requirement};

/// The tests.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("persistent_cache::is_used".into(), is_used),
        trial("persistent_cache::grows".into(), grows),
        trial("persistent_cache::children".into(), children),
        trial("persistent_cache::compiler".into(), compiler),
        trial("persistent_cache::changed_library".into(), changed_library),
        trial("persistent_cache::in_turn".into(), in_turn),
        trial("persistent_cache::damaged".into(), damaged),
        trial("persistent_cache::other_boot".into(), other_boot),
        trial("persistent_cache::foreign".into(), foreign),
        trial("persistent_cache::no_directory".into(), no_directory),
        trial("persistent_cache::by_default".into(), by_default),
        trial("persistent_cache::quiet".into(), quiet),
        trial("persistent_cache::limited".into(), limited),
        trial("persistent_cache::young".into(), young),
        trial("persistent_cache::at_once".into(), at_once),
    ]
}

/// How old a file must be before what is made of it is kept.
const OLD_ENOUGH: Duration = Duration::from_millis(3100);

/// The kept files, with what tells whether they were written anew.
fn kept(scratch: &Scratch) -> Result<Vec<(PathBuf, u64)>, Verdict> {
    kept_in(&scratch.path().join("translations"))
}

fn kept_in(directory: &Path) -> Result<Vec<(PathBuf, u64)>, Verdict> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.push((entry.path(), entry.metadata()?.ino()));
    }
    files.sort();
    Ok(files)
}

/// The second run has nothing to add. A program that is another file shares nothing.
fn is_used(scratch: &Scratch) -> Result<(), Verdict> {
    let ls = scratch.path().join("ls");
    fs::copy("/bin/ls", &ls)?;
    thread::sleep(OLD_ENOUGH);
    let command = [ls.as_os_str(), "-l".as_ref(), "/bin/sh".as_ref()];
    let observed = translated_persistently(scratch, &command);
    run_well(scratch, &observed)?;
    let first = kept(scratch)?;
    run_well(scratch, &observed)?;
    if first.len() != 1 || kept(scratch)? != first {
        return Err(Verdict::Wrong(format!(
            "kept by the first run {first:?}, then {:?}\nreplay: {}",
            kept(scratch)?,
            observed.command_line()
        )));
    }
    fs::copy("/bin/ls", scratch.path().join("new"))?;
    fs::rename(scratch.path().join("new"), &ls)?;
    run_well(scratch, &observed)?;
    if kept(scratch)?.len() != 2 {
        return Err(Verdict::Wrong(
            "translations of another file were used".into(),
        ));
    }
    Ok(())
}

/// What a run does for the first time is added.
fn grows(scratch: &Scratch) -> Result<(), Verdict> {
    let mut sizes = Vec::new();
    for arguments in [&["--version"][..], &["-lR", "/etc"], &["--version"]] {
        let mut command = vec!["ls"];
        command.extend(arguments);
        run(scratch, &translated_persistently(scratch, &command))?;
        let files = kept(scratch)?;
        sizes.push(fs::metadata(&files[0].0)?.len());
    }
    if sizes[0] < sizes[1] && sizes[1] == sizes[2] {
        return Ok(());
    }
    Err(Verdict::Wrong(format!(
        "the sizes of what was kept: {sizes:?}"
    )))
}

/// Of a process and its children, the one that has translated most leaves its translations, though
/// others end later.
fn children(scratch: &Scratch) -> Result<(), Verdict> {
    nothing_to_add(scratch, "server", include_str!("programs/server.c"))
}

/// What a program compiles at run time is not kept, so it is nothing to add either.
fn compiler(scratch: &Scratch) -> Result<(), Verdict> {
    nothing_to_add(scratch, "compiler", include_str!("programs/compiler.c"))
}

/// The second run of a program leaves what the first one kept.
fn nothing_to_add(scratch: &Scratch, name: &str, source: &str) -> Result<(), Verdict> {
    require(&[Requirement::Program("gcc".into())])?;
    let program = scratch.path().join(name).display().to_string();
    let text = format!("{program}.c");
    fs::write(&text, source)?;
    run_well(scratch, &natively(scratch, &["gcc", "-o", &program, &text]))?;
    thread::sleep(OLD_ENOUGH);
    let observed = translated_persistently(scratch, &[&program]);
    run_well(scratch, &observed)?;
    let first = kept(scratch)?;
    run_well(scratch, &observed)?;
    let second = kept(scratch)?;
    if first.len() == 1 && first == second {
        return Ok(());
    }
    Err(Verdict::Wrong(format!(
        "kept by the first run {first:?}, then {second:?}\nreplay: {}",
        observed.command_line()
    )))
}

/// Builds a library whose function gives `answer`.
fn build_library(scratch: &Scratch, answer: u32) -> Result<(), Verdict> {
    let source = format!("int answer(void) {{ return {answer}; }}");
    fs::write(scratch.path().join("answer.c"), source)?;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let build = natively(
        scratch,
        &[
            "gcc",
            "-shared",
            "-fPIC",
            "-o",
            &path("libanswer.so"),
            &path("answer.c"),
        ],
    );
    run_well(scratch, &build)?;
    Ok(())
}

fn changed_library(scratch: &Scratch) -> Result<(), Verdict> {
    require(&[Requirement::Program("gcc".into())])?;
    let program =
        "#include <stdio.h>\nint answer(void);\nint main(void) { printf(\"%d\\n\", answer()); }";
    fs::write(scratch.path().join("ask.c"), program)?;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    build_library(scratch, 1)?;
    let folder = scratch.path().display().to_string();
    let build = natively(
        scratch,
        &[
            "gcc",
            "-o",
            &path("ask"),
            &path("ask.c"),
            "-L",
            &folder,
            "-lanswer",
            &format!("-Wl,-rpath,{folder}"),
        ],
    );
    run_well(scratch, &build)?;
    let observed = translated_persistently(scratch, &[path("ask")]);
    for expected in ["1\n", "1\n", "2\n", "2\n"] {
        if expected == "2\n" {
            build_library(scratch, 2)?;
        }
        let outcome = run_well(scratch, &observed)?;
        if outcome.stdout_text() != expected {
            return Err(wrong(expected, &observed, &outcome));
        }
    }
    Ok(())
}

/// Libraries that are loaded at one address, one after the other, in one process or in many.
fn in_turn(scratch: &Scratch) -> Result<(), Verdict> {
    require(&[Requirement::Program("gcc".into())])?;
    let program = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char **names) {
            for (int i = 1; i < count; i++) {
                void *library = dlopen(names[i], RTLD_NOW);
                int (*answer)(void) = (int (*)(void))dlsym(library, "answer");
                printf("%d\n", answer());
                dlclose(library);
            }
        }"#;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    fs::write(path("ask.c"), program)?;
    let build = natively(scratch, &["gcc", "-o", &path("ask"), &path("ask.c")]);
    run_well(scratch, &build)?;
    for answer in [1, 2] {
        build_library(scratch, answer)?;
        fs::rename(path("libanswer.so"), path(&answer.to_string()))?;
    }
    thread::sleep(OLD_ENOUGH);
    for answers in ["1", "1", "2", "1212", "1212", "211", "1212"] {
        let mut command = vec![path("ask")];
        command.extend(answers.chars().map(|answer| path(&answer.to_string())));
        let observed = translated_persistently(scratch, &command);
        let expected: String = answers.chars().flat_map(|answer| [answer, '\n']).collect();
        let outcome = run_well(scratch, &observed)?;
        if outcome.stdout_text() != expected {
            return Err(wrong(&expected, &observed, &outcome));
        }
    }
    Ok(())
}

/// Runs `ls`, whose kept translations were tampered with: it says so, and does its work.
fn runs_without(scratch: &Scratch, complaint: &str) -> Result<(), Verdict> {
    let observed = translated_persistently(scratch, &["ls", "/"]);
    let native = run_well(scratch, &natively(scratch, &["ls", "/"]))?;
    let outcome = run_well(scratch, &observed)?;
    let complains = outcome.stderr_text().contains(complaint);
    if !complains || outcome.stdout_text() != native.stdout_text() {
        return Err(wrong(complaint, &observed, &outcome));
    }
    // It has been replaced.
    let outcome = run_well(scratch, &observed)?;
    if !outcome.stderr_text().is_empty() {
        return Err(wrong("no complaint", &observed, &outcome));
    }
    Ok(())
}

fn damaged(scratch: &Scratch) -> Result<(), Verdict> {
    run_well(scratch, &translated_persistently(scratch, &["ls", "/"]))?;
    let (file, _) = &kept(scratch)?[0];
    let bytes = fs::read(file)?;
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(file, &bytes[..length])?;
        runs_without(scratch, "damaged")?;
    }
    for at in [0, 9, 20, bytes.len() / 3, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(file, changed)?;
        runs_without(scratch, "damaged")?;
    }
    Ok(())
}

/// What was kept before the system was started anew is looked at, used, and written once more.
fn other_boot(scratch: &Scratch) -> Result<(), Verdict> {
    const AS_IF: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
    let id = scratch.path().join("boot_id");
    fs::write(&id, "01234567-89ab-cdef-0123-456789abcdef\n")?;
    let inside: [&OsStr; 6] = [
        "unshare".as_ref(),
        "--mount".as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        AS_IF.as_ref(),
        id.as_os_str(),
    ];
    let may = natively(scratch, &[&inside[..], &[OsStr::new("true")]].concat());
    if run(scratch, &may)?.ending != Ending::Exited(0) {
        return Err(Verdict::CannotTell(
            "nobody but root may mount anything here".into(),
        ));
    }
    let native = run_well(scratch, &natively(scratch, &["ls", "/"]))?;
    let place = scratch.path().join("translations");
    let place = format!("--persistent-cache={}", place.display());
    let command = [
        COMMAND.as_os_str(),
        "run".as_ref(),
        place.as_ref(),
        "--".as_ref(),
        "ls".as_ref(),
        "/".as_ref(),
    ];
    let observe = |inside: &[&OsStr]| -> Result<_, Verdict> {
        let observed = natively(scratch, &[inside, &command].concat());
        let outcome = run_well(scratch, &observed)?;
        if outcome.stdout != native.stdout || !outcome.stderr.is_empty() {
            return Err(wrong("what it says natively", &observed, &outcome));
        }
        kept(scratch)
    };
    let first = observe(&[])?;
    let again = observe(&[])?;
    let renewed = observe(&inside)?;
    let at_rest = observe(&inside)?;
    if first != again || again == renewed || renewed != at_rest {
        return Err(Verdict::Wrong(format!(
            "written anew once, after a start: {first:?}, {again:?}, {renewed:?}, {at_rest:?}"
        )));
    }
    // Whoever touches it within one run of the system has changed it.
    let (file, _) = &observe(&[])?[0];
    fs::write(file, fs::read(file)?)?;
    runs_without(scratch, "damaged")
}

fn foreign(scratch: &Scratch) -> Result<(), Verdict> {
    run_well(scratch, &translated_persistently(scratch, &["ls", "/"]))?;
    let (file, _) = &kept(scratch)?[0];
    fs::set_permissions(file, fs::Permissions::from_mode(0o622))?;
    runs_without(scratch, "others may write it")
}

fn no_directory(scratch: &Scratch) -> Result<(), Verdict> {
    let observed = unspool(
        scratch,
        &["run", "--persistent-cache=/dev/null/x", "--", "ls"],
    );
    let outcome = run(scratch, &observed)?;
    let explains = outcome.stderr_text().contains("/dev/null/x");
    if outcome.ending != Ending::Exited(125) || !explains {
        return Err(wrong("125 and the reason", &observed, &outcome));
    }
    Ok(())
}

/// Where translations are kept without an option.
fn default_directory(scratch: &Scratch) -> PathBuf {
    scratch.path().join("cache/unspool/translations")
}

/// Nobody asks for it: it happens where caches lie, and can be refused.
fn by_default(scratch: &Scratch) -> Result<(), Verdict> {
    let refusals = [
        unspool(scratch, &["run", "--no-persistent-cache", "--", "ls"]),
        translated(scratch, &["ls"]).variable("UNSPOOL_PERSISTENT_CACHE", "off"),
    ];
    for refusal in refusals {
        run_well(scratch, &refusal)?;
        if scratch.path().join("cache").exists() {
            return Err(Verdict::Wrong(format!(
                "something was kept\nreplay: {}",
                refusal.command_line()
            )));
        }
    }
    let observed = translated(scratch, &["ls", "-la"]);
    run_well(scratch, &observed)?;
    let first = kept_in(&default_directory(scratch))?;
    let outcome = run_well(scratch, &observed)?;
    let outside = outcome.stdout_text().contains("cache");
    if first.len() != 1 || kept_in(&default_directory(scratch))? != first || outside {
        return Err(wrong("one file, written once", &observed, &outcome));
    }
    Ok(())
}

/// What cannot be kept or used is left without a word, and the program runs.
fn quiet(scratch: &Scratch) -> Result<(), Verdict> {
    let native = run_well(scratch, &natively(scratch, &["ls", "/"]))?;
    let observed = translated(scratch, &["ls", "/"]);
    let same = |observed: &Invocation| -> Result<(), Verdict> {
        let outcome = run_well(scratch, observed)?;
        if outcome.stdout == native.stdout && outcome.stderr.is_empty() {
            return Ok(());
        }
        Err(wrong("what it says natively", observed, &outcome))
    };
    let nowhere = observed.clone().variable("HOME", "/nonexistent");
    same(&nowhere.variable("XDG_CACHE_HOME", ""))?;
    same(&observed.clone().variable("XDG_CACHE_HOME", "/proc/nowhere"))?;
    same(&observed.clone().variable("XDG_CACHE_HOME", "/dev/null"))?;
    same(&observed)?;
    let directory = default_directory(scratch);
    let (file, _) = &kept_in(&directory)?[0];
    let bytes = fs::read(file)?;
    for changed in [&bytes[..0], &bytes[..bytes.len() / 2], b"other"] {
        fs::write(file, changed)?;
        same(&observed)?;
    }
    // Others could have put it there.
    fs::remove_file(file)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))?;
    same(&observed)?;
    if kept_in(&directory)?.is_empty() {
        return Ok(());
    }
    Err(Verdict::Wrong(
        "translations were kept where others may write".into(),
    ))
}

/// A program whose files may not grow is not killed because of a file that is not its own.
fn limited(scratch: &Scratch) -> Result<(), Verdict> {
    let command = ["sh", "-c", "ulimit -f 8; exec ls /"];
    let native = run_well(scratch, &natively(scratch, &command))?;
    for _ in 0..2 {
        let observed = translated(scratch, &command);
        let outcome = run_well(scratch, &observed)?;
        if outcome.stdout != native.stdout || !outcome.stderr.is_empty() {
            return Err(wrong("what it says natively", &observed, &outcome));
        }
    }
    Ok(())
}

/// What is made of a file that was just written is not kept: it could be written again without a
/// change of its times.
fn young(scratch: &Scratch) -> Result<(), Verdict> {
    let ls = scratch.path().join("ls");
    let begun = Instant::now();
    fs::copy("/bin/ls", &ls)?;
    let observed = translated(
        scratch,
        &[ls.as_os_str(), "-l".as_ref(), "/bin/sh".as_ref()],
    );
    run_well(scratch, &observed)?;
    if begun.elapsed() > Duration::from_secs(2) {
        return Err(Verdict::CannotTell(
            "the machine is too busy to run anything within two seconds".into(),
        ));
    }
    let first = kept_in(&default_directory(scratch))?;
    thread::sleep(OLD_ENOUGH);
    run_well(scratch, &observed)?;
    // The second run has translated the file again, and has that to add.
    if first == kept_in(&default_directory(scratch))? {
        return Err(wrong(
            "translations of a new file were kept",
            &observed,
            &run(scratch, &observed)?,
        ));
    }
    Ok(())
}

/// Processes that keep the same translations at once, some of which are killed meanwhile.
fn at_once(scratch: &Scratch) -> Result<(), Verdict> {
    const ROUNDS: u64 = 12;
    const PROCESSES: u64 = 6;
    let native = run_well(scratch, &natively(scratch, &["ls", "/"]))?;
    let directory = default_directory(scratch);
    let observed = translated(scratch, &["ls", "/"]);
    for round in 0..ROUNDS {
        let one = &|number: u64| -> Result<(), Verdict> {
            let killed = observed
                .clone()
                .kill_after(Duration::from_millis(round + number));
            let observed = if number.is_multiple_of(2) {
                &observed
            } else {
                &killed
            };
            let outcome = run(scratch, observed)?;
            let done = outcome.ending == Ending::Exited(0) && outcome.stdout == native.stdout;
            let killed = !number.is_multiple_of(2) && outcome.ending == Ending::Signalled(9);
            if (done || killed) && outcome.stderr.is_empty() {
                return Ok(());
            }
            Err(wrong("what it says natively", observed, &outcome))
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..PROCESSES)
                .map(|number| scope.spawn(move || one(number)))
                .collect();
            all.into_iter()
                .try_for_each(|one| one.join().expect("no test panics"))
        })?;
        for (file, _) in kept_in(&directory)? {
            if round % 3 == 2 {
                fs::remove_file(file)?;
            }
        }
    }
    Ok(())
}
