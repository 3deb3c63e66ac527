//! Verify mode: the values of accesses, so that an order can be checked by replaying them.

use unspool_events::AccessKind;
use unspool_events::raw::{MAX_PATH_WORDS, SpecialKind, special_header};
use unspool_events::superblock::{AccessingInstruction, AddressSource, Extent, Operand};

use super::Tracer;
use crate::cache::Exit;
use crate::guarded;
use crate::thread::Thread;

/// A place in the code where values are taken.
#[derive(Debug, Clone)]
pub(super) struct ValueService {
    /// Number of the accessing instruction in its superblock.
    ordinal: usize,
    operands: Vec<Operand>,
    /// Whether the instruction has been executed.
    after: bool,
    /// The instruction transfers control, so this is the last chance; what it pushes.
    pushed: Option<u64>,
}

impl Tracer {
    /// Adds a place; returns its number.
    pub(crate) fn add_value_service(
        &self,
        ordinal: usize,
        instruction: &AccessingInstruction,
        after: bool,
        pushed: Option<u64>,
    ) -> u32 {
        let mut services = self.value_services.lock();
        services.push(ValueService {
            ordinal,
            operands: instruction.operands.clone(),
            after,
            pushed,
        });
        services.len() as u32 - 1
    }
}

/// Takes values: those read before the instruction, those written after it; then puts a
/// values record before the record in the making.
pub(super) fn serve(tracer: &Tracer, thread: &mut Thread, exit: &Exit) {
    let service = tracer.value_services.lock()[exit.detail as usize].clone();
    let register = exit.warmth.buffer();
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let Some(trace) = (unsafe { thread.trace.as_mut() }) else {
        return;
    };
    let start = thread.register(register);
    let mut words = Vec::new();
    if !service.after {
        trace.values.clear();
    }
    let wanted = if service.after {
        AccessKind::Write
    } else {
        AccessKind::Read
    };
    for operand in service
        .operands
        .iter()
        .filter(|operand| operand.extent == Extent::Plain)
    {
        if operand.kind == wanted {
            take(&mut words, operand, start);
        } else if let (Some(pushed), AccessKind::Write) = (service.pushed, operand.kind) {
            words.push(pushed);
        }
    }
    if !service.after {
        trace.values = words;
        if service.pushed.is_none() {
            return;
        }
        words = Vec::new();
    }
    // Reads stand before writes in an instruction's operands.
    let mut payload = std::mem::take(&mut trace.values);
    payload.extend(words);
    let mut record = vec![special_header(
        SpecialKind::Values,
        service.ordinal as u64,
        payload.len(),
    )];
    record.extend(payload);
    let moved = trace.insert_before(start, MAX_PATH_WORDS as u64, &record);
    thread.set_register(register, moved);
}

fn take(words: &mut Vec<u64>, operand: &Operand, record: u64) {
    let address = match operand.address {
        AddressSource::Absolute(address) => address,
        AddressSource::Word { slot, add } => {
            let word = guarded::read_word(record + 8 * (u64::from(slot) + 1)).unwrap_or(0);
            word.wrapping_add(add as u64)
        }
    };
    let mut bytes = vec![0; (operand.size as usize).next_multiple_of(8)];
    // An operand that cannot be read faults in the program, and its record is never finished.
    let _ = guarded::read(address, &mut bytes[..operand.size as usize]);
    words.extend(
        bytes
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))),
    );
}
