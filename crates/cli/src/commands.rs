//! One module for each command.

mod answer_file;
pub(crate) mod continuation;
mod described;
pub(crate) mod detach;
pub(crate) mod doctor;
pub(crate) mod export;
mod followed;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod live;
pub(crate) mod manual;
pub(crate) mod merge;
pub(crate) mod observe;
mod opened;
pub(crate) mod profile;
pub(crate) mod race;
pub(crate) mod replay_increments;
pub(crate) mod run;
pub(crate) mod show;
mod standard_output;
pub(crate) mod tool;
pub(crate) mod trace;
pub(crate) mod verify;

pub(crate) use standard_output::print_result;
