//! Being told to end: batch systems, `timeout` and lost terminals tell this command alone. The
//! program is told then, so that it ends and what it did until then is reported.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The program; 0 where there is none to tell.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// Passes signals that ask for the end on to this program.
pub(crate) fn pass_on_to(program: u32) {
    PROGRAM.store(i32::try_from(program).unwrap_or(0), Ordering::SeqCst);
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler does nothing but send a signal, and waits go on after it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The program has ended: its number may be another process's from now on.
pub(crate) fn pass_on_no_more() {
    PROGRAM.store(0, Ordering::SeqCst);
}

extern "C" fn pass_on(signal: i32) {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program > 0 {
        // SAFETY: sends a signal to this command's own child, which has not been waited for.
        unsafe { libc::kill(program, signal) };
    }
}

/// Whether this command was told to end.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Has signals that ask for the end only be noted, also an interrupt; each of them once. What was to
/// be ignored stays so.
pub(crate) fn note() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler does nothing but write a word.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = noted as *const () as usize;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, &raw mut before);
            if before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
        }
    }
}

/// Whether such a signal has come.
pub(crate) fn is_told() -> bool {
    IS_TOLD.load(Ordering::SeqCst)
}

extern "C" fn noted(_signal: i32) {
    IS_TOLD.store(true, Ordering::SeqCst);
}
