//! A trace goes into a pipe, whose reader goes on or goes away: the program gets the signals that
//! it sends itself, and not the one that the engine's write raises.

use libtest_mimic::Trial;

use crate::observer::{Verdict, natively, run_well, traced, trial};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let readers = [
        ("reader_stays", "cat"),
        (
            "reader_is_slow",
            "while head -c 100000; do sleep 0.01; done",
        ),
        ("reader_goes", "head -c 3000000"),
        ("reader_goes_at_once", "head -c 10"),
    ];
    readers
        .map(|(name, reader)| {
            trial(format!("broken_pipe::{name}"), move |scratch| {
                signals_come(scratch, reader)
            })
        })
        .into()
}

fn signals_come(scratch: &Scratch, reader: &str) -> Result<(), Verdict> {
    let command = guest_command("signals/broken_pipes", &[])?;
    let fifo = scratch.work().join("fifo");
    let observed = traced(scratch, &[], &fifo, &command).command_line();
    // A trace that nobody reads to its end is no failure of the program's.
    let script = format!(
        "mkfifo fifo; {{ {reader}; }} < fifo | cat > /dev/null & {observed} > out 2> err || true; \
         grep -x 'handled 300' out || {{ cat err; exit 1; }}"
    );
    run_well(scratch, &natively(scratch, &["bash", "-uc", &script])).map(drop)
}
