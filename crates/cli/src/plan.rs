//! What the arguments mean, once they have been checked. The rest of the command works on
//! these types alone.

mod detaching;
mod kept_translations;
mod live;
mod observed;
mod observing;
mod reading;
mod tool;

pub(crate) use detaching::LetGo;
pub(crate) use live::LivePlan;
pub(crate) use observed::{Children, ObservedProgram};
pub(crate) use observing::{RunPlan, TraceDestination, TracePlan};
pub(crate) use reading::{Destination, ExportFormat, ExportPlan, Input, MergePlan};
pub(crate) use tool::{ProbeChoice, ToolChoice, ToolRunPlan};
