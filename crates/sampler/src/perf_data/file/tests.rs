//! Files that are put together here, whole and damaged.

use unspool_unwind::{RBP, RBX, RSP};

use super::parts::MAGIC;
use super::*;

const FIELDS: u64 = IP | TID | TIME | PERIOD | IDENTIFIER;

/// An attribute with what stands behind it.
fn attribute(kind: u32, number: u64, period: (u64, bool), fields: u64, ids: (u64, u64)) -> Vec<u8> {
    let mut bytes = vec![0; 144];
    let mut put = |offset: usize, word: u64| {
        bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    };
    put(0, u64::from(kind));
    put(8, number);
    put(16, period.0);
    put(24, fields);
    put(40, ALL_HAVE_IDS | if period.1 { IS_FREQUENCY } else { 0 });
    put(80, 1 << 8 | 1 << 7 | 1 << 6 | 1 << 16);
    put(88, 64);
    put(128, ids.0);
    put(136, ids.1);
    bytes
}

fn record(kind: u32, bits: u16, words: &[u64], rest: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend(rest);
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(bits.to_le_bytes());
    bytes.extend((body.len() as u16 + 8).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// A file of these attributes, each with one identifier from 100 on, records, and a command.
fn file(attributes: &[(u32, u64, (u64, bool), u64)], records: &[Vec<u8>]) -> Vec<u8> {
    let header_bytes = 104_u64;
    let ids_at = header_bytes;
    let attributes_at = ids_at + 8 * attributes.len() as u64;
    let attribute_bytes = 144;
    let data_at = attributes_at + attribute_bytes * attributes.len() as u64;
    let data: Vec<u8> = records.concat();
    let table_at = data_at + data.len() as u64;
    let words = [
        header_bytes,
        attribute_bytes,
        attributes_at,
        attribute_bytes * attributes.len() as u64,
        data_at,
        data.len() as u64,
        0,
        0,
        1 << COMMAND_LINE,
        0,
        0,
        0,
    ];
    let mut bytes = MAGIC.to_vec();
    let mut put = |words: &[u64]| {
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()))
    };
    put(&words);
    (0..attributes.len() as u64).for_each(|number| put(&[100 + number]));
    for (number, (kind, config, period, fields)) in attributes.iter().enumerate() {
        let ids = (ids_at + 8 * number as u64, 8);
        bytes.extend(attribute(*kind, *config, *period, *fields, ids));
    }
    bytes.extend(data);
    let command = b"\x01\0\0\0\x08\0\0\0perf\0\0\0\0";
    for word in [table_at + 16, command.len() as u64] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(command);
    bytes
}

const CLOCK: (u32, u64, (u64, bool), u64) = (1, 0, (1000, true), FIELDS);

/// What stands behind records that are no samples: process, thread, time, identifier.
fn behind(time: u64) -> Vec<u8> {
    let words = [7 | 8 << 32, time, 100_u64];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn sampled(read: &PerfData) -> Vec<(u64, u64, &Sampled)> {
    let of = |record: &'_ KernelRecord| match &record.what {
        What::Sampled(sampled) => Some((record.time_ns, sampled.weight)),
        _ => None,
    };
    let samples = read.records.iter().filter_map(|record| {
        let (time, weight) = of(record)?;
        match &record.what {
            What::Sampled(sampled) => Some((time, weight, sampled)),
            _ => None,
        }
    });
    samples.collect()
}

#[test]
fn samples_and_code_are_read_in_the_order_of_time() {
    let mut name = [7_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat();
    name.extend(b"worker\0\0");
    name.extend(behind(5));
    let mapping = [7 | 7 << 32, 0x4000, 0x1000, 0x2000];
    let mut path = b"/bin/a\0\0".to_vec();
    path.extend(behind(0));
    let records = [
        record(SAMPLE, 2, &[100, 0x4010, 7 | 8 << 32, 30, 2_000_000], &[]),
        record(SAMPLE, 1, &[100, 0xffff, 7 | 8 << 32, 20, 3_000_000], &[]),
        record(3, 0, &[], &name),
        record(MMAP, 2, &mapping, &path),
        record(70, 0, &[1, 2], &[]),
    ];
    let read = PerfData::read(&file(&[CLOCK], &records)).unwrap();
    assert_eq!(read.command, [b"perf".to_vec()]);
    let kinds: Vec<u64> = read.records.iter().map(|record| record.time_ns).collect();
    assert_eq!(kinds, [0, 5, 20, 30]);
    let expected = What::Mapped {
        start: 0x4000,
        length: 0x1000,
        offset: 0x2000,
        path: b"/bin/a".to_vec(),
    };
    assert_eq!(read.records[0].what, expected);
    let samples = sampled(&read);
    assert_eq!((samples[0].1, samples[1].1), (3_000_000, 2_000_000));
    assert!(samples[0].2.is_in_kernel && samples[0].2.frames.is_empty());
    assert_eq!(samples[1].2.frames, [0x4010]);
    assert!(!read.is_cut_off);
}

#[test]
fn chains_are_of_the_program_and_stacks_come_before_them() {
    let fields = FIELDS | CALLCHAIN;
    let kernel = -128_i64 as u64;
    let chain = [5, kernel, 0xffff_ffff_8100_0000, OF_PROGRAM, 0x4010, 0x4020];
    let start = [100, 0x4010, 7 | 8 << 32, 30, 1000];
    let with_chain = record(SAMPLE, 2, &[&start[..], &chain].concat(), &[]);
    let event = (1, 0, (1000, true), fields);
    let read = PerfData::read(&file(&[event], &[with_chain])).unwrap();
    assert_eq!(sampled(&read)[0].2.frames, [0x4010, 0x4020]);
    // rbp, rsp, rip and r8, by the mask; sixteen bytes of stack, of which eight are filled.
    let registers = [2, 106, 107, 108, 8];
    let stack = [16, 0x11, 0x22, 8];
    let words = [&start[..], &chain, &registers, &stack].concat();
    let event = (1, 0, (1000, true), fields | REGISTERS | STACK);
    let read = PerfData::read(&file(&[event], &[record(SAMPLE, 2, &words, &[])])).unwrap();
    let sampled = sampled(&read)[0].2;
    assert!(sampled.frames.is_empty() && !sampled.is_cut_off);
    assert_eq!(sampled.stack, 0x11_u64.to_le_bytes());
    let registers = sampled.registers.unwrap();
    let of = |number| registers.get(number);
    assert_eq!(
        (registers.pc, of(RBP), of(RSP), of(8)),
        (108, Some(106), Some(107), Some(8))
    );
    assert_eq!(of(RBX), None);
}

#[test]
fn one_event_is_taken_that_stands_for_time() {
    let faults = (1, 2, (1, false), FIELDS);
    let cycles = (0, 0, (250, true), FIELDS);
    let of = |id| record(SAMPLE, 2, &[id, 0x4010, 7 | 8 << 32, id, 12_345], &[]);
    let read = PerfData::read(&file(&[faults, cycles], &[of(100), of(101)])).unwrap();
    let samples = sampled(&read);
    // The period is in cycles, and says nothing of time.
    assert_eq!(
        (samples.len(), samples[0].0, samples[0].1),
        (1, 101, 4_000_000)
    );
    assert_eq!(read.other_samples, 1);
    // Events of the same fields have the identifier among those.
    let fields = IP | TID | TIME | PERIOD | ID;
    let events = [(1, 2, (1, false), fields), (1, 0, (1000, true), fields)];
    let of = |id| record(SAMPLE, 2, &[0x4010, 7 | 8 << 32, id, id, 12_345], &[]);
    let read = PerfData::read(&file(&events, &[of(100), of(101), of(101)])).unwrap();
    assert_eq!((sampled(&read).len(), read.other_samples), (2, 1));
    let refused = |events: &[_]| PerfData::read(&file(events, &[])).unwrap_err();
    let by_number = (0, 0, (100_000, false), FIELDS);
    assert!(matches!(
        refused(&[faults, by_number]),
        PerfDataError::NoTime(_)
    ));
    let nameless = (1, 0, (1000, true), IP | TID | TIME);
    assert_eq!(refused(&[CLOCK, nameless]), PerfDataError::Unnamed);
    assert_eq!(refused(&[(1, 0, (1000, true), IP)]), PerfDataError::Unnamed);
}

/// The same as a file has, as it goes through a pipe.
fn through_pipe(attributes: &[(u32, u64, (u64, bool), u64)], records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(16_u64.to_le_bytes());
    for (number, (kind, config, period, fields)) in attributes.iter().enumerate() {
        let mut one = attribute(*kind, *config, *period, *fields, (0, 0));
        one.truncate(128);
        one[4..8].copy_from_slice(&128_u32.to_le_bytes());
        one.extend((100 + number as u64).to_le_bytes());
        bytes.extend(record(64, 0, &[], &one));
    }
    // Twelve bytes of tracing data, and as many of another trace: none are records.
    bytes.extend(record(66, 0, &[12], &[]));
    bytes.extend([0xee; 16]);
    bytes.extend(record(71, 0, &[12, 0], &[]));
    bytes.extend([0xee; 12]);
    bytes.extend(records.concat());
    let mut of_build = vec![0; 28];
    of_build[4..24].fill(0xab);
    of_build.extend(b"/bin/a\0\0");
    bytes.extend(record(67, 0, &[], &of_build));
    let command = b"\x01\0\0\0\x08\0\0\0perf\0\0\0\0";
    bytes.extend(record(80, 0, &[u64::from(COMMAND_LINE)], command));
    bytes
}

#[test]
fn what_went_through_a_pipe_is_read_as_a_file_is() {
    let faults = (1, 2, (1, false), FIELDS);
    let of = |id| record(SAMPLE, 2, &[id, 0x4010, 7 | 8 << 32, id, 12_345], &[]);
    let (events, records) = ([faults, CLOCK], [of(100), of(101)]);
    let whole = through_pipe(&events, &records);
    let read = PerfData::read(&whole).unwrap();
    let as_file = PerfData::read(&file(&events, &records)).unwrap();
    assert_eq!(read.records, as_file.records);
    assert_eq!((read.event, read.command), (as_file.event, as_file.command));
    assert_eq!((read.other_samples, read.is_cut_off), (1, false));
    assert_eq!(read.build_ids[&b"/bin/a"[..]], [0xab; 20]);
    for length in 0..whole.len() {
        let _ = PerfData::read(&whole[..length]);
    }
    let cut = PerfData::read(&whole[..whole.len() - 1]).unwrap();
    assert!(cut.is_cut_off && cut.records == read.records);
    for place in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[place] = value;
            let _ = PerfData::read(&damaged);
        }
    }
    let nothing = PerfData::read(&whole[..16]).unwrap_err();
    assert_eq!(nothing, PerfDataError::Damaged);
}

/// Pieces of one compressed stream, which end where records do not.
fn compressed(kind: u32, records: &[u8]) -> Vec<Vec<u8>> {
    let stream = zstd::bulk::compress(records, 1).unwrap();
    let piece = |bytes: &[u8]| match kind {
        83 => record(kind, 0, &[bytes.len() as u64], &[bytes, &[0; 3]].concat()),
        _ => record(kind, 0, &[], bytes),
    };
    stream.chunks(11).map(piece).collect()
}

#[test]
fn compressed_records_are_read_as_others_are() {
    let sample = |time: u64| {
        let words = [100, 0x4010, 7 | 8 << 32, time, 1000];
        record(SAMPLE, 2, &words, &[])
    };
    let samples: Vec<Vec<u8>> = (0..50).map(sample).collect();
    let times = |read: &PerfData| -> Vec<u64> { sampled(read).iter().map(|it| it.0).collect() };
    for kind in [81, 83] {
        let pieces = compressed(kind, &samples.concat());
        assert!(pieces.len() > 3);
        let read = PerfData::read(&file(&[CLOCK], &pieces)).unwrap();
        assert_eq!(times(&read), (0..50).collect::<Vec<u64>>());
        assert!(!read.is_cut_off);
        // Without the last piece, and with one that is missing.
        let cut = [
            pieces[..pieces.len() - 1].to_vec(),
            [&pieces[..1], &pieces[2..]].concat(),
        ];
        for pieces in cut {
            let read = PerfData::read(&file(&[CLOCK], &pieces)).unwrap();
            assert!(read.is_cut_off && sampled(&read).len() < 50);
        }
        // The stream has no sums: what a damaged piece becomes are records that make no sense.
        let damaged = [&pieces[..2], &[record(kind, 0, &[9], &[])], &pieces[3..]].concat();
        let read = PerfData::read(&file(&[CLOCK], &damaged)).unwrap();
        assert!(sampled(&read).len() < 50);
    }
    let begun = [&samples.concat()[..], &samples[0][..20]].concat();
    let read = PerfData::read(&file(&[CLOCK], &compressed(81, &begun))).unwrap();
    assert!(read.is_cut_off);
    assert_eq!(times(&read).len(), 50);
    // What unpacks to far too much is given up.
    let bomb = compressed(81, &vec![0; 1 << 28]);
    assert!(PerfData::read(&file(&[CLOCK], &bomb)).unwrap().is_cut_off);
}

#[test]
fn damaged_files_give_what_can_be_read_or_an_error() {
    let start = [100, 0x4010, 7 | 8 << 32, 30, 1000];
    let sample = record(SAMPLE, 2, &start, &[]);
    let whole = file(&[CLOCK], &[sample.clone(), sample]);
    for length in 0..whole.len() {
        let _ = PerfData::read(&whole[..length]);
    }
    // In the middle of the second sample.
    let behind_first = whole.len() - 32 - 20;
    let cut = PerfData::read(&whole[..behind_first]).unwrap();
    assert!(cut.is_cut_off);
    assert_eq!(sampled(&cut).len(), 1);
    for place in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[place] = value;
            let _ = PerfData::read(&damaged);
        }
    }
    assert_eq!(
        PerfData::read(b"PERFILE2").unwrap_err(),
        PerfDataError::Damaged
    );
    assert_eq!(PerfData::read(b"").unwrap_err(), PerfDataError::NotPerfData);
}
