//! `unspool detach`: observed processes are let go.

use unspool_engine::detach::{AskError, ask, descendants};
use unspool_kernel::ids::Pid;

use crate::arguments::DetachArguments;
use crate::exit_status;
use crate::failure::Failure;

/// Lets processes go, and those that they have started if that is wanted.
pub(crate) fn detach(typed: &DetachArguments) -> Result<u8, Failure> {
    for process in typed.processes.iter().copied().map(Pid::of) {
        // Found before anything ends: then they have other parents.
        let children = if typed.children {
            descendants(process)
        } else {
            Vec::new()
        };
        let result = ask(process.first_thread());
        let is_childs_parent = matches!(result, Err(AskError::NotObserved)) && !children.is_empty();
        let mut any = false;
        for child in children {
            match ask(child.first_thread()) {
                Ok(()) => any = true,
                // What they start natively is not meant, and they may end at any time.
                Err(AskError::NotObserved | AskError::NoProcess) => {}
                Err(error) => return Err(failure(child, &error)),
            }
        }
        match result {
            Ok(()) => {}
            Err(_) if is_childs_parent && any => {}
            Err(error) => return Err(failure(process, &error)),
        }
    }
    Ok(exit_status::SUCCESS)
}

fn failure(process: Pid, error: &AskError) -> Failure {
    let failure = Failure::new(format!("cannot let process {process} go: {error}"));
    match error {
        AskError::NotObserved => {
            failure.with_help("its children may be: unspool detach --children PID")
        }
        AskError::Forbidden(_) => failure.with_help("be the user whose process it is"),
        _ => failure,
    }
}
