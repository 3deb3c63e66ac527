//! Settings of the kernel and of the process.

use std::fs::read_to_string;

/// What the kernel says of itself and of this process; nothing where it does not say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.perf_event_max_sample_rate`.
    pub most_samples_hz: Option<i64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// Whether `/proc/kallsyms` gives this process addresses.
    pub sees_kernel_addresses: bool,
    /// `kernel.yama.ptrace_scope`; nothing where the kernel has no such restriction.
    pub ptrace_scope: Option<i64>,
    /// Seccomp filters that judge the calls of this process.
    pub seccomp_filters: i64,
    /// The most memory that the control group of this process may use.
    pub memory_limit_bytes: Option<u64>,
}

impl Settings {
    pub(crate) fn read() -> Settings {
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let of_status = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let mode = of_status("Seccomp:").and_then(number).unwrap_or(0);
        let filters = of_status("Seccomp_filters:").and_then(number);
        Settings {
            perf_event_paranoid: kernel("perf_event_paranoid"),
            most_samples_hz: kernel("perf_event_max_sample_rate"),
            kptr_restrict: kernel("kptr_restrict"),
            sees_kernel_addresses: sees_kernel_addresses(),
            ptrace_scope: kernel("yama/ptrace_scope"),
            // Kernels before 5.9 say only whether there are any.
            seccomp_filters: filters.unwrap_or(mode.min(1)),
            memory_limit_bytes: memory_limit(),
        }
    }
}

fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

fn kernel(name: &str) -> Option<i64> {
    number(&read_to_string(format!("/proc/sys/kernel/{name}")).ok()?)
}

/// The kernel hides addresses by giving 0 for each.
fn sees_kernel_addresses() -> bool {
    use std::io::{BufRead, BufReader};
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else {
        return false;
    };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).take(100);
    lines.any(|line| {
        let address = line.split(' ').next().unwrap_or_default();
        address.bytes().any(|digit| digit != b'0')
    })
}

/// The limit of this process's control group: of version 2, else of version 1.
fn memory_limit() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let file = match controllers {
            "" => format!("/sys/fs/cgroup{group}/memory.max"),
            "memory" => format!("/sys/fs/cgroup/memory{group}/memory.limit_in_bytes"),
            _ => return None,
        };
        let limit: u64 = read_to_string(file).ok()?.trim().parse().ok()?;
        // Version 1 has a number for no limit, too: the largest, in whole pages.
        (limit < 1 << 60).then_some(limit)
    };
    groups.lines().filter_map(of_line).min()
}
