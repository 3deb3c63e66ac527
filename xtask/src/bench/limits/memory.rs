//! The limit on memory: each program has one of its own, so that all of them are looked at.

use super::verdict::{State, Verdict};
use crate::bench::results::ProgramResult;
use crate::bench::variant::Mode;

/// Memory over native that every program is granted.
const FIXED_BYTES: f64 = 64e6;

/// Memory over native for each byte of machine code that was translated.
const PER_CODE_BYTE: f64 = 10.0;

/// Judges all programs but applications.
pub(super) fn memory(programs: &[ProgramResult]) -> Verdict {
    let (mut missed, mut unknown, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    let mut greatest = None::<(f64, &str)>;
    for program in programs.iter().filter(|program| !program.is_application()) {
        let facts = program
            .column(Mode::TicketFile)
            .and_then(|column| column.last_trace());
        let code = facts.and_then(|facts| facts.translated_code_bytes);
        let buffers = facts.and_then(|facts| facts.buffer_bytes).unwrap_or(0) as f64;
        for mode in [Mode::Run, Mode::TicketDiscard, Mode::TicketFile] {
            let described = format!("{} {}", program.name, mode.name());
            let column = program.column(mode);
            let Some(over) = column.and_then(|column| column.memory_over_native_bytes) else {
                unseen.push(described);
                continue;
            };
            let over = over as f64;
            if greatest.is_none_or(|(most, _)| over > most) {
                greatest = Some((over, program.name));
            }
            let described = format!("{described}: {:.1} MB", over / 1e6);
            let buffers = if mode == Mode::Run { 0.0 } else { buffers };
            match code {
                Some(code) if over > FIXED_BYTES + PER_CODE_BYTE * code as f64 + buffers => {
                    missed.push(described);
                }
                None if over > FIXED_BYTES + buffers => unknown.push(described),
                _ => {}
            }
        }
    }
    let (state, mut measured) = match greatest {
        None => (State::NotMeasured, "nothing that counts".to_owned()),
        Some(_) if !missed.is_empty() => (State::Missed, missed.join(", ")),
        Some(_) if !unknown.is_empty() => {
            let list = unknown.join(", ");
            let why = "but the size of the translated code is not known";
            (State::NotMeasured, format!("{list}, {why}"))
        }
        Some((most, program)) => {
            let figure = format!("greatest {:.1} MB ({program})", most / 1e6);
            (State::Met, figure)
        }
    };
    if greatest.is_some() && !unseen.is_empty() {
        measured.push_str(&format!("; not observed: {}", unseen.join(", ")));
    }
    Verdict {
        limit: "memory over native <= 64 MB + 10 bytes a translated byte + buffers".to_owned(),
        state,
        measured,
    }
}
