//! What the tracer inserts into translated code: the words of a [`record`] and the checks of
//! line-atomic order ([`checks`]), at the points of [`traced`], into a [`translation`].

mod addresses;
mod check;
mod checks;
mod elements;
mod parts;
mod record;
mod traced;
mod translation;
mod unrecorded;
mod word_bound;

pub(crate) use self::checks::{fails_at, fault};
pub(crate) use self::parts::Parts;
pub(crate) use self::translation::Recorder;
pub(crate) use self::unrecorded::Unrecorded;
