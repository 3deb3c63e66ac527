//! What a construct of a program is.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $word:literal;)*) => {
        /// What a construct of a program is, as the file numbers it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum ConstructKind {
            $($(#[$doc])* $name = $number,)*
        }

        impl ConstructKind {
            /// Every kind.
            pub const ALL: &[ConstructKind] = &[$(ConstructKind::$name,)*];

            /// The kind that has this number in the file.
            #[must_use]
            pub fn from_number(number: u32) -> Option<ConstructKind> {
                match number {
                    $($number => Some(ConstructKind::$name),)*
                    _ => None,
                }
            }

            /// The word for it in reports.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(ConstructKind::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// Everything that a thread does outside parallel regions.
    Serial = 1, "serial part";
    /// What one thread does of a parallel region.
    Parallel = 2, "parallel region";
    /// A loop shared among threads.
    Loop = 3, "loop";
    /// Sections.
    Sections = 4, "sections";
    /// The block of a single construct, in the thread that executes it.
    Single = 5, "single";
    /// A Fortran workshare construct.
    Workshare = 6, "workshare";
    /// The block of a master or masked construct.
    Master = 7, "master";
    /// Work that follows once a thread has asked for its number: a loop with a static
    /// schedule as gcc compiles it, or work that the program divides itself.
    Divided = 8, "divided work";
    /// The barrier at the end of a worksharing construct.
    ImplicitBarrier = 9, "implicit barrier";
    /// A barrier that the program asks for.
    Barrier = 10, "barrier";
    /// A critical construct: waiting, then its block.
    Critical = 11, "critical";
    /// An atomic update by the runtime's lock: waiting, then the update.
    Atomic = 12, "atomic";
    /// An ordered block: waiting, then the block.
    Ordered = 13, "ordered";
    /// Waiting for a lock.
    Lock = 14, "lock";
    /// A task's execution.
    Task = 15, "task";
    /// Waiting for child tasks.
    TaskWait = 16, "taskwait";
    /// Waiting at the end of a taskgroup.
    TaskGroup = 17, "taskgroup";
    /// A loop of tasks: creating them and waiting for them.
    TaskLoop = 18, "taskloop";
    /// A target region or a transfer, in the thread that waits for it.
    Target = 19, "target";
    /// A flush.
    Flush = 20, "flush";
    /// An MPI call.
    Mpi = 21, "MPI call";
    /// An interval that the program marks.
    Interval = 22, "interval";
    /// A reduction's combination.
    Reduction = 23, "reduction";
    /// A distribute construct.
    Distribute = 24, "distribute";
    /// Creating tasks, in the construct that creates them.
    TaskCreation = 25, "task creation";
}

impl ConstructKind {
    /// Whether the time between entering and leaving, less what is nested in it, is waiting.
    #[must_use]
    pub fn is_wait(self) -> bool {
        matches!(
            self,
            ConstructKind::ImplicitBarrier
                | ConstructKind::Barrier
                | ConstructKind::TaskWait
                | ConstructKind::TaskGroup
                | ConstructKind::Target
                | ConstructKind::Flush
                | ConstructKind::Mpi
        )
    }

    /// Whether threads share work among them in it.
    #[must_use]
    pub fn is_worksharing(self) -> bool {
        matches!(
            self,
            ConstructKind::Loop
                | ConstructKind::Sections
                | ConstructKind::Single
                | ConstructKind::Workshare
                | ConstructKind::Divided
                | ConstructKind::Distribute
        )
    }

    /// Whether it synchronises threads, and may therefore be where time is lost.
    #[must_use]
    pub fn is_synchronisation(self) -> bool {
        matches!(
            self,
            ConstructKind::ImplicitBarrier
                | ConstructKind::Barrier
                | ConstructKind::Critical
                | ConstructKind::Atomic
                | ConstructKind::Ordered
                | ConstructKind::Lock
                | ConstructKind::TaskWait
                | ConstructKind::TaskGroup
                | ConstructKind::TaskLoop
                | ConstructKind::Flush
                | ConstructKind::Target
                | ConstructKind::Parallel
                | ConstructKind::Mpi
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_kinds() {
        for kind in ConstructKind::ALL {
            assert_eq!(ConstructKind::from_number(*kind as u32), Some(*kind));
        }
        assert_eq!(ConstructKind::from_number(0), None);
        assert_eq!(ConstructKind::from_number(1000), None);
    }
}
