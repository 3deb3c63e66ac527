//! One line of a text trace, as far as a merge must understand it.

/// What a line means to a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The thread has nothing more to say.
    ThreadEnd,
    /// The line only tells how far the thread's clock has come.
    ThreadSync,
    /// Anything else.
    Content,
}

/// A line, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) time: u64,
    pub(super) thread: i64,
    pub(super) role: Role,
    /// Everything after the time and its tab.
    pub(super) without_time: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes a line apart; nothing where it does not start with time, thread and kind.
    pub(super) fn parse(text: &'a [u8]) -> Option<Line<'a>> {
        let (time, without_time) = number(text)?;
        let (negative, thread_text) = match without_time.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, without_time),
        };
        let (thread, rest) = number(thread_text)?;
        let thread = i64::try_from(thread).ok()?;
        let role = match rest {
            b"tf" => Role::ThreadEnd,
            b"thread_sync" => Role::ThreadSync,
            b"" => return None,
            _ => Role::Content,
        };
        Some(Line {
            time,
            thread: if negative { -thread } else { thread },
            role,
            without_time,
        })
    }
}

/// Decimal digits up to a tab, and what follows the tab.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            }
            b'\t' if index > 0 => return Some((value, &text[index + 1..])),
            _ => return None,
        }
    }
    None
}
