//! Line-atomic order at run time: who owns which line, and what it costs to take it.

use crate::cache::Exit;
use crate::plan::TracePlan;
use crate::thread::Thread;
use super::Tracer;
use super::thread_trace::ThreadTrace;

/// Marks services of this module among services.
pub(super) const SERVICE_BIT: u32 = 1 << 31;

/// Clock.
#[derive(Debug, Default)]
pub(super) struct Clock { pub(super) counted: u64 }

/// Owners.
#[derive(Debug)]
pub struct Ownership {}
impl Ownership { pub(super) fn reserve(_plan: &TracePlan) -> std::io::Result<Ownership> { Ok(Ownership{}) } }
impl Tracer {
    pub(super) fn adopt(&self, _t: &mut Thread) {}
    pub(super) fn release(&self, _t: &mut Thread) {}
    pub(super) fn enter_safe(&self, _t: &mut Thread) {}
    pub(super) fn leave_safe(&self, _t: &mut Thread) {}
    pub(super) fn forget_others(&self) {}
    pub(super) fn keep_close(&self, _t: &mut Thread) {}
}
impl ThreadTrace {
    pub(super) fn count_time(&mut self, _end: u64) {}
    /// Puts a record before the one in the making, which starts at `start` and moves up.
    pub(super) fn insert_before(&mut self, start: u64, record: &[u64]) -> u64 {
        const WORD: u64 = 8;
        const LARGEST_RECORD: u64 = 128 * WORD;
        let size = record.len() as u64 * WORD;
        let mut start = start;
        if start + size + LARGEST_RECORD > self.end {
            // Make room: everything before the record goes to the encoder.
            self.count_time(start);
            self.hand_over(start);
            let rest = (self.end - start).min(LARGEST_RECORD) as usize;
            // SAFETY: both ranges lie in the buffer.
            unsafe { std::ptr::copy(start as *const u8, self.base as *mut u8, rest) };
            self.clock.counted = self.base;
            start = self.base;
        }
        let rest = (self.end - start - size).min(LARGEST_RECORD) as usize;
        // SAFETY: both ranges lie in the buffer.
        unsafe {
            std::ptr::copy(start as *const u8, (start + size) as *mut u8, rest);
            std::ptr::copy_nonoverlapping(record.as_ptr(), start as *mut u64, record.len());
        }
        start + size
    }
}
pub(super) fn serve(_t: &Tracer, _thread: &mut Thread, exit: &Exit) -> Option<u64> { Some(u64::from(exit.stub)) }
