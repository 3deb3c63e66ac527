//! The observed program: runs the cases of a file one after another, and writes how each
//! ended.
//!
//! It knows nothing of who observes it. It is the same executable as the host, called with
//! [`COMMAND`] as its first argument.

mod entry;
mod signals;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, bail, ensure};
use entry::UNSPOOL_FUZZ_EXCHANGE;
use memmap2::{Mmap, MmapMut};
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{CODE_START, CODE_STRIDE, DATA_SIZE, Place};
use crate::place::{BREAKPOINT, returns, with_way_out};
use crate::record::{COMPLETED, CaseRecord, FullState, Header, Outcome, VECTORS_SIZE};

/// The first argument of a runner.
pub const COMMAND: &str = "run-instruction-cases";

/// Where the x87 state is in an XSAVE area.
const X87: [std::ops::Range<usize>; 2] = [0..24, 32..160];
/// Where the components behind the header are that cases start with. What is behind them, such
/// as the rights of protection keys, is the kernel's to set.
const COMPARED: std::ops::Range<usize> = 576..2688;

/// What a runner is asked to do.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The file of cases.
    pub cases: PathBuf,
    /// The file of outcomes, with room for as many.
    pub outcomes: PathBuf,
    /// The file for full states, with room for as many; none if digests are enough.
    pub states: Option<PathBuf>,
    /// Microseconds between two interruptions by a signal; 0 for none.
    pub interrupt_us: i64,
    /// Microseconds of processor time that a case may take, or twice as many.
    pub patience_us: i64,
    /// Where to run: some instructions tell, and must always tell the same.
    pub processor: usize,
}

impl Request {
    /// As arguments, after [`COMMAND`].
    #[must_use]
    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let mut words = vec![
            self.cases.clone().into_os_string(),
            self.outcomes.clone().into_os_string(),
            self.interrupt_us.to_string().into(),
            self.patience_us.to_string().into(),
            self.processor.to_string().into(),
        ];
        words.extend(self.states.clone().map(PathBuf::into_os_string));
        words
    }

    fn parse(mut words: impl Iterator<Item = std::ffi::OsString>) -> Option<Request> {
        Some(Request {
            cases: words.next()?.into(),
            outcomes: words.next()?.into(),
            interrupt_us: words.next()?.to_str()?.parse().ok()?,
            patience_us: words.next()?.to_str()?.parse().ok()?,
            processor: words.next()?.to_str()?.parse().ok()?,
            states: words.next().map(PathBuf::from),
        })
    }
}

/// Runs the cases if this process was called to do that. Otherwise returns.
pub fn run_if_called() {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|word| word != COMMAND) {
        return;
    }
    let result = Request::parse(words)
        .context(
            "a runner takes the file of cases, the file of outcomes, two periods, and a processor",
        )
        .and_then(|request| run(&request));
    if let Err(problem) = result {
        eprintln!("cannot run the cases: {problem:#}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// A file of cases, taken apart.
struct Cases<'a> {
    header: &'a Header,
    vectors: &'a [u8],
    images: &'a [u8],
    cases: &'a [CaseRecord],
}

impl<'a> Cases<'a> {
    fn new(bytes: &'a [u8]) -> Option<Cases<'a>> {
        let (header, rest) = Header::ref_from_prefix(bytes).ok()?;
        let (vectors, rest) = rest.split_at_checked(header.vectors as usize * VECTORS_SIZE)?;
        let (images, rest) = rest.split_at_checked(header.images as usize * DATA_SIZE as usize)?;
        let (cases, _) =
            <[CaseRecord]>::ref_from_prefix_with_elems(rest, header.cases as usize).ok()?;
        Some(Cases {
            header,
            vectors,
            images,
            cases,
        })
    }
}

/// Whether cases can change the rights of protection keys.
fn has_protection_keys() -> bool {
    const ENABLED: u32 = 1 << 4;
    std::arch::x86_64::__cpuid_count(7, 0).ecx & ENABLED != 0
}

/// What the kernel starts processes with: an earlier case may have changed it.
fn reset_protection_keys() {
    // SAFETY: nothing has a key but the first one, which may do everything.
    unsafe {
        std::arch::asm!("wrpkru", in("eax") 0x5555_5554, in("ecx") 0, in("edx") 0, options(nostack));
    }
}

/// Keeps this process on one processor. A refusal only makes some cases unrepeatable.
fn stay_on(processor: usize) {
    // SAFETY: the set is valid.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn run(request: &Request) -> anyhow::Result<()> {
    stay_on(request.processor);
    let has_keys = has_protection_keys();
    let file = File::open(&request.cases)?;
    // SAFETY: nobody changes the file while it is read.
    let bytes = unsafe { Mmap::map(&file)? };
    let cases = Cases::new(&bytes).context("the file of cases is too short")?;
    let mut outcomes = map_for_writing(&request.outcomes)?;
    let outcomes = <[Outcome]>::mut_from_prefix_with_elems(&mut outcomes, cases.cases.len())
        .map_err(|_| anyhow::anyhow!("the file of outcomes is too short"))?
        .0;
    let mut states = request.states.as_deref().map(map_for_writing).transpose()?;
    let mut states = match &mut states {
        None => None,
        Some(map) => Some(
            <[FullState]>::mut_from_prefix_with_elems(map, cases.cases.len())
                .map_err(|_| anyhow::anyhow!("the file of states is too short"))?
                .0,
        ),
    };
    map_data(cases.header.separate != 0)?;
    lay_out_code(&cases)?;
    signals::install(request);
    for (index, case) in cases.cases.iter().enumerate() {
        // What an earlier run in another process has done is kept.
        if case.length == 0 || outcomes[index].status != 0 {
            continue;
        }
        let data = Place::of(case.address).data() as *mut u8;
        prepare(&cases, case, data);
        if has_keys {
            reset_protection_keys();
        }
        let outcome = run_case(index);
        if returns(case) {
            clear_below_stack(data);
            clear_patches(case, data);
        }
        outcomes[index] = summarise(outcome, data);
        if let Some(states) = &mut states {
            keep(&mut states[index], data);
        }
    }
    Ok(())
}

/// Clears the words that were put into the data for the case: the addresses to return to are
/// among them, and the stack may have gone elsewhere since.
fn clear_patches(case: &CaseRecord, data: *mut u8) {
    for [offset, _] in case.patches {
        if offset <= DATA_SIZE - 8 {
            // SAFETY: the word lies in the data.
            unsafe { data.add(offset as usize).cast::<u64>().write_unaligned(0) };
        }
    }
}

/// Clears what lies below the stack pointer, where an observer may leave something else than the
/// addresses that were returned to.
fn clear_below_stack(data: *mut u8) {
    const WORDS: u64 = 16;
    const RSP: usize = 4;
    // SAFETY: the case is over, so that nobody else uses the exchange.
    let end = unsafe { UNSPOOL_FUZZ_EXCHANGE.registers[RSP] };
    for at in (end.wrapping_sub(8 * WORDS)..end).step_by(8) {
        for place in [Place::Near, Place::Far] {
            let offset = at.wrapping_sub(place.data());
            if offset <= DATA_SIZE - 8 {
                // SAFETY: the word lies in the data.
                unsafe { data.add(offset as usize).cast::<u64>().write_unaligned(0) };
            }
        }
    }
}

fn map_for_writing(path: &Path) -> anyhow::Result<MmapMut> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: the host reads the file only when this process has ended.
    Ok(unsafe { MmapMut::map_mut(&file)? })
}

/// Maps the data at both of its places: the same, or private data at each.
fn map_data(separate: bool) -> anyhow::Result<()> {
    let memory = tempfile::tempfile()?;
    memory.set_len(DATA_SIZE)?;
    for place in [Place::Near, Place::Far] {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let shared = (!separate).then_some(&memory);
        map_at(place.data(), DATA_SIZE, protection, shared)?;
    }
    Ok(())
}

fn map_at(address: u64, size: u64, protection: i32, file: Option<&File>) -> anyhow::Result<()> {
    let (flags, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: never replaces an existing mapping.
    let mapped = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            size as usize,
            protection,
            flags | libc::MAP_FIXED_NOREPLACE,
            descriptor,
            0,
        )
    };
    ensure!(
        mapped as u64 == address,
        "cannot map {address:#x}: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Puts the code of all cases where it belongs, each with a jump to the way out behind it.
fn lay_out_code(cases: &Cases) -> anyhow::Result<()> {
    let size = (CODE_STRIDE * (cases.cases.len() as u64 + 2)).next_multiple_of(4096);
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    for place in [Place::Near, Place::Far] {
        let start = place.code();
        map_at(start, size, libc::PROT_READ | libc::PROT_WRITE, None)?;
        // SAFETY: the range was just mapped and is nobody else's.
        let code = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, size as usize) };
        code.fill(BREAKPOINT);
        // jmp [rip + 2]; the address, aligned
        code[..6].copy_from_slice(&[0xff, 0x25, 2, 0, 0, 0]);
        code[8..16].copy_from_slice(&entry::way_out().to_le_bytes());
        for case in cases.cases.iter().filter(|case| case.length != 0) {
            let Some(at) = case.address.checked_sub(start).filter(|at| *at < size) else {
                continue;
            };
            let (at, length) = (at as usize, case.length as usize);
            if case.address % CODE_STRIDE != CODE_START || length > case.code.len() {
                bail!("a case of {length} bytes cannot be at {:#x}", case.address);
            }
            let bytes = with_way_out(case);
            code[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let protection = if cases.header.writable != 0 {
            all
        } else {
            all & !libc::PROT_WRITE
        };
        // SAFETY: the range is ours.
        let result =
            unsafe { libc::mprotect(start as *mut libc::c_void, size as usize, protection) };
        ensure!(result == 0, "cannot make the code executable");
    }
    Ok(())
}

/// Fills the data and the exchange for a case.
fn prepare(cases: &Cases, case: &CaseRecord, data: *mut u8) {
    let image = &cases.images[case.image as usize * DATA_SIZE as usize..][..DATA_SIZE as usize];
    let vectors = &cases.vectors[case.vectors as usize * VECTORS_SIZE..][..VECTORS_SIZE];
    // SAFETY: the data is mapped and belongs to this thread, as the exchange does.
    unsafe {
        data.copy_from_nonoverlapping(image.as_ptr(), image.len());
        for [offset, word] in case.patches {
            if offset <= DATA_SIZE - 8 {
                data.add(offset as usize)
                    .cast::<u64>()
                    .write_unaligned(word);
            }
        }
        let exchange = &raw mut UNSPOOL_FUZZ_EXCHANGE;
        (*exchange).registers = case.registers;
        (*exchange).flags = case.flags;
        (*exchange).thread_pointer = case.thread_pointer;
        (*exchange).target = case.address;
        (*exchange).components = cases.header.components;
        (&raw mut (*exchange).vectors)
            .cast::<u8>()
            .copy_from_nonoverlapping(vectors.as_ptr(), VECTORS_SIZE);
    }
}

fn run_case(index: usize) -> signals::Ending {
    // SAFETY: the exchange is filled; whatever the case does to its registers, its data and
    // the FS base is undone behind it. Cases that reach other memory are not generated.
    unsafe {
        signals::ENDING = signals::NO_ENDING;
        signals::RUNNING.store(index as u64 + 1, Ordering::Relaxed);
        entry::unspool_fuzz_enter();
        signals::RUNNING.store(0, Ordering::Relaxed);
        (&raw const signals::ENDING).read_volatile()
    }
}

/// Digests the state in the exchange.
fn summarise(ending: signals::Ending, data: *const u8) -> Outcome {
    // SAFETY: the case is over, so that nobody else uses the exchange and the data.
    let (exchange, data) = unsafe {
        (
            &*std::ptr::addr_of!(UNSPOOL_FUZZ_EXCHANGE),
            std::slice::from_raw_parts(data, DATA_SIZE as usize),
        )
    };
    let vectors = &exchange.vectors.0;
    let x87 = X87
        .into_iter()
        .fold(0, |sum, range| digest(&vectors[range], sum));
    Outcome {
        status: if ending.status == 0 {
            COMPLETED
        } else {
            ending.status
        },
        signal: ending.signal,
        fault: ending.fault,
        pc: ending.pc,
        flags: exchange.flags,
        thread_pointer: exchange.thread_pointer,
        registers: digest(exchange.registers.as_bytes(), 0),
        x87,
        vectors: digest(
            &vectors[COMPARED],
            digest(&vectors[24..28], digest(&vectors[160..416], 0)),
        ),
        data: digest(data, 0),
    }
}

fn keep(state: &mut FullState, data: *const u8) {
    // SAFETY: as in `summarise`.
    unsafe {
        let exchange = &raw const UNSPOOL_FUZZ_EXCHANGE;
        state.registers = (*exchange).registers;
        state.vectors = (*exchange).vectors.0;
        data.copy_to_nonoverlapping(state.data.as_mut_ptr(), DATA_SIZE as usize);
    }
}

/// A digest of bytes, quick rather than strong.
fn digest(bytes: &[u8], start: u64) -> u64 {
    let mut sum = start ^ 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        sum = (sum ^ u64::from_le_bytes(*word))
            .wrapping_mul(0xff51_afd7_ed55_8ccd)
            .rotate_left(29);
    }
    for byte in rest {
        sum = (sum ^ u64::from(*byte))
            .wrapping_mul(0xff51_afd7_ed55_8ccd)
            .rotate_left(29);
    }
    sum
}
