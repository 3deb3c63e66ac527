use super::*;
use crate::check::Verdict;
use crate::settings::Settings;

/// A machine that allows everything.
fn best() -> Platform {
    Platform {
        samples: Ok(()),
        kernel_samples: Ok(()),
        waits: Ok(()),
        cycles: Ok(()),
        rate: Some(Rate {
            expected: 200.0,
            taken: 199,
        }),
        tick_ns: Some(4_000_000),
        has_xsave: true,
        has_fsgsbase: true,
        code_space: Ok(()),
        order_space: Ok(()),
        written_code: Ok(()),
        settings: Settings {
            perf_event_paranoid: Some(1),
            most_samples_hz: Some(100_000),
            kptr_restrict: Some(0),
            sees_kernel_addresses: true,
            ..Settings::default()
        },
    }
}

/// What is not good: name, verdict and remedy.
fn faults(change: impl FnOnce(&mut Platform)) -> Vec<(&'static str, Verdict, String)> {
    let mut platform = best();
    change(&mut platform);
    let faults = checks(&platform).into_iter();
    faults
        .filter_map(|check| Some((check.name, check.verdict, check.remedy?)))
        .collect()
}

/// One fault is one verdict, whose remedy has these words.
fn check_one(change: impl FnOnce(&mut Platform), name: &str, verdict: Verdict, words: &str) {
    let faults = faults(change);
    let [(found, is, remedy)] = &faults[..] else {
        panic!("{name}: {faults:?}");
    };
    assert_eq!((*found, *is), (name, verdict));
    assert!(remedy.contains(words), "{remedy}");
}

#[test]
fn where_everything_is_allowed_nothing_is_wrong() {
    assert_eq!(faults(|_| {}), []);
}

#[test]
fn the_remedy_is_that_of_what_forbids_events() {
    let name = "samples by CPU time";
    let by_setting = |platform: &mut Platform| {
        platform.samples = Err(libc::EACCES);
        platform.settings.perf_event_paranoid = Some(3);
    };
    check_one(by_setting, name, Verdict::Missing, "perf_event_paranoid=2");
    let by_capability = |platform: &mut Platform| platform.samples = Err(libc::EPERM);
    check_one(by_capability, name, Verdict::Missing, "CAP_PERFMON");
    let by_kernel = |platform: &mut Platform| platform.samples = Err(libc::ENOSYS);
    check_one(by_kernel, name, Verdict::Missing, "CONFIG_PERF_EVENTS");
    let by_filter = faults(|platform| {
        platform.samples = Err(libc::EPERM);
        platform.settings.seccomp_filters = 1;
    });
    let named: Vec<_> = by_filter.iter().map(|fault| fault.0).collect();
    assert_eq!(named, [name, "seccomp"]);
    assert!(by_filter[0].2.contains("seccomp=unconfined"));
}

#[test]
fn a_lesser_machine_has_less_and_says_what_helps() {
    use Verdict::{Limited, Missing};
    let kernel_time = |platform: &mut Platform| {
        platform.kernel_samples = Err(libc::EACCES);
        platform.settings.perf_event_paranoid = Some(2);
    };
    check_one(kernel_time, "time in the kernel", Limited, "paranoid=1");
    let waits = |platform: &mut Platform| {
        platform.waits = Err(libc::EACCES);
        platform.settings.perf_event_paranoid = Some(2);
    };
    check_one(waits, "where threads wait", Limited, "paranoid=1");
    let few = |platform: &mut Platform| {
        let (expected, taken) = (200.0, 40);
        platform.rate = Some(Rate { expected, taken });
    };
    check_one(few, "rate of samples", Limited, "--frequency 100");
    let capped = |platform: &mut Platform| {
        few(platform);
        platform.settings.most_samples_hz = Some(200);
    };
    check_one(capped, "rate of samples", Limited, "max_sample_rate");
    let virtual_machine = |platform: &mut Platform| platform.cycles = Err(libc::ENOENT);
    check_one(virtual_machine, "events of the processor", Limited, "host");
    let hidden = |platform: &mut Platform| {
        platform.settings.sees_kernel_addresses = false;
        platform.settings.kptr_restrict = Some(2);
    };
    check_one(
        hidden,
        "addresses of kernel functions",
        Limited,
        "kptr_restrict=1",
    );
    let scope = |platform: &mut Platform| platform.settings.ptrace_scope = Some(1);
    check_one(
        scope,
        "access to other processes",
        Limited,
        "ptrace_scope=0",
    );
    let slow = |platform: &mut Platform| platform.has_fsgsbase = false;
    check_one(slow, "segment bases", Limited, "5.9");
    let little = |platform: &mut Platform| {
        platform.settings.memory_limit_bytes = Some(256 << 20);
    };
    check_one(little, "memory", Limited, "--memory");
    let old = |platform: &mut Platform| platform.has_xsave = false;
    check_one(old, "vector registers", Missing, "processor");
    let narrow = |platform: &mut Platform| platform.code_space = Err(libc::ENOMEM);
    check_one(narrow, "address space for code", Missing, "ulimit -v");
    let narrower = |platform: &mut Platform| platform.order_space = Err(libc::ENOMEM);
    check_one(narrower, "address space for order", Missing, "ulimit -v");
    let protected = |platform: &mut Platform| platform.written_code = Err(libc::EACCES);
    check_one(protected, "code written at run time", Missing, "execmem");
}

#[test]
fn enough_memory_is_no_limit() {
    assert_eq!(
        faults(|platform| platform.settings.memory_limit_bytes = Some(4 << 30)),
        []
    );
}
