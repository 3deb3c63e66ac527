//! How large the operands of `xsave` and its kin are. Virtual machines trap the question, which costs
//! as much as some hundred translations, so it is asked once, and only where such an instruction is.

use unspool_instructions::operands::ExtendedStateSizes;
use unspool_kernel::lock::OnceLock;

static KNOWN: OnceLock<ExtendedStateSizes> = OnceLock::new();

/// What the processor says. Threads that read vector registers ask this each time, so they wait for no lock.
pub fn state_sizes() -> &'static ExtendedStateSizes {
    KNOWN.get_or_init(ExtendedStateSizes::of_this_processor)
}

/// `ARCH_GET_XCOMP_PERM`: `arch/x86/include/uapi/asm/prctl.h` of the Linux kernel.
const GET_PERMITTED: i64 = 0x1022;
/// The configuration of tiles, which says nothing where there are none, and what is in them.
const TILE_CONFIGURATION: u32 = 1 << 17;
const TILE_DATA: u32 = 1 << 18;

/// What the processor says, without the state that this process would have to ask the kernel for
/// before it could be in use: the tiles of AMX, 8 KB, which no area has that was made for less. Code that
/// asks for all state stores none of it. (A process that is permitted later has some of its code
/// translated already: what that moves counts as shorter than it is.)
pub(crate) fn permitted_state_sizes() -> ExtendedStateSizes {
    let mut permitted = 0_u64;
    // SAFETY: the call stores a word there.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, GET_PERMITTED, &raw mut permitted) };
    let all = state_sizes();
    match result {
        0 if permitted as u32 & TILE_DATA == 0 => {
            all.with_components(permitted as u32 & !TILE_CONFIGURATION)
        }
        // It is permitted, or the kernel knows of no such state.
        _ => *all,
    }
}
