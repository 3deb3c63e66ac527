//! From what was found to verdicts and remedies.

use std::io;

use unspool_sampler::trial::Rate;

use crate::check::{Area, Check};
use crate::platform::Platform;

/// Below this, translated programs of a common size and their traces have too little memory.
const LITTLE_MEMORY_BYTES: u64 = 512 << 20;
/// What part of the samples that were asked for must come.
const ENOUGH_SAMPLES: f64 = 0.9;

/// All that was looked at, by area.
#[must_use]
pub fn checks(platform: &Platform) -> Vec<Check> {
    let sampling = [
        samples(platform),
        rate(platform),
        kernel_time(platform),
        waits(platform),
        processor_events(platform),
        kernel_addresses(platform),
    ];
    let translation = [
        vector_state(platform),
        segment_bases(platform),
        code_space(platform),
        order_space(platform),
        written_code(platform),
    ];
    let machine = [
        seccomp(platform),
        tracing(platform),
        memory(platform),
        timers(platform),
    ];
    let areas = [&sampling[..], &translation, &machine];
    areas.concat()
}

fn reason(error: i32) -> String {
    io::Error::from_raw_os_error(error).to_string()
}

/// Which of what may forbid `perf_event_open` does, and what lifts it.
fn allow_events(platform: &Platform, error: i32, paranoid: i64) -> String {
    let settings = &platform.settings;
    let is_setting = settings.perf_event_paranoid.is_some_and(|is| is > paranoid);
    match error {
        libc::EACCES | libc::EPERM if is_setting => {
            format!("as root: sysctl kernel.perf_event_paranoid={paranoid}; or run as root")
        }
        libc::EACCES | libc::EPERM | libc::ENOSYS if settings.seccomp_filters > 0 => {
            "a seccomp filter forbids perf_event_open: run outside it \
             (docker run --security-opt seccomp=unconfined)"
                .to_owned()
        }
        libc::EACCES | libc::EPERM => {
            "give the process CAP_PERFMON (docker run --cap-add PERFMON), or run as root".to_owned()
        }
        _ => "use a kernel with performance events (CONFIG_PERF_EVENTS)".to_owned(),
    }
}

fn samples(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Sampling, "samples by CPU time", found);
    match platform.samples {
        Ok(()) => check("perf_event_open gives them".to_owned()),
        Err(error) => check(reason(error)).missing(allow_events(platform, error, 2)),
    }
}

fn rate(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Sampling, "rate of samples", found);
    let Some(Rate { expected, taken }) = platform.rate else {
        let first = "first have samples taken at all";
        return check("cannot be tried".to_owned()).limited(first);
    };
    let found = format!("{taken} of {expected:.0} came, asked for at 1,000 Hz");
    match (
        f64::from(taken) < ENOUGH_SAMPLES * expected,
        platform.settings.most_samples_hz,
    ) {
        (false, _) => check(found),
        (true, Some(most)) if most < 1000 => check(format!("{found}; the limit is {most} Hz"))
            .limited("as root: sysctl kernel.perf_event_max_sample_rate=100000"),
        (true, _) => check(found).limited("ask for fewer: unspool profile --frequency 100"),
    }
}

fn kernel_time(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Sampling, "time in the kernel", found);
    match platform.kernel_samples {
        Ok(()) => check("is sampled".to_owned()),
        Err(error) => check(format!("is not told: {}", reason(error)))
            .limited(allow_events(platform, error, 1)),
    }
}

fn waits(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Sampling, "where threads wait", found);
    match platform.waits {
        Ok(()) => check("is told (unspool profile --off-cpu)".to_owned()),
        Err(error) => check(format!("is not told: {}", reason(error)))
            .limited(allow_events(platform, error, 1)),
    }
}

/// Profiles are by CPU time, so that this takes nothing from them.
fn processor_events(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Sampling, "events of the processor", found);
    match platform.cycles {
        Ok(()) => check("cycles are counted".to_owned()),
        Err(error @ (libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV)) => check(format!(
            "no counters: {}; profiles are by CPU time",
            reason(error)
        ))
        .limited("have the host of this virtual machine pass its counters on"),
        Err(error) => check(reason(error)).limited(allow_events(platform, error, 2)),
    }
}

fn kernel_addresses(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Sampling, "addresses of kernel functions", found);
    let settings = &platform.settings;
    match (settings.sees_kernel_addresses, settings.kptr_restrict) {
        (true, _) => check("are readable".to_owned()),
        (false, Some(2..)) => check("are hidden from everyone (kptr_restrict is 2)".to_owned())
            .limited("as root: sysctl kernel.kptr_restrict=1"),
        (false, _) => check("are hidden from this user".to_owned()).limited(
            "run as root, or as root: sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
        ),
    }
}

fn vector_state(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Translation, "vector registers", found);
    match platform.has_xsave {
        true => check("XSAVE keeps them"),
        false => check("no XSAVE").missing(
            "use a processor of 2011 or later, and a kernel that is not started with noxsave",
        ),
    }
}

fn segment_bases(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Translation, "segment bases", found);
    match platform.has_fsgsbase {
        true => check("set by instructions"),
        false => check("set by system calls, which is slower")
            .limited("use Linux 5.9 or later, without nofsgsbase, on a processor of 2012 or later"),
    }
}

const MORE_SPACE: &str = "ulimit -v unlimited";

fn code_space(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Translation, "address space for code", found);
    match platform.code_space {
        Ok(()) => check("can be reserved".to_owned()),
        Err(error) => check(reason(error)).missing(MORE_SPACE),
    }
}

fn order_space(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Translation, "address space for order", found);
    match platform.order_space {
        Ok(()) => check("can be reserved".to_owned()),
        Err(error) => check(reason(error)).missing(MORE_SPACE),
    }
}

fn written_code(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Translation, "code written at run time", found);
    match platform.written_code {
        Ok(()) => check("may run".to_owned()),
        Err(error) => check(reason(error)).missing(
            "lift what forbids memory that is writable and executable \
             (SELinux, as root: setsebool deny_execmem 0; systemd: MemoryDenyWriteExecute=no)",
        ),
    }
}

fn seccomp(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Machine, "seccomp", found);
    match platform.settings.seccomp_filters {
        0 => check("no filter".to_owned()),
        count => check(format!(
            "{count} filters judge the system calls of this process"
        ))
        .limited(
            "where a command fails that works elsewhere, run outside them \
             (docker run --security-opt seccomp=unconfined)",
        ),
    }
}

fn tracing(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Machine, "access to other processes", found);
    match platform.settings.ptrace_scope {
        None | Some(..=0) => check("as users allow each other".to_owned()),
        Some(scope) => check(format!("only to children (ptrace_scope is {scope})"))
            .limited("as root: sysctl kernel.yama.ptrace_scope=0"),
    }
}

fn memory(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Machine, "memory", found);
    match platform.settings.memory_limit_bytes {
        None => check("no limit of the control group".to_owned()),
        Some(limit) => {
            let found = check(format!("{} MiB in this control group", limit >> 20));
            match limit < LITTLE_MEMORY_BYTES {
                true => found.limited("give the group more (docker run --memory 2g)"),
                false => found,
            }
        }
    }
}

/// Profiles do not use these timers: the kernel's events are not bound to the tick.
fn timers(platform: &Platform) -> Check {
    let check = |found| Check::good(Area::Machine, "kernel's tick", found);
    match platform.tick_ns {
        Some(tick) if tick > 0 => check(format!(
            "{} ms: timers of CPU time fire {} times a second at most",
            tick as f64 / 1e6,
            1_000_000_000 / tick
        )),
        _ => check("unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests;
