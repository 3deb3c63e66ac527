//! The tables, read back with the library's own reader.

use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use unspool_events::{
    AccessFlags, AccessKind, FunctionId, Mapping, ModuleId, Order, Span, SyncOperation,
    Synchronisation, ThreadEvent, TraceHeader,
};

use super::*;

/// All rows of a table, as the library prints them.
fn rows(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().to_string())
        .collect()
}

fn create(paths: &ParquetPaths) -> Result<ParquetExporter, ExportError> {
    let header = TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: b"/bin/sort".to_vec(),
        arguments: vec![b"sort".to_vec()],
        options: Vec::new(),
        process: 7,
        parent_process: None,
        start_unix_ns: 5,
        tool_version: "0.1.0".to_owned(),
    };
    ParquetExporter::create(paths, Names::new(), Description::new(&header))
}

fn access(time: u64) -> Access {
    Access {
        time,
        pc: u64::MAX - 1,
        address: 0x7fff_0000_0000 + time,
        size: 8,
        kind: if time.is_multiple_of(2) {
            AccessKind::Read
        } else {
            AccessKind::Write
        },
        flags: AccessFlags::FIRST.with(AccessFlags::ATOMIC),
    }
}

#[test]
fn every_field_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ParquetPaths::with_prefix(&folder.path().join("t.unspool"));
    let mut exporter = create(&paths).unwrap();
    let start = Event::Thread(ThreadEvent::Start {
        os_thread: 77,
        parent: Some(ThreadId(3)),
    });
    exporter.event(ThreadId(4), 1, &start);
    exporter.accesses(ThreadId(4), &[access(2), access(3)]);
    exporter.values(ThreadId(4), &[access(3)], &[&[0, 1, 255]]);
    let call = Event::Span(Span::FunctionCall {
        function: FunctionId(5),
        stack_pointer: u64::MAX,
        arguments: [1, 2, u64::MAX],
    });
    exporter.event(ThreadId(4), 4, &call);
    let wait = Event::Synchronisation(Synchronisation {
        operation: SyncOperation::FutexWait,
        object: 16,
    });
    exporter.event(ThreadId(4), 5, &wait);
    exporter.finish().unwrap();

    assert_eq!(
        rows(&paths.accesses),
        [
            "{time: 2, thread: 4, pc: 18446744073709551614, address: 140733193388034, size: 8, \
             write: false, atomic: true, failed_cas: false, first: true, non_temporal: false}",
            "{time: 3, thread: 4, pc: 18446744073709551614, address: 140733193388035, size: 8, \
             write: true, atomic: true, failed_cas: false, first: true, non_temporal: false}",
        ]
    );
    let none =
        "argument1: null, argument2: null, argument3: null, argument4: null, argument5: null}";
    assert_eq!(
        rows(&paths.events),
        [
            format!(
                "{{time: 1, thread: 4, kind: \"thread_start\", number: 77, address: null, size: null, \
                 name: null, argument0: 3, {none}"
            ),
            "{time: 4, thread: 4, kind: \"function_call\", number: 5, address: 18446744073709551615, \
             size: null, name: \"function#5\", argument0: 1, argument1: 2, \
             argument2: 18446744073709551615, argument3: null, argument4: null, argument5: null}"
                .to_owned(),
            format!(
                "{{time: 5, thread: 4, kind: \"sync\", number: null, address: 16, size: null, \
                 name: \"futex_wait\", argument0: null, {none}"
            ),
        ]
    );
    assert_eq!(rows(&paths.values).len(), 1);
    assert!(
        rows(&paths.values)[0].contains("value: [0, 1, 255]"),
        "{:?}",
        rows(&paths.values)
    );
}

/// What the metadata of a table says of the trace.
fn description(path: &Path) -> Value {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let mut entries = metadata.unwrap().iter();
    let entry = entries.find(|entry| entry.key == "unspool").unwrap();
    serde_json::from_str(entry.value.as_deref().unwrap()).unwrap()
}

#[test]
fn tables_say_what_they_are_of_and_when_modules_were_where() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ParquetPaths::with_prefix(&folder.path().join("t"));
    let mut exporter = create(&paths).unwrap();
    for id in 0..2 {
        exporter.module(&Module {
            id: ModuleId(id),
            path: b"/lib/plugin.so".to_vec(),
            base: 4096 * u64::from(id + 1),
            size: 4096,
            build_id: vec![0xab],
        });
        let module = ModuleId(id);
        exporter.event(
            ThreadId(0),
            5,
            &Event::Mapping(Mapping::ModuleLoad { module }),
        );
    }
    let module = ModuleId(0);
    exporter.event(
        ThreadId(0),
        9,
        &Event::Mapping(Mapping::ModuleUnload { module }),
    );
    exporter.accesses(ThreadId(0), &[access(6)]);
    exporter.values(ThreadId(0), &[access(6)], &[&[1]]);
    exporter.finish().unwrap();
    let rest = "size: 4096, build_id: \"ab\", loaded: 5, unloaded:";
    assert_eq!(
        rows(&paths.modules),
        [
            format!("{{module: 0, path: \"/lib/plugin.so\", base: 4096, {rest} 9}}"),
            format!("{{module: 1, path: \"/lib/plugin.so\", base: 8192, {rest} null}}"),
        ]
    );
    for path in [
        &paths.accesses,
        &paths.events,
        &paths.modules,
        &paths.values,
    ] {
        let description = description(path);
        assert_eq!(description["program"], "/bin/sort");
        assert_eq!(description["order"], "line-atomic");
    }
}

#[test]
fn rows_survive_the_boundary_between_groups() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ParquetPaths::with_prefix(&folder.path().join("t"));
    let mut exporter = create(&paths).unwrap();
    let batch: Vec<Access> = (0..1000).map(access).collect();
    let batches = ROWS_IN_GROUP / batch.len() + 2;
    for _ in 0..batches {
        exporter.accesses(ThreadId(0), &batch);
    }
    exporter.finish().unwrap();
    let reader = SerializedFileReader::new(File::open(&paths.accesses).unwrap()).unwrap();
    assert_eq!(reader.num_row_groups(), 2);
    let counted = usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap();
    assert_eq!(counted, batches * batch.len());
    assert!(
        !paths.values.exists(),
        "no value was given, so no table of values is made"
    );
}

#[test]
fn an_output_that_cannot_be_created_is_named() {
    let paths = ParquetPaths::with_prefix(Path::new("/proc/no/such/folder/t"));
    let error = create(&paths).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/proc/no/such/folder/t.accesses.parquet"),
        "{error}"
    );
}
