//! Describes a case that differs.

use std::fmt::Write;

use iced_x86::{Formatter, GasFormatter};

use crate::case::{Case, REGISTER_NAMES};
use crate::compare::Part;
use crate::execute::Executor;
use crate::place::{decode, place};
use crate::record::{COMPLETED, DIED, FullState, HUNG, Outcome, SIGNALLED};
use crate::ways::Way;

/// Runs the case once more and says what is different.
///
/// # Errors
/// If a runner cannot be started.
pub fn describe(
    executor: &Executor,
    case: &Case,
    way: &Way,
    writable: bool,
    parts: &[Part],
    last_words: Option<&str>,
) -> anyhow::Result<String> {
    let batch = executor.batch(std::slice::from_ref(case), writable)?;
    let (native, native_states) = batch.run_fully(&Way::native())?;
    let (observed, observed_states) = batch.run_fully(way)?;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {parts:?}{}",
        way.name,
        if writable { " (code is writable)" } else { "" }
    );
    let _ = writeln!(text, "{case}");
    text.push_str(&disassembly(case));
    let _ = writeln!(text, "  native:   {}", ending(&native.outcomes[0]));
    let _ = writeln!(text, "  observed: {}", ending(&observed.outcomes[0]));
    let said = observed
        .last_words
        .first()
        .map(|(_, said)| said.as_str())
        .or(last_words);
    if let Some(said) = said {
        let _ = writeln!(text, "  it said: {said}");
    }
    if observed.outcomes[0].status != DIED {
        list_differences(&mut text, &native_states[0], &observed_states[0]);
    }
    Ok(text)
}

/// The instructions of a case, one on each line.
#[must_use]
pub fn disassembly(case: &Case) -> String {
    let record = place(case, 0);
    let mut formatter = GasFormatter::new();
    let mut text = String::new();
    let mut at = record.address;
    for bytes in &case.instructions {
        let start = (at - record.address) as usize;
        let (instruction, _) = decode(&record.code[start..start + bytes.len()], at);
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        let bytes_text: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "    {at:x}  {:<30} {line}", bytes_text.join(" "));
        at += bytes.len() as u64;
    }
    text
}

/// The names of a case's instructions.
#[must_use]
pub fn mnemonics(case: &Case) -> String {
    let names: Vec<String> = case
        .instructions
        .iter()
        .map(|bytes| format!("{:?}", decode(bytes, case.place.home()).0.mnemonic()))
        .collect();
    names.join(" ")
}

fn ending(outcome: &Outcome) -> String {
    let [signal, code, address] = outcome.signal;
    let [error, trap, cr2] = outcome.fault;
    match outcome.status {
        COMPLETED => format!(
            "completed, flags {:x}, fs {:x}",
            outcome.flags, outcome.thread_pointer
        ),
        SIGNALLED => format!(
            "signal {signal} code {} address {address:x} trap {trap} error {error:x} cr2 {cr2:x} \
             at {:x}, flags {:x}, fs {:x}",
            code as i32, outcome.pc, outcome.flags, outcome.thread_pointer
        ),
        HUNG => "did not end".to_owned(),
        DIED => "the runner died".to_owned(),
        status => format!("status {status}"),
    }
}

fn list_differences(text: &mut String, native: &FullState, observed: &FullState) {
    for (name, (left, right)) in REGISTER_NAMES
        .iter()
        .zip(native.registers.iter().zip(&observed.registers))
    {
        if left != right {
            let _ = writeln!(text, "  {name}: {left:x} natively, {right:x} observed");
        }
    }
    list_bytes(text, "xsave area", &native.vectors, &observed.vectors);
    list_bytes(text, "data", &native.data, &observed.data);
}

fn list_bytes(text: &mut String, name: &str, native: &[u8], observed: &[u8]) {
    const LIMIT: usize = 6;
    let different = (0..native.len() / 8)
        .map(|word| word * 8..word * 8 + 8)
        .filter(|range| native[range.clone()] != observed[range.clone()]);
    for (count, range) in different.enumerate() {
        if count == LIMIT {
            let _ = writeln!(text, "  {name}: and more");
            return;
        }
        let _ = writeln!(
            text,
            "  {name}+{:x}: {:02x?} natively, {:02x?} observed",
            range.start,
            &native[range.clone()],
            &observed[range.clone()]
        );
    }
}
