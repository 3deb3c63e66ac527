//! What the program asks for with `clone`, `clone3`, `fork` or `vfork`, and what the kernel is
//! asked for in its place.
//!
//! The kernel gets the program's flags and structure as they are, so that all that they mean
//! happens, and what is wrong with them is refused with the kernel's own error. Only what
//! concerns memory that engine and program share is done by the engine instead: the stack,
//! the thread pointer, signal dispositions, and the words that get thread ids.

use unspool_kernel::guarded;
use unspool_kernel::raw_call::raw_system_call;

use super::Call;

const FAULT: i64 = -(libc::EFAULT as i64);
const INVALID: i64 = -(libc::EINVAL as i64);
const TOO_BIG: i64 = -(libc::E2BIG as i64);

/// `CLONE_CLEAR_SIGHAND`: the child's handlers become the default. Only `clone3` has it.
pub(crate) const CLEAR_HANDLERS: u64 = 1 << 32;

/// What the engine does in the kernel's place in every child.
const BY_ENGINE: u64 = (libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_SETTID
    | libc::CLONE_CHILD_CLEARTID) as u64
    | CLEAR_HANDLERS;

/// What the engine's C library asks for when it starts a thread.
const ORDINARY_THREAD: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM) as u64;

/// Bytes of the exit signal in the flags of `clone`.
const SIGNAL_MASK: u64 = 0xff;
/// The first published size of `clone3`'s structure.
const OLDEST_SIZE: u64 = 64;
/// The kernel refuses larger ones.
const LARGEST_SIZE: u64 = 4096;
/// The end of the addresses that a program can use, with four levels of page tables.
const USER_END: u64 = (1 << 47) - 4096;

/// Fields of `clone3`'s structure, by their position in words.
mod field {
    pub(crate) const FLAGS: usize = 0;
    pub(crate) const PID_FILE: usize = 1;
    pub(crate) const CHILD_TID: usize = 2;
    pub(crate) const PARENT_TID: usize = 3;
    pub(crate) const EXIT_SIGNAL: usize = 4;
    pub(crate) const STACK: usize = 5;
    pub(crate) const STACK_SIZE: usize = 6;
    pub(crate) const TLS: usize = 7;
}

/// What was asked for, whatever form it was asked in.
#[derive(Debug, Clone, Default)]
pub(crate) struct CloneRequest {
    pub(crate) flags: u64,
    /// Stack pointer of the child; 0 for the parent's.
    pub(crate) stack: u64,
    pub(crate) parent_tid: u64,
    pub(crate) child_tid: u64,
    pub(crate) pid_file: u64,
    pub(crate) tls: u64,
    exit_signal: u64,
    /// The structure of `clone3`, with all that this engine may not know of. Empty for the
    /// other calls.
    structure: Vec<u64>,
    /// Bytes of it.
    size: u64,
}

/// A stack for the child, and where it and its parent find thread ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Lowest address and size of the stack; 0 and 0 for a copy of the parent's.
    pub(crate) stack: (u64, u64),
    /// Where the kernel puts the child's id as its parent sees it; 0 for nowhere.
    pub(crate) parent_tid: u64,
    /// The word for `CLONE_CHILD_SETTID` and `CLONE_CHILD_CLEARTID`.
    pub(crate) child_tid: u64,
    /// The child's FS base; 0 for its parent's.
    pub(crate) thread_pointer: u64,
}

/// A system call that starts a child.
#[derive(Debug)]
pub struct KernelCall {
    pub(crate) number: i64,
    arguments: [u64; 5],
    /// What the first argument points to, where it does.
    structure: Vec<u64>,
}

impl KernelCall {
    /// A copy of the calling process, of which its parent hears by `SIGCHLD`.
    pub(crate) fn plain_fork() -> KernelCall {
        KernelCall {
            number: libc::SYS_clone,
            arguments: [libc::SIGCHLD as u64, 0, 0, 0, 0],
            structure: Vec::new(),
        }
    }

    /// A process that shares the memory, of whose end nobody is sent a signal. The kernel clears
    /// the word when it has left the memory.
    pub fn sharing_memory((stack, size): (u64, u64), word: u64) -> KernelCall {
        let flags = (libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID) as u64;
        KernelCall {
            number: libc::SYS_clone,
            arguments: [flags, stack + size, 0, word, 0],
            structure: Vec::new(),
        }
    }

    /// A process that shares the memory and the descriptors, of whose end nobody is sent a signal.
    /// The calling thread waits until it has ended.
    pub fn awaited((stack, size): (u64, u64)) -> KernelCall {
        let flags = (libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_VFORK) as u64;
        KernelCall {
            number: libc::SYS_clone,
            arguments: [flags, stack + size, 0, 0, 0],
            structure: Vec::new(),
        }
    }

    /// The arguments, which are valid as long as this is.
    pub(crate) fn arguments(&self) -> [u64; 5] {
        let mut arguments = self.arguments;
        if !self.structure.is_empty() {
            arguments[0] = self.structure.as_ptr() as u64;
        }
        arguments
    }

    /// Has the kernel write the child's id into a word, and clear it when the child ends.
    pub(crate) fn keep_id_in(&mut self, word: u64) {
        let flags = (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID) as u64;
        if self.structure.is_empty() {
            self.arguments[0] |= flags;
            self.arguments[3] = word;
        } else {
            self.structure[field::FLAGS] |= flags;
            self.structure[field::CHILD_TID] = word;
        }
    }
}

impl CloneRequest {
    pub(crate) fn has(&self, flag: i32) -> bool {
        self.flags & u64::from(flag as u32) != 0
    }

    pub(crate) fn clears_handlers(&self) -> bool {
        self.flags & CLEAR_HANDLERS != 0
    }

    /// Reads what a call asks for. An error is what the call returns.
    pub(crate) fn read(call: &Call) -> Result<CloneRequest, i64> {
        let [first, second, third, fourth, fifth, _] = call.arguments;
        let request = match call.number as i64 {
            libc::SYS_fork => CloneRequest {
                exit_signal: libc::SIGCHLD as u64,
                ..CloneRequest::default()
            },
            libc::SYS_vfork => CloneRequest {
                flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
                exit_signal: libc::SIGCHLD as u64,
                ..CloneRequest::default()
            },
            libc::SYS_clone => CloneRequest {
                flags: first & !SIGNAL_MASK & u64::from(u32::MAX),
                stack: second,
                parent_tid: third,
                child_tid: fourth,
                pid_file: third,
                tls: fifth,
                exit_signal: first & SIGNAL_MASK,
                ..CloneRequest::default()
            },
            _ => CloneRequest::read_structure(first, second)?,
        };
        if request.is_refused() {
            return Err(request.refusal(call));
        }
        if request.has(libc::CLONE_PIDFD) && !is_writable(request.pid_file) {
            return Err(FAULT);
        }
        Ok(request)
    }

    fn read_structure(at: u64, size: u64) -> Result<CloneRequest, i64> {
        if size > LARGEST_SIZE {
            return Err(TOO_BIG);
        }
        if size < OLDEST_SIZE {
            return Err(INVALID);
        }
        let mut bytes = vec![0; size.next_multiple_of(8) as usize];
        if !guarded::read(at, &mut bytes[..size as usize]) {
            return Err(FAULT);
        }
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        Ok(CloneRequest::of_structure(words.collect(), size))
    }

    fn of_structure(words: Vec<u64>, size: u64) -> CloneRequest {
        let stack = words[field::STACK].wrapping_add(words[field::STACK_SIZE]);
        CloneRequest {
            flags: words[field::FLAGS],
            stack,
            parent_tid: words[field::PARENT_TID],
            child_tid: words[field::CHILD_TID],
            pid_file: words[field::PID_FILE],
            tls: words[field::TLS],
            exit_signal: words[field::EXIT_SIGNAL],
            structure: words,
            size,
        }
    }

    /// Whether the kernel refuses what it is not asked for in the program's place: it could not
    /// know.
    fn is_refused(&self) -> bool {
        let one_word_for_both = self.has(libc::CLONE_PIDFD)
            && self.has(libc::CLONE_PARENT_SETTID)
            && self.pid_file == self.parent_tid;
        let wrong_sharing = if self.has(libc::CLONE_SIGHAND) {
            !self.has(libc::CLONE_VM) || self.clears_handlers()
        } else {
            self.has(libc::CLONE_THREAD)
        };
        wrong_sharing
            || one_word_for_both
            || self.has_bad_stack()
            || self.has(libc::CLONE_SETTLS) && self.tls >= USER_END
    }

    fn has_bad_stack(&self) -> bool {
        let [Some(&base), Some(&size)] =
            [field::STACK, field::STACK_SIZE].map(|at| self.structure.get(at))
        else {
            return false;
        };
        (base == 0) != (size == 0) || base.checked_add(size).is_none_or(|end| end > USER_END)
    }

    /// The kernel's error for a request that it refuses.
    fn refusal(&self, call: &Call) -> i64 {
        let mut arguments = call.arguments;
        let mut structure = self.structure.clone();
        // No processor has user addresses so high: whatever else the kernel accepts, it
        // refuses this.
        let tls = match self.has(libc::CLONE_SETTLS) && self.tls >= USER_END {
            true => u64::MAX,
            false => self.tls,
        };
        if let Some(place) = structure.get_mut(field::TLS) {
            *place = tls;
            arguments[0] = structure.as_ptr() as u64;
        } else if call.number as i64 == libc::SYS_clone {
            arguments[4] = tls;
        }
        ask_for_error(call.number, &arguments)
    }

    /// Whether the thread that is asked for is like those that the engine's C library starts.
    pub(crate) fn is_ordinary_thread(&self) -> bool {
        let without_effect = libc::CLONE_DETACHED as u64;
        let known = OLDEST_SIZE as usize / 8;
        self.flags & !(BY_ENGINE | without_effect) == ORDINARY_THREAD
            && !self.clears_handlers()
            && self.structure.iter().skip(known).all(|&word| word == 0)
            && (self.structure.is_empty() || self.exit_signal == 0)
    }

    /// Whether the kernel can be asked for the id of the child as its parent sees it, in a word
    /// of the engine's: `clone` has one argument for that and for the descriptor.
    pub(crate) fn can_tell_parent(&self) -> bool {
        !self.structure.is_empty() || !self.has(libc::CLONE_PIDFD)
    }

    /// What the kernel is asked for. `added` are flags that the engine wants, `without` those
    /// of the program's that it sees to by itself, besides those that it always does.
    pub(crate) fn kernel_call(&self, added: i32, without: i32, places: Places) -> KernelCall {
        let flag = |flags: i32| u64::from(flags as u32);
        let mut flags = self.flags & !BY_ENGINE & !flag(without) | flag(added);
        if places.parent_tid != 0 {
            flags |= flag(libc::CLONE_PARENT_SETTID);
        }
        if places.thread_pointer != 0 {
            flags |= flag(libc::CLONE_SETTLS);
        }
        if self.structure.is_empty() {
            let (base, size) = places.stack;
            let parent_tid = match self.has(libc::CLONE_PIDFD) {
                true => self.pid_file,
                false => places.parent_tid,
            };
            let flags = flags | self.exit_signal;
            return KernelCall {
                number: libc::SYS_clone,
                arguments: [
                    flags,
                    base + size,
                    parent_tid,
                    places.child_tid,
                    places.thread_pointer,
                ],
                structure: Vec::new(),
            };
        }
        let mut structure = self.structure.clone();
        structure[field::FLAGS] = flags;
        structure[field::CHILD_TID] = places.child_tid;
        structure[field::PARENT_TID] = places.parent_tid;
        (structure[field::STACK], structure[field::STACK_SIZE]) = places.stack;
        structure[field::TLS] = places.thread_pointer;
        KernelCall {
            number: libc::SYS_clone3,
            arguments: [0, self.size, 0, 0, 0],
            structure,
        }
    }
}

/// Whether the kernel will be able to write a word of the program's. A page that only the engine
/// has write-protected is writable afterwards.
pub(crate) fn is_writable(word: u64) -> bool {
    let mut bytes = [0; 4];
    if !guarded::read(word, &mut bytes) {
        return false;
    }
    let value = u32::from_le_bytes(bytes);
    guarded::compare_exchange(word, value, value).is_some()
}

/// The kernel's error for a request that it refuses in any case.
fn ask_for_error(number: u64, arguments: &[u64; 6]) -> i64 {
    let [first, second, third, fourth, fifth, _] = *arguments;
    // SAFETY: the kernel refuses the request. Should one not, its child ends at once.
    let result = unsafe { raw_system_call(number as i64, [first, second, third, fourth, fifth]) };
    if result == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(unspool_kernel::diagnostics::ENGINE_FAILURE) };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: i32 = ORDINARY_THREAD as i32;
    const NOWHERE: Places = Places {
        stack: (0, 0),
        parent_tid: 0,
        child_tid: 0,
        thread_pointer: 0,
    };

    fn by_arguments(flags: i32) -> CloneRequest {
        CloneRequest {
            flags: u64::from(flags as u32),
            ..CloneRequest::default()
        }
    }

    fn by_structure(change: impl FnOnce(&mut Vec<u64>)) -> CloneRequest {
        let mut words = vec![0; 11];
        change(&mut words);
        let size = words.len() as u64 * 8;
        CloneRequest::of_structure(words, size)
    }

    #[test]
    fn what_the_kernel_cannot_see_is_refused_for_it() {
        for (flags, refused) in [
            (0, false),
            (libc::CLONE_SIGHAND, true),
            (libc::CLONE_THREAD, true),
            (libc::CLONE_THREAD | libc::CLONE_VM, true),
            (libc::CLONE_SIGHAND | libc::CLONE_VM, false),
            (THREAD, false),
            (libc::CLONE_PIDFD, false),
            (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID, true),
            // These the kernel sees.
            (libc::CLONE_NEWNS | libc::CLONE_FS, false),
        ] {
            assert_eq!(by_arguments(flags).is_refused(), refused, "{flags:#x}");
        }
    }

    #[test]
    fn a_stack_has_both_an_address_and_a_size() {
        for (base, size, refused) in [
            (0, 0, false),
            (0x1000, 0x1000, false),
            (0, 0x1000, true),
            (0x1000, 0, true),
            (u64::MAX, 2, true),
            (USER_END, 1, true),
        ] {
            let request = by_structure(|words| {
                (words[field::STACK], words[field::STACK_SIZE]) = (base, size);
            });
            assert_eq!(request.is_refused(), refused, "{base:#x} {size:#x}");
        }
    }

    #[test]
    fn a_thread_with_anything_unusual_is_none_of_the_c_library() {
        assert!(by_arguments(THREAD | libc::CLONE_SETTLS).is_ordinary_thread());
        for other in [
            THREAD & !libc::CLONE_FS,
            THREAD | libc::CLONE_NEWUTS,
            THREAD | libc::CLONE_IO,
        ] {
            assert!(!by_arguments(other).is_ordinary_thread(), "{other:#x}");
        }
        let thread = |words: &mut Vec<u64>| words[field::FLAGS] = ORDINARY_THREAD;
        assert!(by_structure(thread).is_ordinary_thread());
        for place in [field::EXIT_SIGNAL, 8, 10] {
            let request = by_structure(|words| {
                thread(words);
                words[place] = 1;
            });
            assert!(!request.is_ordinary_thread(), "{place}");
        }
    }

    #[test]
    fn a_word_for_the_id_is_added_to_both_forms() {
        let flags = (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID) as u64;
        let mut by_words = KernelCall::plain_fork();
        by_words.keep_id_in(0x7000);
        assert_eq!(by_words.arguments()[0], flags | libc::SIGCHLD as u64);
        assert_eq!(by_words.arguments()[3], 0x7000);
        let mut by_structure = by_structure(|_| {}).kernel_call(0, 0, NOWHERE);
        by_structure.keep_id_in(0x7000);
        assert_eq!(by_structure.structure[field::FLAGS], flags);
        assert_eq!(by_structure.structure[field::CHILD_TID], 0x7000);
    }

    #[test]
    fn the_kernel_gets_what_the_engine_does_not_know() {
        let request = by_structure(|words| {
            words[field::FLAGS] = CLEAR_HANDLERS | 1 << 40 | libc::CLONE_SETTLS as u64;
            words[field::TLS] = 5;
            words.push(77);
        });
        let call = request.kernel_call(libc::CLONE_VM, 0, NOWHERE);
        assert_eq!(call.number, libc::SYS_clone3);
        assert_eq!(call.arguments()[1], 96);
        assert_eq!(
            call.structure[field::FLAGS],
            1 << 40 | libc::CLONE_VM as u64
        );
        assert_eq!((call.structure[field::TLS], call.structure[11]), (0, 77));
    }

    #[test]
    fn the_descriptor_goes_where_the_program_wants_it() {
        let mut request = by_arguments(libc::CLONE_PIDFD | libc::CLONE_VFORK);
        request.pid_file = 0x5000;
        assert!(!request.can_tell_parent());
        let call = request.kernel_call(0, libc::CLONE_VFORK, NOWHERE);
        assert_eq!(call.arguments()[0], libc::CLONE_PIDFD as u64);
        assert_eq!(call.arguments()[2], 0x5000);
    }
}
