//! What the engine knows of Linux, and of the one address space that it shares with the program.
//!
//! System calls: [`effects`] says which memory of the program each of them reads and writes,
//! [`raw_call`] makes them without the C library, [`limits`], [`memory_left`] and [`descriptors`] say
//! what the kernel grants, [`ids`] tells threads from processes, [`diagnostics`] speaks to the user. Memory: [`layout`] says where the engine's lies, [`regions`] what the program has
//! mapped and which of it may change, [`mapped`] asks the kernel how far it is, [`guarded`] accesses it
//! without being ended by a fault.
//! Threads: [`lock`] has locks that forks find free, and [`race_windows`] makes wide what races pass
//! through, for tests.
//!
//! You supply addresses and what the program asked for. Nothing here knows translations, threads of
//! the program, or clients.

pub mod descriptors;
pub mod diagnostics;
pub mod effects;
pub mod file_identity;
pub mod guarded;
pub mod ids;
pub mod layout;
pub mod limits;
pub mod lock;
pub mod mapped;
pub mod maps;
pub mod memory_left;
pub mod own_process;
pub mod own_stack;
pub mod queued_writes;
pub mod race_windows;
pub mod random_waits;
pub mod range_set;
pub mod raw_call;
pub mod regions;
pub mod reserved;
