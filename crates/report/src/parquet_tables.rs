//! Parquet: a table of accesses, one of events, one of modules and, where values were recorded,
//! one of values. `docs/exports.md` describes the columns.

mod columns;
mod data_set;
mod table;

use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_events::{Access, Event, Module, Sink, ThreadId, TracedFunction};

use crate::event_row::EventRow;
use crate::{Description, ExportError, Names};
use columns::{
    AccessColumns, EventColumns, MODULE_SCHEMA, ModuleColumns, Partition, Rows, ValueColumns,
};
pub use data_set::DataSetExporter;
use table::{Purpose, TableWriter};

/// Rows that are collected before they are written as one row group: few enough that they are
/// still in a cache of the processor then.
const ROWS_IN_GROUP: usize = 1 << 18;

/// The names of the tables' files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParquetPaths {
    /// Accesses.
    pub accesses: PathBuf,
    /// Events.
    pub events: PathBuf,
    /// Modules, and when each was where.
    pub modules: PathBuf,
    /// Values; the file is made only if the trace has any.
    pub values: PathBuf,
}

impl ParquetPaths {
    /// `PREFIX.accesses.parquet` and so on.
    #[must_use]
    pub fn with_prefix(prefix: &Path) -> ParquetPaths {
        let with = |ending: &str| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        ParquetPaths {
            accesses: with(".accesses.parquet"),
            events: with(".events.parquet"),
            modules: with(".modules.parquet"),
            values: with(".values.parquet"),
        }
    }
}

/// Writes the tables.
#[derive(Debug)]
pub struct ParquetExporter {
    names: Names,
    description: Description,
    accesses: TableWriter,
    access_columns: AccessColumns,
    events: TableWriter,
    event_columns: EventColumns,
    modules: TableWriter,
    values_path: PathBuf,
    values: Option<TableWriter>,
    value_columns: ValueColumns,
    error: Option<ExportError>,
}

impl ParquetExporter {
    /// Creates the files. The description goes with each table.
    ///
    /// # Errors
    /// If one cannot be created.
    pub fn create(
        paths: &ParquetPaths,
        names: Names,
        description: Description,
    ) -> Result<ParquetExporter, ExportError> {
        Ok(ParquetExporter {
            names,
            description,
            accesses: TableWriter::create(
                &paths.accesses,
                AccessColumns::SCHEMA,
                AccessColumns::PURPOSE,
            )?,
            access_columns: AccessColumns::default(),
            events: TableWriter::create(
                &paths.events,
                EventColumns::SCHEMA,
                EventColumns::PURPOSE,
            )?,
            event_columns: EventColumns::default(),
            modules: TableWriter::create(&paths.modules, MODULE_SCHEMA, Purpose::Small)?,
            values_path: paths.values.clone(),
            values: None,
            value_columns: ValueColumns::default(),
            error: None,
        })
    }

    /// Writes what is left, and the ends of the files.
    ///
    /// # Errors
    /// The first error of all.
    pub fn finish(mut self) -> Result<(), ExportError> {
        self.unless_failed(ParquetExporter::write_all);
        if let Some(error) = self.error {
            return Err(error);
        }
        let tables = [self.modules, self.events, self.accesses];
        let description = Value::Object(self.description.without_modules()).to_string();
        for table in tables.into_iter().chain(self.values) {
            table.finish(&description)?;
        }
        Ok(())
    }

    fn write_all(&mut self) -> Result<(), ExportError> {
        self.access_columns
            .write_to(&mut self.accesses, Partition::None)?;
        self.event_columns
            .write_to(&mut self.events, Partition::None)?;
        self.write_values()?;
        let modules = ModuleColumns::new(self.description.modules());
        match modules.is_empty() {
            true => Ok(()),
            false => self.modules.write_group(&modules.columns()),
        }
    }

    fn write_values(&mut self) -> Result<(), ExportError> {
        if self.value_columns.count() == 0 {
            return Ok(());
        }
        let table = match &mut self.values {
            Some(table) => table,
            None => self.values.insert(TableWriter::create(
                &self.values_path,
                ValueColumns::SCHEMA,
                ValueColumns::PURPOSE,
            )?),
        };
        self.value_columns.write_to(table, Partition::None)
    }

    /// Does it unless something has failed; keeps the first failure, as readers cannot be stopped.
    fn unless_failed(&mut self, write: impl FnOnce(&mut Self) -> Result<(), ExportError>) {
        if self.error.is_none() {
            self.error = write(self).err();
        }
    }
}

impl Sink for ParquetExporter {
    fn module(&mut self, module: &Module) {
        self.names.add_module(module);
        self.description.module(module);
    }

    fn function(&mut self, function: &TracedFunction) {
        self.names.add_function(function);
        self.description.function(function);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.unless_failed(|exporter| {
            let rows = &mut exporter.access_columns;
            rows.extend(thread, batch);
            rows.write_if_many(&mut exporter.accesses, Partition::None)
        });
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.description.event(thread, time, event);
        self.unless_failed(|exporter| {
            let row = EventRow::new(event, &exporter.names);
            let rows = &mut exporter.event_columns;
            rows.push(thread, time, &row);
            rows.write_if_many(&mut exporter.events, Partition::None)
        });
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        self.unless_failed(|exporter| {
            exporter.value_columns.extend(thread, accesses, values);
            match exporter.value_columns.are_many() {
                true => exporter.write_values(),
                false => Ok(()),
            }
        });
    }
}

#[cfg(test)]
mod tests;
