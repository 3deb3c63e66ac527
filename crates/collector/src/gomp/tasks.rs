//! Tasks and loops of tasks.
//!
//! A task's function is replaced by [`execute`], and its argument by a block that holds
//! what `execute` needs before the program's own argument. The runtime copies that block
//! when the task is put off, with a function of ours that lets the program's own copy its
//! part.

use std::ffi::c_void;

use unspool_openmp_record::ConstructKind;
use unspool_preload::clock;

use super::dependences::Dependences;
use super::watched;
use crate::caller::return_address;
use crate::runtime_function::{RuntimeFunction, call_real};
use crate::task_chains::CreatedTask;
use crate::thread;

type Body = unsafe extern "C-unwind" fn(*mut c_void);
type Copy = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// The flag of a task that depends on others.
const DEPENDS: usize = 1 << 3;

/// The flag of a task that ends by an event, which the runtime writes into its argument.
const DETACHED: usize = 1 << 13;

/// The block in place of a task's argument. Its first three words are those that a loop of
/// tasks reads and writes: where its part starts and ends, and its reductions.
#[repr(C)]
struct Block {
    start: u64,
    end: u64,
    reductions: u64,
    body: Body,
    copy: Option<Copy>,
    /// The program's argument: at the place where it was created, or its copy.
    argument: *mut c_void,
    bytes: usize,
    alignment: usize,
    address: u64,
    /// How many of the first words the runtime writes.
    written: usize,
    /// What it depends on, until it is executed: from `Box::into_raw`, or null.
    created: *mut CreatedTask,
}

unsafe extern "C-unwind" fn execute(block: *mut c_void) {
    // SAFETY: the runtime passes on the block that it was given, or the copy that `copy` made.
    let block = unsafe { &*block.cast::<Block>() };
    for (index, word) in [block.start, block.end]
        .iter()
        .take(block.written)
        .enumerate()
    {
        // SAFETY: the arguments of such tasks start with these words.
        unsafe { block.argument.cast::<u64>().add(index).write(*word) };
    }
    let mut depth = 0;
    if let Some(thread) = thread::current() {
        // SAFETY: a task is executed once, and nothing else takes it.
        let created = (!block.created.is_null()).then(|| unsafe { Box::from_raw(block.created) });
        depth = thread.start_task(block.address, created.map(|created| *created), clock::now());
    }
    // SAFETY: as the program asked for.
    unsafe { (block.body)(block.argument) };
    if let Some(thread) = thread::current() {
        thread.finish_task(depth, clock::now());
    }
}

/// Copies a block and, after it, the program's argument.
unsafe extern "C-unwind" fn copy(to: *mut c_void, from: *mut c_void) {
    // SAFETY: the runtime gives room as [`Task::give`] asked for, and the block that it was given.
    unsafe {
        let source = &*from.cast::<Block>();
        let place = (to as usize + size_of::<Block>()).next_multiple_of(source.alignment);
        let argument = place as *mut c_void;
        match source.copy {
            Some(copy) => copy(argument, source.argument),
            None => std::ptr::copy_nonoverlapping(
                source.argument.cast::<u8>(),
                argument.cast::<u8>(),
                source.bytes,
            ),
        }
        to.cast::<Block>().write(Block {
            argument,
            ..std::ptr::read(source)
        });
    }
}

/// A task as the program gives it to the runtime.
struct Task {
    body: Body,
    argument: *mut c_void,
    copy: Option<Copy>,
    bytes: usize,
    alignment: usize,
    address: u64,
    created: Option<CreatedTask>,
}

impl Task {
    /// Gives a task to the runtime, by `call`, with [`execute`] in place of its function.
    fn give(
        self,
        written: usize,
        reductions: u64,
        call: impl FnOnce(Body, *mut c_void, Option<Copy>, usize, usize) -> usize,
    ) -> usize {
        let mut block = Block {
            start: 0,
            end: 0,
            reductions,
            body: self.body,
            copy: self.copy,
            argument: self.argument,
            bytes: self.bytes,
            alignment: self.alignment.max(16),
            address: self.address,
            written,
            created: match self.created {
                Some(created) => Box::into_raw(Box::new(created)),
                None => std::ptr::null_mut(),
            },
        };
        let (bytes, alignment) = (block.bytes, block.alignment);
        // The copy has the program's argument after the block.
        let room = size_of::<Block>() + alignment + bytes;
        call(
            execute,
            (&raw mut block).cast(),
            Some(copy),
            room,
            alignment,
        )
    }
}

// SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_task(
    body: Body,
    argument: *mut c_void,
    copier: Option<Copy>,
    bytes: usize,
    alignment: usize,
    deferred: usize,
    flags: usize,
    depend: usize,
    priority: usize,
    detach: usize,
) -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"GOMP_task");
    let address = return_address!();
    let real = REAL.of(address);
    let call = |body: Body, argument: *mut c_void, copier, bytes, alignment| {
        call_real!(real, body, argument, copier, bytes, alignment, deferred, flags, depend,
            priority, detach;
            Body, *mut c_void, Option<Copy>, usize, usize, usize, usize, usize, usize, usize)
    };
    let Some(thread) = watched(real) else {
        return call(body, argument, copier, bytes, alignment);
    };
    let created = match flags & DEPENDS {
        0 => None,
        // SAFETY: with this flag, the program passes the list that the runtime reads.
        _ => thread.create_dependent_task(unsafe { Dependences::at(depend) }),
    };
    let task = Task {
        body,
        argument,
        copy: copier,
        bytes,
        alignment,
        address,
        created,
    };
    let creation = thread.create_task(address);
    let result = task.give(usize::from(flags & DETACHED != 0), 0, call);
    if let Some(thread) = watched(real) {
        thread.return_from_runtime(&creation, true);
    }
    result
}

macro_rules! task_loops {
    ($($name:ident $text:literal ($($argument:ident),*);)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            body: Body,
            argument: *mut c_void,
            copier: Option<Copy>,
            bytes: usize,
            alignment: usize,
            flags: usize
            $(, $argument: usize)*
        ) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let call = |body: Body, argument: *mut c_void, copier, bytes, alignment| {
                call_real!(real, body, argument, copier, bytes, alignment, flags $(, $argument)*;
                    Body, *mut c_void, Option<Copy>, usize, usize, usize
                    $(, call_real!(@word $argument))*)
            };
            let Some(thread) = watched(real) else {
                return call(body, argument, copier, bytes, alignment);
            };
            thread.enter(ConstructKind::TaskLoop, address, 0, clock::now());
            const REDUCTION: usize = 1 << 12;
            let reductions = match flags & REDUCTION {
                0 => 0,
                // SAFETY: with this flag, the argument's third word is there.
                _ => unsafe { argument.cast::<u64>().add(2).read() },
            };
            let task = Task {
                body,
                argument,
                copy: copier,
                bytes,
                alignment,
                address,
                created: None,
            };
            let result = task.give(2, reductions, call);
            if let Some(thread) = watched(real) {
                thread.leave_through(ConstructKind::TaskLoop, clock::now());
            }
            result
        }
    )*};
}

task_loops! {
    GOMP_taskloop c"GOMP_taskloop" (tasks, priority, start, end, step);
    GOMP_taskloop_ull c"GOMP_taskloop_ull" (tasks, priority, start, end, step);
}
