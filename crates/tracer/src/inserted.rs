//! What the tracer inserts into translated code: the words of a [`record`] and the checks of
//! line-atomic order ([`ownership`]), by [`traced::Recorder`].

mod addresses;
pub(super) mod elements;
pub(super) mod ownership;
pub(super) mod record;
pub(super) mod traced;
