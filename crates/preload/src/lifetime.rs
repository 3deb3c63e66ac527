//! The beginning and the end of the library in its process.

/// Has the dynamic loader call two functions: one when the library has been relocated, before
/// anything of the program, and one when the process ends by itself.
#[macro_export]
macro_rules! begin_and_end {
    ($begin:path, $end:path) => {
        // Names of items are not hygienic: these must not be those of the functions to call.
        const _: () = {
            extern "C" fn unspool_library_begins() {
                $begin();
            }

            extern "C" fn unspool_library_ends() {
                $end();
            }

            #[used]
            // SAFETY: the dynamic loader calls what stands in this section, after relocation.
            #[unsafe(link_section = ".init_array")]
            static BEGIN: extern "C" fn() = unspool_library_begins;

            #[used]
            // SAFETY: the dynamic loader calls what stands in this section when the process
            // ends.
            #[unsafe(link_section = ".fini_array")]
            static END: extern "C" fn() = unspool_library_ends;
        };
    };
}
