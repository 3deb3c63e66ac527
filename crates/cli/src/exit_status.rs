//! Every exit status of the command, in one place.
//!
//! `run` and `trace` end as the program that they observe ends: with its status, or by its
//! signal. Their own failures use the numbers that `env(1)` and `nohup(1)` use, which
//! programs rarely return themselves. So do analyses of a program, where the answer is that all is
//! well.

/// The command did what was asked.
pub(crate) const SUCCESS: u8 = 0;

/// The command ran to its end and its answer is no: `verify` found values that the trace's
/// order does not explain, `doctor` something without which a command does not work.
pub(crate) const ANSWER_IS_NO: u8 = 1;

/// The command ran to its end, but parts of the trace are damaged or missing (also the end
/// of a trace whose program was killed). What was left out stands on standard error.
pub(crate) const INPUT_DAMAGED: u8 = 2;

/// `verify` ran to its end and found nothing wrong, but could not check everything.
pub(crate) const PARTLY_CHECKED: u8 = 2;

/// `race` found a race, in a trace or in a program that ended with 0. What ThreadSanitizer ends with.
pub(crate) const RACES_FOUND: u8 = 66;

/// Unspool itself failed: wrong usage, an unreadable input, an output that cannot be written.
pub(crate) const FAILED: u8 = 125;

/// The program exists but cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// There is no such program.
pub(crate) const NOT_FOUND: u8 = 127;

/// What `unspool help` says about them.
pub(crate) const HELP: &str = "\
Exit status:
  run and trace end as the program ends. So do verify, race and replay-increments
  of a program, where their answer has the status 0; and race where the program's
  status is another than 0. Otherwise:
  0    success
  1    the answer is no (verify: the order does not explain a value;
       doctor: a command cannot work here)
  2    parts of the trace are damaged or missing, and were left out
       (verify: nothing is wrong, but not everything could be checked)
  66   race: a race was found (--exit-status chooses another number)
  125  unspool itself failed
  126  the program cannot be run
  127  there is no such program";
