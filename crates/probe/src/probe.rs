//! What a probe is.

use crate::image::Image;

/// A probe: functions of its own in the place of the program's, or around them.
///
/// Threads of the program call its functions at the same time, so that what it keeps is shared
/// between threads ([`Counter`](crate::Counter), atomic numbers, locks).
pub trait Probe: Sized + Send + Sync + 'static {
    /// Whether it asks for call paths ([`call_path`](crate::call_path())). What is known of the frames
    /// of an image is then read when it is loaded.
    const CALL_PATHS: bool = false;

    /// An image (the program, or a library) was loaded, and nothing of it has run yet: the time
    /// to name the functions that are of interest.
    fn image_load(&self, image: &Image<Self>);

    /// The process is a copy that the program has just made by `fork`, with what the probe
    /// counted in the other one.
    fn forked(&self) {}

    /// The process ends, by `exit`, by `_exit`, or by the return of `main`, or is about to execute
    /// another program (should that fail all the same, this is called again). Threads may still
    /// run. A process that is killed by a signal ends without this.
    fn end(&self) {}
}
