//! Functions of tools that keep a signal from the program and do not return: the process ends, and says
//! which function that is.
//!
//! To find a function's name takes memory. A function that gets memory in a loop is mostly interrupted
//! where the allocator's lock is held. So it is first asked to end the process itself, where the
//! allocator has given it the next piece; only one that gets none is interrupted for it.

use std::backtrace::Backtrace;
use std::sync::atomic::Ordering;

use super::{TOOL_HELP, end, engine_base, is_tools, place_in_tool, say_parts};
use crate::signals::overtime::{OVERDUE, PATIENCE_S, set_timer};

/// A function of a tool that the calling thread is in keeps a signal from the program that would end the
/// process: it ends when the function next has got memory, or has given some back.
pub(crate) fn end_behind_allocation(signal: i32) {
    let overdue = u64::from(own()) << 32 | u64::from(signal.unsigned_abs());
    OVERDUE.store(overdue, Ordering::Relaxed);
}

/// The allocator's lock is free.
#[inline]
pub(super) fn look() {
    if OVERDUE.load(Ordering::Relaxed) != 0 {
        end_if_overdue();
    }
}

#[cold]
fn end_if_overdue() {
    let overdue = OVERDUE.load(Ordering::Relaxed);
    if overdue >> 32 != u64::from(own()) {
        return;
    }
    let here = 0_u8;
    if is_tools(0, (&raw const here) as u64) {
        does_not_return(overdue as i32, 0);
    }
    // It has returned meanwhile.
    OVERDUE.store(0, Ordering::Relaxed);
}

/// A function of a tool that the calling thread is in keeps a signal from the program that would end the
/// process: it ends. `pc`: where the function is, if it was interrupted.
pub(crate) fn does_not_return(signal: i32, pc: u64) -> ! {
    /// How long it may take to find the function, in seconds.
    const SEARCH_S: i64 = 20;
    // What is asked for from here on is not the function's.
    OVERDUE.store(0, Ordering::Relaxed);
    // What is asked for the name may be what the function holds.
    set_timer(libc::SIGKILL, None, SEARCH_S);
    say_waiting("error: the tool failed", signal, pc);
    let place = place_in_tool(&Backtrace::force_capture());
    end(&format!("it is{place}\n{TOOL_HELP}"));
}

/// A function of a tool keeps a signal from the program that the program handles itself: that gets it if
/// the function returns after all.
pub(crate) fn keeps_from_program(signal: i32, pc: u64) {
    say_waiting("warning", signal, pc);
    say_parts(&["help: the program gets the signal if the function returns; SIGKILL ends both\n"]);
}

/// Says what has happened, without memory.
fn say_waiting(kind: &str, signal: i32, pc: u64) {
    let mut text = std::io::Cursor::new([0_u8; 256]);
    let for_seconds = format_args!(
        "{kind}: for {PATIENCE_S} seconds signal {signal} has waited for a function of the tool to return"
    );
    // What does not fit is left out.
    let _ = match pc {
        0 => std::io::Write::write_fmt(&mut text, for_seconds),
        _ => {
            let place = pc.wrapping_sub(engine_base());
            let at = format_args!("{for_seconds}, at engine + {place:#x}");
            std::io::Write::write_fmt(&mut text, at)
        }
    };
    let written = &text.get_ref()[..text.position() as usize];
    say_parts(&[std::str::from_utf8(written).unwrap_or_default(), "\n"]);
}

/// The calling thread's number.
fn own() -> u32 {
    // SAFETY: the call has no effect but what it returns.
    unsafe { libc::gettid() }.unsigned_abs()
}
