//! How much memory a process can still have before the kernel kills one for the lack of it: of the
//! machine (`/proc/meminfo`), and of every control group that it is in and that has a limit
//! (`memory.max`, or `memory.limit_in_bytes` of the first version).
//!
//! The files are opened once, at descriptors out of the program's way, and read without allocating:
//! whoever asks may be an allocator. What file pages take counts as free, because the kernel takes
//! those first, and so does free swap space as far as a group may use it. A limit that a group gets
//! later is not known of.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::descriptors::copy_away;

/// What the longest of the files has, and some more.
const FILE_SIZE: usize = 8 << 10;

/// Where it is known how much memory there is.
#[derive(Debug, Default)]
pub struct MemorySources {
    machine: Option<OwnedFd>,
    groups: Vec<Group>,
}

/// A control group with a limit.
#[derive(Debug)]
struct Group {
    limit: OwnedFd,
    usage: OwnedFd,
    statistics: OwnedFd,
    /// Limit and usage of swap space alone; in the first version, of memory and swap space together.
    swap: Option<(OwnedFd, OwnedFd)>,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    First,
    Second,
}

/// What there is of memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLeft {
    /// What can still be had.
    pub left: u64,
    /// All of it.
    pub total: u64,
    /// Whose it is.
    pub of: Owner,
}

/// Whose memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The machine's.
    Machine,
    /// That of a control group, which has a limit.
    ControlGroup,
}

impl MemorySources {
    /// Opens what there is. To be called while the limit of descriptors is raised.
    #[must_use]
    pub fn open() -> MemorySources {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (groups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        let folders = folders(&groups, &mounts).into_iter();
        MemorySources {
            machine: open(Path::new("/proc/meminfo")),
            groups: folders
                .filter_map(|(folder, version)| Group::open(&folder, version))
                .collect(),
        }
    }

    /// The descriptors that this needs.
    pub fn files(&self) -> impl Iterator<Item = i32> + '_ {
        let groups = self.groups.iter().flat_map(|group| {
            let swap = group.swap.iter().flat_map(|(limit, usage)| [limit, usage]);
            [&group.limit, &group.usage, &group.statistics]
                .into_iter()
                .chain(swap)
        });
        self.machine.iter().chain(groups).map(AsRawFd::as_raw_fd)
    }

    /// Of all that bounds this process, what has the least left. Allocates nothing.
    #[must_use]
    pub fn left(&self) -> Option<MemoryLeft> {
        let mut buffer = [0; FILE_SIZE];
        let machine = Machine::parse(read(self.machine.as_ref()?, &mut buffer)?)?;
        let mut least = MemoryLeft {
            left: machine.available + machine.free_swap,
            total: machine.total,
            of: Owner::Machine,
        };
        for group in &self.groups {
            if let Some(left) = group.left(machine.free_swap, &mut buffer)
                && left.left < least.left
            {
                least = left;
            }
        }
        Some(least)
    }
}

impl Group {
    fn open(folder: &Path, version: Version) -> Option<Group> {
        let named = |name: &str| open(&folder.join(name));
        let [limit, usage, swap_limit, swap_usage] = match version {
            Version::First => [
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "memory.memsw.limit_in_bytes",
                "memory.memsw.usage_in_bytes",
            ],
            Version::Second => [
                "memory.max",
                "memory.current",
                "memory.swap.max",
                "memory.swap.current",
            ],
        };
        let limit = named(limit)?;
        // Most groups have none.
        number(&limit, &mut [0; FILE_SIZE]).filter(|&bytes| bytes < NO_LIMIT)?;
        Some(Group {
            limit,
            usage: named(usage)?,
            statistics: named("memory.stat")?,
            swap: named(swap_limit).zip(named(swap_usage)),
            version,
        })
    }

    fn left(&self, free_swap: u64, buffer: &mut [u8; FILE_SIZE]) -> Option<MemoryLeft> {
        let total = number(&self.limit, buffer)?;
        let usage = number(&self.usage, buffer)?;
        let file_pages = file_pages(read(&self.statistics, buffer)?, self.version);
        let swap = self
            .swap
            .as_ref()
            .and_then(|(limit, usage)| Some((number(limit, buffer)?, number(usage, buffer)?)));
        let memory = total.saturating_sub(usage.saturating_sub(file_pages));
        let left = match (self.version, swap) {
            (_, None) => memory + free_swap,
            (Version::Second, Some((limit, usage))) => {
                memory + free_swap.min(limit.saturating_sub(usage))
            }
            (Version::First, Some((limit, usage))) => {
                let together = limit.saturating_sub(usage.saturating_sub(file_pages));
                together.min(memory + free_swap)
            }
        };
        Some(MemoryLeft {
            left,
            total,
            of: Owner::ControlGroup,
        })
    }
}

/// More than any machine has: the kernel's way to say that there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// What `/proc/meminfo` says.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    total: u64,
    available: u64,
    free_swap: u64,
}

impl Machine {
    fn parse(text: &[u8]) -> Option<Machine> {
        let kibibytes = |name: &str| Some(field(text, name)? << 10);
        Some(Machine {
            total: kibibytes("MemTotal:")?,
            available: kibibytes("MemAvailable:")?,
            free_swap: kibibytes("SwapFree:").unwrap_or(0),
        })
    }
}

/// The bytes of a group's pages that the kernel takes back first, by its `memory.stat`.
fn file_pages(text: &[u8], version: Version) -> u64 {
    let names = match version {
        Version::First => ["total_inactive_file", "total_active_file"],
        Version::Second => ["inactive_file", "active_file"],
    };
    let found = names.map(|name| field(text, name).unwrap_or(0));
    found.iter().sum()
}

/// The number behind a name at the beginning of a line.
fn field(text: &[u8], name: &str) -> Option<u64> {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.find_map(|line| {
        let rest = line.strip_prefix(name.as_bytes())?;
        rest.first().filter(|byte| **byte == b' ')?;
        leading_number(rest.trim_ascii_start())
    })
}

fn leading_number(text: &[u8]) -> Option<u64> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&text[..length]).ok()?.parse().ok()
}

/// A file that holds one number, or `max`.
fn number(file: &OwnedFd, buffer: &mut [u8; FILE_SIZE]) -> Option<u64> {
    let text = read(file, buffer)?;
    match text.starts_with(b"max") {
        true => Some(NO_LIMIT),
        false => leading_number(text),
    }
}

/// What a file says now: the kernel writes its text anew for whoever reads it from its start.
fn read<'a>(file: &OwnedFd, buffer: &'a mut [u8; FILE_SIZE]) -> Option<&'a [u8]> {
    // SAFETY: the kernel writes into the buffer, and no more than fits.
    let size = unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), FILE_SIZE, 0) };
    let size = usize::try_from(size).ok()?;
    Some(&buffer[..size])
}

fn open(path: &Path) -> Option<OwnedFd> {
    let file = File::open(path).ok()?;
    copy_away(file.as_raw_fd())
}

/// The folders of the control groups that bound this process's memory, from its own up to the mount.
/// `groups`: `/proc/self/cgroup`; `mounts`: `/proc/self/mountinfo`.
fn folders(groups: &str, mounts: &str) -> Vec<(PathBuf, Version)> {
    let mut all = Vec::new();
    for (version, own) in groups.lines().filter_map(own_group) {
        let mount = mounts.lines().find_map(|line| mount(line, version));
        let Some((root, point)) = mount else {
            continue;
        };
        // What is mounted may be a part of the tree, as containers have it; the process's own group
        // may lie beside that.
        let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
        let below: Vec<_> = below.ancestors().collect();
        all.extend(below.iter().map(|it| (Path::new(point).join(it), version)));
    }
    all
}

/// Version and path of the group that a line of `/proc/self/cgroup` is about, if it is about memory.
fn own_group(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let is_memory = controllers.split(',').any(|it| it == "memory");
    match (number, is_memory) {
        ("0", _) => Some((Version::Second, path)),
        (_, true) => Some((Version::First, path)),
        _ => None,
    }
}

/// What part of the tree of groups a line of `/proc/self/mountinfo` says is mounted, and where.
fn mount(line: &str, version: Version) -> Option<(&str, &str)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let (kind, options) = (system.next()?, system.nth(1)?);
    let is_right = match version {
        Version::First => kind == "cgroup" && options.split(',').any(|it| it == "memory"),
        Version::Second => kind == "cgroup2",
    };
    is_right.then_some((root, point))
}

#[cfg(test)]
mod tests;
