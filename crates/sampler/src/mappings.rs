//! Lines of `/proc/PID/maps` (`proc(5)`).

/// Code that is mapped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Code<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    /// The file, or what the kernel calls memory that has none in the records of its events.
    pub(crate) path: &'a str,
}

const WITHOUT_FILE: &str = "//anon";

/// What a line says, if it is of code.
pub(crate) fn code(line: &str) -> Option<Code<'_>> {
    // Addresses, permissions, offset, device, inode; blanks up to a column; the path.
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let offset = words.next()?;
    let path = words.nth(2).unwrap_or_default().trim_start_matches(' ');
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_code = permissions.as_bytes().get(2) == Some(&b'x');
    is_code.then_some(Code {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        path: match path {
            "" => WITHOUT_FILE,
            path => path,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_a_range_and_a_path_and_the_rest_is_passed_over() {
        let path = "/usr/lib/a b.so";
        let line = format!("7f00-8f00 r-xp 00002000 fe:00 1234                 {path}");
        let expected = Code {
            start: 0x7f00,
            end: 0x8f00,
            offset: 0x2000,
            path,
        };
        assert_eq!(code(&line), Some(expected));
        assert_eq!(
            code("7f00-8f00 rw-p 00002000 fe:00 1234  /usr/lib/a.so"),
            None
        );
        assert_eq!(
            code("1-2 rwxp 0 00:00 0").map(|code| code.path),
            Some("//anon")
        );
        assert_eq!(
            code("1-2 r-xp 0 00:00 0   [vdso]").map(|code| code.path),
            Some("[vdso]")
        );
        for damaged in ["", "\n", "1", "x-y r-xp 0 0 0", "1-2"] {
            assert_eq!(code(damaged), None, "{damaged:?}");
        }
    }
}
