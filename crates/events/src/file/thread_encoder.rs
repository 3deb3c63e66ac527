//! Packs the raw stream of one thread into chunks.

/// Takes the raw stream of one thread. Belongs to the thread that it observes.
///
/// Dropping it without [`ThreadEncoder::finish`] writes nothing.
#[derive(Debug)]
pub struct ThreadEncoder {}

impl ThreadEncoder {
    /// Appends whole raw records (see [`crate::raw`]). A stamp or values record may come
    /// in an earlier call than the record it belongs to.
    pub fn append(&mut self, words: &[u64]) {
        let _ = words;
        todo!()
    }

    /// Ends the chunk and writes it, so that a reader of the file or pipe sees everything
    /// appended so far.
    pub fn flush(&mut self) {
        todo!()
    }

    /// Writes what is left, and marks the thread's stream as finished.
    pub fn finish(self) {
        todo!()
    }
}
