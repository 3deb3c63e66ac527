//! Where code and data of a case lie: the same addresses natively and observed.

/// One end of the address space or the other: what is near can be named by 32-bit addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Code and data below 2 GiB.
    Near,
    /// Code, and a second view of the data, far above 4 GiB.
    Far,
}

/// Bytes from one case's code to the next one's.
pub const CODE_STRIDE: u64 = 512;
/// Where in its stride a case starts; what lies before and behind catches short jumps.
pub const CODE_START: u64 = 160;
/// The most bytes of code in a case.
pub const CODE_LIMIT: usize = 192;
/// Bytes of data that a case finds, with nothing mapped before and behind them.
pub const DATA_SIZE: u64 = 2 * 4096;
/// Where in the data the FS base points.
pub const THREAD_POINTER: u64 = 2048;
/// The most cases in one file.
pub const CASE_LIMIT: usize = 40_000;

impl Place {
    /// Where the code of all cases starts. The first stride holds the way out.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Place::Near => 0x2800_0000,
            Place::Far => 0x4100_2000_0000,
        }
    }

    /// The place of code at an address.
    #[must_use]
    pub fn of(code: u64) -> Place {
        if code >= Place::Far.code() {
            Place::Far
        } else {
            Place::Near
        }
    }

    /// Where the data is. The low halves of far addresses are near ones.
    #[must_use]
    pub fn data(self) -> u64 {
        match self {
            Place::Near => 0x3000_0000,
            Place::Far => 0x4100_3000_0000,
        }
    }

    /// Where the code of the case with this index starts.
    #[must_use]
    pub fn case(self, index: usize) -> u64 {
        self.code() + CODE_STRIDE * (index as u64 + 1) + CODE_START
    }

    /// Where a case is said to be while it is not in a file: that of the first one.
    #[must_use]
    pub fn home(self) -> u64 {
        self.case(0)
    }
}
