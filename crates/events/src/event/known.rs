//! The streams that are defined here.

use unspool_container::stream::{Declaration, Form, StreamNumber};

macro_rules! streams {
    ($($(#[$doc:meta])* $stream:ident = $number:literal, $name:literal, version $version:literal;)*) => {
        /// A stream that is defined here. Its number stands for it in the files that are written.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum KnownStream {
            $($(#[$doc])* $stream = $number,)*
        }

        impl KnownStream {
            /// All of them.
            pub const ALL: &[KnownStream] = &[$(KnownStream::$stream,)*];

            /// Its name in all files.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(KnownStream::$stream => $name,)*
                }
            }

            /// The version of its schema that is written, and the newest that is read.
            #[must_use]
            pub fn version(self) -> u32 {
                match self {
                    $(KnownStream::$stream => $version,)*
                }
            }
        }
    };
}

streams! {
    /// Memory accesses: records of paths, which superblocks give a meaning, and their values.
    Accesses = 1, "accesses", version 1;
    /// Threads that come and go.
    Threads = 2, "threads", version 1;
    /// How threads wait for one another.
    Synchronisation = 3, "synchronisation", version 1;
    /// System calls.
    SystemCalls = 4, "system-calls", version 1;
    /// What the kernel did to memory on behalf of a thread.
    MemoryEffects = 5, "memory-effects", version 1;
    /// What is mapped where.
    Mappings = 6, "mappings", version 1;
    /// Calls of functions and regions of interest.
    Spans = 7, "spans", version 1;
    /// What instructions do that is no access.
    Instructions = 8, "instructions", version 1;
    /// What becomes of the process.
    Processes = 9, "processes", version 1;
    /// What is missing.
    Losses = 10, "losses", version 1;
}

impl KnownStream {
    /// What stands for it in the files that are written.
    #[must_use]
    pub fn number(self) -> StreamNumber {
        StreamNumber(self as u16)
    }

    /// The stream of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<KnownStream> {
        let mut all = KnownStream::ALL.iter().copied();
        all.find(|stream| stream.name() == name)
    }

    /// What files say of it.
    pub(crate) fn declaration(self) -> Declaration {
        Declaration {
            number: self.number(),
            name: self.name().into(),
            version: self.version(),
            form: Form::Records,
        }
    }
}

/// Some of these streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamSet(u32);

impl StreamSet {
    /// Adds one.
    pub(crate) fn insert(&mut self, stream: KnownStream) {
        self.0 |= 1 << stream as u32;
    }

    /// Adds those of another set, and returns which of them were not there before.
    pub(crate) fn add(&mut self, others: StreamSet) -> impl Iterator<Item = KnownStream> + use<> {
        let new = others.0 & !self.0;
        self.0 |= others.0;
        let all = KnownStream::ALL.iter().copied();
        all.filter(move |&stream| new >> stream as u32 & 1 != 0)
    }
}
