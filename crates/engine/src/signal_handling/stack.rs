//! The stack of the engine's signal handler.

/// The stack on which the engine's signal handler runs in this thread.
pub(crate) struct SignalStack {
    base: *mut libc::c_void,
}

const SIGNAL_STACK_SIZE: usize = 128 << 10;

impl SignalStack {
    /// Maps one and tells the kernel.
    ///
    /// # Panics
    /// If there is no memory.
    #[must_use]
    pub(crate) fn install() -> SignalStack {
        // SAFETY: a new private mapping, used as this thread's signal stack until dropped.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIGNAL_STACK_SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
                -1,
                0,
            )
        };
        assert!(base != libc::MAP_FAILED, "no memory for a signal stack");
        let stack = libc::stack_t {
            ss_sp: base,
            ss_flags: 0,
            ss_size: SIGNAL_STACK_SIZE,
        };
        // SAFETY: the stack was just mapped.
        unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
        SignalStack { base }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let stack = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        // SAFETY: signals are blocked when a thread ends, so nothing runs on the stack.
        unsafe {
            libc::sigaltstack(&raw const stack, std::ptr::null_mut());
            libc::munmap(self.base, SIGNAL_STACK_SIZE);
        }
    }
}
