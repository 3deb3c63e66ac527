use super::Batch;
use crate::access::{Access, AccessFlags, AccessKind};
use crate::event::{Event, ThreadEvent};
use crate::id::{PathId, ThreadId};
use crate::paths::PathTable;
use crate::sink::Sink;
use crate::superblock::{AccessingInstruction, AddressSource, Extent, Operand, Path, Superblock};

const THREAD: ThreadId = ThreadId(1);
const OTHER: ThreadId = ThreadId(0);

/// The times of what it was given: accesses as they are, events negated.
#[derive(Default)]
struct Times(Vec<i64>);

impl Sink for Times {
    fn accesses(&mut self, _: ThreadId, batch: &[Access]) {
        self.0.extend(batch.iter().map(|access| access.time as i64));
    }

    fn event(&mut self, _: ThreadId, time: u64, _: &Event) {
        self.0.push(-(time as i64));
    }
}

fn access(time: u64) -> Access {
    Access {
        time,
        pc: 0,
        address: 0,
        size: 8,
        kind: AccessKind::Read,
        flags: AccessFlags::FIRST,
    }
}

/// Accesses from 1 to 9, of which the one at 7 has a stamp.
fn stamped_at_7() -> Batch {
    let mut batch = Batch::default();
    batch.note_dependence();
    for time in 1..10 {
        if time == 7 {
            batch.note_dependence();
        }
        batch.accesses.push(access(time));
    }
    batch
}

fn given(batch: &mut Batch, limit: u64, may_run_ahead: bool) -> Vec<i64> {
    let mut times = Times::default();
    batch.deliver(THREAD, Some((limit, OTHER)), may_run_ahead, &mut times);
    times.0
}

#[test]
fn what_depends_on_nothing_runs_ahead() {
    let mut batch = stamped_at_7();
    assert_eq!(given(&mut batch, 4, true), [1, 2, 3, 4, 5, 6]);
    assert_eq!(batch.next_time(), Some(7));
    assert_eq!(given(&mut batch, 7, true), []);
    assert_eq!(given(&mut batch, 8, true), [7, 8, 9]);
}

#[test]
fn the_order_of_time_stays_where_it_is_needed() {
    let mut batch = stamped_at_7();
    assert_eq!(given(&mut batch, 4, false), [1, 2, 3]);
    assert_eq!(given(&mut batch, 9, false), [4, 5, 6, 7, 8]);
    // From the middle on, too.
    assert_eq!(given(&mut batch, 9, true), [9]);
}

#[test]
fn what_depends_on_others_does_so_in_the_next_batch_too() {
    let mut batch = Batch::default();
    batch.note_dependence();
    batch.accesses.extend([access(1), access(2)]);
    batch.note_dependence();
    assert_eq!(given(&mut batch, 3, true), [1, 2]);
    batch.clear();
    batch.accesses.extend([access(7), access(8)]);
    assert_eq!(given(&mut batch, 4, true), []);
    assert_eq!(given(&mut batch, 8, true), [7, 8]);
    batch.clear();
    batch.accesses.push(access(9));
    assert_eq!(given(&mut batch, 4, true), [9]);
}

#[test]
fn events_wait_for_their_time() {
    let mut batch = Batch::default();
    batch.note_dependence();
    batch.accesses.extend([access(1), access(2)]);
    batch.push_event(3, Event::from(ThreadEvent::End));
    batch.accesses.push(access(4));
    assert_eq!(given(&mut batch, 2, true), [1, 2]);
    assert_eq!(given(&mut batch, 3, true), []);
    assert_eq!(given(&mut batch, 4, true), [-3, 4]);
}

/// Pushes executions of code whose only access is a load, from this time on.
fn push_executions(batch: &mut Batch, times: std::ops::Range<u64>) {
    let operand = Operand {
        kind: AccessKind::Read,
        size: 8,
        address: AddressSource::Word { slot: 0, add: 0 },
        extent: Extent::Plain,
    };
    let mut table = PathTable::default();
    table.add(&Superblock {
        instructions: vec![AccessingInstruction {
            operands: vec![operand],
            ..AccessingInstruction::default()
        }],
        paths: vec![Path {
            accessing: 1,
            executed: 1,
            words: 1,
        }],
        ..Superblock::default()
    });
    let path = table.get(PathId(0)).unwrap();
    for time in times {
        batch.push_execution(path.code, 1, time - 1, &[0x1000]);
    }
}

#[test]
fn executions_wait_for_what_they_depend_on_alone() {
    let mut batch = Batch::default();
    batch.note_dependence();
    push_executions(&mut batch, 1..4);
    batch.accesses.push(access(4));
    push_executions(&mut batch, 5..6);
    batch.note_dependence();
    push_executions(&mut batch, 6..9);
    batch.push_event(9, Event::from(ThreadEvent::End));
    push_executions(&mut batch, 10..11);
    assert_eq!(given(&mut batch, 1, true), []);
    assert_eq!(given(&mut batch, 2, true), [1, 2, 3, 4, 5]);
    assert_eq!(batch.next_time(), Some(6));
    assert_eq!(given(&mut batch, 6, true), []);
    assert_eq!(given(&mut batch, 7, true), [6, 7, 8]);
    assert_eq!(given(&mut batch, 9, true), []);
    assert_eq!(given(&mut batch, 10, true), [-9, 10]);
    // What was noted at the end is for whatever comes next.
    batch.note_dependence();
    batch.clear();
    push_executions(&mut batch, 11..13);
    assert_eq!(given(&mut batch, 11, true), []);
    assert_eq!(given(&mut batch, 12, true), [11, 12]);
}
