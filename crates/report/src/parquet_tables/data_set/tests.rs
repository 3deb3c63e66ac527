//! The data set, read back with the library's own reader.

use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use unspool_events::{AccessFlags, AccessKind, Order, ThreadEvent, TraceHeader};

use super::*;
use crate::parquet_tables::ROWS_IN_GROUP;

fn create(folder: &Path, process: u32) -> Result<DataSetExporter, ExportError> {
    let header = TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: b"/bin/sort".to_vec(),
        arguments: Vec::new(),
        options: Vec::new(),
        process,
        parent_process: None,
        start_unix_ns: 5,
        tool_version: "0.1.0".to_owned(),
    };
    DataSetExporter::create(folder, Names::new(), Description::new(&header))
}

fn access(time: u64) -> Access {
    Access {
        time,
        pc: 4096,
        address: 64 * time,
        size: 8,
        kind: AccessKind::Write,
        flags: AccessFlags::FIRST,
    }
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

fn rows(path: &Path) -> Vec<String> {
    let reader = open(path);
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().to_string()).collect()
}

/// All files below a folder, as their names below it.
fn files(folder: &Path) -> Vec<String> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => collect(&path, files),
                false => files.push(path),
            }
        }
    }
    let mut paths = Vec::new();
    collect(folder, &mut paths);
    let below = |path: &PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
    let mut names: Vec<String> = paths.iter().map(below).collect();
    names.sort();
    names
}

#[test]
fn rows_stand_in_the_folder_of_their_process_thread_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    let border = 1 << TIME_BLOCK_BITS;
    let mut exporter = create(&set, 7).unwrap();
    exporter.event(ThreadId(0), 1, &Event::Thread(ThreadEvent::End));
    exporter.accesses(
        ThreadId(0),
        &[access(2), access(border - 1), access(border)],
    );
    exporter.accesses(ThreadId(0), &[access(border + 1)]);
    exporter.accesses(ThreadId(3), &[access(3 * border)]);
    exporter.values(ThreadId(3), &[access(3 * border)], &[&[1]]);
    exporter.finish().unwrap();
    let accesses = set.join("accesses/process=7");
    assert_eq!(
        files(&set),
        [
            "accesses/process=7/thread=0/time_block=0/part-0.parquet",
            "accesses/process=7/thread=0/time_block=1/part-1.parquet",
            "accesses/process=7/thread=3/time_block=3/part-2.parquet",
            "events/process=7/thread=0/time_block=0/part-0.parquet",
            "modules/process=7/part-0.parquet",
            "values/process=7/thread=3/time_block=3/part-0.parquet",
        ]
    );
    let times: Vec<Vec<String>> = files(&accesses)
        .iter()
        .map(|file| {
            let rows = rows(&accesses.join(file));
            rows.iter()
                .map(|row| row[..row.find(',').unwrap()].to_owned())
                .collect()
        })
        .collect();
    let time = |time: u64| format!("{{time: {time}");
    assert_eq!(
        times,
        [
            vec![time(2), time(border - 1)],
            vec![time(border), time(border + 1)],
            vec![time(3 * border)]
        ]
    );
    let last = accesses.join("thread=3/time_block=3/part-2.parquet");
    assert!(
        !rows(&last)[0].contains("thread"),
        "it stands in the folder's name"
    );
}

#[test]
fn row_groups_tell_the_range_of_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    let mut exporter = create(&set, 7).unwrap();
    let batch = 1 << 10;
    for start in (0..3 * ROWS_IN_GROUP as u64).step_by(batch) {
        let batch: Vec<Access> = (start..start + batch as u64).map(access).collect();
        exporter.accesses(ThreadId(0), &batch);
    }
    exporter.finish().unwrap();
    let reader = open(&set.join("accesses/process=7/thread=0/time_block=0/part-0.parquet"));
    let ranges: Vec<_> = reader
        .metadata()
        .row_groups()
        .iter()
        .map(|group| match group.column(0).statistics() {
            Some(Statistics::Int64(times)) => {
                (*times.min_opt().unwrap(), *times.max_opt().unwrap())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let rows = ROWS_IN_GROUP as i64;
    assert_eq!(
        ranges,
        [
            (0, rows - 1),
            (rows, 2 * rows - 1),
            (2 * rows, 3 * rows - 1)
        ]
    );
}

#[test]
fn an_export_that_ends_early_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    let mut exporter = create(&set, 7).unwrap();
    exporter.accesses(ThreadId(0), &[access(2)]);
    drop(exporter);
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn a_trace_without_accesses_has_a_table_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    create(&set, 7).unwrap().finish().unwrap();
    assert_eq!(files(&set).len(), 3);
    let empty = set.join("accesses/process=7/thread=0/time_block=0/part-0.parquet");
    assert_eq!(rows(&empty), [""; 0]);
}
