//! The lines, of traces whose code is nowhere to be found.

use unspool_events::{
    InstructionEvent, LineOperation, MemoryEffect, Order, ThreadEvent, TraceHeader, TraceWriter,
};

use super::*;

fn access(time: u64, address: u64, kind: AccessKind, flags: AccessFlags) -> Access {
    Access {
        time,
        pc: 0x1234,
        address,
        size: 8,
        kind,
        flags,
    }
}

/// The lines of a read and a write of one instruction at time 5, two events, and a value.
fn listed(options: ListingOptions) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let header = TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: b"/bin/x\x1b[2J".to_vec(),
        arguments: vec![b"x".to_vec(), b"a\nb".to_vec()],
        options: Vec::new(),
        process: 7,
        parent_process: None,
        start_unix_ns: 5,
        tool_version: "0.1.0".to_owned(),
    };
    TraceWriter::create(&path, &header)
        .unwrap()
        .finish()
        .unwrap();
    let mut output = Vec::new();
    let trace = Trace::open(&path).unwrap();
    let mut listing = Listing::new(&mut output, &trace, options);
    let thread = ThreadId(2);
    let first = AccessFlags::FIRST.with(AccessFlags::ATOMIC);
    let accesses = [
        access(5, 0x100, AccessKind::Read, first),
        access(5, 0x200, AccessKind::Write, AccessFlags::FAILED_CAS),
    ];
    listing.accesses(thread, &accesses);
    listing.values(thread, &accesses, &[&[1, 0xff], &[]]);
    let registered = Event::Thread(ThreadEvent::Registered {
        number: -3,
        name: "a\tb".to_owned(),
    });
    listing.event(thread, 6, &registered);
    let read = Event::MemoryEffect(MemoryEffect {
        write: true,
        address: 0x1f0,
        size: 0x11,
    });
    listing.event(thread, 7, &read);
    let flush = Event::Instruction(InstructionEvent::CacheLine {
        operation: LineOperation::Clwb,
        pc: 0x1234,
        address: 0x450,
    });
    listing.event(thread, 8, &flush);
    listing.finish().unwrap();
    let text = String::from_utf8(output).unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

const ALL: ListingOptions = ListingOptions {
    from: 0,
    to: u64::MAX,
    threads: Vec::new(),
    addresses: None,
};

const HEAD: &str = "# /bin/x\u{fffd}[2J: x a\u{fffd}b (order line-atomic)";
const INSTRUCTION: &str = "5 2 0x1234 r8 0x100 atomic w8 0x200 failed";
const VALUE: &str = "5 2 value r8 0x100 atomic = 01ff";
const NAME: &str = "6 2 thread_registered a\u{fffd}b number=-3";
const KERNEL: &str = "7 2 system_memory write address=0x1f0 size=0x11";
const FLUSH: &str = "8 2 clwb address=0x450 0x1234";

#[test]
fn lines_are_whole_and_command_no_terminal() {
    assert_eq!(listed(ALL), [HEAD, INSTRUCTION, VALUE, NAME, KERNEL, FLUSH]);
}

#[test]
fn times_bound_what_is_shown() {
    let between = |from, to| listed(ListingOptions { from, to, ..ALL });
    assert_eq!(between(6, u64::MAX), [HEAD, NAME, KERNEL, FLUSH]);
    assert_eq!(between(0, 5), [HEAD, INSTRUCTION, VALUE]);
    assert_eq!(between(6, 6), [HEAD, NAME]);
    assert_eq!(between(9, 9), [HEAD]);
}

#[test]
fn memory_bounds_what_is_shown() {
    let touching = |addresses| {
        let addresses = Some(addresses);
        listed(ListingOptions { addresses, ..ALL })
    };
    assert_eq!(touching(0x107..0x108), [HEAD, INSTRUCTION, VALUE]);
    assert_eq!(touching(0x200..0x201), [HEAD, INSTRUCTION, KERNEL]);
    assert_eq!(touching(0x208..0x300), [HEAD]);
    assert_eq!(touching(0x1f0..0x1f1), [HEAD, KERNEL]);
    // A flush concerns the whole line that holds its address.
    assert_eq!(touching(0x43f..0x440), [HEAD]);
    assert_eq!(touching(0x440..0x441), [HEAD, FLUSH]);
    assert_eq!(touching(0x47f..0x480), [HEAD, FLUSH]);
    assert_eq!(touching(0x480..0x481), [HEAD]);
}

#[test]
fn what_is_particular_about_an_access_stands_behind_it() {
    for (flags, told) in [
        (AccessFlags::FIRST, ""),
        (AccessFlags::ATOMIC, " atomic"),
        (AccessFlags::FAILED_CAS, " failed"),
        (AccessFlags::NON_TEMPORAL, " non-temporal"),
    ] {
        let mut text = Vec::new();
        push_access(&mut text, &access(1, 0x40, AccessKind::Write, flags));
        assert_eq!(text, format!("w8 0x40{told}").as_bytes());
    }
}
