//! A child that shares the memory while its parent's thread waits: a real one, so that
//! `posix_spawn` sees its child's errors. It runs on an engine stack of its own, with the
//! waiting thread's thread-local state.

use std::sync::Arc;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::slots;

use super::Run;
use super::namespace::Relation;
use super::new_thread::{actions_of_child, list_as, tell_ids};
use super::threads::set_program_fs;
use crate::call::clone_request::{CloneRequest, Places, is_writable};
use crate::call::start_child;
use crate::signal_handling::open;
use crate::thread::{AddressSpaceRole, Thread};
use crate::threads;
use crate::{client, finish};

/// What a child between `vfork` and `execve` is given.
struct VforkChild<'a> {
    parent: *const Thread,
    request: &'a CloneRequest,
    run: Run,
    relation: Relation,
    /// The child's thread, once it is on the list.
    listed: *const Thread,
}

// What it saves is large, and must not become part of every system call's frame.
#[inline(never)]
pub(super) fn vfork(thread: &mut Thread, request: &CloneRequest, run: Run) -> i64 {
    const STACK: usize = 256 << 10;
    let saved = thread.slots().save();
    let kept: Vec<usize> = thread
        .clients()
        .iter()
        .map(|it| it.before_vfork())
        .collect();
    let mut stack: Vec<u128> = vec![0; STACK / 16];
    let mut child = VforkChild {
        parent: thread,
        request,
        run,
        relation: Relation::new(thread, request),
        listed: std::ptr::null(),
    };
    // The kernel clears this word itself, however the child leaves.
    let clears = request.has(libc::CLONE_CHILD_CLEARTID) && is_writable(request.child_tid);
    let call = request.kernel_call(
        if clears {
            libc::CLONE_CHILD_CLEARTID
        } else {
            0
        },
        0,
        Places {
            stack: (stack.as_mut_ptr() as u64, STACK as u64),
            parent_tid: child.relation.word(),
            child_tid: if clears { request.child_tid } else { 0 },
            thread_pointer: 0,
        },
    );
    crate::signals::block_all();
    // SAFETY: the child runs on `stack`, which outlives it or its use of this memory, because
    // the kernel keeps this thread waiting until then.
    let result = unsafe { start_child(&call, run_vfork_child, (&raw mut child).cast()) };
    // The child has left this memory.
    finish::end_if_amid_change();
    // What it recorded stays.
    thread.slots().restore(saved);
    Thread::set_current(thread);
    // It may have been killed.
    threads::leave_list(thread.process, child.listed);
    for (client, kept) in thread.clients().iter().zip(kept) {
        client.after_vfork(thread, kept, result);
    }
    if result > 0 && clears {
        client::memory_written(thread, request.child_tid, 4);
    }
    if result > 0 && request.has(libc::CLONE_SETTLS) {
        client::thread_pointer_changed(thread, thread.slots().program_fs.get());
    }
    open(thread);
    result
}

unsafe extern "C" fn run_vfork_child(argument: *mut libc::c_void) -> i32 {
    // SAFETY: `vfork` passes a `VforkChild` that lives while its thread waits.
    let (parent, child) = unsafe {
        let child = &mut *argument.cast::<VforkChild<'_>>();
        (&*child.parent, child)
    };
    let process = parent.process;
    let request = child.request;
    let actions = actions_of_child(parent, request);
    let mut thread = Thread::new(
        process,
        parent.id,
        parent.delivery.mask(),
        Arc::clone(&actions),
    );
    thread.role = AddressSpaceRole::VforkChild;
    thread.filters = Arc::new(parent.filters.inherited());
    thread.alternate_stack = parent.alternate_stack;
    debug_assert!(std::ptr::eq(thread.slots(), slots()));
    Thread::set_current(&mut thread);
    thread.set_register(gpr::RAX, 0);
    if request.stack != 0 {
        thread.set_register(gpr::RSP, request.stack);
    }
    let ids = child.relation.of_child(thread.tid);
    thread.namespace = ids.own;
    child.listed = &raw const thread;
    list_as(process, &mut thread, ids.ids, ids.namespace);
    if request.clears_handlers() {
        actions.forget_handlers();
    }
    thread
        .clients()
        .each(|client| client.vfork_child_starts(&mut thread, parent));
    tell_ids(&mut thread, request, ids.ids.1);
    if request.has(libc::CLONE_SETTLS) {
        set_program_fs(process, &mut thread, request.tls);
    }
    open(&thread);
    let status = (child.run)(&mut thread);
    if thread.role == AddressSpaceRole::Process {
        // It has forked, and this is the new process.
        finish::end_thread(process, &mut thread, status);
    } else {
        thread
            .clients()
            .each(|client| client.vfork_child_leaves(&mut thread));
        threads::leave_list(process, &raw const thread);
    }
    status
}
