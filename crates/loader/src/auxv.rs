//! The auxiliary vector: what the kernel tells a new program about itself and the machine.
//!
//! What describes the machine is copied from our own vector, in its order, so that entries
//! of future kernels are passed on; what describes the program is replaced.

use std::ffi::CStr;
use std::io;

/// `AT_NULL`: the end.
pub(crate) const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_EXECFD: u64 = 2;
pub(crate) const AT_PHDR: u64 = 3;
pub(crate) const AT_PHENT: u64 = 4;
pub(crate) const AT_PHNUM: u64 = 5;
pub(crate) const AT_BASE: u64 = 7;
pub(crate) const AT_FLAGS: u64 = 8;
pub(crate) const AT_ENTRY: u64 = 9;
const AT_UID: u64 = 11;
const AT_EUID: u64 = 12;
const AT_GID: u64 = 13;
const AT_EGID: u64 = 14;
pub(crate) const AT_PLATFORM: u64 = 15;
const AT_SECURE: u64 = 23;
const AT_BASE_PLATFORM: u64 = 24;
pub(crate) const AT_RANDOM: u64 = 25;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;
pub(crate) const AT_EXECFN: u64 = 31;
pub(crate) const AT_SYSINFO_EHDR: u64 = 33;

const PR_GET_AUXV: i32 = 0x4155_5856;

/// A value, or what the stack builder puts into the stack and points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    RandomBytes,
    Platform,
    ExecutedName,
}

/// The entries that describe the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramFacts {
    pub(crate) program_headers: u64,
    pub(crate) program_header_size: u64,
    pub(crate) program_header_count: u64,
    pub(crate) interpreter_base: u64,
    pub(crate) entry: u64,
    /// Where the vdso is; none to show none.
    pub(crate) vdso: Option<u64>,
}

/// The vector that the kernel gave to this process, without its end.
///
/// `getauxval` would not do: the C library changes some of the values.
pub(crate) fn own_auxv() -> io::Result<Vec<(u64, u64)>> {
    let mut words = [0_u64; 128];
    // SAFETY: the kernel writes at most as many bytes as the array has.
    let size = unsafe {
        libc::prctl(
            PR_GET_AUXV,
            words.as_mut_ptr(),
            size_of_val(&words),
            0_usize,
            0_usize,
        )
    };
    if size > 0 {
        return Ok(pairs(&words));
    }
    // Kernels before 6.4.
    let bytes = std::fs::read("/proc/self/auxv")?;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()))
        .collect();
    Ok(pairs(&words))
}

fn pairs(words: &[u64]) -> Vec<(u64, u64)> {
    words
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .take_while(|&(key, _)| key != AT_NULL)
        .collect()
}

/// The platform's name, such as `x86_64`, if our own vector has it.
pub(crate) fn own_platform(own: &[(u64, u64)]) -> Option<Vec<u8>> {
    let &(_, address) = own
        .iter()
        .find(|&&(key, address)| key == AT_PLATFORM && address != 0)?;
    // SAFETY: the kernel put a terminated string there, at the top of our own stack, where
    // nothing changes it.
    let name = unsafe { CStr::from_ptr(address as *const libc::c_char) };
    Some(name.to_bytes().to_vec())
}

/// The program's vector, without its end.
pub(crate) fn program_auxv(own: &[(u64, u64)], facts: &ProgramFacts) -> Vec<(u64, Value)> {
    // SAFETY: these four calls only return numbers.
    let (uid, euid, gid, egid) = unsafe {
        (
            libc::getuid(),
            libc::geteuid(),
            libc::getgid(),
            libc::getegid(),
        )
    };
    let replaced = [
        (AT_SYSINFO_EHDR, Value::Number(facts.vdso.unwrap_or(0))),
        (AT_PHDR, Value::Number(facts.program_headers)),
        (AT_PHENT, Value::Number(facts.program_header_size)),
        (AT_PHNUM, Value::Number(facts.program_header_count)),
        (AT_BASE, Value::Number(facts.interpreter_base)),
        (AT_FLAGS, Value::Number(0)),
        (AT_ENTRY, Value::Number(facts.entry)),
        (AT_UID, Value::Number(u64::from(uid))),
        (AT_EUID, Value::Number(u64::from(euid))),
        (AT_GID, Value::Number(u64::from(gid))),
        (AT_EGID, Value::Number(u64::from(egid))),
        (AT_SECURE, Value::Number(0)),
        (AT_RANDOM, Value::RandomBytes),
        (AT_EXECFN, Value::ExecutedName),
        (AT_PLATFORM, Value::Platform),
    ];
    // A registration of restartable sequences is refused, so there is nothing to announce.
    let mut dropped = vec![
        AT_IGNORE,
        AT_EXECFD,
        AT_BASE_PLATFORM,
        AT_RSEQ_FEATURE_SIZE,
        AT_RSEQ_ALIGN,
    ];
    if facts.vdso.is_none() {
        dropped.push(AT_SYSINFO_EHDR);
    }
    let replacement = |key| replaced.iter().find(|&&(other, _)| other == key);
    let mut entries: Vec<(u64, Value)> = own
        .iter()
        .filter(|(key, _)| !dropped.contains(key))
        .map(|&(key, value)| {
            replacement(key)
                .copied()
                .unwrap_or((key, Value::Number(value)))
        })
        .collect();
    for &(key, value) in &replaced {
        if !dropped.contains(&key) && !entries.iter().any(|&(other, _)| other == key) {
            entries.push((key, value));
        }
    }
    entries
}
