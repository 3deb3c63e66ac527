//! Partitioned data sets: read back with the Parquet library's reader, they hold the rows of CSV.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use unspool_guests::{Ending, Invocation};

use crate::observer::{Verdict, run, run_well, traced, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// Attempts to kill an export while it writes.
const KILLS: usize = 60;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "data_set::has_the_rows_of_csv".to_owned(),
            has_the_rows_of_csv,
        ),
        trial(
            "data_set::killed_export_leaves_no_data_set".to_owned(),
            killed_export_leaves_no_data_set,
        ),
    ]
}

fn record(scratch: &Scratch, options: &[&str], counts: &[&str]) -> Result<PathBuf, Verdict> {
    let trace = scratch.path().join("trace.unspool");
    let command = guest_command("order/increment", counts)?;
    run_well(scratch, &traced(scratch, options, &trace, &command))?;
    Ok(trace)
}

/// `unspool export --format parquet --partitioned -o SET TRACE`.
fn export(scratch: &Scratch, trace: &Path, set: &Path) -> Invocation {
    let options = ["export", "--format", "parquet", "--partitioned", "-o"];
    let mut arguments: Vec<OsString> = options.iter().map(OsString::from).collect();
    arguments.extend([set.into(), trace.into()]);
    unspool(scratch, &arguments)
}

fn has_the_rows_of_csv(scratch: &Scratch) -> Result<(), Verdict> {
    let trace = record(scratch, &["--verify"], &["4", "3000"])?;
    let set = scratch.path().join("set");
    run_well(scratch, &export(scratch, &trace, &set))?;
    let csv = unspool(scratch, &["export", "--format", "csv"]).arguments([&trace]);
    let csv = run_well(scratch, &csv)?.stdout_text();
    for table in ["accesses", "values"] {
        let lines_of_csv = csv.lines().filter_map(|line| of_table(line, table));
        let expected: Vec<String> = lines_of_csv.collect();
        let found = lines(&set.join(table), table)?;
        // The comparison itself must notice what is missing, doubled or changed.
        let mut changed = found.clone();
        changed[0] = changed[0].replacen(",0x", ",0x1", 1);
        let doubled: Vec<String> = found.iter().chain(&found[..1]).cloned().collect();
        for wrong in [&found[1..], &doubled, &changed] {
            if same(&expected, wrong) {
                return Err(Verdict::Wrong(format!(
                    "{table}: a difference was not noticed"
                )));
            }
        }
        let threads = expected.iter().filter_map(|line| line.split(',').nth(1));
        if threads.collect::<std::collections::BTreeSet<_>>().len() < 2 {
            return Err(Verdict::Wrong("the program has one thread only".to_owned()));
        }
        if !same(&expected, &found) {
            let (set, trace) = (set.display(), trace.display());
            return Err(Verdict::Wrong(format!(
                "{set}: {table}: {} rows are not the {} of CSV of {trace}",
                found.len(),
                expected.len()
            )));
        }
    }
    Ok(())
}

/// A line of CSV as this table can give it, if it belongs to it: values have no facts there.
fn of_table(line: &str, table: &str) -> Option<String> {
    let mut fields: Vec<&str> = line.split(',').collect();
    match (*fields.get(2)?, table) {
        ("read" | "write", "accesses") => {}
        ("read_value" | "write_value", "values") => fields[6..10].fill(""),
        _ => return None,
    }
    Some(fields.join(","))
}

fn same(expected: &[String], found: &[String]) -> bool {
    let sorted = |lines: &[String]| {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines
    };
    sorted(expected) == sorted(found)
}

/// The rows of a table of the data set, as CSV has them.
fn lines(table: &Path, name: &str) -> Result<Vec<String>, Verdict> {
    let mut lines = Vec::new();
    for process in fs::read_dir(table)? {
        for thread in fs::read_dir(process?.path())? {
            let thread = thread?.path();
            let name_of_folder = thread.file_name().and_then(|name| name.to_str());
            let number = name_of_folder.and_then(|name| name.strip_prefix("thread="));
            let number = number.ok_or_else(|| format!("{}: no thread", thread.display()))?;
            for block in fs::read_dir(&thread)? {
                for part in fs::read_dir(block?.path())? {
                    let rows = rows(&part?.path())?;
                    let line = |row| match name {
                        "values" => value_line(row, number),
                        _ => access_line(row, number),
                    };
                    lines.extend(rows.iter().map(line));
                }
            }
        }
    }
    Ok(lines)
}

fn rows(path: &Path) -> Result<Vec<Row>, Verdict> {
    let unreadable = |problem| Verdict::Wrong(format!("{}: {problem}", path.display()));
    let reader = SerializedFileReader::new(File::open(path)?).map_err(unreadable)?;
    let rows = reader.get_row_iter(None).map_err(unreadable)?;
    rows.collect::<Result<_, _>>().map_err(unreadable)
}

fn access_line(row: &Row, thread: &str) -> String {
    let number = |name| number(row, name);
    let fact = |name| u8::from(is_set(row, name));
    format!(
        "{},{thread},{},{:#x},{:#x},{},{},{},{},{},,,",
        number("time"),
        if is_set(row, "write") {
            "write"
        } else {
            "read"
        },
        number("pc"),
        number("address"),
        number("size"),
        fact("atomic"),
        fact("failed_cas"),
        fact("first"),
        fact("non_temporal"),
    )
}

fn value_line(row: &Row, thread: &str) -> String {
    let number = |name| number(row, name);
    let bytes = match field(row, "value") {
        Field::Bytes(bytes) => bytes.data().to_vec(),
        other => panic!("value: {other}"),
    };
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{},{thread},{},{:#x},{:#x},{},,,,,,{digits},",
        number("time"),
        if is_set(row, "write") {
            "write_value"
        } else {
            "read_value"
        },
        number("pc"),
        number("address"),
        bytes.len(),
    )
}

fn number(row: &Row, name: &str) -> u64 {
    match field(row, name) {
        Field::ULong(number) => *number,
        Field::UInt(number) => (*number).into(),
        other => panic!("{name}: {other}"),
    }
}

fn is_set(row: &Row, name: &str) -> bool {
    field(row, name) == &Field::Bool(true)
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    let mut columns = row.get_column_iter();
    let column = columns.find(|(column, _)| *column == name);
    column.unwrap_or_else(|| panic!("no column {name}")).1
}

/// A killed export leaves nothing under the data set's name, and the next one is whole.
fn killed_export_leaves_no_data_set(scratch: &Scratch) -> Result<(), Verdict> {
    let trace = record(scratch, &[], &["2", "200000"])?;
    let set = scratch.path().join("set");
    let export = export(scratch, &trace, &set);
    kill_in_the_middle(scratch, &export, &set)?;
    run_well(scratch, &export)?;
    if !is_whole(&set)? {
        return Err(Verdict::Wrong("the next export is not whole".to_owned()));
    }
    let again = run(scratch, &export)?;
    if !again.stderr_text().contains("already has a process") {
        return Err(wrong("refuses to write a process twice", &export, &again));
    }
    Ok(())
}

/// Whether a data set has all accesses of the trace.
fn is_whole(set: &Path) -> Result<bool, Verdict> {
    Ok(lines(&set.join("accesses"), "accesses")?.len() >= 1_000_000)
}

/// Kills the export once it has begun to write: sooner where it was done, later where it had not.
/// One that is killed between its last step, which gives the data set its name, and its end was done.
fn kill_in_the_middle(scratch: &Scratch, export: &Invocation, set: &Path) -> Result<(), Verdict> {
    let mut limit = Duration::from_millis(50);
    for _ in 0..KILLS {
        let killed = run(scratch, &export.clone().kill_after(limit))?;
        match killed.ending {
            Ending::Signalled(9) if set.exists() && !is_whole(set)? => {
                return Err(wrong("no part of it under its name", export, &killed));
            }
            Ending::Signalled(9) if set.exists() => {
                fs::remove_dir_all(set)?;
                limit = limit * 3 / 4;
            }
            Ending::Signalled(9) if has_partial(scratch)? => return Ok(()),
            Ending::Signalled(9) => limit = limit * 5 / 4,
            Ending::Exited(0) => {
                fs::remove_dir_all(set)?;
                limit = limit * 3 / 4;
            }
            _ => return Err(wrong("killed", export, &killed)),
        }
    }
    Err(Verdict::CannotTell(format!(
        "none of {KILLS} kills came while the export wrote"
    )))
}

fn has_partial(scratch: &Scratch) -> Result<bool, Verdict> {
    for entry in fs::read_dir(scratch.path())? {
        if entry?.file_name().to_string_lossy().ends_with(".partial") {
            return Ok(true);
        }
    }
    Ok(false)
}
