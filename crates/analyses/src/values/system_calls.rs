//! What system calls do to the memory map. Numbers: `arch/x86/entry/syscalls/syscall_64.tbl`
//! of the Linux kernel.

use rustc_hash::FxHashMap;

const WRITE: u32 = 1;
const MMAP: u32 = 9;
const MUNMAP: u32 = 11;
const BRK: u32 = 12;
const PWRITE64: u32 = 18;
const WRITEV: u32 = 20;
const MREMAP: u32 = 25;
const MADVISE: u32 = 28;
const SHMGET: u32 = 29;
const SHMAT: u32 = 30;
const SENDFILE: u32 = 40;
const SENDMSG: u32 = 46;
const CLONE: u32 = 56;
const FORK: u32 = 57;
const SHMDT: u32 = 67;
const FTRUNCATE: u32 = 77;
const IO_SUBMIT: u32 = 209;
const SPLICE: u32 = 275;
const FALLOCATE: u32 = 285;
const PWRITEV: u32 = 296;
const SENDMMSG: u32 = 307;
const COPY_FILE_RANGE: u32 = 326;
const PWRITEV2: u32 = 328;
const IO_URING_SETUP: u32 = 425;
const IO_URING_ENTER: u32 = 426;

/// Calls that write the file of the descriptor that is their first argument.
const WRITING: [u32; 7] = [
    WRITE, PWRITE64, WRITEV, PWRITEV, PWRITEV2, FTRUNCATE, FALLOCATE,
];

/// Calls that write files which they name otherwise, or give descriptors to other processes.
const REACHING_FAR: [u32; 7] = [
    SENDFILE,
    SENDMSG,
    SENDMMSG,
    IO_SUBMIT,
    SPLICE,
    COPY_FILE_RANGE,
    IO_URING_ENTER,
];

/// The flag of `clone` with which the child has the parent's memory itself, as a thread has.
const CLONE_VM: u64 = 0x100;

/// Descriptors 0 to 2 are no files that are mapped.
const LAST_STANDARD_DESCRIPTOR: u64 = 2;

/// `MAP_SHARED` and `MAP_PRIVATE` are values of this field of the flags.
const MAP_TYPE: u64 = 15;
const MAP_SHARED: u64 = 1;
const MAP_SHARED_VALIDATE: u64 = 3;

/// Advice after which a page's contents may be gone: `MADV_DONTNEED`, `MADV_FREE`,
/// `MADV_REMOVE`, `MADV_DONTNEED_LOCKED`.
const DISCARDING_ADVICE: [u64; 4] = [4, 8, 9, 24];

/// A system call that has not returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingCall {
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
    /// How many mismatches had been kept when it began.
    pub(super) mismatches_before: usize,
    /// What it has mapped, where that is an object.
    pub(super) mapped: Option<MappedObject>,
}

/// A range that shows a memory object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedObject {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Device and number.
    pub(super) identity: (u64, u64),
    pub(super) offset: u64,
    /// Whether nobody else has it.
    pub(super) own: bool,
}

/// What becomes of a range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Its contents are unknown.
    Forget { address: u64, size: u64 },
    /// Its contents are unknown, and it belongs to this process alone.
    Private { address: u64, size: u64 },
    /// Other processes may write it.
    Shared { address: u64, size: u64 },
    /// It lies elsewhere now.
    Moved {
        from: u64,
        from_size: u64,
        to: u64,
        to_size: u64,
    },
}

/// What earlier calls said that later ones do not repeat.
#[derive(Debug, Default)]
pub(super) struct CallHistory {
    heap_end: u64,
    segment_sizes: FxHashMap<u64, u64>,
    attached_sizes: FxHashMap<u64, u64>,
}

impl PendingCall {
    /// What may happen from now on. Another thread may see it before the call returns.
    pub(super) fn effect_at_entry(&self) -> Option<Effect> {
        let [address, size, third, ..] = self.arguments;
        let range = Effect::Forget {
            address,
            size: whole_pages(size),
        };
        match self.number {
            MUNMAP | MREMAP => Some(range),
            MADVISE if DISCARDING_ADVICE.contains(&third) => Some(range),
            _ => None,
        }
    }

    /// Whether it changes what addresses show, rather than what memory holds.
    pub(super) fn is_about_mappings(&self) -> bool {
        [MMAP, MUNMAP, MREMAP, SHMAT, SHMDT].contains(&self.number)
    }

    /// Whether memory objects may be written by it as files, or given to another process.
    pub(super) fn reaches_objects(&self) -> bool {
        match self.number {
            FORK => true,
            CLONE => self.arguments[0] & CLONE_VM == 0,
            number if WRITING.contains(&number) => self.arguments[0] > LAST_STANDARD_DESCRIPTOR,
            number => REACHING_FAR.contains(&number),
        }
    }

    /// Whether the kernel may write for it at any time from now on, though no call waits.
    pub(super) fn queues_requests(&self) -> bool {
        [IO_SUBMIT, IO_URING_SETUP, IO_URING_ENTER].contains(&self.number)
    }

    /// What has happened.
    pub(super) fn effect_at_exit(&self, result: i64, history: &mut CallHistory) -> Option<Effect> {
        if (-4095..0).contains(&result) {
            return None;
        }
        let [first, second, third, fourth, ..] = self.arguments;
        let result = result.cast_unsigned();
        match self.number {
            MMAP => {
                let (address, size) = (result, whole_pages(second));
                Some(match fourth & MAP_TYPE {
                    MAP_SHARED | MAP_SHARED_VALIDATE => Effect::Shared { address, size },
                    _ => Effect::Private { address, size },
                })
            }
            MUNMAP => Some(Effect::Private {
                address: first,
                size: whole_pages(second),
            }),
            MREMAP => Some(Effect::Moved {
                from: first,
                from_size: whole_pages(second),
                to: result,
                to_size: whole_pages(third),
            }),
            MADVISE => self.effect_at_entry(),
            BRK => {
                let before = std::mem::replace(&mut history.heap_end, result);
                let size = before.checked_sub(result)?;
                Some(Effect::Forget {
                    address: result,
                    size,
                })
            }
            SHMGET => {
                history.segment_sizes.insert(result, second);
                None
            }
            SHMAT => {
                let known = self.mapped.map(|mapped| mapped.size);
                let named = history.segment_sizes.get(&first).copied();
                let size = whole_pages(known.or(named).unwrap_or(1));
                history.attached_sizes.insert(result, size);
                Some(Effect::Shared {
                    address: result,
                    size,
                })
            }
            SHMDT => {
                let size = history.attached_sizes.remove(&first)?;
                Some(Effect::Private {
                    address: first,
                    size,
                })
            }
            _ => None,
        }
    }
}

/// The kernel maps whole pages.
fn whole_pages(size: u64) -> u64 {
    size.checked_next_multiple_of(4096).unwrap_or(u64::MAX)
}
