//! The calls that a thread is in where its recording begins: as accesses of those calls, which have been
//! made, and which readers follow as they follow all others.

use unspool_engine::thread::Thread;
use unspool_events::AccessKind;
use unspool_events::raw::path_header;
use unspool_events::superblock::{
    AccessingInstruction, AddressSource, Extent, Operand, Path, Superblock,
};
use unspool_instructions::decode::{Kind, MAX_LENGTH, decode};
use unspool_kernel::guarded;
use unspool_unwind::{ImageCode, Module, Registers, Section, Step, Unwinder, from_hardware};

use crate::modules::FileCode;
use crate::trace_buffer::TraceBuffer;

/// Calls that are told at most, the last ones: readers follow no more.
const MOST: usize = 1 << 16;

/// A call that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    /// The instruction.
    pc: u64,
    /// Where it has left its return address.
    place: u64,
}

/// Has the records of a thread, which is outside of translated code, begin with the calls that it is in.
pub(crate) fn record(thread: &Thread, buffer: &mut TraceBuffer) {
    let calls = calls(thread);
    let recording = buffer.recording;
    for &Call { pc, place } in calls.iter().rev() {
        let words = {
            // Under it the ids of paths are given out.
            let _code = thread.process.code();
            if recording.path_ids.are_short() {
                return;
            }
            let first_path = recording.path_ids.next();
            recording.define(&Superblock {
                pc,
                first_path,
                instructions: vec![AccessingInstruction {
                    pc,
                    calls_or_returns: true,
                    operands: vec![Operand {
                        kind: AccessKind::Write,
                        size: 8,
                        address: AddressSource::Absolute(place),
                        extent: Extent::Plain,
                    }],
                    ..AccessingInstruction::default()
                }],
                paths: vec![Path {
                    accessing: 1,
                    executed: 1,
                    words: 0,
                }],
            });
            // As translated code stores it.
            [path_header(first_path, 0) as i32 as u64]
        };
        buffer.append(&words);
    }
}

/// The calls that a thread is in, the last one first.
fn calls(thread: &Thread) -> Vec<Call> {
    let files: Vec<File> = FileCode::all_mapped()
        .iter()
        .filter_map(File::read)
        .collect();
    let mut modules: Vec<Module<'_>> = files.iter().map(File::module).collect();
    modules.sort_by_key(|module| module.range.start);
    let mut registers = Registers::at(thread.pc());
    for number in 0..16 {
        registers.set(from_hardware(number), thread.register(number));
    }
    let mut unwinder = Unwinder::new();
    let mut calls = Vec::new();
    let mut read = guarded::read_word;
    while calls.len() < MOST
        && let Ok(Step::Caller(_)) = unwinder.step(&modules[..], &mut registers, &mut read)
    {
        let Some(stack_pointer) = registers.sp() else {
            break;
        };
        let place = stack_pointer.wrapping_sub(8);
        // Nobody has called what a signal has interrupted, nor what its handler returns to.
        let is_called = guarded::read_word(place) == Some(registers.pc);
        if is_called && !Unwinder::is_signal_return(&modules[..], registers.pc) {
            let pc = call_before(registers.pc);
            calls.push(Call { pc, place });
        }
    }
    calls
}

/// The address of the call that returns to another.
fn call_before(return_address: u64) -> u64 {
    // A direct call is five bytes long; those by a register or memory two to nine.
    const LENGTHS: [u64; 9] = [5, 2, 3, 6, 7, 4, 8, 9, 10];
    let is_call = |&length: &u64| {
        let mut bytes = [0; MAX_LENGTH];
        let from = return_address.wrapping_sub(length);
        let code = &mut bytes[..length as usize];
        guarded::read(from, code)
            && decode(code, from).is_ok_and(|it| {
                let calls = matches!(it.kind, Kind::CallDirect | Kind::CallIndirect);
                calls && u64::from(it.length) == length
            })
    };
    let length = LENGTHS.into_iter().find(is_call).unwrap_or(1);
    return_address.wrapping_sub(length)
}

/// What is known of code of a file that is mapped.
struct File {
    address: u64,
    size: u64,
    bias: u64,
    frames: Option<Copied>,
    header: Option<Copied>,
    functions: Vec<u64>,
}

/// A section, as it is in memory.
struct Copied {
    address: u64,
    bytes: Vec<u8>,
}

impl Copied {
    fn section(&self) -> Section<'_> {
        Section {
            address: self.address,
            bytes: &self.bytes,
        }
    }
}

impl File {
    fn read(code: &FileCode) -> Option<File> {
        let module = unspool_binary::Module::open(&code.path).ok()?;
        let address = unspool_binary::RuntimeAddress(code.address);
        let offset = unspool_binary::FileOffset(code.offset);
        let bias = module.bias_of_mapping(address, offset, true)?.0;
        let copied = |name: &str| {
            let section = module.sections().iter().find(|it| it.name == name)?;
            let address = section.address.0;
            let mut bytes = vec![0; usize::try_from(section.size).ok()?];
            guarded::read(address.wrapping_add(bias), &mut bytes)
                .then_some(Copied { address, bytes })
        };
        let functions = module.functions().map(|function| function.address().0);
        Some(File {
            address: code.address,
            size: code.size,
            bias,
            frames: copied(".eh_frame"),
            header: copied(".eh_frame_hdr"),
            functions: functions.collect(),
        })
    }

    fn module(&self) -> Module<'_> {
        let start = self.address.wrapping_sub(self.bias);
        Module {
            range: self.address..self.address + self.size,
            bias: self.bias,
            frames: self
                .frames
                .as_ref()
                .map_or(Section::default(), Copied::section),
            header: self.header.as_ref().map(Copied::section),
            code: ImageCode::Memory {
                range: start..start + self.size,
                bias: self.bias,
                read: &read_code,
            },
            functions: &self.functions,
        }
    }
}

fn read_code(address: u64, to: &mut [u8]) -> usize {
    match guarded::read(address, to) {
        true => to.len(),
        false => 0,
    }
}
