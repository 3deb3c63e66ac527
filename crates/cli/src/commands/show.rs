//! `unspool show`

use std::path::Path;

use unspool_events::ThreadId;
use unspool_report::{Listing, ListingOptions};

use super::{followed, opened};
use crate::arguments::ShowArguments;
use crate::failure::{Failure, warn};
use crate::plan::Destination;

/// Shows a trace, or a part of it, as text.
pub(crate) fn show(typed: ShowArguments) -> Result<u8, Failure> {
    if typed.from > typed.to {
        return Err(Failure::new("--from is a later time than --to")
            .with_help("unspool info FILE says which times the threads have"));
    }
    let threads: Vec<_> = typed.thread.iter().copied().map(ThreadId).collect();
    let options = ListingOptions {
        from: typed.from,
        to: typed.to,
        threads: threads.clone(),
        addresses: typed.address,
    };
    if typed.follow {
        return follow(&typed.input, options);
    }
    let trace = opened::open(&typed.input)?;
    let times = typed.from..=typed.to;
    let known = trace.threads();
    for thread in &threads {
        if !known.iter().any(|info| info.thread == *thread) {
            warn(format_args!("the trace has no thread {}", thread.0));
        }
    }
    let output = Destination::StandardOutput.open()?.writer()?;
    let mut listing = Listing::new(output, &trace, options);
    let mut items = trace.merged().near_times(times);
    if !threads.is_empty() {
        items = items.of_threads(&threads);
    }
    let problems = items.deliver(&mut listing);
    listing.finish()?;
    if !trace.is_complete() {
        followed::mention_rest(&typed.input);
    }
    Ok(opened::report_problems(trace.problems(), &problems))
}

/// Shows a trace while it is written.
fn follow(path: &Path, options: ListingOptions) -> Result<u8, Failure> {
    let reader = followed::open(path)?;
    let output = Destination::StandardOutput.open()?.writer()?;
    let mut listing = Listing::of_stream(output, reader.header(), options);
    let problems = reader.deliver(&mut listing).problems;
    listing.finish()?;
    Ok(opened::report_problems(&problems, &[]))
}
