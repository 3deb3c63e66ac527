//! Programs in a control group that limits their memory, and programs under limits of address
//! space: what lives natively lives with what observing takes, what the kernel kills it kills, and
//! what cannot be had is said.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Guest, Invocation, Outcome, catalog::programs_folder};

use crate::comparison::runs_alike;
use crate::guest_programs::build;
use crate::observer::{
    COMMAND, Verdict, natively, run, run_well, traced, translated, trial, unspool, wrong,
};
use crate::scratch::Scratch;

const MEBIBYTE: u64 = 1 << 20;
/// What README.md says that a small program of one thread takes more under observation.
const OVERHEAD: u64 = 24 * MEBIBYTE;
/// What natively fits with this much to spare counts as fitting.
const MARGIN: u64 = 2 * MEBIBYTE;
const KILLED: Ending = Ending::Signalled(9);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = [("run", translate as Way), ("trace", trace_to_file)]
        .into_iter()
        .flat_map(|(name, way)| {
            [
                trial(format!("memory_limits::fits::{name}"), move |scratch| {
                    fits(scratch, way)
                }),
                trial(format!("memory_limits::killed::{name}"), move |scratch| {
                    killed(scratch, way)
                }),
                trial(
                    format!("memory_limits::hardly_any::{name}"),
                    move |scratch| hardly_any(scratch, way),
                ),
            ]
        })
        .collect();
    trials.push(trial(
        "memory_limits::address_space".to_owned(),
        address_space,
    ));
    trials.push(trial(
        "memory_limits::three_gigabytes_of_static_data".to_owned(),
        three_gigabytes,
    ));
    trials
}

type Way = fn(&Scratch, &[OsString]) -> Invocation;

fn translate(scratch: &Scratch, command: &[OsString]) -> Invocation {
    translated(scratch, command)
}

fn trace_to_file(scratch: &Scratch, command: &[OsString]) -> Invocation {
    traced(scratch, &[], &trace_file(scratch), command)
}

fn trace_file(scratch: &Scratch) -> PathBuf {
    scratch.path().join("trace.unspool")
}

/// The program that touches so many MiB.
fn fills(mebibytes: u64) -> Result<Vec<OsString>, Verdict> {
    let source = programs_folder().join("processes/parts/fills.c");
    let text = fs::read_to_string(&source)?;
    let guest = Guest::parse("processes/fills", &source, &text)?;
    let program = build(&guest, "")?;
    Ok(vec![program.into(), mebibytes.to_string().into()])
}

/// A control group of the test's own.
struct Group {
    folder: PathBuf,
    /// The files for the limit, and for the most that was used.
    limit: &'static str,
    peak: &'static str,
}

impl Group {
    fn new() -> Result<Group, Verdict> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("unspool-test-{}-{number}", std::process::id());
        let mut problem = String::new();
        for (root, limit, peak) in [
            (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.max_usage_in_bytes",
            ),
            ("/sys/fs/cgroup", "memory.max", "memory.peak"),
        ] {
            let folder = Path::new(root).join(&name);
            if let Err(error) = fs::create_dir(&folder) {
                problem = format!("no control group can be made in {root}: {error}");
                continue;
            }
            let group = Group {
                folder,
                limit,
                peak,
            };
            if group.folder.join(limit).exists() && group.folder.join(peak).exists() {
                // Where memory can be swapped out, the limit alone kills nobody.
                let _ = fs::write(group.folder.join("memory.swappiness"), "0");
                let _ = fs::write(group.folder.join("memory.swap.max"), "0");
                return Ok(group);
            }
            problem = format!("control groups in {root} do not limit memory");
        }
        Err(Verdict::CannotTell(problem))
    }

    /// The invocation, in the group from its first instruction on.
    fn holding(&self, scratch: &Scratch, invocation: &Invocation) -> Invocation {
        let join = format!("echo $$ > {}/cgroup.procs", self.folder.display());
        after(scratch, &join, invocation)
    }

    fn set_limit(&self, bytes: u64) -> Result<(), Verdict> {
        Ok(fs::write(self.folder.join(self.limit), bytes.to_string())?)
    }

    fn peak(&self) -> Result<u64, Verdict> {
        let text = fs::read_to_string(self.folder.join(self.peak))?;
        text.trim()
            .parse()
            .map_err(|_| Verdict::Wrong(format!("`{text}` is no number of bytes")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What died a moment ago may still be in it.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The invocation in place of a shell that has carried out a command.
fn after(scratch: &Scratch, first: &str, invocation: &Invocation) -> Invocation {
    let line = invocation.command_line();
    let (folder, rest) = line
        .split_once(" && ")
        .expect("a command line names its folder first");
    let script = format!("{first} && {folder} && exec env {rest}");
    natively(scratch, &["/bin/bash", "-c", &script])
}

fn ends(scratch: &Scratch, invocation: &Invocation, wanted: Ending) -> Result<Outcome, Verdict> {
    let outcome = run(scratch, invocation)?;
    if outcome.ending == wanted {
        return Ok(outcome);
    }
    Err(wrong(&format!("{wanted:?}"), invocation, &outcome))
}

fn fits(scratch: &Scratch, way: Way) -> Result<(), Verdict> {
    let command = fills(40)?;
    let measured = Group::new()?;
    let native = natively(scratch, &command);
    let outcome = run_well(scratch, &measured.holding(scratch, &native))?;
    let need = measured.peak()? + MARGIN;

    let group = Group::new()?;
    group.set_limit(need)?;
    run_well(scratch, &group.holding(scratch, &native))?;
    // The control: what is too little is too little.
    group.set_limit(need - MARGIN - 8 * MEBIBYTE)?;
    ends(scratch, &group.holding(scratch, &native), KILLED)?;

    let group = Group::new()?;
    group.set_limit(need + OVERHEAD)?;
    let observed = run_well(scratch, &group.holding(scratch, &way(scratch, &command)))?;
    if observed.stdout == outcome.stdout {
        return Ok(());
    }
    Err(Verdict::Wrong("it says something else".to_owned()))
}

fn killed(scratch: &Scratch, way: Way) -> Result<(), Verdict> {
    let group = Group::new()?;
    group.set_limit(100 * MEBIBYTE)?;
    let command = fills(200)?;
    ends(
        scratch,
        &group.holding(scratch, &natively(scratch, &command)),
        KILLED,
    )?;
    let observed = group.holding(scratch, &way(scratch, &command));
    ends(scratch, &observed, KILLED)?;
    let file = trace_file(scratch);
    if !file.exists() {
        return Ok(());
    }
    // What was recorded until then can be read.
    let info = unspool(scratch, &["info".as_ref(), file.as_os_str()]);
    let said = run(scratch, &info)?.stdout_text();
    let accesses = said
        .lines()
        .find_map(|line| line.strip_prefix("accesses "))
        .and_then(|number| number.trim().replace(',', "").parse::<u64>().ok());
    match accesses {
        Some(1_000_000..) if said.contains("cut off") => Ok(()),
        _ => Err(Verdict::Wrong(format!(
            "the trace of a killed program must be readable\n{said}\nreplay: {}",
            info.command_line()
        ))),
    }
}

/// Hardly more than the program needs natively, which leaves nothing for Unspool: it ends at once.
fn hardly_any(scratch: &Scratch, way: Way) -> Result<(), Verdict> {
    let group = Group::new()?;
    let command = fills(1)?;
    run_well(
        scratch,
        &group.holding(scratch, &natively(scratch, &command)),
    )?;
    let native = group.peak()?;
    group.set_limit(native + native / 8)?;
    ends(
        scratch,
        &group.holding(scratch, &way(scratch, &command)),
        KILLED,
    )?;
    Ok(())
}

/// Unspool reserves more address space than some limits allow.
fn address_space(scratch: &Scratch) -> Result<(), Verdict> {
    const FAILED: Ending = Ending::Exited(125);
    let command = fills(1)?;
    // What is only reserved is no data.
    let limit = "ulimit -d 100000";
    run_well(
        scratch,
        &after(scratch, limit, &translated(scratch, &command)),
    )?;
    // A process for which there is no room for the executable itself is killed by the kernel.
    let module = unspool_binary::Module::open(&COMMAND).map_err(|error| error.to_string())?;
    let (start, end) = module
        .span()
        .ok_or_else(|| "an executable has segments".to_owned())?;
    let little_more = (end.0 - start.0) / 1024 + 1000;
    for kilobytes in [1_000_000, little_more] {
        let limit = format!("ulimit -v {kilobytes}");
        run_well(
            scratch,
            &after(scratch, &limit, &natively(scratch, &command)),
        )?;
        let observed_run = after(scratch, &limit, &translated(scratch, &command));
        let observed = ends(scratch, &observed_run, FAILED)?;
        if !observed.stderr_text().contains("help: ") {
            return Err(wrong(
                "it must say how to do better",
                &observed_run,
                &observed,
            ));
        }
    }
    Ok(())
}

/// A program with fixed addresses that does not fit is refused with advice, which helps.
fn three_gigabytes(scratch: &Scratch) -> Result<(), Verdict> {
    const ADVICE: &str = "-fPIE -pie";
    const FIXED: &str = "-no-pie -fno-pie";
    const NOT_EXECUTABLE: Ending = Ending::Exited(126);
    let source = programs_folder().join("memory/parts/three_gigabytes.c");
    let text = fs::read_to_string(&source)?;
    let guest = Guest::parse("memory/three_gigabytes", &source, &text)?;
    let fixed = build(&guest, "")?;
    run_well(scratch, &natively(scratch, &[&fixed]))?;
    let refused_run = translated(scratch, &[&fixed]);
    let refused = ends(scratch, &refused_run, NOT_EXECUTABLE)?;
    if !refused.stderr_text().contains(ADVICE) {
        return Err(wrong("it must give advice", &refused_run, &refused));
    }
    let text = text.replace(FIXED, ADVICE);
    let guest = Guest::parse("memory/three_gigabytes_anywhere", &source, &text)?;
    let program = build(&guest, "")?;
    runs_alike(
        scratch,
        &natively(scratch, &[&program]),
        &translated(scratch, &[&program]),
    )
    .map(drop)
}
