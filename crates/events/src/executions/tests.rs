use crate::access::{Access, AccessKind};
use crate::batch::Batch;
use crate::event::Event;
use crate::executions::Executions;
use crate::expand::{Expander, RecordKind};
use crate::id::{PathId, ThreadId};
use crate::paths::PathTable;
use crate::raw::{SpecialKind, path_header, special_header};
use crate::sink::Sink;
use crate::streams::Streams;
use crate::superblock::{
    AccessingInstruction, AddressSource, Extent, Mask, Operand, Path, Superblock,
};
use unspool_container::Order;

const THREAD: ThreadId = ThreadId(1);

/// Everything that it was given, and how much of it as executions.
#[derive(Default)]
struct Given {
    takes_executions: bool,
    accesses: Vec<Access>,
    events: Vec<(usize, u64)>,
    executions: usize,
    counted: u64,
}

impl Sink for Given {
    fn needs_order_of_time(&self) -> bool {
        false
    }

    fn takes_executions(&self) -> bool {
        self.takes_executions
    }

    fn executions(&mut self, _: ThreadId, executions: &Executions<'_>) {
        self.executions += executions.len();
        self.counted += executions.count_accesses();
        executions.expand(&mut self.accesses);
    }

    fn accesses(&mut self, _: ThreadId, batch: &[Access]) {
        self.accesses.extend_from_slice(batch);
    }

    fn event(&mut self, _: ThreadId, time: u64, _: &Event) {
        self.events.push((self.accesses.len(), time));
    }
}

fn operand(kind: AccessKind, size: u32, address: AddressSource, extent: Extent) -> Operand {
    Operand {
        kind,
        size,
        address,
        extent,
    }
}

/// A load; a copy; a call; an increment; a locked one; a masked store.
fn superblock() -> Superblock {
    let word = |slot, add| AddressSource::Word { slot, add };
    let plain = |kind, size, address| operand(kind, size, address, Extent::Plain);
    let masked = Extent::Masked {
        count: 4,
        mask: Mask::Bits(1),
    };
    let (read, write) = (AccessKind::Read, AccessKind::Write);
    let instruction = |pc, operands| AccessingInstruction {
        pc,
        operands,
        ..AccessingInstruction::default()
    };
    let absolute = AddressSource::Absolute(0x40_0000);
    let instructions = vec![
        instruction(0x10, vec![plain(read, 8, word(0, -8))]),
        instruction(
            0x14,
            vec![plain(read, 4, absolute), plain(write, 4, word(2, 16))],
        ),
        AccessingInstruction {
            calls_or_returns: true,
            ..instruction(0x18, vec![plain(write, 8, word(1, -8))])
        },
        AccessingInstruction {
            non_temporal: true,
            ..instruction(
                0x20,
                vec![plain(read, 32, word(0, 0)), plain(write, 32, word(0, 0))],
            )
        },
        AccessingInstruction {
            atomic: true,
            ..instruction(
                0x28,
                vec![plain(read, 8, word(0, 0)), plain(write, 8, word(0, 0))],
            )
        },
        instruction(0x30, vec![operand(write, 8, word(0, 0), masked)]),
    ];
    let paths = (0..=6).map(|accessing| Path {
        accessing,
        executed: accessing,
        words: 3,
    });
    Superblock {
        instructions,
        paths: paths.collect(),
        ..Superblock::default()
    }
}

/// Gives records, of which every 97th is another one than that of a path, to a sink.
fn given(takes_executions: bool) -> Given {
    let mut paths = PathTable::default();
    paths.add(&superblock());
    let streams = Streams::default();
    let kind = |header| RecordKind::new(header, &paths, &streams).into_owned();
    let stamp = kind(special_header(SpecialKind::Stamp, 1, 1));
    let mut expander = Expander::new(Order::LineAtomic);
    expander.keep_executions(takes_executions);
    let mut batch = Batch::default();
    let mut sink = Given {
        takes_executions,
        ..Given::default()
    };
    for number in 0..1000_u64 {
        if number % 97 == 0 {
            expander.expand(&stamp, &[10 * number], &mut batch);
        }
        // Too few words for some.
        let words = [0x1000 + 8 * number, 0x8000, number << 12 | 5];
        let words = &words[..if number % 89 == 0 { 2 } else { 3 }];
        let path = PathId((number % 7) as u32);
        let header = path_header(path, words.len());
        expander.expand(&kind(u64::from(header)), words, &mut batch);
        if number % 50 == 0 {
            batch.deliver(THREAD, None, true, &mut sink);
            batch.clear();
        }
    }
    batch.deliver(THREAD, None, true, &mut sink);
    sink
}

#[test]
fn executions_say_the_same_as_accesses() {
    let (plain, taken) = (given(false), given(true));
    assert_eq!(plain.executions, 0);
    assert_eq!(plain.accesses, taken.accesses);
    assert_eq!(plain.events, taken.events);
    // Of seven paths, two have what is not plain, one has nothing, and some lack a word.
    assert!((500..800).contains(&taken.executions));
    assert!(taken.counted > 1500 && taken.counted < taken.accesses.len() as u64);
}
