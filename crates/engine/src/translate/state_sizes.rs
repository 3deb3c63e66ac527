//! How large the operands of `xsave` and its kin are. Virtual machines trap the question, which costs
//! as much as some hundred translations, so it is asked once, and only where such an instruction is.

use unspool_instructions::operands::ExtendedStateSizes;
use unspool_kernel::lock::Mutex;

static KNOWN: Mutex<Option<ExtendedStateSizes>> = Mutex::new(None);

/// What the processor says.
pub fn state_sizes() -> ExtendedStateSizes {
    *KNOWN
        .lock()
        .get_or_insert_with(ExtendedStateSizes::of_this_processor)
}
