//! `unspool race` on small programs whose races are known: `crates/guests/races`.
//!
//! Each source is two programs, one without races and one with those that its comments label. Both
//! are built with and without optimisation, C and C++ by gcc and by clang, looked at while they run,
//! and recorded in the same run, which must give the same answer to the byte. Nothing else may be found, and of each labelled
//! variable something must.

mod blocks;
mod code_review;
mod first_thread;
mod left_open;
mod locks;
mod openmp;
mod predicted;
mod real_programs;
mod schedules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_analyses::RaceCheck;
use unspool_analyses::races::{Atomicity, Blindness};
use unspool_events::Trace;
use unspool_guests::requirement::find_program;
use unspool_guests::{Ending, Invocation};

use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

/// How a source is built.
#[derive(Debug, Clone, Copy)]
struct Build {
    racy: bool,
    optimised: bool,
    family: Family,
}

/// Whose compilers build C and C++. Fortran and Rust have one compiler each, and belong to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Gnu,
    Llvm,
}

/// What a source is written in, by the ending of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
    Fortran,
    Rust,
}

const BUILDS: [Build; 4] = [
    build_of(false, false),
    build_of(false, true),
    build_of(true, false),
    build_of(true, true),
];

/// Programs without races in which one kind of synchronisation is all that orders.
const NEEDED: [(&str, Blindness); 5] = [
    ("mutex.c", Blindness::Words),
    ("creation.c", Blindness::Creation),
    ("join.c", Blindness::Ends),
    ("pipe.c", Blindness::Descriptors),
    ("signal.c", Blindness::Signals),
];

const fn build_of(racy: bool, optimised: bool) -> Build {
    Build {
        racy,
        optimised,
        family: Family::Gnu,
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for source in sources(&folder()) {
        for build in builds(&source) {
            let name = format!("races::{}::{}", file_name(&source), build.name());
            let source = source.clone();
            trials.push(trial(name, move |scratch| {
                as_labelled(scratch, &source, build)
            }));
        }
    }
    for (source, blindness) in NEEDED {
        let name = format!("races::needed::{blindness:?}");
        trials.push(trial(name, move |scratch| {
            is_needed(scratch, source, blindness)
        }));
    }
    trials.push(trial("races::statuses".to_owned(), statuses));
    trials.push(trial("races::call_stacks".to_owned(), call_stacks));
    trials.push(trial(
        "races::frames_suppressed".to_owned(),
        frames_suppressed,
    ));
    trials.push(trial("races::suppressions".to_owned(), suppressions));
    trials.push(trial("races::other_orders".to_owned(), other_orders));
    trials.push(trial("races::damaged".to_owned(), damaged));
    trials.extend(blocks::trials());
    trials.extend(code_review::trials());
    trials.extend(first_thread::trials());
    trials.extend(left_open::trials());
    trials.extend(locks::trials());
    trials.extend(openmp::trials());
    trials.extend(predicted::trials());
    trials.extend(real_programs::trials());
    trials.extend(schedules::trials());
    trials
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/races")
}

/// A source that is for one test alone.
fn own_source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/races");
    folder.join(name)
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("the folder of sources is there");
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let mut sources: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending != "h"))
        .collect();
    sources.sort();
    sources
}

/// All ways in which a source is built.
fn builds(source: &Path) -> Vec<Build> {
    let families = match Language::of(source) {
        Language::C | Language::Cpp => &[Family::Gnu, Family::Llvm][..],
        Language::Fortran | Language::Rust => &[Family::Gnu],
    };
    let of_family = |&family: &Family| BUILDS.map(|build| Build { family, ..build });
    families.iter().flat_map(of_family).collect()
}

/// Those of the twin without races.
fn free_builds(source: &Path) -> impl Iterator<Item = Build> {
    builds(source).into_iter().filter(|build| !build.racy)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

impl Language {
    fn of(source: &Path) -> Language {
        match source.extension().and_then(|ending| ending.to_str()) {
            Some("cpp") => Language::Cpp,
            Some("f90") => Language::Fortran,
            Some("rs") => Language::Rust,
            _ => Language::C,
        }
    }
}

impl Build {
    fn name(self) -> String {
        let twin = if self.racy { "racy" } else { "free" };
        format!("{twin}::{}", self.compiled())
    }

    /// The name without which of the twins it is.
    fn compiled(self) -> String {
        let optimisation = if self.optimised {
            "optimised"
        } else {
            "unoptimised"
        };
        match self.family {
            Family::Gnu => optimisation.to_owned(),
            Family::Llvm => format!("{optimisation}::clang"),
        }
    }

    fn compiler(self, language: Language) -> &'static str {
        match (language, self.family) {
            (Language::C, Family::Gnu) => "gcc",
            (Language::C, Family::Llvm) => "clang",
            (Language::Cpp, Family::Gnu) => "g++",
            (Language::Cpp, Family::Llvm) => "clang++",
            (Language::Fortran, _) => "gfortran",
            (Language::Rust, _) => "rustc",
        }
    }

    /// The options by which a source in a language becomes this program.
    fn options(self, language: Language) -> String {
        let level = match (language, self.optimised) {
            (Language::Rust, true) => "-O",
            (Language::Rust, false) => "",
            (_, true) => "-O2",
            (_, false) => "-O0",
        };
        let dialect = match language {
            Language::C => "-pthread",
            Language::Cpp => "-pthread -std=gnu++17",
            Language::Fortran => "-cpp",
            Language::Rust => "--edition 2024",
        };
        let racy = match (self.racy, language) {
            (false, _) => "",
            (true, Language::Rust) => "--cfg racy",
            (true, _) => "-DRACY",
        };
        format!("-g {level} {dialect} {racy}")
    }

    /// Builds a program into the test's folder.
    fn of(self, scratch: &Scratch, source: &Path) -> Result<PathBuf, Verdict> {
        self.with_flags(scratch, source, "")
    }

    /// The same with more flags.
    fn with_flags(self, scratch: &Scratch, source: &Path, more: &str) -> Result<PathBuf, Verdict> {
        let program = scratch.path().join("program");
        let language = Language::of(source);
        let name = self.compiler(language);
        let Some(compiler) = find_program(name) else {
            return Err(Verdict::CannotTell(format!("{name} is not installed")));
        };
        let text = std::fs::read_to_string(source)?;
        let flags = text.lines().find_map(|line| {
            let comment = line.strip_prefix("//").or_else(|| line.strip_prefix('!'))?;
            comment.strip_prefix(" flags: ")
        });
        let options = self.options(language);
        let build = Invocation::new(compiler)
            .arguments(options.split_whitespace())
            .arguments(flags.unwrap_or_default().split_whitespace())
            .arguments(more.split_whitespace())
            .arguments([source.as_os_str(), "-o".as_ref(), program.as_os_str()])
            .folder(scratch.work())
            .limit(Duration::from_secs(120));
        run_well(scratch, &build)?;
        Ok(program)
    }
}

/// Looks at a program while it runs, with these options, and at the trace of the same run; both answers.
fn answers(
    scratch: &Scratch,
    program: &Path,
    options: &[&str],
) -> Result<(Value, Invocation), Verdict> {
    answers_with(scratch, program, options, &[])
}

/// The same, with options for the look at the trace.
fn answers_with(
    scratch: &Scratch,
    program: &Path,
    options: &[&str],
    over_file: &[&str],
) -> Result<(Value, Invocation), Verdict> {
    let (trace, answer) = (scratch.path().join("trace"), scratch.path().join("answer"));
    let live = unspool(scratch, &["race", "--json", "--record"])
        .arguments([trace.as_os_str(), "-o".as_ref(), answer.as_os_str()])
        .arguments(options)
        .arguments(["--".as_ref(), program.as_os_str()])
        .limit(Duration::from_secs(120));
    let outcome = run(scratch, &live)?;
    let Ending::Exited(status @ (0 | 66)) = outcome.ending else {
        return Err(wrong("it must end with 0 or 66", &live, &outcome));
    };
    let from_live = std::fs::read_to_string(&answer)?;
    let over_file = unspool(scratch, &["race", "--json"])
        .arguments(over_file)
        .arguments([&trace]);
    let file_outcome = run(scratch, &over_file)?;
    if file_outcome.ending != Ending::Exited(status) || file_outcome.stdout_text() != from_live {
        let expected = format!("the answer must be that of the run itself: {from_live}");
        return Err(wrong(&expected, &over_file, &file_outcome));
    }
    let parsed: Value = serde_json::from_str(&from_live)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let has_any = |list: &str| parsed[list].as_array().is_some_and(|it| !it.is_empty());
    if ["races", "predicted", "deadlocks"].into_iter().any(has_any) != (status == 66) {
        return Err(wrong("66 stands for what was found", &live, &outcome));
    }
    Ok((parsed, live))
}

/// The lines that may be sides of races of each variable. Behind a comma more may be said of it.
fn labels(source: &Path) -> Result<BTreeMap<String, BTreeSet<u64>>, Verdict> {
    let mut labels: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for (line, number) in std::fs::read_to_string(source)?.lines().zip(1..) {
        let comment = line.split_once("// race: ");
        if let Some((_, variable)) = comment.or_else(|| line.split_once("! race: ")) {
            let name = variable.split(',').next().unwrap_or(variable);
            labels
                .entry(name.trim().to_owned())
                .or_default()
                .insert(number);
        }
    }
    Ok(labels)
}

/// What an answer should have said, and how to have it said again.
fn told(text: String, command: &Invocation) -> Verdict {
    Verdict::Wrong(format!("{text}\nreplay: {}", command.command_line()))
}

fn as_labelled(scratch: &Scratch, source: &Path, build: Build) -> Result<(), Verdict> {
    let program = build.of(scratch, source)?;
    let (answer, command) = answers(scratch, &program, &[])?;
    let labels = match build.racy {
        true => labels(source)?,
        false => BTreeMap::new(),
    };
    let mut missing: BTreeSet<&String> = labels.keys().collect();
    let lists = ["races", "possible", "uncertain"];
    for race in lists
        .into_iter()
        .filter_map(|list| answer[list].as_array())
        .flatten()
    {
        match labels
            .iter()
            .find(|(name, lines)| fits(race, name, lines, source))
        {
            Some((name, _)) => _ = missing.remove(name),
            None => {
                return Err(told(format!("not labelled: {race:#}"), &command));
            }
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(told(format!("nothing was found of {missing:?}"), &command)),
    }
}

/// Whether a race is on a labelled variable, by labelled lines. One of them may be the kernel's, and
/// one without a line: so clang tells of an access that it has made of several lines' (DWARF: line 0).
fn fits(race: &Value, name: &str, lines: &BTreeSet<u64>, source: &Path) -> bool {
    let variable = race["object"]["variable"].as_str();
    let is_it = match variable {
        _ if name == "-" => true,
        // Rust and Fortran have the path before the name, and Rust something behind it.
        Some(variable) => variable == name || variable.ends_with(&format!("::{name}")),
        None => false,
    };
    let is_labelled = |side: &Value| match side["line"].as_str() {
        _ if !side["system_call"].is_null() => true,
        Some(place) => {
            let (file, line) = place.rsplit_once(':').unwrap_or((place, "0"));
            file_name(Path::new(file)) == file_name(source)
                && line
                    .parse()
                    .is_ok_and(|line| line == 0 || lines.contains(&line))
        }
        None => false,
    };
    is_it && is_labelled(&race["first"]) && is_labelled(&race["second"])
}

/// Without one kind of synchronisation what it orders must be reported: it is that, and not the time
/// at which threads happened to run, by which nothing is reported with it.
fn is_needed(scratch: &Scratch, source: &str, blindness: Blindness) -> Result<(), Verdict> {
    let program = BUILDS[0].of(scratch, &folder().join(source))?;
    let file = scratch.path().join("trace");
    let record = unspool(scratch, &["trace", "-o"]).arguments([
        file.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
    ]);
    run_well(scratch, &record)?;
    let trace = Trace::open(&file).map_err(|problem| Verdict::Wrong(problem.to_string()))?;
    let mut check = RaceCheck::blind_to(blindness, 1 << 30);
    let problems = trace.merged().deliver(&mut check);
    let of_source = |pc: Option<u64>| pc.is_some();
    let races = check.report(&problems, |_, _| Atomicity::Plain).races;
    match races.iter().any(|race| of_source(race.first.pc)) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "nothing is found without {blindness:?}"
        ))),
    }
}

/// A script's last line says with what the program ends: that stands where it is no 0.
fn statuses(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[3].of(scratch, &folder().join("mutex.c"))?;
    for (options, expected) in [(&[][..], 66), (&["--exit-status", "9"], 9)] {
        let live = unspool(scratch, &["race"])
            .arguments(options)
            .arguments(["--children", "leave", "--"])
            .arguments([&program]);
        let outcome = run(scratch, &live)?;
        if outcome.ending != Ending::Exited(expected) {
            return Err(wrong(
                &format!("it must end with {expected}"),
                &live,
                &outcome,
            ));
        }
    }
    let failing = scratch.path().join("failing.c");
    let text = std::fs::read_to_string(folder().join("mutex.c"))?;
    std::fs::write(&failing, text.replace("return counter == 0;", "return 3;"))?;
    std::fs::copy(folder().join("twin.h"), scratch.path().join("twin.h"))?;
    let program = BUILDS[3].of(scratch, &failing)?;
    let live = unspool(scratch, &["race", "--"]).arguments([&program]);
    let outcome = run(scratch, &live)?;
    match outcome.ending == Ending::Exited(3) && outcome.stderr_text().contains("race") {
        true => Ok(()),
        false => Err(wrong(
            "a program that fails keeps its status",
            &live,
            &outcome,
        )),
    }
}

fn suppressions(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[3].of(scratch, &folder().join("mutex.c"))?;
    let file = scratch.path().join("suppressions");
    std::fs::write(&file, "# known\nrace:^counter$\n")?;
    let live = unspool(scratch, &["race", "--suppressions"]).arguments([
        file.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
    ]);
    let outcome = run_well(scratch, &live)?;
    if !outcome
        .stderr_text()
        .contains("by the suppression race:^counter$")
    {
        return Err(wrong("it must say what was left out", &live, &outcome));
    }
    std::fs::write(&file, "rase:counter\n")?;
    let outcome = run(scratch, &live)?;
    match outcome.ending == Ending::Exited(125) && outcome.stderr_text().contains("line 1") {
        true => Ok(()),
        false => Err(wrong(
            "a line that is not understood is refused",
            &live,
            &outcome,
        )),
    }
}

/// The functions of a stack, as far as one.
fn functions_until(stack: &Value, last: &str) -> Vec<String> {
    let mut functions = Vec::new();
    for frame in stack.as_array().into_iter().flatten() {
        let function = frame["function"].as_str().unwrap_or("?").to_owned();
        functions.push(function.clone());
        if function == last {
            break;
        }
    }
    functions
}

fn call_stacks(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[2].of(scratch, &folder().join("called.c"))?;
    let (answer, command) = answers(scratch, &program, &[])?;
    let wrong_stack = |what: &str, found: &Value| {
        let line = command.command_line();
        Err(Verdict::Wrong(format!("{what}: {found:#}\nreplay: {line}")))
    };
    let races = answer["races"].as_array().cloned().unwrap_or_default();
    for (variable, expected) in [
        (
            "counter",
            &["innermost", "recurses", "recurses", "work", "begin"][..],
        ),
        ("text", &["copies", "work", "begin"]),
    ] {
        let of_variable = |race: &&Value| race["object"]["variable"] == variable;
        let Some(race) = races.iter().find(of_variable) else {
            return wrong_stack("no race on a variable", &answer);
        };
        for side in ["first", "second"] {
            let mut functions = functions_until(&race[side]["stack"], "begin");
            if race[side]["function"] != expected[0] {
                return wrong_stack("another function is called the place", &race[side]);
            }
            // What the C library copies with has several names, and calls that lead back are folded.
            functions.drain(
                ..functions
                    .iter()
                    .position(|it| it == expected[0])
                    .unwrap_or(0),
            );
            if functions != expected {
                return wrong_stack(&format!("the stack must be {expected:?}"), &race[side]);
            }
        }
    }
    let threads = answer["threads"].as_array().cloned().unwrap_or_default();
    let created = threads.iter().filter(|thread| !thread["parent"].is_null());
    for thread in created {
        let functions = functions_until(&thread["creation_stack"], "main");
        let has = |name: &str| functions.iter().any(|function| function.contains(name));
        if !has("pthread_create") || !has("main") {
            return wrong_stack("main has called pthread_create", thread);
        }
    }
    Ok(())
}

/// Suppressions see all frames, or the innermost, in both forms; those that fit nothing leave nothing out.
fn frames_suppressed(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[2].of(scratch, &folder().join("called.c"))?;
    let file = scratch.path().join("suppressions");
    let helgrind = |frames: &str| format!("{{\n known\n Helgrind:Race\n {frames}\n}}\n");
    for (text, expected) in [
        ("race:^work$\n".to_owned(), 0),
        ("race_top:^work$\n".to_owned(), 2),
        ("race_top:^copies$\n".to_owned(), 1),
        (helgrind("...\n fun:work\n ..."), 0),
        (helgrind("fun:innermost\n fun:recurses"), 1),
        (helgrind("fun:recurses"), 2),
    ] {
        std::fs::write(&file, &text)?;
        let live = unspool(scratch, &["race", "--json", "--suppressions"]).arguments([
            file.as_os_str(),
            "-o".as_ref(),
            scratch.path().join("answer").as_os_str(),
            "--".as_ref(),
            program.as_os_str(),
        ]);
        let outcome = run(scratch, &live)?;
        let answer = std::fs::read_to_string(scratch.path().join("answer"))?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
        let races = answer["races"].as_array().cloned().unwrap_or_default();
        let variables: BTreeSet<_> = races
            .iter()
            .map(|race| race["object"]["variable"].to_string())
            .collect();
        if variables.len() != expected {
            let what = format!("races on {expected} variables must be left with\n{text}");
            return Err(wrong(&what, &live, &outcome));
        }
    }
    Ok(())
}

fn other_orders(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("trace");
    let record = unspool(scratch, &["trace", "--order", "ticket", "-o"]).arguments([
        file.as_os_str(),
        "--".as_ref(),
        "true".as_ref(),
    ]);
    run_well(scratch, &record)?;
    let over_file = unspool(scratch, &["race"]).arguments([&file]);
    let live = unspool(scratch, &["race", "--order", "ticket", "--", "true"]);
    for refused in [over_file, live] {
        let outcome = run(scratch, &refused)?;
        let says = outcome.stderr_text().contains("line-atomic");
        if outcome.ending != Ending::Exited(125) || !says {
            return Err(wrong(
                "it must name the order that is needed",
                &refused,
                &outcome,
            ));
        }
    }
    Ok(())
}

/// Of a trace that is cut off or damaged there is what can be read, and nothing is called certain.
fn damaged(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[3].of(scratch, &folder().join("mutex.c"))?;
    let file = scratch.path().join("trace");
    let record = unspool(scratch, &["trace", "-o"]).arguments([
        file.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
    ]);
    run_well(scratch, &record)?;
    let whole = std::fs::read(&file)?;
    for kept in [whole.len() / 3, whole.len() / 2, whole.len() - 200] {
        std::fs::write(&file, &whole[..kept])?;
        let over_file = natively(scratch, &[crate::observer::COMMAND.as_os_str()])
            .arguments(["race".as_ref(), file.as_os_str()]);
        let outcome = run(scratch, &over_file)?;
        if !matches!(outcome.ending, Ending::Exited(2 | 66)) || outcome.stderr.is_empty() {
            return Err(wrong("it must say what is missing", &over_file, &outcome));
        }
    }
    Ok(())
}
