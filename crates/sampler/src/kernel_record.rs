//! What the kernel says: records of `perf_event_open(2)`, as they are asked for in
//! [`crate::perf_event`]; and what the library in a program says, which writes the same.

use unspool_container::bytes::{ByteReader, Malformed};
use unspool_sample_slots::MAPS;
use unspool_unwind::{RBP, RBX, RSP, Registers};

use crate::perf_event::REGISTERS;

/// Kinds of records.
pub(crate) const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
pub(crate) const SAMPLE: u32 = 9;
pub(crate) const MMAP2: u32 = 10;
const SWITCH: u32 = 14;

/// Bits of a record's header: where the processor was; that a name is that of a new program; that a
/// thread leaves its processor, and that it would rather have stayed.
const PROCESSOR_MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const IS_EXECUTION: u16 = 1 << 13;
const LEAVES: u16 = 1 << 13;
const IS_PREEMPTED: u16 = 1 << 14;

const PROT_EXEC: u32 = 4;

/// DWARF's numbers of the general registers that the kernel numbers first: rax, rbx, rcx, rdx, rsi, rdi,
/// rbp, rsp.
const FIRST_REGISTERS: [u8; 8] = [0, RBX, 2, 1, 4, 5, RBP, RSP];
/// The kernel's numbers of rip and r8.
const RIP: usize = 8;
const R8: usize = 16;

/// A record with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelRecord {
    pub(crate) time_ns: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A thread was found somewhere.
    Sampled(Sampled),
    /// An event has happened there: which one, by the number of who asked for it.
    Occurred(u32, Sampled),
    /// A thread was there when it was about to leave its processor.
    Leaving(Sampled),
    /// It left; if it was not preempted it waits for something.
    Left { is_preempted: bool },
    /// It has a processor again.
    Entered,
    /// Code was mapped.
    Mapped {
        start: u64,
        length: u64,
        offset: u64,
        path: Vec<u8>,
    },
    /// A thread has a name; perhaps because its process executes another program.
    Named { name: Vec<u8>, is_execution: bool },
    /// A thread was started by a thread of `parent`.
    Started { parent: u32 },
    /// The ring was full.
    Lost(u64),
    /// What a process has mapped, as `/proc/PID/maps` has it; perhaps a part of that.
    Mappings(Vec<u8>),
}

/// What a sample says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) is_in_kernel: bool,
    pub(crate) weight: u64,
    /// The registers of the program; none where it had none.
    pub(crate) registers: Option<Registers>,
    /// The upper part of the stack, from the stack pointer on.
    pub(crate) stack: Vec<u8>,
    /// Whether there is more of it.
    pub(crate) is_cut_off: bool,
    /// The frames, where somebody else has found them: the address of the innermost, then where each
    /// returns to.
    pub(crate) frames: Vec<u64>,
}

/// Whether the processor was in the kernel, by the bits of a record's header.
pub(crate) fn is_in_kernel(bits: u16) -> bool {
    bits & PROCESSOR_MODE == MODE_KERNEL
}

impl KernelRecord {
    /// By time; of one time, what is mapped comes first.
    pub(crate) fn order(&self) -> (u64, bool) {
        (self.time_ns, !matches!(self.what, What::Mappings(_)))
    }

    /// The same, of an event by which threads leave their processors.
    pub(crate) fn read_of_waits(bytes: &[u8]) -> Result<Option<KernelRecord>, Malformed> {
        let read = KernelRecord::read(bytes)?;
        Ok(read.map(|record| KernelRecord {
            what: match record.what {
                What::Sampled(sampled) => What::Leaving(sampled),
                what => what,
            },
            ..record
        }))
    }

    /// The same, of a ring that several events share, whose records say of which one they are. Gives its
    /// identifier. Samples of those that have a fixed period do not say it.
    pub(crate) fn read_identified(
        bytes: &[u8],
        fixed_period: impl Fn(u64) -> Option<u64>,
    ) -> Result<Option<(u64, KernelRecord)>, Malformed> {
        const START: usize = 8;
        let (start, rest) = bytes.split_at_checked(START).ok_or(Malformed)?;
        let is_sample = start.starts_with(&SAMPLE.to_le_bytes());
        let (identifier, rest) = match is_sample {
            true => rest.split_at_checked(8).ok_or(Malformed)?,
            false => {
                let before = rest.len().checked_sub(8).ok_or(Malformed)?;
                let (rest, identifier) = rest.split_at(before);
                (identifier, rest)
            }
        };
        let identifier = ByteReader::new(identifier).u64()?;
        let read = KernelRecord::read_parts(start, rest, fixed_period(identifier))?;
        Ok(read.map(|record| (identifier, record)))
    }

    /// Reads a record; none for kinds that say nothing of interest.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<KernelRecord>, Malformed> {
        KernelRecord::read_parts(bytes, bytes.get(8..).ok_or(Malformed)?, None)
    }

    /// Reads a record whose header is at the start of some bytes; its rest is others.
    fn read_parts(
        header: &[u8],
        rest: &[u8],
        period: Option<u64>,
    ) -> Result<Option<KernelRecord>, Malformed> {
        let mut header = ByteReader::new(header);
        let kind = header.u32()?;
        let bits = header.u16()?;
        let mut reader = ByteReader::new(rest);
        if kind == SAMPLE {
            return sample(&mut reader, bits, period).map(Some);
        }
        // Behind all others stands whose they are, and when.
        let body = reader.remaining().checked_sub(16).ok_or(Malformed)?;
        let body = reader.take(body)?;
        let thread = (reader.u32()?, reader.u32()?);
        let time_ns = reader.u64()?;
        let what = KernelRecord::what(kind, bits, thread, body)?;
        Ok(what.map(|(pid, tid, what)| KernelRecord {
            time_ns,
            pid,
            tid,
            what,
        }))
    }

    /// What a record says that is no sample, and of which process and thread; `thread` is that of whoever
    /// wrote it.
    pub(crate) fn what(
        kind: u32,
        bits: u16,
        thread: (u32, u32),
        body: &[u8],
    ) -> Result<Option<(u32, u32, What)>, Malformed> {
        let mut body = ByteReader::new(body);
        let (mut pid, mut tid) = thread;
        let what = match kind {
            MMAP2 => {
                (pid, tid) = (body.u32()?, body.u32()?);
                let (start, length, offset) = (body.u64()?, body.u64()?, body.u64()?);
                // The file's device, number and generation.
                body.take(24)?;
                let protection = body.u32()?;
                body.take(4)?;
                if protection & PROT_EXEC == 0 {
                    return Ok(None);
                }
                What::Mapped {
                    start,
                    length,
                    offset,
                    path: text(body.take(body.remaining())?),
                }
            }
            COMM => {
                (pid, tid) = (body.u32()?, body.u32()?);
                What::Named {
                    name: text(body.take(body.remaining())?),
                    is_execution: bits & IS_EXECUTION != 0,
                }
            }
            FORK => {
                pid = body.u32()?;
                let parent = body.u32()?;
                tid = body.u32()?;
                What::Started { parent }
            }
            LOST => {
                body.u64()?;
                What::Lost(body.u64()?)
            }
            SWITCH if bits & LEAVES == 0 => What::Entered,
            SWITCH => What::Left {
                is_preempted: bits & IS_PREEMPTED != 0,
            },
            MAPS => What::Mappings(body.take(body.remaining())?.to_vec()),
            _ => return Ok(None),
        };
        Ok(Some((pid, tid, what)))
    }
}

/// A text up to its first zero.
pub(crate) fn text(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.split(|&byte| byte == 0).next();
    text.unwrap_or_default().to_vec()
}

fn sample(
    reader: &mut ByteReader<'_>,
    bits: u16,
    period: Option<u64>,
) -> Result<KernelRecord, Malformed> {
    let _where_interrupted = reader.u64()?;
    let (pid, tid) = (reader.u32()?, reader.u32()?);
    let time_ns = reader.u64()?;
    let weight = match period {
        Some(period) => period,
        None => reader.u64()?,
    };
    let has_registers = reader.u64()? != 0;
    let registers = match has_registers {
        true => Some(registers(REGISTERS, reader)?),
        false => None,
    };
    let room = usize::try_from(reader.u64()?).map_err(|_| Malformed)?;
    let stack = reader.take(room)?;
    let length = match room {
        0 => 0,
        _ => usize::try_from(reader.u64()?).map_err(|_| Malformed)?,
    };
    Ok(KernelRecord {
        time_ns,
        pid,
        tid,
        what: What::Sampled(Sampled {
            is_in_kernel: is_in_kernel(bits),
            weight,
            registers,
            stack: stack.get(..length).ok_or(Malformed)?.to_vec(),
            is_cut_off: length == room,
            frames: Vec::new(),
        }),
    })
}

/// Registers by the kernel's numbers, of which a mask says which are there.
pub(crate) fn registers(mask: u64, reader: &mut ByteReader<'_>) -> Result<Registers, Malformed> {
    let mut values = [None; 64];
    for number in (0..64).filter(|number| mask & 1 << number != 0) {
        values[number as usize] = Some(reader.u64()?);
    }
    let mut registers = Registers::at(values[RIP].ok_or(Malformed)?);
    for (number, value) in FIRST_REGISTERS.into_iter().zip(values) {
        if let Some(value) = value {
            registers.set(number, value);
        }
    }
    for number in 8..16_u8 {
        if let Some(value) = values[R8 + usize::from(number) - 8] {
            registers.set(number, value);
        }
    }
    Ok(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u32, bits: u16, words: &[u64], rest: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(bits.to_le_bytes());
        bytes.extend([0; 2]);
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn a_sample_has_registers_and_the_stack_that_was_filled() {
        let mut words = vec![0x1000, 7 | 8 << 32, 99, 1_000_000, 2];
        words.extend(100..117);
        words.push(16);
        let mut stack = [1; 16].to_vec();
        stack.extend(8_u64.to_le_bytes());
        let record = KernelRecord::read(&bytes(SAMPLE, 2, &words, &stack))
            .unwrap()
            .unwrap();
        assert_eq!((record.pid, record.tid, record.time_ns), (7, 8, 99));
        let What::Sampled(sampled) = record.what else {
            panic!()
        };
        let registers = sampled.registers.unwrap();
        // The kernel's order is rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, rip, r8.
        assert_eq!(registers.pc, 108);
        for (number, value) in [
            (0, 100),
            (RBX, 101),
            (1, 103),
            (RBP, 106),
            (RSP, 107),
            (15, 116),
        ] {
            assert_eq!(registers.get(number), Some(value));
        }
        assert_eq!(sampled.stack, [1; 8]);
        assert!(!sampled.is_cut_off && !sampled.is_in_kernel);
    }

    #[test]
    fn records_of_a_shared_ring_say_of_which_event_they_are() {
        let identifier = 77_u64;
        let mut words = vec![identifier, 0x1000, 7 | 8 << 32, 99, 5, 0, 0];
        let read = KernelRecord::read_identified(&bytes(SAMPLE, 2, &words, &[]), |_| None);
        let (of, record) = read.unwrap().unwrap();
        assert_eq!((of, record.tid, record.time_ns), (identifier, 8, 99));
        let mut fixed = words.clone();
        fixed.remove(4);
        let period = |of| (of == identifier).then_some(5);
        let read = KernelRecord::read_identified(&bytes(SAMPLE, 2, &fixed, &[]), period);
        assert_eq!(read, Ok(Some((identifier, record.clone()))));
        words.remove(0);
        assert_eq!(
            KernelRecord::read(&bytes(SAMPLE, 2, &words, &[])),
            Ok(Some(record))
        );
        let lost = bytes(LOST, 0, &[1, 3, 7 | 8 << 32, 99, identifier], &[]);
        let (of, record) = KernelRecord::read_identified(&lost, |_| None)
            .unwrap()
            .unwrap();
        assert_eq!(
            (of, record.what, record.tid),
            (identifier, What::Lost(3), 8)
        );
        for length in 0..16 {
            assert!(
                KernelRecord::read_identified(&lost[..length], |_| None).is_err(),
                "{length}"
            );
        }
    }

    #[test]
    fn mappings_of_data_are_passed_over_and_damage_is_told() {
        let mapping = |protection: u64| {
            let words = [7 | 7 << 32, 0x4000, 0x1000, 0x2000, 0, 0, 0, protection];
            bytes(
                MMAP2,
                2,
                &words,
                b"/bin/a\0\0\x07\0\0\0\x07\0\0\0\x63\0\0\0\0\0\0\0",
            )
        };
        assert_eq!(KernelRecord::read(&mapping(1)), Ok(None));
        let record = KernelRecord::read(&mapping(5)).unwrap().unwrap();
        let path = b"/bin/a".to_vec();
        let (start, length, offset) = (0x4000, 0x1000, 0x2000);
        let expected = What::Mapped {
            start,
            length,
            offset,
            path,
        };
        assert_eq!((record.what, record.time_ns), (expected, 99));
        assert!(KernelRecord::read(&bytes(SAMPLE, 2, &[0], &[])).is_err());
    }
}
