//! What was typed about letting processes go, to run natively.

use std::time::Duration;

use clap::Args;

/// `unspool detach`
#[derive(Debug, Args)]
pub(crate) struct DetachArguments {
    /// Let all processes go, too, that they have started and that are observed
    #[arg(long)]
    pub(crate) children: bool,

    /// The processes, by their ids
    #[arg(value_name = "PID", required = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) processes: Vec<i32>,
}

/// When an observed process is let go without anybody's asking.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct DetachChoice {
    /// Let the program, and what it has started, go after this time: it runs natively from there
    ///
    /// What was recorded until then is concluded as at the program's end. `unspool detach PID`
    /// does the same at any time.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) detach_after: Option<Duration>,

    /// Let a process go as soon as it comes to the end of a region of interest
    ///
    /// That is what unspool_end_region and unspool_annotate::end_region mark.
    #[arg(long)]
    pub(crate) detach_at_region_end: bool,
}

/// A time as people write it: seconds, perhaps with a fraction.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
