//! Where the program called us from.

/// The return address of the function that this stands in, which must be one that the
/// program calls.
///
/// It is read above the frame pointer, which this crate is built to have.
macro_rules! return_address {
    () => {{
        let address: u64;
        // SAFETY: with frame pointers, rbp points at the saved frame pointer, and above it
        // is the address to which this function returns.
        unsafe {
            core::arch::asm!(
                "mov {}, [rbp + 8]",
                out(reg) address,
                options(nostack, readonly, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use return_address;
