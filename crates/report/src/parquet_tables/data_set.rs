//! Tables as a data set that is partitioned by process, thread and time: the values of these
//! columns stand in the names of folders, as Hive began it, so that readers open only the files
//! that a question is about. `docs/exports.md` describes the folders.

use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_events::{Access, Event, Module, Sink, ThreadId, TracedFunction};

use super::columns::{
    AccessColumns, EventColumns, MODULE_SCHEMA, ModuleColumns, Partition, Rows, ValueColumns,
    without_thread,
};
use super::table::{Purpose, TableWriter};
use crate::description::header_object;
use crate::event_row::EventRow;
use crate::pending_data_set::PendingDataSet;
use crate::{Description, ExportError, Names};

/// Times that share a folder differ in the lowest bits only, this many of them. A thread that
/// accesses memory all the time makes files of some hundred megabytes.
const TIME_BLOCK_BITS: u32 = 26;

/// Writes the tables of one process into a data set.
///
/// It is to be given thread after thread: each change of the thread begins new files.
#[derive(Debug)]
pub struct DataSetExporter {
    names: Names,
    description: Description,
    data_set: PendingDataSet,
    accesses: Parts<AccessColumns>,
    events: Parts<EventColumns>,
    values: Parts<ValueColumns>,
    error: Option<ExportError>,
}

impl DataSetExporter {
    /// Begins a data set in a folder that is not there yet, or adds a process to a data set.
    ///
    /// # Errors
    /// If the folder cannot be made, is something else, or has a process of this number.
    pub fn create(
        folder: &Path,
        names: Names,
        description: Description,
    ) -> Result<DataSetExporter, ExportError> {
        let data_set = PendingDataSet::create(folder, description.header().process)?;
        let header = Value::Object(header_object(description.header())).to_string();
        Ok(DataSetExporter {
            names,
            description,
            accesses: Parts::new(&data_set, &header),
            events: Parts::new(&data_set, &header),
            values: Parts::new(&data_set, &header),
            data_set,
            error: None,
        })
    }

    /// Writes what is left, and gives the folders their names.
    ///
    /// # Errors
    /// The first error of all.
    pub fn finish(mut self) -> Result<(), ExportError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        // A table without a file is a table of which readers cannot tell the columns.
        if self.accesses.made == 0 {
            self.accesses.rows_at(ThreadId(0), 0)?;
        }
        if self.events.made == 0 {
            self.events.rows_at(ThreadId(0), 0)?;
        }
        self.accesses.end()?;
        self.events.end()?;
        self.values.end()?;
        let folder = self.data_set.folder_of("modules");
        write_modules(&folder, &self.description)?;
        self.data_set.complete()
    }

    fn try_accesses(&mut self, thread: ThreadId, batch: &[Access]) -> Result<(), ExportError> {
        let block = |access: &Access| time_block(access.time);
        // Times of a thread never fall.
        let is_within_one = batch.first().map(block) == batch.last().map(block);
        if is_within_one && let Some(first) = batch.first() {
            self.accesses
                .rows_at(thread, block(first))?
                .extend(thread, batch);
            return Ok(());
        }
        for part in batch.chunk_by(|one, next| block(one) == block(next)) {
            let rows = self.accesses.rows_at(thread, block(&part[0]))?;
            rows.extend(thread, part);
        }
        Ok(())
    }

    /// Does it unless something has failed; keeps the first failure, as readers cannot be stopped.
    fn unless_failed(&mut self, write: impl FnOnce(&mut Self) -> Result<(), ExportError>) {
        if self.error.is_none() {
            self.error = write(self).err();
        }
    }
}

impl Sink for DataSetExporter {
    fn module(&mut self, module: &Module) {
        self.names.add_module(module);
        self.description.module(module);
    }

    fn function(&mut self, function: &TracedFunction) {
        self.names.add_function(function);
        self.description.function(function);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.unless_failed(|exporter| exporter.try_accesses(thread, batch));
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.description.event(thread, time, event);
        self.unless_failed(|exporter| {
            let row = EventRow::new(event, &exporter.names);
            let rows = exporter.events.rows_at(thread, time_block(time))?;
            rows.push(thread, time, &row);
            Ok(())
        });
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        self.unless_failed(|exporter| {
            let pairs = accesses.iter().zip(values);
            for (access, value) in pairs.filter(|(_, value)| !value.is_empty()) {
                let rows = exporter.values.rows_at(thread, time_block(access.time))?;
                rows.push(thread, access, value);
            }
            Ok(())
        });
    }
}

fn time_block(time: u64) -> u64 {
    time >> TIME_BLOCK_BITS
}

fn write_modules(folder: &Path, description: &Description) -> Result<(), ExportError> {
    let mut table = create_table(folder, 0, MODULE_SCHEMA, Purpose::Small)?;
    let columns = ModuleColumns::new(description.modules());
    if !columns.is_empty() {
        table.write_group(&columns.columns())?;
    }
    table.finish(&Value::Object(description.without_modules()).to_string())
}

/// One table of a process: a file for each thread and block of time.
#[derive(Debug)]
struct Parts<R> {
    folder: PathBuf,
    header: String,
    rows: R,
    /// The file that is being written.
    part: Option<(Place, TableWriter)>,
    /// How many files were made.
    made: u32,
}

/// What the rows of a file have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    thread: ThreadId,
    time_block: u64,
}

impl<R: Rows> Parts<R> {
    fn new(data_set: &PendingDataSet, header: &str) -> Parts<R> {
        Parts {
            folder: data_set.folder_of(R::TABLE),
            header: header.to_owned(),
            rows: R::default(),
            part: None,
            made: 0,
        }
    }

    /// Where rows of this thread and time are to be added.
    fn rows_at(&mut self, thread: ThreadId, time_block: u64) -> Result<&mut R, ExportError> {
        let place = Place { thread, time_block };
        match &self.part {
            Some((open, _)) if *open == place => {
                if self.rows.are_many() {
                    self.write_group()?;
                }
            }
            _ => {
                self.end()?;
                self.begin(place)?;
            }
        }
        Ok(&mut self.rows)
    }

    fn begin(&mut self, place: Place) -> Result<(), ExportError> {
        let Place { thread, time_block } = place;
        let folder = self.folder.join(format!("thread={}", thread.0));
        let folder = folder.join(format!("time_block={time_block}"));
        let schema = without_thread(R::SCHEMA);
        // The number keeps files apart should a thread be given in pieces.
        let table = create_table(&folder, self.made, &schema, R::PURPOSE)?;
        self.made += 1;
        self.part = Some((place, table));
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        match &mut self.part {
            Some((_, table)) => self.rows.write_to(table, Partition::OneThread),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), ExportError> {
        self.write_group()?;
        match self.part.take() {
            Some((_, table)) => table.finish(&self.header),
            None => Ok(()),
        }
    }
}

fn create_table(
    folder: &Path,
    number: u32,
    schema: &str,
    purpose: Purpose,
) -> Result<TableWriter, ExportError> {
    std::fs::create_dir_all(folder).map_err(|source| ExportError::Create {
        path: folder.to_owned(),
        source,
    })?;
    let path = folder.join(format!("part-{number}.parquet"));
    TableWriter::create(&path, schema, purpose)
}

#[cfg(test)]
mod tests;
