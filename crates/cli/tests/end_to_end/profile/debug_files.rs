//! Debugging information that is not in the program: split off, compressed, or in common with others.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use serde_json::Value;

use super::built::made;
use super::{By, array, number, profile};
use crate::observer::{Verdict, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::debug_files::{name}"), test)
    };
    vec![
        test("linked", linked),
        test("by_sum", by_sum),
        test("damaged", damaged),
        test("downloaded", downloaded),
        test("split", |scratch| {
            split(scratch, "-gdwarf-5", "llvm-dwp-19")
        }),
        test("split_earlier", |scratch| {
            split(scratch, "-gdwarf-4", "dwp")
        }),
        test("compressed", compressed),
        test("in_common", in_common),
    ]
}

/// Only debugging information knows of `inlined`, and of lines.
const SOURCE: &str = r"
static inline __attribute__((always_inline)) unsigned long inlined(unsigned long times) {
    unsigned long value = times;
    for (unsigned long i = 0; i < times; i++)
        value = value * 6364136223846793005u + i;
    return value;
}
__attribute__((noinline)) unsigned long outer(unsigned long times) { return inlined(times); }
int main(void) { return outer(ROUNDS) == 1; }
";

/// A program that is compiled here, and a recording of it.
struct Recorded<'a> {
    scratch: &'a Scratch,
    folder: PathBuf,
    recording: String,
}

fn compile(folder: &Path, out: &str, options: &[&str]) -> Result<(), Verdict> {
    std::fs::write(folder.join("program.c"), SOURCE)?;
    let own = ["-O2", "-g", "-DROUNDS=400000000ul", "-o", out, "program.c"];
    made(folder, "gcc", &[&own, options].concat())
}

impl<'a> Recorded<'a> {
    fn new(scratch: &'a Scratch, options: &[&str]) -> Result<Recorded<'a>, Verdict> {
        let folder = scratch.path().join("build");
        std::fs::create_dir(&folder)?;
        compile(&folder, "program", options)?;
        let recording = scratch.path().join("recording").display().to_string();
        let program = folder.join("program").display().to_string();
        let arguments = ["-o", &recording, "--report=/dev/null", "--", &program];
        profile(scratch, By::Kernel, &arguments)?;
        Ok(Recorded {
            scratch,
            folder,
            recording,
        })
    }

    /// Moves what is known of the program into a file beside it, to which it has a link.
    fn split_off(&self) -> Result<(), Verdict> {
        self.run("objcopy", &KEEP)?;
        self.run("strip", &["program"])?;
        self.run("objcopy", &["--add-gnu-debuglink=program.debug", "program"])
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Verdict> {
        made(&self.folder, program, arguments)
    }

    fn report(&self) -> Result<Value, Verdict> {
        let outcome = profile(self.scratch, By::Kernel, &["--json", &self.recording])?;
        serde_json::from_str(&outcome.stdout_text())
            .map_err(|_| Verdict::Wrong(outcome.stderr_text()))
    }

    /// Whether a report has the inlined function, on its line, with nearly all of the time.
    fn is_known(report: &Value) -> Result<bool, Verdict> {
        let total = number(&report["total"]);
        let functions = array(report, "functions");
        let of = |name: &str| functions.iter().find(|it| it["name"] == name);
        let has_most = |name| of(name).is_some_and(|it| number(&it["self"]) > 0.9 * total);
        let lines = array(report, "lines").iter();
        let of_loop = lines.filter(|it| {
            let line = it["line"].as_str().unwrap_or_default();
            line.ends_with("program.c:4") || line.ends_with("program.c:5")
        });
        let of_loop: f64 = of_loop.map(|it| number(&it["self"])).sum();
        let is_named = has_most("inlined");
        if is_named != (of_loop > 0.9 * total) {
            return Err(Verdict::Wrong(format!("a name without a line: {report:#}")));
        }
        Ok(is_named)
    }

    /// Whether it must be known, and nothing be wrong.
    fn expect(&self, must: bool, what: &str) -> Result<(), Verdict> {
        self.expect_with(must, &[], what)
    }

    /// The same, where problems must be told that have these words. They are told each time.
    fn expect_with(&self, must: bool, problems: &[&str], what: &str) -> Result<(), Verdict> {
        for _ in 0..2 {
            let report = self.report()?;
            if Recorded::is_known(&report)? != must {
                return Err(Verdict::Wrong(format!("{what}: known is not {must}")));
            }
            let told = array(&report, "problems");
            let has = |problem: &&str| {
                let mut told = told.iter().filter_map(Value::as_str);
                told.any(|it| it.contains(problem))
            };
            if told.len() != problems.len() || !problems.iter().all(has) {
                let wanted = format!("{what}: {problems:?} must be told, and were: {told:?}");
                return Err(Verdict::Wrong(wanted));
            }
        }
        Ok(())
    }
}

const KEEP: [&str; 3] = ["--only-keep-debug", "program", "program.debug"];

/// A file beside the program, or in a folder of such files, that the program names; not one of another
/// build.
fn linked(scratch: &Scratch) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-Wl,--build-id"])?;
    let folder = &recorded.folder;
    recorded.expect(true, "whole")?;
    recorded.run("objcopy", &KEEP)?;
    recorded.run("strip", &["program"])?;
    recorded.expect(false, "stripped, without a link")?;
    recorded.run("objcopy", &["--add-gnu-debuglink=program.debug", "program"])?;
    recorded.expect(true, "beside it")?;
    std::fs::create_dir(folder.join(".debug"))?;
    let moved = folder.join(".debug/program.debug");
    std::fs::rename(folder.join("program.debug"), &moved)?;
    recorded.expect(true, "in the folder")?;
    std::fs::remove_file(&moved)?;
    recorded.expect(false, "gone")?;
    compile(folder, "other", &["-Wl,--build-id", "-DOTHER", "-O1"])?;
    recorded.run("objcopy", &["--only-keep-debug", "other", "program.debug"])?;
    recorded.expect_with(false, &["belongs to another build"], "another build's")
}

/// Without build identifiers, contents that sum up to what the program says.
fn by_sum(scratch: &Scratch) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-Wl,--build-id=none"])?;
    recorded.split_off()?;
    recorded.expect(true, "as it was")?;
    let file = recorded.folder.join("program.debug");
    let mut bytes = std::fs::read(&file)?;
    bytes.push(0);
    std::fs::write(&file, bytes)?;
    recorded.expect_with(false, &["belongs to another build"], "changed")
}

/// What debuginfod's client has downloaded; an empty file says that there was nothing.
fn downloaded(scratch: &Scratch) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-Wl,--build-id=0x0123456789abcdef0123"])?;
    let kept = scratch
        .path()
        .join("cache/debuginfod_client/0123456789abcdef0123");
    std::fs::create_dir_all(&kept)?;
    let kept = kept.join("debuginfo");
    recorded.run("objcopy", &KEEP)?;
    recorded.run("strip", &["program"])?;
    recorded.expect(false, "stripped")?;
    std::fs::write(&kept, "")?;
    recorded.expect(false, "nothing to download")?;
    let whole = std::fs::read(recorded.folder.join("program.debug"))?;
    std::fs::write(&kept, &whole)?;
    recorded.expect(true, "downloaded")?;
    std::fs::write(&kept, &whole[..100])?;
    recorded.expect_with(false, &["debug file: "], "cut off")
}

/// A file that was cut off, and one whose contents make no sense, are told.
fn damaged(scratch: &Scratch) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-Wl,--build-id"])?;
    recorded.split_off()?;
    recorded.expect(true, "as it was")?;
    let file = recorded.folder.join("program.debug");
    let whole = std::fs::read(&file)?;
    for length in [0, 20, 200, whole.len() / 2] {
        std::fs::write(&file, &whole[..length])?;
        let what = format!("{length} bytes of it");
        recorded.expect_with(false, &["debug file: "], &what)?;
    }
    for section in [".debug_info", ".debug_abbrev", ".debug_line"] {
        let nonsense = recorded.folder.join("nonsense");
        std::fs::write(&nonsense, [0xff; 64])?;
        std::fs::write(&file, &whole)?;
        let option = format!("--update-section={section}=nonsense");
        recorded.run("objcopy", &[&option, "program.debug"])?;
        recorded.expect_with(false, &["debugging information: "], section)?;
    }
    std::fs::write(&file, &whole)?;
    recorded.expect(true, "whole again")
}

/// Units in files of their own (`.dwo`), and those in one package (`.dwp`).
fn split(scratch: &Scratch, version: &str, packer: &str) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-gsplit-dwarf", version])?;
    let dwo = || -> Result<Vec<PathBuf>, Verdict> {
        let entries = std::fs::read_dir(&recorded.folder)?.flatten();
        let paths = entries.map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|it| it == "dwo"))
            .collect())
    };
    let units = dwo()?;
    if units.is_empty() {
        return Err(Verdict::CannotTell("gcc splits nothing".to_owned()));
    }
    recorded.expect(true, "units of their own")?;
    recorded.run(packer, &["-e", "program", "-o", "program.dwp"])?;
    for unit in &units {
        std::fs::remove_file(unit)?;
    }
    recorded.expect(true, "a package")?;
    std::fs::remove_file(recorded.folder.join("program.dwp"))?;
    // Lines are in the program itself.
    let report = recorded.report()?;
    let text = report.to_string();
    let problems = array(&report, "problems").iter();
    let is_told = |it: &Value| {
        it.as_str()
            .is_some_and(|it| it.contains(".dwo: cannot be read"))
    };
    match text.contains("\"inlined\"") || !text.contains("program.c:5") {
        false if problems.clone().any(is_told) => Ok(()),
        _ => Err(Verdict::Wrong(format!("without its units: {report:#}"))),
    }
}

fn compressed(scratch: &Scratch) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-Wl,--build-id"])?;
    for how in ["zlib", "zlib-gnu", "zstd"] {
        let option = format!("--compress-debug-sections={how}");
        recorded.run("objcopy", &[&option, "program"])?;
        recorded.expect(true, how)?;
        recorded.run("objcopy", &["--decompress-debug-sections", "program"])?;
    }
    Ok(())
}

/// What several programs have in common, in a file of its own.
fn in_common(scratch: &Scratch) -> Result<(), Verdict> {
    let recorded = Recorded::new(scratch, &["-Wl,--build-id"])?;
    std::fs::copy(
        recorded.folder.join("program"),
        recorded.folder.join("other"),
    )?;
    recorded.run("dwz", &["-m", "common", "program", "other"])?;
    recorded.expect(true, "in common")?;
    std::fs::remove_file(recorded.folder.join("common"))?;
    let problems = array(&recorded.report()?, "problems").to_vec();
    let is_it = |it: &Value| it.as_str().is_some_and(|it| it.contains("in common"));
    match problems.iter().any(is_it) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "what is gone is not told: {problems:?}"
        ))),
    }
}
