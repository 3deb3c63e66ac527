//! What just-in-time compilers say of the code that they make: a file `perf-PID.map` in `/tmp`, with
//! a line for each function: where it begins, how long it is (both in hexadecimal digits), and its
//! name. It grows while the program runs; a later line holds where an earlier one says otherwise.
//!
//! Source: `tools/perf/Documentation/jit-interface.txt` of the Linux kernel.
//!
//! Everyone can write to `/tmp`: a file is read only if it is the process's user's or one's own, and
//! was written since the process began. What its lines say is no more than a name.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, SystemTime};

/// No file is read any further, and no line or name is taken that is longer.
const MOST_BYTES: u64 = 1 << 30;
const LONGEST_LINE: usize = 16 << 10;
const LONGEST_NAME: usize = 1 << 10;
const READ_BYTES: usize = 1 << 20;
/// The time of a file is that of a tick.
const TICK: Duration = Duration::from_secs(1);

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) name: String,
}

/// The functions that a process has told of so far.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    file: Option<File>,
    /// What has been read of it.
    position: u64,
    /// The start of a line whose end has not been written yet.
    rest: Vec<u8>,
    functions: BTreeMap<u64, Function>,
}

impl PerfMap {
    /// Reads what is new in the file of a process that has begun at a time.
    pub(crate) fn read(&mut self, pid: u32, since: SystemTime) {
        if self.file.is_none() {
            self.file = open(pid, since);
        }
        let Some(file) = self.file.take() else {
            return;
        };
        let length = file.metadata().map_or(0, |status| status.len());
        if length < self.position {
            // It was begun anew.
            *self = PerfMap::default();
        }
        let mut bytes = vec![0; READ_BYTES];
        while self.position < MOST_BYTES {
            let Ok(count @ 1..) = file.read_at(&mut bytes, self.position) else {
                break;
            };
            self.position += count as u64;
            self.add(&bytes[..count]);
        }
        self.file = Some(file);
    }

    /// Takes in more of the file.
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() <= LONGEST_LINE {
                self.rest.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                if let Some(function) = parse(&line).filter(|_| line.len() <= LONGEST_LINE) {
                    self.functions.insert(function.start, function);
                }
            }
        }
    }

    /// The function that an address is in.
    pub(crate) fn at(&self, address: u64) -> Option<&Function> {
        let (start, function) = self.functions.range(..=address).next_back()?;
        (address - start < function.length).then_some(function)
    }
}

fn parse(line: &[u8]) -> Option<Function> {
    let line = line.strip_suffix(b"\n")?;
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let word = str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let (start, length) = (number()?, number()?);
    let name = words.next()?;
    let name = String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]);
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let is_function = length > 0 && start.checked_add(length).is_some() && !name.is_empty();
    is_function.then_some(Function {
        start,
        length,
        name,
    })
}

/// The file of a process: where the process sees it, or here.
fn open(pid: u32, since: SystemTime) -> Option<File> {
    let inside = number_inside(pid).unwrap_or(pid);
    let inside = format!("/proc/{pid}/root/tmp/perf-{inside}.map");
    let here = format!("/tmp/perf-{pid}.map");
    // SAFETY: only returns a number.
    let own = unsafe { libc::geteuid() };
    let users = fs::metadata(format!("/proc/{pid}")).map_or(own, |status| status.uid());
    [inside, here].into_iter().find_map(|path| {
        let mut options = OpenOptions::new();
        let options = options.read(true);
        // Neither a link nor a pipe that someone else has put there is followed or waited at.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(&path).ok()?;
        let status = file.metadata().ok()?;
        let is_of_run = status.modified().ok()? + TICK >= since;
        let is_trusted = status.uid() == own || status.uid() == users;
        (status.is_file() && is_of_run && is_trusted).then_some(file)
    })
}

/// The number that a process has for itself, in its PID namespace.
fn number_inside(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(parts: &[&[u8]]) -> PerfMap {
        let mut map = PerfMap::default();
        parts.iter().for_each(|part| map.add(part));
        map
    }

    fn name(map: &PerfMap, address: u64) -> &str {
        map.at(address).map_or("", |function| &function.name)
    }

    #[test]
    fn lines_come_in_parts_and_later_ones_hold() {
        let map = map(&[
            b"1000 10 first\n0x2000 0x20 a b: c.js:1\n30",
            b"00 8 th",
            b"ird\n1000 20 new\n4000 8 not yet ended",
        ]);
        assert_eq!((name(&map, 0x1000), name(&map, 0x101f)), ("new", "new"));
        assert_eq!((name(&map, 0x1020), name(&map, 0xfff)), ("", ""));
        assert_eq!(
            (name(&map, 0x2010), name(&map, 0x3007)),
            ("a b: c.js:1", "third")
        );
        assert_eq!(name(&map, 0x4000), "");
    }

    #[test]
    fn damaged_lines_are_passed_over() {
        let long = [&b"1000 10 "[..], &[b'x'; 2 * LONGEST_LINE], b"\n"].concat();
        let named = [&b"2000 10 "[..], &[b'y'; 2 * LONGEST_NAME], b"\n"].concat();
        let map = map(&[
            b"\n \nx y z\n1000\n1000 10\n1000 10 \n1000 0 none\n",
            b"ffffffffffffffff 2 beyond\n-1 1 negative\n1000 11111111111111111 long\n",
            &long,
            &named,
            b"3000 1 \xff\x1b[31m\n",
        ]);
        assert_eq!(name(&map, 0x1000), "");
        assert_eq!(name(&map, u64::MAX), "");
        assert_eq!(name(&map, 0x2000).len(), LONGEST_NAME);
        assert_eq!(name(&map, 0x3000), "\u{fffd}[31m");
    }

    /// A file of an earlier process of the same number says nothing of this one.
    #[test]
    fn only_what_was_written_since_the_start_is_read() {
        let own = std::process::id();
        let path = format!("/tmp/perf-{own}.map");
        let now = SystemTime::now();
        fs::write(&path, "1000 10 function\n").unwrap();
        let mut later = PerfMap::default();
        later.read(own, now + Duration::from_secs(60));
        let mut map = PerfMap::default();
        map.read(own, now);
        fs::remove_file(&path).unwrap();
        assert_eq!((name(&later, 0x1000), name(&map, 0x1000)), ("", "function"));
        // A link leads to what is anyone's.
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let followed = open(own, SystemTime::UNIX_EPOCH).is_some();
        fs::remove_file(&path).unwrap();
        assert!(!followed);
    }
}
