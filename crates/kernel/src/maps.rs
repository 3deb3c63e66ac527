//! The lines of `/proc/PID/maps` (`man 5 proc_pid_maps`).

use std::io::Read;
use std::ops::Range;

/// What the kernel says of this process's mappings; nothing where there is no `/proc`.
pub fn read() -> Vec<u8> {
    let mut text = Vec::new();
    // Without asking for the file's size: a program may have forbidden itself the newer calls.
    let file = std::fs::File::open("/proc/self/maps").map(|file| file.take(u64::MAX));
    // What could be read is of use.
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    text
}

/// One mapping.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its addresses.
    pub range: Range<u64>,
    /// `rwx` and whether it is shared, `-` where not.
    pub permissions: &'a str,
    /// Which byte of its file comes first.
    pub offset: u64,
    /// The file's path, or the kernel's name in brackets; empty where it has neither.
    pub name: &'a [u8],
}

impl Line<'_> {
    /// Whether what is mapped may be executed.
    #[must_use]
    pub fn is_code(&self) -> bool {
        self.permissions.as_bytes().get(2) == Some(&b'x')
    }
}

/// All mappings in such a text.
pub fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(parse)
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    // The name may hold spaces, and need not be UTF-8.
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut text = || str::from_utf8(fields.next()?).ok();
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = text()?.split_once('-')?;
    let range = number(start)?..number(end)?;
    let permissions = text()?;
    let offset = number(text()?)?;
    let (_device, _inode) = (text()?, text()?);
    Some(Line {
        range,
        permissions,
        offset,
        name: fields.next().unwrap_or_default().trim_ascii_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_all_fields() {
        let text = b"\
7f00-8f00 r-xp 00001000 fe:00 1234                       /a b/\xffc  d
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]
10-20 rw-s 00000000 00:00 0 
nonsense
";
        let line = |range, permissions, offset, name| Line {
            range,
            permissions,
            offset,
            name,
        };
        let vsyscall = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;
        let expected = [
            line(0x7f00..0x8f00, "r-xp", 0x1000, b"/a b/\xffc  d".as_slice()),
            line(vsyscall, "--xp", 0, b"[vsyscall]"),
            line(0x10..0x20, "rw-s", 0, b""),
        ];
        assert!(lines(text).eq(expected));
        assert!(
            lines(text)
                .map(|line| line.is_code())
                .eq([true, true, false])
        );
    }

    #[test]
    fn this_process_has_mappings() {
        let here = this_process_has_mappings as *const () as u64;
        let text = read();
        let line = lines(&text).find(|line| line.range.contains(&here));
        assert!(line.is_some_and(|line| line.is_code()));
    }
}
