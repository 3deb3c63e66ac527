//! A case, and the line of text that replays it.
//!
//! ```text
//! near 4801c8 0f92c3; rax=1 rcx=30000040; flags=cd7; vectors=3; image=1; patch 40=28000260
//! ```
//!
//! All numbers are hexadecimal. What is not mentioned is zero.

use std::fmt;

use crate::layout::{CODE_LIMIT, Place};
use crate::record::PATCH_LIMIT;

/// Names of the general registers by their numbers.
pub const REGISTER_NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// A few instructions and the state that they start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Where code and data are.
    pub place: Place,
    /// The instructions, as they are at the place's home.
    pub instructions: Vec<Vec<u8>>,
    /// The general registers. A value that is an address in the code names that place in it.
    pub registers: [u64; 16],
    /// The flags.
    pub flags: u64,
    /// Which vector state.
    pub vectors: u64,
    /// Which memory image.
    pub image: u64,
    /// Words to put into the memory after that: offset in the data, and value.
    pub patches: Vec<(u64, u64)>,
}

impl Case {
    /// Bytes of code.
    #[must_use]
    pub fn length(&self) -> usize {
        self.instructions.iter().map(Vec::len).sum()
    }

    /// Reads many lines. Empty ones and those that start with `#` are skipped.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse_all(text: &str) -> Result<Vec<Case>, String> {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(Case::parse)
            .collect()
    }

    /// Reads a line.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(line: &str) -> Result<Case, String> {
        let mut parts = line.split(';').map(str::trim);
        let mut code = parts.next().unwrap_or_default().split_whitespace();
        let place = match code.next() {
            Some("near") => Place::Near,
            Some("far") => Place::Far,
            _ => return Err(format!("`{line}` starts with neither near nor far")),
        };
        let mut case = Case {
            place,
            instructions: code.map(parse_bytes).collect::<Result<_, _>>()?,
            registers: [0; 16],
            flags: 0,
            vectors: 0,
            image: 0,
            patches: Vec::new(),
        };
        for part in parts {
            case.parse_state(part)?;
        }
        if case.length() > CODE_LIMIT || case.patches.len() > PATCH_LIMIT {
            return Err(format!("`{line}` is too large"));
        }
        Ok(case)
    }

    fn parse_state(&mut self, part: &str) -> Result<(), String> {
        if let Some(patch) = part.strip_prefix("patch ") {
            let (offset, value) = parse_setting(patch)?;
            let offset = parse_number(offset)?;
            self.patches.push((offset, value));
            return Ok(());
        }
        for setting in part.split_whitespace() {
            let (name, value) = parse_setting(setting)?;
            match name {
                "flags" => self.flags = value,
                "vectors" => self.vectors = value,
                "image" => self.image = value,
                _ => {
                    let number = REGISTER_NAMES
                        .iter()
                        .position(|register| *register == name)
                        .ok_or_else(|| format!("`{name}` is no part of a case"))?;
                    self.registers[number] = value;
                }
            }
        }
        Ok(())
    }
}

fn parse_setting(setting: &str) -> Result<(&str, u64), String> {
    let (name, value) = setting
        .split_once('=')
        .ok_or_else(|| format!("`{setting}` has no value"))?;
    Ok((name, parse_number(value)?))
}

fn parse_number(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| format!("`{text}` is not a hexadecimal number"))
}

fn parse_bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => Ok(digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => Err(format!("`{text}` is not a string of bytes")),
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.place {
            Place::Near => "near",
            Place::Far => "far",
        })?;
        for instruction in &self.instructions {
            formatter.write_str(" ")?;
            for byte in instruction {
                write!(formatter, "{byte:02x}")?;
            }
        }
        let mut separator = "; ";
        for (name, value) in REGISTER_NAMES.iter().zip(self.registers) {
            if value != 0 {
                write!(formatter, "{separator}{name}={value:x}")?;
                separator = " ";
            }
        }
        for (name, value) in [
            ("flags", self.flags),
            ("vectors", self.vectors),
            ("image", self.image),
        ] {
            if value != 0 {
                write!(formatter, "; {name}={value:x}")?;
            }
        }
        for (offset, value) in &self.patches {
            write!(formatter, "; patch {offset:x}={value:x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_survives() {
        let line = "far 4801c8 0f92c3; rax=1 r15=ffffffffffffffff; flags=cd7; vectors=3; \
                    image=1; patch 40=28000260";
        assert_eq!(Case::parse(line).unwrap().to_string(), line);
        assert_eq!(Case::parse("near 90").unwrap().to_string(), "near 90");
    }

    #[test]
    fn mistakes_are_named() {
        for (line, mistake) in [
            ("there 90", "neither near nor far"),
            ("near 9", "`9`"),
            ("near 90; rxx=1", "`rxx`"),
            ("near 90; rax=x", "`x`"),
            ("near 90; rax", "no value"),
        ] {
            let problem = Case::parse(line).unwrap_err();
            assert!(problem.contains(mistake), "{problem}");
        }
    }
}
