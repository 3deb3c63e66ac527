use unspool_events::{Access, AccessFlags, AccessKind, ThreadId};

use super::CallPaths;

const THREAD: ThreadId = ThreadId(0);
const MUCH: usize = 1 << 20;

/// What a thread does, for tests.
#[derive(Debug, Clone, Copy)]
enum Do {
    /// A call by an instruction, whose return address goes to this place on the stack.
    Call(u64, u64),
    /// A return by the address at a place on the stack.
    Return(u64),
    /// The thread is at an instruction.
    At(u64),
    Handles,
    HandlerReturns,
}
use Do::{At, Call, HandlerReturns, Handles, Return};

fn go(paths: &mut CallPaths, steps: &[Do]) {
    let access = |pc, address, kind| Access {
        time: 0,
        pc,
        address,
        size: 8,
        kind,
        flags: AccessFlags::RETURN_ADDRESS,
    };
    for &step in steps {
        match step {
            Call(pc, address) => {
                let access = access(pc, address, AccessKind::Write);
                paths.thread(THREAD).access(&access);
            }
            Return(address) => {
                let access = access(0, address, AccessKind::Read);
                paths.thread(THREAD).access(&access);
            }
            At(pc) => paths.thread(THREAD).is_at(pc),
            Handles => paths.handler_called(THREAD),
            HandlerReturns => paths.handler_returned(THREAD),
        }
    }
}

/// The instructions on the thread's path, the outermost first.
fn path_in(paths: &CallPaths) -> Vec<u64> {
    let calls = paths.calls(paths.context(THREAD));
    calls.iter().rev().map(|call| call.pc).collect()
}

fn path(steps: &[Do]) -> Vec<u64> {
    let mut paths = CallPaths::new(MUCH);
    go(&mut paths, steps);
    path_in(&paths)
}

const TOP: u64 = 0x7fff_0000;
const OTHER: u64 = 0x5000_0000;

#[test]
fn calls_and_returns() {
    assert_eq!(path(&[]), []);
    assert_eq!(path(&[Call(1, TOP), Call(2, TOP - 16)]), [1, 2]);
    let returned = [Call(1, TOP), Call(2, TOP - 16), Return(TOP - 16)];
    assert_eq!(path(&returned), [1]);
}

#[test]
fn a_jump_out_of_several_functions() {
    let called = [Call(1, TOP), Call(2, TOP - 16), Call(3, TOP - 64)];
    let calls_again = [&called[..], &[Call(4, TOP - 16)]].concat();
    assert_eq!(path(&calls_again), [1, 4]);
    let returns = [&called[..], &[Return(TOP)]].concat();
    assert_eq!(path(&returns), []);
}

#[test]
fn an_address_that_the_program_has_put_there() {
    let steps = [Call(1, TOP), Call(2, TOP - 64), Return(TOP - 96)];
    assert_eq!(path(&steps), [1, 2]);
}

#[test]
fn recursion_is_folded() {
    let mut paths = CallPaths::new(MUCH);
    go(&mut paths, &[Call(1, TOP)]);
    for depth in 1..1000 {
        let (odd, even) = (TOP - 32 * depth, TOP - 32 * depth - 16);
        go(&mut paths, &[Call(2, odd), Call(3, even)]);
    }
    assert_eq!(path_in(&paths), [1, 2, 3]);
    let calls = paths.calls(paths.context(THREAD));
    let is_recursive: Vec<bool> = calls.iter().map(|call| call.is_recursive).collect();
    assert_eq!(is_recursive, [false, true, false]);
    go(&mut paths, &[Return(TOP - 32)]);
    assert_eq!(path_in(&paths), [1]);
}

#[test]
fn stacks_that_are_switched() {
    let mut paths = CallPaths::new(MUCH);
    go(&mut paths, &[Call(1, TOP), Call(2, TOP - 32)]);
    go(&mut paths, &[Call(11, OTHER), Call(12, OTHER - 32)]);
    assert_eq!(path_in(&paths), [1, 2, 11, 12]);
    // Back, by the return address of the call that switched.
    go(&mut paths, &[Return(TOP - 32)]);
    assert_eq!(path_in(&paths), [1]);
    go(&mut paths, &[Call(3, TOP - 32), Return(OTHER - 32)]);
    assert_eq!(path_in(&paths), [1, 2, 11]);
    go(&mut paths, &[Call(4, TOP - 64)]);
    assert_eq!(path_in(&paths), [1, 3, 4]);
}

#[test]
fn a_large_frame_is_no_other_stack_for_long() {
    let deep = TOP - (8 << 20);
    let mut paths = CallPaths::new(MUCH);
    go(
        &mut paths,
        &[Call(1, TOP), Call(2, deep), Call(3, deep - 16)],
    );
    assert_eq!(path_in(&paths), [1, 2, 3]);
    go(&mut paths, &[Return(deep - 16), Return(deep), Return(TOP)]);
    assert_eq!(path_in(&paths), []);
}

#[test]
fn signal_handlers() {
    let mut paths = CallPaths::new(MUCH);
    let before = [Call(1, TOP), Call(2, TOP - 32), At(20), Handles];
    go(&mut paths, &before);
    assert_eq!(path_in(&paths), [1, 2, 20]);
    go(&mut paths, &[Call(3, TOP - 500), Return(TOP - 500)]);
    assert_eq!(path_in(&paths), [1, 2, 20]);
    go(&mut paths, &[HandlerReturns]);
    assert_eq!(path_in(&paths), [1, 2]);
    // On a stack of its own.
    go(&mut paths, &[At(21), Handles, Call(4, OTHER)]);
    assert_eq!(path_in(&paths), [1, 2, 21, 4]);
    go(&mut paths, &[Return(OTHER), HandlerReturns]);
    assert_eq!(path_in(&paths), [1, 2]);
    // Left by a jump.
    go(
        &mut paths,
        &[At(22), Handles, Call(5, TOP - 500), Return(TOP)],
    );
    assert_eq!(path_in(&paths), []);
}

#[test]
fn memory_is_bounded_and_that_is_said() {
    let mut paths = CallPaths::new(10_000);
    go(&mut paths, &[Call(1, TOP)]);
    for pc in 2..10_000 {
        go(&mut paths, &[Call(pc, TOP - 16), Return(TOP - 16)]);
    }
    assert!(paths.missing() > 9_000);
    go(&mut paths, &[Call(10_000, TOP - 16)]);
    assert_eq!(path_in(&paths), [1]);
}
