//! A function's instructions and the lines that they are of, with the time that was spent at each.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use rustc_hash::FxHashMap;
use unspool_binary::SourceLine;

use crate::named_paths::NamedPaths;
use crate::text::printable;

/// Instructions without any time that are shown before and behind those with some.
const AROUND: usize = 3;

/// Bytes of the largest source file that is looked into.
const LARGEST_SOURCE: u64 = 64 << 20;

/// The time at an instruction: in itself, and with what was called there.
#[derive(Debug, Clone, Copy, Default)]
struct At {
    self_weight: u64,
    total_weight: u64,
}

impl At {
    fn and(self, other: At) -> At {
        At {
            self_weight: self.self_weight.saturating_add(other.self_weight),
            total_weight: self.total_weight.saturating_add(other.total_weight),
        }
    }
}

impl NamedPaths<'_> {
    /// The code of each function that has this name, as text: its instructions in the order of their
    /// addresses, below the lines of the source that they are of. What was inlined is in its place.
    ///
    /// # Errors
    /// If no sample was in such a function, or none of its code can be read.
    pub fn annotate(&self, function: &str) -> Result<String, String> {
        let mut codes: Vec<(u32, Range<u64>)> = Vec::new();
        for (&number, frame) in &self.recording.frames {
            let is_it = self
                .frame(number)
                .functions
                .first()
                .is_some_and(|name| name == function);
            let code = is_it.then(|| self.names.code_of(frame)).flatten();
            if let (Some(image), Some(code)) = (frame.image, code)
                && !codes.contains(&(image, code.clone()))
            {
                codes.push((image, code));
            }
        }
        codes.sort_by_key(|(image, code)| (*image, code.start));
        let mut text = String::new();
        let mut sources = Sources::default();
        for (image, code) in codes {
            let Some((bytes, lines)) = self.names.instructions_of(image, &code) else {
                continue;
            };
            let times = self.times(image, &code);
            let file = self
                .recording
                .images
                .get(&image)
                .map_or("", |image| &image.path);
            let (start, end) = (code.start, code.end);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{function} in {file}, {start:#x} to {end:#x}");
            let _ = self.write_code(&mut text, (&bytes, start), (&times, &lines), &mut sources);
        }
        match text.is_empty() {
            false => Ok(text),
            true => Err(format!(
                "no sample was in a function {function} whose code can be read"
            )),
        }
    }

    fn write_code(
        &self,
        out: &mut String,
        (bytes, start): (&[u8], u64),
        (times, lines): (&BTreeMap<u64, At>, &dyn Fn(u64) -> Option<SourceLine>),
        sources: &mut Sources,
    ) -> std::fmt::Result {
        let all_ns: u64 = self.recording.samples.iter().map(|it| it.weight).sum();
        let percent = |ns: u64| format!("{:>6.1} %", 100.0 * ns as f64 / all_ns.max(1) as f64);
        let decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let instructions: Vec<_> = decoder.into_iter().collect();
        // A caller's address is that before the one to which the call returns.
        let time_in = |instruction: &Instruction| {
            let within = times.range(instruction.ip()..instruction.next_ip().max(instruction.ip()));
            within.map(|(_, at)| *at).reduce(At::and)
        };
        let has_time = |place: &usize| time_in(&instructions[*place]).is_some();
        let with_time = (0..instructions.len()).filter(has_time);
        let mut is_shown = vec![false; instructions.len()];
        for place in with_time {
            let first = place.saturating_sub(AROUND);
            let end = (place + AROUND + 1).min(instructions.len());
            is_shown[first..end].fill(true);
        }
        writeln!(out, "    self   total")?;
        let (mut last, mut is_left_out) = (None, false);
        for (instruction, is_shown) in instructions.iter().zip(is_shown) {
            if !is_shown {
                if !std::mem::replace(&mut is_left_out, true) {
                    writeln!(out, "                   …")?;
                }
                continue;
            }
            is_left_out = false;
            let line = lines(instruction.ip());
            if line != last {
                if let Some(line) = &line {
                    let text = sources.line(line).unwrap_or_default();
                    writeln!(out, "                   {line}  {text}")?;
                }
                last = line;
            }
            let [own, all] = match time_in(instruction) {
                Some(at) => [at.self_weight, at.total_weight].map(percent),
                None => [const { String::new() }; 2],
            };
            writeln!(
                out,
                "{own:>8} {all:>8}  {:>12x}  {instruction}",
                instruction.ip()
            )?;
        }
        Ok(())
    }

    /// The time at each address of some code.
    fn times(&self, image: u32, code: &Range<u64>) -> BTreeMap<u64, At> {
        let mut times: BTreeMap<u64, At> = BTreeMap::new();
        for sample in &self.recording.samples {
            let mut seen = Vec::new();
            for (depth, number) in self.frames(sample).into_iter().enumerate() {
                let frame = &self.recording.frames[&number];
                let address = frame.address;
                if frame.image != Some(image) || !code.contains(&address) {
                    continue;
                }
                let at = times.entry(address).or_default();
                if depth == 0 {
                    at.self_weight = at.self_weight.saturating_add(sample.weight);
                }
                // Where a function calls itself, once.
                if !seen.contains(&address) {
                    seen.push(address);
                    at.total_weight = at.total_weight.saturating_add(sample.weight);
                }
            }
        }
        times
    }
}

/// The lines of source files, as far as those are there.
#[derive(Default)]
struct Sources(FxHashMap<String, Option<Vec<String>>>);

impl Sources {
    fn line(&mut self, line: &SourceLine) -> Option<String> {
        let read = || {
            // Debugging information can name anything.
            let facts = std::fs::metadata(&line.file).ok()?;
            if !facts.is_file() || facts.len() > LARGEST_SOURCE {
                return None;
            }
            let bytes = std::fs::read(&line.file).ok()?;
            let text = String::from_utf8_lossy(&bytes);
            Some(text.lines().map(printable).collect())
        };
        let lines = self
            .0
            .entry(line.file.clone())
            .or_insert_with(read)
            .as_ref()?;
        let place = usize::try_from(line.line).ok()?.checked_sub(1)?;
        lines.get(place).cloned()
    }
}
