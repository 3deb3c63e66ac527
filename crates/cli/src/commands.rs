//! One module for each command.

pub(crate) mod export;
pub(crate) mod info;
pub(crate) mod manual;
pub(crate) mod merge;
pub(crate) mod observe;
pub(crate) mod opened;
pub(crate) mod replay_increments;
pub(crate) mod verify;
