//! Parquet: a table of accesses, one of events, one of modules and, where values were recorded,
//! one of values. `docs/exports.md` describes the columns.

mod columns;
mod data_set;
mod table;

use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_events::{Access, Event, Function, Module, Sink, ThreadId};

use crate::event_row::EventRow;
use crate::{Description, ExportError, Names};
use columns::{AccessColumns, EventColumns, MODULE_SCHEMA, ModuleColumns, Rows, ValueColumns};
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
        self.write_accesses();
        self.write_events();
        self.write_values();
        self.write_modules();
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

    fn write_modules(&mut self) {
        let columns = ModuleColumns::new(self.description.modules());
        if self.error.is_none() && !columns.is_empty() {
            self.error = self.modules.write_group(&columns.columns()).err();
        }
    }

    fn write_accesses(&mut self) {
        if self.error.is_none() && self.access_columns.count() > 0 {
            self.error = self
                .accesses
                .write_group(&self.access_columns.columns())
                .err();
        }
        self.access_columns.clear();
    }

    fn write_events(&mut self) {
        if self.error.is_none() && self.event_columns.count() > 0 {
            self.error = self.events.write_group(&self.event_columns.columns()).err();
        }
        self.event_columns.clear();
    }

    fn write_values(&mut self) {
        if self.error.is_none() && self.value_columns.count() > 0 {
            self.error = self.try_write_values().err();
        }
        self.value_columns.clear();
    }

    fn try_write_values(&mut self) -> Result<(), ExportError> {
        let table = match &mut self.values {
            Some(table) => table,
            None => self.values.insert(TableWriter::create(
                &self.values_path,
                ValueColumns::SCHEMA,
                ValueColumns::PURPOSE,
            )?),
        };
        table.write_group(&self.value_columns.columns())
    }
}

impl Sink for ParquetExporter {
    fn module(&mut self, module: &Module) {
        self.names.add_module(module);
        self.description.module(module);
    }

    fn function(&mut self, function: &Function) {
        self.names.add_function(function);
        self.description.function(function);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        let columns = &mut self.access_columns;
        columns.extend(thread, batch);
        if columns.count() >= ROWS_IN_GROUP {
            self.write_accesses();
        }
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.description.event(thread, time, event);
        let row = EventRow::new(event, &self.names);
        let columns = &mut self.event_columns;
        columns.push(thread, time, &row);
        if columns.count() >= ROWS_IN_GROUP {
            self.write_events();
        }
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        let columns = &mut self.value_columns;
        for (access, value) in accesses
            .iter()
            .zip(values)
            .filter(|(_, value)| !value.is_empty())
        {
            columns.push(thread, access, value);
        }
        if columns.count() >= ROWS_IN_GROUP {
            self.write_values();
        }
    }
}

#[cfg(test)]
mod tests;
