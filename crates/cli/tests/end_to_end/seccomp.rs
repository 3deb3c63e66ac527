//! Filters go with programs that no engine runs.

use libtest_mimic::Trial;

use crate::observer::{Verdict, run_well, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("seccomp::children_left".into(), children_left)]
}

/// Children that run natively are under their parent's filters, their own children too.
fn children_left(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = guest_command("seccomp/inherited", &[])?;
    let options = ["run", "--children=leave", "--"];
    run_well(scratch, &unspool(scratch, &options).arguments(&guest))?;
    Ok(())
}
