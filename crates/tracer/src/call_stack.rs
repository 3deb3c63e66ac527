//! The calls that a thread is in where its recording begins: as accesses of those calls, which have been
//! made, and which readers follow as they follow all others.

use std::ops::Range;

use unspool_binary::{FileOffset, FrameInformation, LoadedBytes, RuntimeAddress};
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
    range: Range<u64>,
    bias: u64,
    information: FrameInformation,
    functions: Vec<u64>,
}

impl File {
    fn read(code: &FileCode) -> Option<File> {
        let module = unspool_binary::Module::open(&code.path).ok()?;
        let (address, offset) = (RuntimeAddress(code.address), FileOffset(code.offset));
        let functions = module.functions().map(|function| function.address().0);
        Some(File {
            range: code.address..code.address + code.size,
            bias: module.bias_of_mapping(address, offset, true)?.0,
            information: FrameInformation::open(&code.path).unwrap_or_default(),
            functions: functions.collect(),
        })
    }

    fn module(&self) -> Module<'_> {
        let FrameInformation {
            header,
            frames,
            code,
        } = &self.information;
        let Range { start, end } = self.range;
        let (start, end) = (start.wrapping_sub(self.bias), end.wrapping_sub(self.bias));
        let mut code = code.iter().map(section);
        // What is mapped begins and ends with whole pages.
        let code = code.find(|code| code.address < end && start < code.end());
        Module {
            range: self.range.clone(),
            bias: self.bias,
            frames: section(frames),
            header: header.as_ref().map(section),
            code: ImageCode::Bytes(code.unwrap_or_default()),
            functions: &self.functions,
        }
    }
}

fn section(loaded: &LoadedBytes) -> Section<'_> {
    Section {
        address: loaded.address.0,
        bytes: &loaded.bytes,
    }
}
