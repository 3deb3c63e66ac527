//! What a program says of itself: which thread this is, and where a region of interest begins and
//! ends.

use unspool_code_cache::emit::gpr;
use unspool_kernel::guarded;

use crate::thread::Thread;

/// The longest name that a thread may give itself.
const LONGEST_NAME: usize = 256;

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotation {
    /// The calling thread has this number.
    RegisterThread(ThreadNumber),
    /// A region of interest begins.
    StartRegion,
    /// It ends.
    EndRegion,
}

/// How a thread's number is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadNumber {
    /// By the marker, beside a name.
    Marked,
    /// To a function that takes 64 bits.
    Whole,
    /// To a function that takes an `int`.
    Signed,
    /// To a function that takes an `unsigned`.
    Unsigned,
}

impl Annotation {
    /// What the marker says, by the number in `rdi`.
    pub(crate) fn marked(thread: &Thread) -> Option<Annotation> {
        match thread.register(gpr::RDI) {
            1 => Some(Annotation::RegisterThread(ThreadNumber::Marked)),
            2 => Some(Annotation::StartRegion),
            3 => Some(Annotation::EndRegion),
            _ => None,
        }
    }
}

impl ThreadNumber {
    /// The number, and the thread's name.
    pub fn read(self, thread: &Thread) -> (i64, String) {
        let [first, second, third] =
            [gpr::RDI, gpr::RSI, gpr::RDX].map(|register| thread.register(register));
        match self {
            ThreadNumber::Marked => {
                let name = guarded::read_string(third, LONGEST_NAME).unwrap_or_default();
                (second as i64, String::from_utf8_lossy(&name).into_owned())
            }
            ThreadNumber::Whole => (first as i64, String::new()),
            ThreadNumber::Signed => (i64::from(first as i32), String::new()),
            ThreadNumber::Unsigned => (i64::from(first as u32), String::new()),
        }
    }
}
