//! What the tracer inserts into translated code: the words of a [`record`] and the checks of
//! line-atomic order ([`checks`]), by [`traced::Recorder`].

mod addresses;
mod checks;
mod elements;
mod parts;
mod record;
mod traced;

pub(crate) use self::checks::{fails_at, fault};
pub(crate) use self::parts::Parts;
pub(crate) use self::traced::Recorder;
