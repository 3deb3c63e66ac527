//! What programs say of themselves, for tools.

use unspool_engine::annotation::Annotation as Said;
use unspool_engine::thread::Thread;

/// What a program says by the functions of its annotation interface (`unspool.h`, or the crate
/// `unspool-annotate`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Annotation {
    /// The calling thread has this number and this name, as the program wants it.
    Thread {
        /// The number.
        number: i64,
        /// The name, up to 256 bytes.
        name: String,
    },
    /// A region of interest begins.
    RegionStart,
    /// It ends.
    RegionEnd,
}

impl Annotation {
    pub(super) fn of(thread: &Thread, said: Said) -> Annotation {
        match said {
            Said::RegisterThread(number) => {
                let (number, name) = number.read(thread);
                Annotation::Thread { number, name }
            }
            Said::StartRegion => Annotation::RegionStart,
            Said::EndRegion => Annotation::RegionEnd,
        }
    }
}
