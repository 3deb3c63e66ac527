//! Shadow memory: a byte for each granule of the program's memory, which inserted code can test.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// Addresses that user mode can have lie below this.
const END: u64 = 1 << 47;
/// The smallest granule, as a power of two: one sixteenth of the address space is the largest
/// shadow then.
const SMALLEST_SHIFT: u32 = 3;
const LARGEST_SHIFT: u32 = 12;

/// A byte for each granule of the address space. Only pages of it that were set take memory. It is
/// private: a forked child has a copy.
#[derive(Debug, Clone, Copy)]
pub struct Shadow {
    base: u64,
    shift: u32,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    /// The size is not one that there can be.
    #[error("granules of {0} bytes: a power of two from 8 to 4096 is possible")]
    Size(u64),
    /// The processor lacks the instruction that inserted code needs.
    #[error(
        "this processor lacks BMI2, without which shadow memory cannot be tested inline; call a function instead"
    )]
    Processor,
    /// There is no address space.
    #[error(
        "no address space for a shadow of {bytes} bytes; make the granules larger, or raise the limit (ulimit -v)"
    )]
    Map {
        /// How much was asked for.
        bytes: u64,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Shadow {
    /// All zero, with a byte for each `granule` bytes.
    ///
    /// # Errors
    /// If the size is not a power of two from 8 to 4096, if the processor lacks BMI2, or if
    /// there is no address space.
    pub fn new(granule: u64) -> Result<Shadow, ShadowError> {
        let shift = granule.trailing_zeros();
        if !granule.is_power_of_two() || !(SMALLEST_SHIFT..=LARGEST_SHIFT).contains(&shift) {
            return Err(ShadowError::Size(granule));
        }
        if !std::arch::is_x86_feature_detected!("bmi2") {
            return Err(ShadowError::Processor);
        }
        let bytes = END >> shift;
        // SAFETY: a new private mapping, which nothing else knows; it is not in dumps.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            if base == libc::MAP_FAILED {
                let source = io::Error::last_os_error();
                return Err(ShadowError::Map { bytes, source });
            }
            libc::madvise(base, bytes as usize, libc::MADV_DONTDUMP);
            base as u64
        };
        Ok(Shadow { base, shift })
    }

    /// Bytes of a granule.
    #[must_use]
    pub fn granule(self) -> u64 {
        1 << self.shift
    }

    /// Sets the bytes of all granules that a range of addresses touches. What lies beyond user
    /// mode's addresses has none.
    pub fn set(self, start: u64, length: u64, value: u8) {
        let end = start.saturating_add(length).min(END);
        if start >= end {
            return;
        }
        for index in start >> self.shift..=(end - 1) >> self.shift {
            self.byte(index).store(value, Ordering::Relaxed);
        }
    }

    /// The byte of the granule that holds an address; 0 beyond user mode's addresses.
    #[must_use]
    pub fn get(self, address: u64) -> u8 {
        if address >= END {
            return 0;
        }
        self.byte(address >> self.shift).load(Ordering::Relaxed)
    }

    fn byte(self, index: u64) -> &'static AtomicU8 {
        // SAFETY: the index is that of an address below the end, so the byte is in the mapping,
        // which is never unmapped and of which bytes are only used as atomic ones.
        unsafe { AtomicU8::from_ptr((self.base + index) as *mut u8) }
    }

    pub(crate) fn base(self) -> u64 {
        self.base
    }

    pub(crate) fn shift(self) -> u32 {
        self.shift
    }
}
