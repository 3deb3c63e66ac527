//! Filters outlive the program: the next one in the process is under them, too.
//!
//! Observed, it gets them as arguments of the engine, before everything else that is for the
//! engine. Where it runs natively, no engine judges its calls: then the kernel gets the filters
//! once more as they are, because its copies let all calls from high addresses pass.

use std::ffi::{CString, OsString};
use std::sync::Arc;

use unspool_kernel::lock::OnceLock;

use super::install::{ask_kernel, is_permitted};
use crate::seccomp::ARCHITECTURE;
use crate::seccomp::chain::{Filter, InKernel, Rule};
use crate::seccomp::program::{Instruction, MOST_INSTRUCTIONS, Program};
use crate::seccomp::verdict::ALLOW;
use crate::thread::Thread;

/// The first of the arguments that hold filters; how many there are follows.
const FILTERS: &str = "--unspool-filters";

/// What the process was started under.
static INHERITED: OnceLock<Arc<Filter>> = OnceLock::new();

/// The filters of a thread as arguments, the oldest first. None where there are none.
pub(crate) fn encode(thread: &Thread) -> Vec<CString> {
    let Some(newest) = thread.filters.newest() else {
        return Vec::new();
    };
    let mut words: Vec<String> = newest.all().filter_map(encode_one).collect();
    words.push(words.len().to_string());
    words.push(FILTERS.to_owned());
    words.reverse();
    let plain = |word| CString::new(word).expect("digits and letters");
    words.into_iter().map(plain).collect()
}

fn encode_one(filter: &Filter) -> Option<String> {
    use std::fmt::Write;
    let (instructions, _) = filter.program()?;
    let digit = |flag| if flag { '1' } else { '0' };
    let mut word = String::from_iter([
        digit(filter.in_kernel.copy),
        digit(filter.in_kernel.listener),
    ]);
    for instruction in instructions {
        write!(word, "{:016x}", instruction.bits()).expect("a string takes everything");
    }
    Some(word)
}

/// Takes filters from the start of a new engine's arguments. `None`: they are damaged.
pub(crate) fn take(arguments: &mut &[OsString]) -> Option<()> {
    if arguments.first().is_none_or(|first| first != FILTERS) {
        return Some(());
    }
    arguments.split_off_first()?;
    let count: usize = arguments.split_off_first()?.to_str()?.parse().ok()?;
    let mut newest = None;
    for word in arguments.split_off(..count)? {
        newest = Some(Arc::new(decode_one(word.to_str()?, newest)?));
    }
    let _ = INHERITED.set(newest?);
    Some(())
}

fn decode_one(word: &str, earlier: Option<Arc<Filter>>) -> Option<Filter> {
    const DIGITS: usize = 16;
    let (flags, digits) = word.split_at_checked(2)?;
    let in_kernel = InKernel {
        copy: flags.starts_with('1'),
        listener: flags.ends_with('1'),
    };
    let instructions = digits
        .as_bytes()
        .chunks(DIGITS)
        .map(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            let bits = u64::from_str_radix(digits, 16).ok()?;
            Some(Instruction::from_bits(bits))
        })
        .collect::<Option<Box<[Instruction]>>>()?;
    let program = Program::check(&instructions)?;
    let rule = Rule::Program(instructions, program);
    Some(Filter::new(rule, in_kernel, earlier))
}

/// Puts the first thread under what the process was started under.
pub(crate) fn start(thread: &Thread) {
    thread.filters.set(INHERITED.get().cloned());
}

/// Whether this thread's filters can be left to the kernel alone: it must take them, and
/// nobody may have been promised to be asked.
pub(crate) fn can_be_left(thread: &Thread) -> bool {
    let Some(newest) = thread.filters.newest() else {
        return true;
    };
    newest.all().all(|filter| !filter.in_kernel.listener) && is_permitted()
}

/// Leaves this thread's filters to the kernel: from here on they judge the engine's calls as
/// well. Calls of 32-bit code are judged by the copies. Returns the kernel's error.
pub(crate) fn leave_to_kernel(thread: &Thread) -> Result<(), i32> {
    let Some(newest) = thread.filters.newest() else {
        return Ok(());
    };
    let mut filters: Vec<&[Instruction]> = newest
        .all()
        .filter_map(|filter| Some(filter.program()?.0))
        .collect();
    filters.reverse();
    for filter in filters {
        let whole = for_64_bit_code(filter);
        let whole = whole.as_deref().unwrap_or(filter);
        let result = ask_kernel(0, whole);
        if result < 0 {
            return Err(-result as i32);
        }
    }
    Ok(())
}

/// A filter that lets other code pass.
fn for_64_bit_code(filter: &[Instruction]) -> Option<Vec<Instruction>> {
    const LOAD: u16 = 0x20;
    const LOAD_CONSTANT: u16 = 0x00;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ARCHITECTURE_AT: u32 = 4;
    let step = |code, constant, yes| Instruction {
        code,
        yes,
        no: 0,
        constant,
    };
    let mut whole = vec![
        step(LOAD, ARCHITECTURE_AT, 0),
        step(JUMP_IF_EQUAL, ARCHITECTURE, 1),
        step(RETURN, ALLOW, 0),
        step(LOAD_CONSTANT, 0, 0),
    ];
    whole.extend_from_slice(filter);
    (whole.len() <= MOST_INSTRUCTIONS).then_some(whole)
}
