//! Files that are kept: what the collector leaves of a process, and recordings of runs. Both are
//! files of streams, of which `unspool info` says what is in them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::command::{Compiler, Verdict, build, check, json, openmp, openmp_in, programs, trial};

/// How long a program may take that works for less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("files::of_a_process".to_owned(), of_a_process),
        trial("files::of_a_run".to_owned(), of_a_run),
        trial(
            "files::of_a_run_that_is_told_to_end".to_owned(),
            told_to_end,
        ),
        trial("files::of_others".to_owned(), of_others),
        trial("files::that_cannot_be_written".to_owned(), unwritable),
    ]
}

fn wrong(error: impl std::fmt::Display) -> Verdict {
    Verdict::Wrong(error.to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program under a name of its own in a folder: other tests may build it anew meanwhile, and a
/// process whose file was replaced has no lines.
fn program(name: &str, folder: &Path) -> Result<String, Verdict> {
    let built = build(&programs().join(name), Compiler::Gcc, &[])?;
    let own = folder.join("program");
    std::fs::hard_link(built, &own).map_err(wrong)?;
    Ok(own.to_string_lossy().into_owned())
}

/// A folder of the test's own, empty.
fn folder(name: &str) -> Result<PathBuf, Verdict> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("openmp")
        .join(format!("files-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(wrong)?;
    Ok(folder)
}

fn unspool(words: &[&str]) -> Result<Output, Verdict> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspool"));
    command.args(words).output().map_err(wrong)
}

/// The names of the streams that `unspool info` lists, and its status.
fn streams(file: &str) -> Result<(Vec<String>, Option<i32>), Verdict> {
    let output = unspool(&["info", "--json", file])?;
    let information: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| wrong(format!("{error}\n{}", text(&output.stderr))))?;
    let streams = information["streams"].as_array().into_iter().flatten();
    let names = streams.filter_map(|stream| stream["name"].as_str().map(str::to_owned));
    Ok((names.collect(), output.status.code()))
}

/// A program whose observer is killed leaves its file, which is read as a recording is.
fn of_a_process() -> Result<(), Verdict> {
    let folder = folder("of-a-process")?;
    let temporary = folder.join("temporary");
    std::fs::create_dir(&temporary).map_err(wrong)?;
    let mut observer = Command::new(env!("CARGO_BIN_EXE_unspool"))
        .args(["openmp", "--timeline", "timeline.json"])
        .arg(program("barrier.c", &folder)?)
        .env("TMPDIR", &temporary)
        .env("OMP_WAIT_POLICY", "passive")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(wrong)?;
    let found = until(|| left_in(&temporary));
    observer.kill().map_err(wrong)?;
    observer.wait().map_err(wrong)?;
    let file = found?.to_string_lossy().into_owned();
    // The program goes on, and says at its end that it has ended.
    let report = until(|| {
        let output = openmp(&["--json", &file]);
        output.status.success().then(|| text(&output.stdout))
    })?;
    let report: Value = serde_json::from_str(&report).map_err(wrong)?;
    let barrier = report["losses"]["barrier"].as_f64().unwrap_or(0.0);
    check(barrier > 0.1, || report.to_string())?;
    let all = [
        "openmp-process",
        "openmp-threads",
        "openmp-constructs",
        "openmp-descriptions",
        "openmp-spans",
    ];
    let found = streams(&file)?;
    check(found == (all.map(str::to_owned).to_vec(), Some(0)), || {
        format!("{found:?}")
    })?;
    let information = text(&unspool(&["info", &file])?.stdout);
    check(
        information.contains(&format!("unspool openmp {file}"))
            && information.contains("files-of-a-process/program")
            && !information.contains("failed swaps"),
        || information,
    )?;
    cut_off(&file)
}

/// Of a file that was cut off, the rest is read, and what is missing is said.
fn cut_off(file: &str) -> Result<(), Verdict> {
    let bytes = std::fs::read(file).map_err(wrong)?;
    let cut = format!("{file}.cut");
    std::fs::write(&cut, &bytes[..bytes.len() - 1000]).map_err(wrong)?;
    let output = openmp(&[&cut]);
    let talk = text(&output.stderr);
    check(
        output.status.code() == Some(2) && talk.contains("bytes "),
        || format!("{:?}\n{talk}", output.status),
    )?;
    let (names, status) = streams(&cut)?;
    check(names.len() == 5 && status == Some(2), || {
        format!("{names:?} {status:?}")
    })
}

/// The file that was left, once a region has been passed in it.
fn left_in(folder: &Path) -> Option<PathBuf> {
    let inner = std::fs::read_dir(folder).ok()?.next()?.ok()?.path();
    let files = std::fs::read_dir(inner).ok()?.flatten();
    let mut files = files.map(|entry| entry.path());
    files.find(|path| {
        path.extension()
            .is_some_and(|extension| extension == "openmp")
    })
}

fn until<Found>(mut look: impl FnMut() -> Option<Found>) -> Result<Found, Verdict> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Verdict::Wrong(format!("nothing came within {PATIENCE:?}")))
}

/// Where a recording cannot be kept, the report of the run is there, and it is said.
fn unwritable() -> Result<(), Verdict> {
    let folder = folder("that-cannot-be-written")?;
    let file = folder.join("none").join("kept");
    let file = file.to_string_lossy();
    let program = program("barrier.c", &folder)?;
    let output = openmp(&["--json", "--output", &file, &program]);
    let talk = text(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    check(
        output.status.code() == Some(125)
            && talk.contains(&format!("cannot write {file}"))
            && report["losses"]["barrier"].as_f64() > Some(0.1),
        || format!("{:?}\n{talk}\n{report}", output.status),
    )
}

/// A recording is one stream, and reports what the run did.
fn of_a_run() -> Result<(), Verdict> {
    let folder = folder("of-a-run")?;
    let file = folder.join("kept");
    let file = file.to_string_lossy();
    let first = json(&["--output", &file, &program("barrier.c", &folder)?])?;
    let again = json(&[&file])?;
    check(first == again, || "the two reports differ".to_owned())?;
    let found = streams(&file)?;
    check(
        found == (vec!["openmp-recording".to_owned()], Some(0)),
        || format!("{found:?}"),
    )?;
    let information = text(&unspool(&["info", &file])?.stdout);
    check(
        information.contains(&format!("unspool openmp {file}")),
        || information,
    )
}

/// Who is told to end, as batch systems do, has the program end, and reports and keeps what it
/// did until then.
fn told_to_end() -> Result<(), Verdict> {
    let folder = folder("told-to-end")?;
    let (kept, report) = (folder.join("kept"), folder.join("report"));
    let temporary = folder.join("temporary");
    std::fs::create_dir(&temporary).map_err(wrong)?;
    let mut observer = Command::new(env!("CARGO_BIN_EXE_unspool"))
        .arg("openmp")
        .arg("--output")
        .arg(&kept)
        .arg("--report")
        .arg(&report)
        .args([&program("troubled/endless.c", &folder)?])
        .env("TMPDIR", &temporary)
        .env("OMP_WAIT_POLICY", "passive")
        .stderr(Stdio::null())
        .spawn()
        .map_err(wrong)?;
    // Until then, both threads have been seen.
    let found = until(|| {
        let file = left_in(&temporary)?;
        let seen = openmp(&["--json", &file.to_string_lossy()]).stdout;
        let report: Value = serde_json::from_slice(&seen).ok()?;
        (report["processors"].as_u64() == Some(2)).then_some(())
    });
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(observer.id().cast_signed(), libc::SIGTERM) };
    let status = observer.wait().map_err(wrong)?;
    found?;
    check(status.code() == Some(128 + 15), || format!("{status:?}"))?;
    let report = std::fs::read_to_string(&report).map_err(wrong)?;
    check(report.contains("endless.c"), || report)?;
    let again = openmp(&[&kept.to_string_lossy()]);
    check(text(&again.stdout).contains("endless.c"), || {
        text(&again.stderr)
    })
}

/// Traces are no recordings, and recordings no traces; each command says which one reads them.
fn of_others() -> Result<(), Verdict> {
    let folder = folder("of-others")?;
    let trace = folder.join("trace").to_string_lossy().into_owned();
    let traced = unspool(&["trace", "--output", &trace, "true"])?;
    check(traced.status.success(), || text(&traced.stderr))?;
    let output = openmp(&[&trace]);
    let talk = text(&output.stderr);
    check(
        output.status.code() == Some(125) && talk.contains("unspool info"),
        || talk,
    )?;
    let junk = folder.join("junk");
    std::fs::write(&junk, "nothing that anybody runs").map_err(wrong)?;
    let script = folder.join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").map_err(wrong)?;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, executable).map_err(wrong)?;
    for (name, status, said) in [
        ("./script", 127, "a script's first line names that"),
        (
            junk.to_string_lossy().as_ref(),
            126,
            "neither a recording nor a program",
        ),
        ("junk", 127, "the file junk in this folder is no recording"),
        ("no-such-file", 127, "No such file"),
    ] {
        let output = openmp_in(&folder, &[name]);
        let talk = text(&output.stderr);
        check(
            output.status.code() == Some(status) && talk.contains(said),
            || talk,
        )?;
    }
    let kept = folder.join("kept").to_string_lossy().into_owned();
    json(&["--output", &kept, &program("barrier.c", &folder)?])?;
    let output = unspool(&["export", "--format", "csv", &kept])?;
    let talk = text(&output.stderr);
    check(
        output.status.code() == Some(125) && talk.contains(&format!("unspool openmp {kept}")),
        || talk,
    )
}
