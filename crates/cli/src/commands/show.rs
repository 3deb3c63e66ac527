//! `unspool show`

use unspool_events::ThreadId;
use unspool_report::{Listing, ListingOptions};

use super::opened;
use crate::arguments::ShowArguments;
use crate::failure::{Failure, warn};
use crate::plan::Destination;

/// Shows a trace, or a part of it, as text.
pub(crate) fn show(typed: ShowArguments) -> Result<u8, Failure> {
    if typed.from > typed.to {
        return Err(Failure::new("--from is a later time than --to")
            .with_help("unspool info FILE says which times the threads have"));
    }
    let trace = opened::open(&typed.input)?;
    let times = typed.from..=typed.to;
    let threads: Vec<_> = typed.thread.iter().copied().map(ThreadId).collect();
    let known = trace.threads();
    for thread in &threads {
        if !known.iter().any(|info| info.thread == *thread) {
            warn(format_args!("the trace has no thread {}", thread.0));
        }
    }
    let options = ListingOptions {
        from: typed.from,
        to: typed.to,
        addresses: typed.address,
    };
    let output = Destination::StandardOutput.open()?.writer()?;
    let mut listing = Listing::new(output, &trace, options);
    let mut items = trace.merged().near_times(times);
    if !threads.is_empty() {
        items = items.of_threads(&threads);
    }
    let problems = items.deliver(&mut listing);
    listing.finish()?;
    Ok(opened::report_problems(trace.problems(), &problems))
}
