//! The initial stack, as `create_elf_tables` in `fs/binfmt_elf.c` lays it out. Pure: it is
//! built as bytes for given addresses.
//!
//! From the top (high addresses) down:
//!
//! | what | notes |
//! |---|---|
//! | 8 zero bytes | |
//! | the executed name, environment, arguments | terminated strings; the last is highest |
//! | platform name, 16 random bytes | below a 16-byte boundary |
//! | auxiliary vector | pairs of words, ended by `AT_NULL` |
//! | environment and argument pointers | each ended by a zero word |
//! | argument count | the stack pointer; divisible by 16 |

use std::ffi::{CStr, CString};
use std::ops::Range;

use super::auxv::{AT_NULL, Value};

/// The most that one string may have, with its terminator (`MAX_ARG_STRLEN`).
const MAX_STRING: u64 = 131_072;
/// What is always allowed for all strings and pointers together (`ARG_MAX`).
const ALWAYS_ALLOWED: u64 = 131_072;
/// What is never exceeded: three quarters of the usual stack limit of 8 MiB.
const NEVER_EXCEEDED: u64 = 6 << 20;

/// What goes into the stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackContents<'a> {
    pub(crate) arguments: &'a [CString],
    pub(crate) environment: &'a [CString],
    /// The name that was executed: a script's, not its interpreter's.
    pub(crate) executed_name: &'a CStr,
    pub(crate) platform: Option<&'a [u8]>,
    pub(crate) random: [u8; 16],
    pub(crate) auxv: &'a [(u64, Value)],
}

/// The stack's contents from `pointer` to the top.
#[derive(Debug)]
pub(crate) struct InitialStack {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pointer: u64,
    pub(crate) argument_strings: Range<u64>,
    pub(crate) environment_strings: Range<u64>,
    /// With its end.
    pub(crate) auxv: Vec<(u64, u64)>,
}

/// Arguments and environment exceed what may be passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) size: u64,
    pub(crate) limit: u64,
}

impl StackContents<'_> {
    /// Whether the kernel would pass these strings on, given the stack's soft limit. Gives
    /// the bytes of strings and pointers.
    pub(crate) fn check_size(&self, stack_limit: u64) -> Result<u64, TooLong> {
        let limit = (stack_limit / 4).clamp(ALWAYS_ALLOWED, NEVER_EXCEEDED);
        let mut size = 8 * (self.arguments.len().max(1) + self.environment.len()) as u64;
        for string in self.strings() {
            let length = string.to_bytes_with_nul().len() as u64;
            if length > MAX_STRING {
                return Err(TooLong {
                    size: length,
                    limit: MAX_STRING,
                });
            }
            size = size.saturating_add(length);
        }
        if size > limit {
            Err(TooLong { size, limit })
        } else {
            Ok(size)
        }
    }

    /// In the order of rising addresses.
    fn strings(&self) -> impl Iterator<Item = &CStr> {
        self.arguments
            .iter()
            .chain(self.environment)
            .map(CString::as_c_str)
            .chain([self.executed_name])
    }

    /// Builds the stack that ends at `top`, which is divisible by 16.
    pub(crate) fn build(&self, top: u64) -> InitialStack {
        let strings_size: usize = self
            .strings()
            .map(|string| string.to_bytes_with_nul().len())
            .sum();
        let strings_start = top - 8 - strings_size as u64;
        let platform_size = self.platform.map_or(0, |name| name.len() + 1) as u64;
        let platform_address = (strings_start & !15) - platform_size;
        let random_address = platform_address - 16;
        let words_before_auxv = 1 + self.arguments.len() + 1 + self.environment.len() + 1;
        let words = words_before_auxv + 2 * (self.auxv.len() + 1);
        // The kernel rounds both the start of the words' room and its end.
        let pointer = ((random_address & !15) - 8 * words as u64) & !15;

        let mut bytes = vec![0; (top - pointer) as usize];
        let mut put = |address: u64, source: &[u8]| {
            let start = (address - pointer) as usize;
            bytes[start..start + source.len()].copy_from_slice(source);
        };
        let mut addresses = Vec::with_capacity(self.arguments.len() + self.environment.len() + 1);
        let mut next = strings_start;
        for string in self.strings() {
            addresses.push(next);
            put(next, string.to_bytes_with_nul());
            next += string.to_bytes_with_nul().len() as u64;
        }
        let executed_name_address = addresses[addresses.len() - 1];
        let environment_start = addresses[self.arguments.len()];
        put(platform_address, self.platform.unwrap_or_default());
        put(random_address, &self.random);

        let mut auxv: Vec<(u64, u64)> = self
            .auxv
            .iter()
            .filter(|&&(_, value)| value != Value::Platform || self.platform.is_some())
            .map(|&(key, value)| match value {
                Value::Number(number) => (key, number),
                Value::RandomBytes => (key, random_address),
                Value::Platform => (key, platform_address),
                Value::ExecutedName => (key, executed_name_address),
            })
            .collect();
        auxv.push((AT_NULL, 0));

        let (arguments, rest) = addresses.split_at(self.arguments.len());
        let environment = &rest[..self.environment.len()];
        let mut all_words = vec![self.arguments.len() as u64];
        all_words.extend_from_slice(arguments);
        all_words.push(0);
        all_words.extend_from_slice(environment);
        all_words.push(0);
        all_words.extend(auxv.iter().flat_map(|&(key, value)| [key, value]));
        for (index, word) in all_words.iter().enumerate() {
            put(pointer + 8 * index as u64, &word.to_le_bytes());
        }
        InitialStack {
            bytes,
            pointer,
            argument_strings: strings_start..environment_start,
            environment_strings: environment_start..executed_name_address,
            auxv,
        }
    }
}
