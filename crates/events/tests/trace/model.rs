//! A second, naive reading of the raw stream, and random programs for both to read.
//!
//! The model knows `raw.rs` and `superblock.rs` only; it shares no code with the reader.

use proptest::collection::vec;
use proptest::prelude::*;
use unspool_events::raw::{MAX_PATH_WORDS, SpecialKind, path_header, special_header};
use unspool_events::superblock::*;
use unspool_events::*;

/// Something that a sink may be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Access(Access),
    Event(u64, Event),
    Values(Vec<Access>, Vec<Vec<u8>>),
}

impl Item {
    pub(crate) fn time(&self) -> u64 {
        match self {
            Item::Access(access) => access.time,
            Item::Event(time, _) => *time,
            Item::Values(accesses, _) => accesses.first().map_or(0, |access| access.time),
        }
    }
}

/// Keeps what it is given, by thread and in total order.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) items: Vec<(ThreadId, Item)>,
    pub(crate) batches: usize,
    /// Whether accesses may come before others' that they do not depend on.
    pub(crate) takes_ahead: bool,
}

impl Recorder {
    pub(crate) fn of(&self, thread: ThreadId) -> Vec<Item> {
        let of_thread = self.items.iter().filter(|(owner, _)| *owner == thread);
        of_thread.map(|(_, item)| item.clone()).collect()
    }
}

impl Sink for Recorder {
    fn needs_order_of_time(&self) -> bool {
        !self.takes_ahead
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        assert!(!batch.is_empty());
        assert!(
            batch[0].flags.contains(AccessFlags::FIRST),
            "an instruction was split"
        );
        self.batches += 1;
        self.items
            .extend(batch.iter().map(|access| (thread, Item::Access(*access))));
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.items.push((thread, Item::Event(time, event.clone())));
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        let values = values.iter().map(|value| value.to_vec()).collect();
        self.items
            .push((thread, Item::Values(accesses.to_vec(), values)));
    }
}

/// One record of a random thread.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A path, with the words of its record.
    Path {
        superblock: usize,
        path: usize,
        words: Vec<u64>,
        notes: Notes,
    },
    /// A path that was left after some instructions.
    Partial {
        superblock: usize,
        instructions: usize,
        words: Vec<u64>,
        notes: Notes,
    },
    /// An event, with a stamp.
    Event(Event, Option<u64>),
}

/// Stamps and values before a record: how far each stamp is ahead of the time before it,
/// and seeds of the values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    pub(crate) stamps: Vec<(u64, u64)>,
    pub(crate) values: Vec<(u64, u8)>,
}

/// What the model makes of a thread.
#[derive(Debug, Default)]
pub(crate) struct Modelled {
    pub(crate) words: Vec<u64>,
    /// Where the records start that do not belong to the next one.
    pub(crate) cuts: Vec<usize>,
    pub(crate) items: Vec<Item>,
    pub(crate) instructions: u64,
    pub(crate) events: u64,
    pub(crate) time: u64,
}

impl Modelled {
    pub(crate) fn accesses(&self) -> u64 {
        self.items
            .iter()
            .filter(|item| matches!(item, Item::Access(_)))
            .count() as u64
    }
}

/// Raw words and items of a thread that starts at time 0.
pub(crate) fn model(order: Order, superblocks: &[Superblock], steps: &[Step]) -> Modelled {
    let mut result = Modelled::default();
    for step in steps {
        result.cuts.push(result.words.len());
        match step {
            Step::Event(event, stamp) => {
                if let Some(ahead) = stamp {
                    push_stamp(&mut result, 0, *ahead);
                }
                event.encode(&mut result.words);
                let stamp = stamp.map(|ahead| result.time.saturating_add(ahead));
                result.time = result
                    .time
                    .saturating_add(u64::from(order.advances_by_itself()));
                result.time = result.time.max(stamp.unwrap_or(0));
                result.items.push(Item::Event(result.time, event.clone()));
                result.events += 1;
            }
            Step::Path {
                superblock,
                path,
                words,
                notes,
            } => {
                let superblock = &superblocks[*superblock];
                let count = usize::from(superblock.paths[*path].accessing);
                push_notes(&mut result, superblock, notes, words);
                let id = PathId(superblock.first_path.0 + *path as u32);
                result.words.push(u64::from(path_header(id, words.len())));
                result.words.extend(words);
                run(&mut result, order, superblock, count, words, notes);
            }
            Step::Partial {
                superblock,
                instructions,
                words,
                notes,
            } => {
                let superblock = &superblocks[*superblock];
                push_notes(&mut result, superblock, notes, words);
                let argument = u64::from(superblock.first_path.0) | (*instructions as u64) << 24;
                result
                    .words
                    .push(special_header(SpecialKind::Partial, argument, words.len()));
                result.words.extend(words);
                run(&mut result, order, superblock, *instructions, words, notes);
            }
        }
    }
    result
}

fn push_stamp(result: &mut Modelled, instruction: u64, ahead: u64) {
    result
        .words
        .push(special_header(SpecialKind::Stamp, instruction, 1));
    result.words.push(result.time.saturating_add(ahead));
}

/// Values are in records of [`VALUE_WORDS`] words, one after the other.
fn push_notes(result: &mut Modelled, superblock: &Superblock, notes: &Notes, words: &[u64]) {
    for &(instruction, ahead) in &notes.stamps {
        push_stamp(result, instruction, ahead);
    }
    for &(instruction, seed) in &notes.values {
        let values = value_words(superblock, instruction, seed, words);
        for part in values.unwrap_or_default().concat().chunks(VALUE_WORDS) {
            let header = special_header(SpecialKind::Values, instruction, part.len());
            result.words.push(header);
            result.words.extend(part);
        }
    }
}

const VALUE_WORDS: usize = 100;
/// Instructions with more bytes have no values.
const MOST_VALUE_BYTES: u64 = 4096;

/// The words of each access's value, if they are not too many.
fn value_words(
    superblock: &Superblock,
    instruction: u64,
    seed: u8,
    words: &[u64],
) -> Option<Vec<Vec<u64>>> {
    let Some(instruction) = superblock.instructions.get(instruction as usize) else {
        return Some(vec![vec![u64::from(seed)]]);
    };
    let operands = instruction.operands.iter();
    let sizes: Vec<u32> = operands
        .flat_map(|operand| pieces(operand, words))
        .map(|(_, size)| size)
        .collect();
    if sizes.iter().map(|&size| u64::from(size)).sum::<u64>() > MOST_VALUE_BYTES {
        return None;
    }
    let values = sizes
        .into_iter()
        .enumerate()
        .map(|(i, size)| {
            let bytes: Vec<u8> = (0..size)
                .map(|byte| seed.wrapping_mul(31) ^ byte as u8 ^ i as u8)
                .collect();
            let words = bytes.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            });
            words.collect()
        })
        .collect();
    Some(values)
}

fn run(
    result: &mut Modelled,
    order: Order,
    superblock: &Superblock,
    count: usize,
    words: &[u64],
    notes: &Notes,
) {
    let before = result.time;
    let step = u64::from(order.advances_by_itself());
    for (i, instruction) in superblock.instructions[..count].iter().enumerate() {
        let mut time = result.time.saturating_add(step);
        if let Some(slot) = instruction.ticket {
            time = time.max(words[usize::from(slot)]);
        }
        for &(_, ahead) in notes.stamps.iter().filter(|(index, _)| *index == i as u64) {
            time = time.max(before.saturating_add(ahead));
        }
        result.time = time;
        result.instructions += u64::from(!instruction.operands.is_empty());
        for event in events(instruction, words) {
            result.items.push(Item::Event(time, event));
            result.events += 1;
        }
        let first = result.items.len();
        let mut sizes = Vec::new();
        for operand in &instruction.operands {
            for (address, size) in pieces(operand, words) {
                let mut flags = AccessFlags::default();
                if instruction.atomic {
                    flags = flags.with(AccessFlags::ATOMIC);
                }
                if instruction.non_temporal {
                    flags = flags.with(AccessFlags::NON_TEMPORAL);
                }
                if instruction
                    .cas_success
                    .is_some_and(|slot| words[usize::from(slot)] == 0)
                {
                    flags = flags.with(AccessFlags::FAILED_CAS);
                }
                if sizes.is_empty() {
                    flags = flags.with(AccessFlags::FIRST);
                }
                let (pc, kind) = (instruction.pc, operand.kind);
                result.items.push(Item::Access(Access {
                    time,
                    pc,
                    address,
                    size,
                    kind,
                    flags,
                }));
                sizes.push(size as usize);
            }
        }
        if instruction.calls_or_returns
            && let Some(Item::Access(last)) = result.items[first..].last_mut()
        {
            last.flags = last.flags.with(AccessFlags::RETURN_ADDRESS);
        }
        let mut seeds = notes.values.iter();
        let seed = seeds.find(|(index, _)| *index == i as u64);
        let recorded = seed.and_then(|&(_, seed)| value_words(superblock, i as u64, seed, words));
        if let Some(recorded) = recorded {
            let accesses = result.items[first..].iter().map(|item| match item {
                Item::Access(access) => *access,
                _ => unreachable!("only accesses were pushed"),
            });
            let accesses = accesses.collect();
            let values = sizes.iter().zip(&recorded).map(|(size, words)| {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                bytes.take(*size).collect()
            });
            let values = values.collect();
            if !sizes.is_empty() {
                result.items.push(Item::Values(accesses, values));
            }
        }
    }
    for &(index, ahead) in &notes.stamps {
        if index >= count as u64 {
            result.time = result.time.max(before.saturating_add(ahead));
        }
    }
}

/// What an instruction is beside its accesses.
fn events(instruction: &AccessingInstruction, words: &[u64]) -> Vec<Event> {
    let pc = instruction.pc;
    let fetch = instruction
        .fetched
        .map(|size| Event::Instruction(InstructionEvent::Fetch { pc, size }));
    let control = instruction.cache_control.map(|control| match control {
        CacheControl::Fence(fence) => Event::Instruction(InstructionEvent::Fence { fence, pc }),
        CacheControl::Line { operation, address } => {
            Event::Instruction(InstructionEvent::CacheLine {
                operation,
                pc,
                address: base(address, words),
            })
        }
    });
    fetch.into_iter().chain(control).collect()
}

fn base(address: AddressSource, words: &[u64]) -> u64 {
    match address {
        AddressSource::Absolute(address) => address,
        AddressSource::Word { slot, add } => words[usize::from(slot)].wrapping_add(add as u64),
    }
}

/// Where one operand reads or writes: byte sets first, then runs.
fn pieces(operand: &Operand, words: &[u64]) -> Vec<(u64, u32)> {
    let word = |slot: u8| words[usize::from(slot)];
    let base = base(operand.address, words);
    let size = u64::from(operand.size);
    let lane = |first: u8, bytes: u8, i: u8| -> i64 {
        let all: Vec<u8> = words[usize::from(first)..]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let at = usize::from(bytes) * usize::from(i);
        match bytes {
            4 => i64::from(i32::from_le_bytes(
                all[at..at + 4].try_into().expect("4 bytes"),
            )),
            _ => i64::from_le_bytes(all[at..at + 8].try_into().expect("8 bytes")),
        }
    };
    let set = |mask: Mask, i: u8| match mask {
        Mask::Bits(slot) => i < 64 && word(slot) & 1 << i != 0,
        Mask::All => true,
    };
    match operand.extent {
        Extent::Plain => vec![(base, operand.size)],
        Extent::Repeat {
            before,
            after,
            pointer_after,
        } => {
            let elements = word(before).abs_diff(word(after));
            if elements == 0 {
                return Vec::new();
            }
            let bytes = u128::from(elements) * u128::from(size);
            let below = if word(pointer_after) < base {
                u64::try_from(bytes).unwrap_or(u64::MAX) - size
            } else {
                0
            };
            vec![(
                base.wrapping_sub(below),
                u32::try_from(bytes).unwrap_or(u32::MAX),
            )]
        }
        Extent::Indexed {
            index,
            index_size,
            scale,
            count,
            mask,
        } => (0..count)
            .filter(|&i| set(mask, i))
            .map(|i| {
                let offset = (lane(index, index_size, i) as u64).wrapping_mul(u64::from(scale));
                (base.wrapping_add(offset), operand.size)
            })
            .collect(),
        Extent::Masked { count, mask } => {
            let mut runs: Vec<(u64, u32)> = Vec::new();
            for i in (0..count).filter(|&i| set(mask, i)) {
                let address = base.wrapping_add(u64::from(i) * size);
                match runs.last_mut() {
                    Some((start, length)) if start.wrapping_add(u64::from(*length)) == address => {
                        *length += operand.size;
                    }
                    _ => runs.push((address, operand.size)),
                }
            }
            runs
        }
        Extent::Compressed { count, mask } => {
            let elements = (0..count).filter(|&i| set(Mask::Bits(mask), i)).count() as u32;
            if elements == 0 {
                Vec::new()
            } else {
                vec![(base, elements * operand.size)]
            }
        }
        Extent::AnyOf { count, mask } => {
            let any = (0..count).any(|i| set(Mask::Bits(mask), i));
            any.then_some((base, operand.size)).into_iter().collect()
        }
        Extent::Rows { stride, form } => {
            let [low, high, end, first, ..] = word(form).to_le_bytes();
            let size = u32::from(u16::from_le_bytes([low, high]));
            let rows = (first..end).filter(|_| size != 0);
            rows.map(|row| {
                let offset = word(stride).wrapping_mul(u64::from(row));
                (base.wrapping_add(offset), size)
            })
            .collect()
        }
    }
}

/// Words that the superblocks of the model may use.
const SLOTS: u8 = 12;

fn any_operand() -> impl Strategy<Value = Operand> {
    let kind = prop_oneof![Just(AccessKind::Read), Just(AccessKind::Write)];
    let size = prop_oneof![Just(1_u32), Just(4), Just(8), Just(16), Just(64), Just(512)];
    let address = any_address();
    let mask = || {
        prop_oneof![
            3 => (0..SLOTS).prop_map(Mask::Bits),
            1 => Just(Mask::All),
        ]
    };
    let extent = prop_oneof![
        8 => Just(Extent::Plain),
        1 => (0..SLOTS, 0..SLOTS, 0..SLOTS).prop_map(|(before, after, pointer_after)| {
            Extent::Repeat { before, after, pointer_after }
        }),
        1 => (0..SLOTS - 8, prop_oneof![Just(4_u8), Just(8)], 0..4_u32, 1..=8_u8, mask()).prop_map(
            |(index, index_size, scale, count, mask)| {
                Extent::Indexed { index, index_size, scale: 1 << scale, count, mask }
            }
        ),
        1 => (1..=8_u8, mask()).prop_map(|(count, mask)| Extent::Masked { count, mask }),
        1 => (1..=64_u8, 0..SLOTS).prop_map(|(count, mask)| Extent::Compressed { count, mask }),
        1 => (1..=64_u8, 0..SLOTS).prop_map(|(count, mask)| Extent::AnyOf { count, mask }),
        1 => (0..SLOTS, 0..SLOTS).prop_map(|(stride, form)| Extent::Rows { stride, form }),
    ];
    (kind, size, address, extent).prop_map(|(kind, size, address, extent)| Operand {
        kind,
        size,
        address,
        extent,
    })
}

fn any_instruction() -> impl Strategy<Value = AccessingInstruction> {
    let slot = || proptest::option::weighted(0.2, 0..SLOTS);
    (
        any::<u32>(),
        (any::<bool>(), any::<bool>()),
        slot(),
        slot(),
        vec(any_operand(), 0..4),
        (any::<bool>(), proptest::option::weighted(0.2, 1..16_u8)),
        proptest::option::weighted(0.2, any_cache_control()),
    )
        .prop_map(
            |(
                pc,
                (atomic, calls_or_returns),
                ticket,
                cas_success,
                operands,
                (non_temporal, fetched),
                cache_control,
            )| {
                AccessingInstruction {
                    pc: u64::from(pc),
                    atomic,
                    calls_or_returns,
                    non_temporal,
                    fetched,
                    cache_control,
                    ticket,
                    cas_success,
                    operands,
                }
            },
        )
}

fn any_cache_control() -> impl Strategy<Value = CacheControl> {
    let operation = prop::sample::select(&LineOperation::ALL[..]);
    let line = (operation, any_address());
    prop_oneof![
        prop::sample::select(&Fence::ALL[..]).prop_map(CacheControl::Fence),
        line.prop_map(|(operation, address)| CacheControl::Line { operation, address }),
    ]
}

fn any_address() -> impl Strategy<Value = AddressSource> {
    prop_oneof![
        1 => any::<u64>().prop_map(AddressSource::Absolute),
        6 => (0..SLOTS, -4096..4096_i64).prop_map(|(slot, add)| AddressSource::Word { slot, add }),
    ]
}

/// Some superblocks with disjoint path ids.
pub(crate) fn any_superblocks() -> impl Strategy<Value = Vec<Superblock>> {
    let one = (
        any::<u64>(),
        vec(any_instruction(), 0..6),
        1..4_usize,
        0..3000_u32,
    );
    vec(one, 1..8).prop_map(|parts| {
        let mut next_path = 0;
        let mut superblocks = Vec::new();
        for (pc, instructions, exits, gap) in parts {
            let paths = (1..=exits).map(|exit| Path {
                accessing: (instructions.len() * exit / exits) as u16,
                executed: (instructions.len() * exit) as u16 + 1,
                words: SLOTS,
            });
            let paths: Vec<Path> = paths.collect();
            let first_path = PathId(next_path + gap);
            next_path = first_path.0 + paths.len() as u32;
            superblocks.push(Superblock {
                pc,
                first_path,
                instructions,
                paths,
            });
        }
        superblocks
    })
}

fn any_words(at_least: usize) -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![
        0x7fff_0000_0000..0x7fff_0000_1000_u64,
        0x5555_0000_0000..0x5555_0001_0000_u64,
        0..300_u64,
        any::<u64>(),
    ];
    vec(word, at_least..at_least + 3)
}

fn any_notes() -> impl Strategy<Value = Notes> {
    let stamps = vec((0..7_u64, 0..1000_u64), 0..3).prop_map(|mut stamps| {
        stamps.sort_unstable();
        stamps.dedup_by_key(|(instruction, _)| *instruction);
        stamps
    });
    let values = vec((0..6_u64, any::<u8>()), 0..2);
    let some = (stamps, values).prop_map(|(stamps, values)| Notes { stamps, values });
    prop_oneof![6 => Just(Notes::default()), 2 => some]
}

/// An event that does not say that a thread was created.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (any::<u64>(), any::<bool>()).prop_map(|(object, wake)| Event::Synchronisation(
            Synchronisation {
                operation: if wake {
                    SyncOperation::FutexWake
                } else {
                    SyncOperation::FutexWait
                },
                object,
            }
        )),
        (any::<i64>(), ".{0,20}")
            .prop_map(|(number, name)| Event::Thread(ThreadEvent::Registered { number, name })),
        (any::<u32>(), any::<[u64; 6]>()).prop_map(|(number, arguments)| Event::SystemCall(
            SystemCall::Entry { number, arguments }
        )),
        Just(Event::Span(Span::RegionStart)),
    ]
}

/// A record for these superblocks.
fn any_step(superblocks: Vec<Superblock>) -> impl Strategy<Value = Step> {
    let (for_paths, for_partials) = (superblocks.clone(), superblocks.clone());
    let place = || (0..superblocks.len(), any::<prop::sample::Index>());
    let words = || any_words(usize::from(SLOTS));
    let path = (place(), words(), any_notes()).prop_map(move |((superblock, at), words, notes)| {
        let path = at.index(for_paths[superblock].paths.len());
        assert!(words.len() <= MAX_PATH_WORDS);
        Step::Path {
            superblock,
            path,
            words,
            notes,
        }
    });
    let partial =
        (place(), words(), any_notes()).prop_map(move |((superblock, at), words, notes)| {
            let instructions = at.index(for_partials[superblock].instructions.len() + 1);
            Step::Partial {
                superblock,
                instructions,
                words,
                notes,
            }
        });
    let event = (any_event(), proptest::option::of(0..1000_u64));
    let event = event.prop_map(|(event, stamp)| Step::Event(event, stamp));
    prop_oneof![8 => path, 1 => partial, 1 => event]
}

/// A program: its superblocks, and the records of each of its threads.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) order: Order,
    pub(crate) superblocks: Vec<Superblock>,
    pub(crate) threads: Vec<Vec<Step>>,
}

impl Program {
    pub(crate) fn model(&self, thread: usize) -> Modelled {
        model(self.order, &self.superblocks, &self.threads[thread])
    }
}

/// Any program with up to `threads` threads.
pub(crate) fn any_program(threads: usize) -> impl Strategy<Value = Program> {
    let order = (0..4_u8).prop_map(|order| Order::from_u8(order).expect("four orders"));
    (order, any_superblocks()).prop_flat_map(move |(order, superblocks)| {
        let steps = vec(any_step(superblocks.clone()), 0..60);
        (Just(order), Just(superblocks), vec(steps, 1..=threads)).prop_map(
            |(order, superblocks, threads)| Program {
                order,
                superblocks,
                threads,
            },
        )
    })
}

/// A header for tests.
pub(crate) fn header(order: Order) -> TraceHeader {
    TraceHeader {
        order,
        granule: 64,
        program: b"/bin/\xff".to_vec(),
        arguments: vec![b"true".to_vec(), Vec::new()],
        options: vec![("order".to_owned(), order.name().to_owned())],
        process: 42,
        parent_process: Some(7),
        start_unix_ns: 1_700_000_000_000_000_000,
        tool_version: "1".to_owned(),
    }
}
