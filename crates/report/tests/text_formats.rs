//! Each text format against its golden file: one small run with every kind of event and
//! every shape of access. `UPDATE_GOLDEN=1 cargo test -p unspool-report` rewrites the files.

use std::path::Path;

use unspool_events::{
    Access, AccessFlags, AccessKind, Event, FunctionId, Loss, Mapping, MemoryEffect, Module,
    ModuleId, Order, ProcessEvent, Sink, Span, SyncOperation, Synchronisation, SystemCall,
    ThreadEvent, ThreadId, TraceHeader, TracedFunction,
};
use unspool_report::{CsvExporter, JsonExporter, Names, TsvExporter, TsvOptions};

fn check(name: &str, written: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let written = String::from_utf8(written.to_vec()).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, golden, "{} differs", path.display());
}

/// One access; `flags` besides FIRST.
fn access(time: u64, kind: AccessKind, address: u64, size: u32, flags: AccessFlags) -> Access {
    Access {
        time,
        pc: 0x40_1000 + time,
        address,
        size,
        kind,
        flags,
    }
}

const READ: AccessKind = AccessKind::Read;
const WRITE: AccessKind = AccessKind::Write;
const NEXT: AccessFlags = AccessFlags(0);
const FIRST: AccessFlags = AccessFlags::FIRST;

fn start(sink: &mut impl Sink) {
    let main = ThreadId(0);
    sink.event(
        main,
        1,
        &Event::Thread(ThreadEvent::Start {
            os_thread: 4711,
            parent: None,
        }),
    );
    sink.event(
        main,
        2,
        &Event::Mapping(Mapping::ModuleLoad {
            module: ModuleId(0),
        }),
    );
    sink.event(
        main,
        3,
        &Event::Thread(ThreadEvent::Pointer {
            address: 0x7f00_1234_5000,
            variables: Some(0x90),
        }),
    );
    sink.event(
        main,
        4,
        &Event::Thread(ThreadEvent::Registered {
            number: 12,
            name: "main, \"the\" first\n".into(),
        }),
    );
    sink.event(main, 5, &Event::Span(Span::RegionStart));
    sink.accesses(main, &accesses());
    sink.values(
        main,
        &[
            access(8, READ, 0x1000, 4, FIRST),
            access(8, WRITE, 0x1000, 4, NEXT),
        ],
        &[&[0x01, 0xff, 0, 0], &[]],
    );
}

/// A load; a store; an exchange; a compare-and-swap that fails; a `cmps`; two reads of
/// different sizes; a gather of five; a scatter of two.
fn accesses() -> Vec<Access> {
    let atomic = AccessFlags::ATOMIC;
    let failed = atomic.with(AccessFlags::FAILED_CAS);
    let mut accesses = vec![
        access(6, READ, 0x1000, 4, FIRST),
        access(7, WRITE, 0xffff_ffff_ff60_0000, 64, FIRST),
        access(8, READ, 0x1000, 4, FIRST.with(atomic)),
        access(8, WRITE, 0x1000, 4, atomic),
        access(9, READ, 0x1008, 8, FIRST.with(failed)),
        access(9, WRITE, 0x1008, 8, failed),
        access(10, READ, 0x2000, 1, FIRST),
        access(10, READ, 0x3000, 1, NEXT),
        access(11, READ, 0x2000, 4, FIRST),
        access(11, READ, 0x3000, 2, NEXT),
        access(11, WRITE, 0x4000, 8, NEXT),
    ];
    for element in 0..5 {
        let flags = if element == 0 { FIRST } else { NEXT };
        accesses.push(access(12, READ, 0x5000 + 100 * element, 8, flags));
    }
    accesses.push(access(13, WRITE, 0x6000, 4, FIRST));
    accesses.push(access(13, WRITE, 0x6100, 4, NEXT));
    accesses
}

fn rest(sink: &mut impl Sink) {
    let (main, second) = (ThreadId(0), ThreadId(1));
    let mut main_time = 13;
    let mut event = |event: Event| {
        main_time += 1;
        sink.event(main, main_time, &event);
    };
    event(Event::SystemCall(SystemCall::Entry {
        number: 56,
        arguments: [1, 2, 3, 4, 5, u64::MAX],
    }));
    event(Event::MemoryEffect(MemoryEffect {
        write: true,
        address: 0x8000,
        size: 4,
    }));
    event(Event::Synchronisation(Synchronisation {
        operation: SyncOperation::ThreadCreate,
        object: 1,
    }));
    event(Event::SystemCall(SystemCall::Exit {
        number: 56,
        result: -11,
    }));
    event(Event::Span(Span::FunctionCall {
        function: FunctionId(0),
        stack_pointer: 0x7ffe_0000_0008,
        arguments: [7, 0, u64::MAX],
    }));
    event(Event::Span(Span::FunctionReturn {
        function: FunctionId(0),
        stack_pointer: 0x7ffe_0000_0008,
        value: 0xdead_beef,
        stored: None,
    }));
    event(Event::Span(Span::FunctionCall {
        function: FunctionId(9),
        stack_pointer: 8,
        arguments: [0; 3],
    }));
    event(Event::Thread(ThreadEvent::HandlerCalled { signal: 10 }));
    event(Event::Thread(ThreadEvent::ClockMoved));
    event(Event::Process(ProcessEvent::Fork { child: 4712 }));
    event(Event::Mapping(Mapping::Shared {
        address: 0x7000,
        size: 4096,
        device: u64::MAX,
        inode: 3,
        offset: 8192,
        own: true,
    }));
    event(Event::Loss(Loss {
        words: 12,
        reason: "the disk is \"full\"".into(),
    }));
    event(Event::Mapping(Mapping::ModuleUnload {
        module: ModuleId(0),
    }));
    event(Event::Span(Span::RegionEnd));
    event(Event::Process(ProcessEvent::Exec));
    event(Event::Thread(ThreadEvent::End));
    sink.event(
        second,
        18,
        &Event::Thread(ThreadEvent::Start {
            os_thread: 4713,
            parent: Some(main),
        }),
    );
    sink.event(
        second,
        19,
        &Event::Span(Span::FunctionCall {
            function: FunctionId(0),
            stack_pointer: 16,
            arguments: [1, 2, 3],
        }),
    );
    for operation in [
        SyncOperation::FutexWait,
        SyncOperation::FutexWake,
        SyncOperation::ThreadExit,
    ] {
        sink.event(
            second,
            20,
            &Event::Synchronisation(Synchronisation {
                operation,
                object: 0x9000,
            }),
        );
    }
    sink.event(
        second,
        21,
        &Event::Synchronisation(Synchronisation {
            operation: SyncOperation::SystemCall,
            object: 324,
        }),
    );
    sink.event(second, 22, &Event::Thread(ThreadEvent::End));
}

fn tables() -> (Vec<Module>, Vec<TracedFunction>, Names) {
    let modules = vec![Module {
        id: ModuleId(0),
        path: b"/usr/lib/libc,\xff.so".to_vec(),
        base: 0x1000_0000,
        size: 8192,
        build_id: vec![0xab, 0x01],
    }];
    let functions = vec![TracedFunction {
        id: FunctionId(0),
        name: "queue<int, \"x\">::push\tback".into(),
        address: 0x1000_0040,
    }];
    let mut names = Names::new();
    modules.iter().for_each(|module| names.add_module(module));
    functions
        .iter()
        .for_each(|function| names.add_function(function));
    (modules, functions, names)
}

fn header(options: &[(&str, &str)]) -> TraceHeader {
    TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: b"/usr/bin/sort".to_vec(),
        arguments: vec![b"sort".to_vec(), b"\"\xfe".to_vec()],
        options: options
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
        process: 4711,
        parent_process: None,
        start_unix_ns: 1_700_000_000_000_000_000,
        tool_version: "0.1.0".into(),
    }
}

fn tsv(change: impl FnOnce(&mut TsvOptions), options: &[(&str, &str)]) -> Vec<u8> {
    let mut output = Vec::new();
    let mut tsv_options = TsvOptions::of_trace(&header(options));
    change(&mut tsv_options);
    let mut exporter = TsvExporter::new(&mut output, tables().2, tsv_options);
    start(&mut exporter);
    rest(&mut exporter);
    exporter.finish().unwrap();
    output
}

#[test]
fn tsv_with_times() {
    check("times.tsv", &tsv(|_| {}, &[]));
}

#[test]
fn tsv_of_registered_threads_with_failed_swaps_without_times() {
    let options = [("registered-only", "true"), ("failed-cas", "true")];
    let written = tsv(
        |options| {
            options.times = false;
            options.thread_syncs = false;
        },
        &options,
    );
    check("registered.tsv", &written);
}

#[test]
fn csv() {
    let mut output = Vec::new();
    let mut exporter = CsvExporter::new(&mut output, tables().2);
    start(&mut exporter);
    rest(&mut exporter);
    exporter.finish().unwrap();
    check("all.csv", &output);
}

#[test]
fn json_lines() {
    let mut output = Vec::new();
    let (modules, functions, names) = tables();
    let header = header(&[("verify", "true")]);
    let mut exporter = JsonExporter::new(&mut output, names, &header, &modules, &functions);
    start(&mut exporter);
    rest(&mut exporter);
    exporter.finish().unwrap();
    for line in output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        serde_json::from_slice::<serde_json::Value>(line).unwrap();
    }
    check("all.jsonl", &output);
}
