//! The arguments and the environment of a new program, read as the kernel reads them: what is
//! wrong with them is found in the same order, and they may be as large.
//!
//! Source: `fs/exec.c`, `bprm_stack_limits` and `copy_strings`.

use std::ffi::CString;

use unspool_kernel::guarded;

const FAULT: i64 = -(libc::EFAULT as i64);
const TOO_BIG: i64 = -(libc::E2BIG as i64);

/// Bytes of the longest string, with its terminator.
const LONGEST: usize = 128 << 10;
/// What the kernel allows even where the stack is small.
const LEAST_ROOM: u64 = 128 << 10;
/// What it allows at most: three quarters of the usual limit of the stack.
const MOST_ROOM: u64 = 6 << 20;
const POINTER: u64 = 8;

/// What a program is started with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Strings {
    pub(super) arguments: Vec<CString>,
    pub(super) environment: Vec<CString>,
}

/// Reads both lists. `path` is the length of the program's path.
pub(super) fn read(path: usize, arguments: u64, environment: u64) -> Result<Strings, i64> {
    Reader {
        word: guarded::read_word,
        string: read_text,
    }
    .read(path, arguments, environment, stack_limit())
}

/// Reads a string without its terminator, or as much as `limit` of one that is longer.
pub(super) fn read_text(from: u64, limit: usize) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    while text.len() < limit {
        let start = text.len();
        let at = from.wrapping_add(start as u64);
        let piece = (PAGE - at % PAGE).min((limit - start) as u64) as usize;
        text.resize(start + piece, 0);
        if !guarded::read(at, &mut text[start..]) {
            return None;
        }
        if let Some(end) = text[start..].iter().position(|&byte| byte == 0) {
            text.truncate(start + end);
            break;
        }
    }
    Some(text)
}

fn stack_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    limit.rlim_cur
}

/// How the program's memory is read.
struct Reader<W, S> {
    word: W,
    string: S,
}

impl<W, S> Reader<W, S>
where
    W: Fn(u64) -> Option<u64>,
    S: Fn(u64, usize) -> Option<Vec<u8>>,
{
    fn read(
        &self,
        path: usize,
        arguments: u64,
        environment: u64,
        stack_limit: u64,
    ) -> Result<Strings, i64> {
        let arguments = self.pointers(arguments)?;
        let environment = self.pointers(environment)?;
        let count = arguments.len().max(1) + environment.len();
        let room = (stack_limit / 4).clamp(LEAST_ROOM, MOST_ROOM);
        let pointers = count as u64 * POINTER;
        if room <= pointers {
            return Err(TOO_BIG);
        }
        let mut room = room - pointers;
        room = room.checked_sub(path as u64 + 1).ok_or(TOO_BIG)?;
        // The kernel fills the new stack from its end.
        let environment = self.strings(&environment, &mut room)?;
        let mut arguments = self.strings(&arguments, &mut room)?;
        if arguments.is_empty() {
            arguments.push(CString::default());
        }
        Ok(Strings {
            arguments,
            environment,
        })
    }

    fn pointers(&self, list: u64) -> Result<Vec<u64>, i64> {
        let mut pointers = Vec::new();
        if list == 0 {
            return Ok(pointers);
        }
        // More cannot be allowed, and a list without an end ends in a fault.
        while pointers.len() as u64 * POINTER <= MOST_ROOM {
            let at = list.wrapping_add(pointers.len() as u64 * POINTER);
            match (self.word)(at).ok_or(FAULT)? {
                0 => return Ok(pointers),
                pointer => pointers.push(pointer),
            }
        }
        Err(TOO_BIG)
    }

    fn strings(&self, pointers: &[u64], room: &mut u64) -> Result<Vec<CString>, i64> {
        let mut strings = Vec::with_capacity(pointers.len());
        for &pointer in pointers.iter().rev() {
            let text = (self.string)(pointer, LONGEST).ok_or(FAULT)?;
            if text.len() == LONGEST {
                return Err(TOO_BIG);
            }
            *room = room.checked_sub(text.len() as u64 + 1).ok_or(TOO_BIG)?;
            strings.push(CString::new(text).map_err(|_| FAULT)?);
        }
        strings.reverse();
        Ok(strings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGUMENTS: u64 = 0x1000;
    const ENVIRONMENT: u64 = 0x100_0000;
    const BAD: u64 = 1;

    /// Lists of strings, each told by its length; no string is at [`BAD`].
    fn check(
        arguments: &[u64],
        environment: &[u64],
        stack_limit: u64,
        expected: Result<(usize, usize), i64>,
    ) {
        let word = |at: u64| {
            let (list, start) = match at {
                ENVIRONMENT.. => (environment, ENVIRONMENT),
                _ => (arguments, ARGUMENTS),
            };
            let index = ((at - start) / POINTER) as usize;
            Some(list.get(index).copied().unwrap_or(0))
        };
        let string =
            |at: u64, limit: usize| (at != BAD).then(|| vec![b'a'; (at as usize - 2).min(limit)]);
        let read = Reader { word, string }.read(9, ARGUMENTS, ENVIRONMENT, stack_limit);
        let sizes = read.map(|it| (it.arguments.len(), it.environment.len()));
        assert_eq!(sizes, expected);
    }

    const USUAL: u64 = 8 << 20;

    #[test]
    fn strings_have_a_longest_length() {
        check(&[5, 2 + 131_071], &[], USUAL, Ok((2, 0)));
        check(&[5, 2 + 131_072], &[], USUAL, Err(TOO_BIG));
        check(&[5], &[2 + 200_000], USUAL, Err(TOO_BIG));
    }

    #[test]
    fn there_is_always_a_first_argument() {
        check(&[], &[5, 5], USUAL, Ok((1, 2)));
    }

    #[test]
    fn all_must_fit_into_a_quarter_of_the_stack() {
        let hundred_thousand = 2 + 99_999;
        check(&[hundred_thousand; 20], &[], USUAL, Ok((20, 0)));
        check(&[hundred_thousand; 21], &[], USUAL, Err(TOO_BIG));
        check(&[hundred_thousand], &[], 4096, Ok((1, 0)));
        check(&[hundred_thousand; 2], &[], 4096, Err(TOO_BIG));
        check(&[hundred_thousand; 60], &[], u64::MAX, Ok((60, 0)));
        check(&[hundred_thousand; 63], &[], u64::MAX, Err(TOO_BIG));
        // One byte too many: the path, and a pointer and a terminator each.
        let left = (2 << 20) - 10 - 8 * 17 - 15 * 131_072 + 1;
        let mut arguments = vec![2 + 131_071; 15];
        arguments.extend([2 + left / 2 - 1, 2 + left - left / 2 - 1]);
        check(&arguments, &[], USUAL, Err(TOO_BIG));
        arguments[16] -= 1;
        check(&arguments, &[], USUAL, Ok((17, 0)));
    }

    #[test]
    fn the_last_string_of_the_environment_is_read_first() {
        check(&[BAD], &[], USUAL, Err(FAULT));
        check(&[BAD], &[2 + 200_000], USUAL, Err(TOO_BIG));
        check(&[2 + 200_000, BAD], &[], USUAL, Err(FAULT));
        check(&[BAD; 1_000_000], &[], USUAL, Err(TOO_BIG));
    }
}
