//! `unspool openmp` on programs with planted losses, and on programs that give it trouble.
//!
//! The programs in `programs/` work by sleeping, so that what is planted is exact on any
//! machine; a first comment says how much of which loss there is. Each is run once with its
//! loss and once `without`, as the negative control.

mod advice;
mod attempts;
mod command;
mod compared;
mod constructs;
mod files;
mod hybrid;
mod instrumented;
mod planted;
mod processors;
mod shown;
mod troubled;
mod witness;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = planted::trials();
    trials.extend(attempts::trials());
    trials.extend(advice::trials());
    trials.extend(troubled::trials());
    trials.extend(processors::trials());
    trials.extend(instrumented::trials());
    trials.extend(hybrid::trials());
    trials.extend(compared::trials());
    trials.extend(constructs::trials());
    trials.extend(files::trials());
    trials.extend(shown::trials());
    libtest_mimic::run(&arguments, trials).exit();
}
