//! What a task depends on, as gcc's programs tell libgomp: a list of words.
//!
//! Without dependences in objects or of sets: how many, how many of these write, then the places,
//! those that are written first. Otherwise 0, how many, how many write, are of mutually exclusive sets,
//! and read; then the places in that order, and at last addresses of pairs, which are objects of the
//! program's: a place, and of which kind (libgomp's `gomp_task_handle_depend`).

use crate::task_chains::Dependence;

/// The list, as it is gone through.
#[derive(Debug)]
pub(super) struct Dependences {
    /// The next place.
    next: *const u64,
    /// How many places are left that are written, read, and in objects.
    left: [u64; 3],
}

impl Dependences {
    /// The list at an address.
    ///
    /// # Safety
    /// It must be as a program gives it to libgomp, and stay so as long as it is gone through.
    pub(super) unsafe fn at(address: usize) -> Dependences {
        let list = address as *const u64;
        // SAFETY: as the caller promises.
        let word = |index| unsafe { list.add(index).read() };
        let (first, left) = match word(0) {
            0 => {
                let (count, written, exclusive, read) = (word(1), word(2), word(3), word(4));
                let places = written.saturating_add(exclusive).saturating_add(read);
                let others = count.saturating_sub(places);
                (5, [written.saturating_add(exclusive), read, others])
            }
            count => {
                let written = word(1).min(count);
                (2, [written, count - written, 0])
            }
        };
        Dependences {
            // SAFETY: as the caller promises.
            next: unsafe { list.add(first) },
            left,
        }
    }

    fn take(&mut self) -> u64 {
        // SAFETY: `at`'s caller promises that there are as many as are left.
        unsafe {
            let place = self.next.read();
            self.next = self.next.add(1);
            place
        }
    }
}

impl Iterator for Dependences {
    type Item = (u64, Dependence);

    fn next(&mut self) -> Option<(u64, Dependence)> {
        const READS: u64 = 1;
        const SET: u64 = 5;
        let kind = self.left.iter().position(|&left| left > 0)?;
        self.left[kind] -= 1;
        let place = self.take();
        Some(match kind {
            0 => (place, Dependence::Writes),
            1 => (place, Dependence::Reads),
            _ => {
                let object = place as *const u64;
                // SAFETY: as `at`'s caller promises, it is an object of two words.
                let (place, kind) = unsafe { (object.read(), object.add(1).read()) };
                match kind {
                    READS | SET => (place, Dependence::Reads),
                    _ => (place, Dependence::Writes),
                }
            }
        })
    }
}
