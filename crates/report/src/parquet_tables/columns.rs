//! The columns of each table, as they are collected. Parquet stores unsigned numbers in its
//! signed types and notes in the schema what they are.

use parquet::data_type::ByteArray;

use unspool_events::{Access, AccessFlags, AccessKind, ThreadId};

use super::ROWS_IN_GROUP;
use super::table::{Column, Purpose, TableWriter};
use crate::ExportError;
use crate::description::{hexadecimal, lossy};
use crate::event_row::EventRow;
use crate::placed_module::PlacedModule;

/// Rows of one table, as many as are collected for a row group.
pub(super) trait Rows: Default {
    /// The table's name.
    const TABLE: &'static str;
    /// Its columns: the time, the thread, then the others.
    const SCHEMA: &'static str;
    /// What the table is to be good for.
    const PURPOSE: Purpose;

    /// How many rows there are.
    fn count(&self) -> usize;

    /// In the order of the schema.
    fn columns(&self) -> Vec<Column<'_>>;

    fn clear(&mut self);

    /// Whether there are enough for a row group.
    fn are_many(&self) -> bool {
        self.count() >= ROWS_IN_GROUP
    }

    /// Writes the rows if they are many.
    fn write_if_many(
        &mut self,
        table: &mut TableWriter,
        folder: Partition,
    ) -> Result<(), ExportError> {
        match self.are_many() {
            true => self.write_to(table, folder),
            false => Ok(()),
        }
    }

    /// Writes the rows, if there are any, as a row group, and forgets them.
    fn write_to(&mut self, table: &mut TableWriter, folder: Partition) -> Result<(), ExportError> {
        if self.count() == 0 {
            return Ok(());
        }
        let mut columns = self.columns();
        if folder == Partition::OneThread {
            columns.remove(THREAD_COLUMN);
        }
        let written = table.write_group(&columns);
        self.clear();
        written
    }
}

/// The thread's place among the columns.
const THREAD_COLUMN: usize = 1;

/// What the rows of a file have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partition {
    /// Nothing.
    None,
    /// The thread, which stands in the name of the file's folder.
    OneThread,
}

/// The schema of rows the thread of which stands in the name of their folder.
pub(super) fn without_thread(schema: &str) -> String {
    let columns = schema.lines().filter(|line| !line.contains(" thread "));
    columns.collect::<Vec<_>>().join("\n")
}

const ACCESS_SCHEMA: &str = "message accesses {
    required int64 time (integer(64, false));
    required int32 thread (integer(32, false));
    required int64 pc (integer(64, false));
    required int64 address (integer(64, false));
    required int32 size (integer(32, false));
    required boolean write;
    required boolean atomic;
    required boolean failed_cas;
    required boolean first;
    required boolean non_temporal;
}";

/// Rows of the table of accesses.
#[derive(Debug, Default)]
pub(super) struct AccessColumns {
    times: Vec<i64>,
    threads: Vec<i32>,
    pcs: Vec<i64>,
    addresses: Vec<i64>,
    sizes: Vec<i32>,
    writes: Vec<bool>,
    atomics: Vec<bool>,
    failed_cas: Vec<bool>,
    firsts: Vec<bool>,
    non_temporals: Vec<bool>,
}

impl AccessColumns {
    /// Adds rows, column by column.
    pub(super) fn extend(&mut self, thread: ThreadId, batch: &[Access]) {
        let times = batch.iter().map(|access| access.time.cast_signed());
        self.times.extend(times);
        let rows = self.times.len();
        self.threads.resize(rows, thread.0.cast_signed());
        let pcs = batch.iter().map(|access| access.pc.cast_signed());
        self.pcs.extend(pcs);
        let addresses = batch.iter().map(|access| access.address.cast_signed());
        self.addresses.extend(addresses);
        let sizes = batch.iter().map(|access| access.size.cast_signed());
        self.sizes.extend(sizes);
        let writes = batch.iter().map(|access| access.kind == AccessKind::Write);
        self.writes.extend(writes);
        let flag = |flag| batch.iter().map(move |access| access.flags.contains(flag));
        self.atomics.extend(flag(AccessFlags::ATOMIC));
        self.failed_cas.extend(flag(AccessFlags::FAILED_CAS));
        self.firsts.extend(flag(AccessFlags::FIRST));
        self.non_temporals.extend(flag(AccessFlags::NON_TEMPORAL));
    }
}

impl Rows for AccessColumns {
    const TABLE: &'static str = "accesses";
    const SCHEMA: &'static str = ACCESS_SCHEMA;
    const PURPOSE: Purpose = Purpose::Fast;

    fn count(&self) -> usize {
        self.times.len()
    }

    fn columns(&self) -> Vec<Column<'_>> {
        vec![
            Column::Long(&self.times),
            Column::Int(&self.threads),
            Column::Long(&self.pcs),
            Column::Long(&self.addresses),
            Column::Int(&self.sizes),
            Column::Boolean(&self.writes),
            Column::Boolean(&self.atomics),
            Column::Boolean(&self.failed_cas),
            Column::Boolean(&self.firsts),
            Column::Boolean(&self.non_temporals),
        ]
    }

    fn clear(&mut self) {
        self.times.clear();
        self.threads.clear();
        self.pcs.clear();
        self.addresses.clear();
        self.sizes.clear();
        self.writes.clear();
        self.atomics.clear();
        self.failed_cas.clear();
        self.firsts.clear();
        self.non_temporals.clear();
    }
}

const EVENT_SCHEMA: &str = "message events {
    required int64 time (integer(64, false));
    required int32 thread (integer(32, false));
    required binary kind (string);
    optional int64 number;
    optional int64 address (integer(64, false));
    optional int64 size (integer(64, false));
    optional binary name (string);
    optional int64 argument0 (integer(64, false));
    optional int64 argument1 (integer(64, false));
    optional int64 argument2 (integer(64, false));
    optional int64 argument3 (integer(64, false));
    optional int64 argument4 (integer(64, false));
    optional int64 argument5 (integer(64, false));
}";

/// Rows of the table of events.
#[derive(Debug, Default)]
pub(super) struct EventColumns {
    times: Vec<i64>,
    threads: Vec<i32>,
    kinds: Vec<ByteArray>,
    numbers: Vec<Option<i64>>,
    addresses: Vec<Option<i64>>,
    sizes: Vec<Option<i64>>,
    names: Vec<Option<ByteArray>>,
    arguments: [Vec<Option<i64>>; 6],
}

impl EventColumns {
    pub(super) fn push(&mut self, thread: ThreadId, time: u64, row: &EventRow<'_>) {
        self.times.push(time.cast_signed());
        self.threads.push(thread.0.cast_signed());
        self.kinds.push(row.kind.into());
        self.numbers.push(row.number);
        self.addresses.push(row.address.map(u64::cast_signed));
        self.sizes.push(row.size.map(u64::cast_signed));
        self.names.push(row.name.as_deref().map(Into::into));
        for (index, column) in self.arguments.iter_mut().enumerate() {
            let argument = row.argument_values().get(index);
            column.push(argument.map(|value| value.cast_signed()));
        }
    }
}

impl Rows for EventColumns {
    const TABLE: &'static str = "events";
    const SCHEMA: &'static str = EVENT_SCHEMA;
    const PURPOSE: Purpose = Purpose::Small;

    fn count(&self) -> usize {
        self.times.len()
    }

    fn columns(&self) -> Vec<Column<'_>> {
        let mut columns = vec![
            Column::Long(&self.times),
            Column::Int(&self.threads),
            Column::Bytes(&self.kinds),
            Column::OptionalLong(&self.numbers),
            Column::OptionalLong(&self.addresses),
            Column::OptionalLong(&self.sizes),
            Column::OptionalBytes(&self.names),
        ];
        columns.extend(
            self.arguments
                .iter()
                .map(|column| Column::OptionalLong(column)),
        );
        columns
    }

    fn clear(&mut self) {
        self.times.clear();
        self.threads.clear();
        self.kinds.clear();
        self.numbers.clear();
        self.addresses.clear();
        self.sizes.clear();
        self.names.clear();
        self.arguments.iter_mut().for_each(Vec::clear);
    }
}

const VALUE_SCHEMA: &str = "message values {
    required int64 time (integer(64, false));
    required int32 thread (integer(32, false));
    required int64 pc (integer(64, false));
    required int64 address (integer(64, false));
    required boolean write;
    required binary value;
}";

/// Rows of the table of values.
#[derive(Debug, Default)]
pub(super) struct ValueColumns {
    times: Vec<i64>,
    threads: Vec<i32>,
    pcs: Vec<i64>,
    addresses: Vec<i64>,
    writes: Vec<bool>,
    values: Vec<ByteArray>,
}

impl ValueColumns {
    /// Those that are known.
    pub(super) fn extend(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        let pairs = accesses.iter().zip(values);
        for (access, value) in pairs.filter(|(_, value)| !value.is_empty()) {
            self.push(thread, access, value);
        }
    }

    pub(super) fn push(&mut self, thread: ThreadId, access: &Access, value: &[u8]) {
        self.times.push(access.time.cast_signed());
        self.threads.push(thread.0.cast_signed());
        self.pcs.push(access.pc.cast_signed());
        self.addresses.push(access.address.cast_signed());
        self.writes.push(access.kind == AccessKind::Write);
        self.values.push(value.to_vec().into());
    }
}

impl Rows for ValueColumns {
    const TABLE: &'static str = "values";
    const SCHEMA: &'static str = VALUE_SCHEMA;
    const PURPOSE: Purpose = Purpose::Small;

    fn count(&self) -> usize {
        self.times.len()
    }

    fn columns(&self) -> Vec<Column<'_>> {
        vec![
            Column::Long(&self.times),
            Column::Int(&self.threads),
            Column::Long(&self.pcs),
            Column::Long(&self.addresses),
            Column::Boolean(&self.writes),
            Column::Bytes(&self.values),
        ]
    }

    fn clear(&mut self) {
        self.times.clear();
        self.threads.clear();
        self.pcs.clear();
        self.addresses.clear();
        self.writes.clear();
        self.values.clear();
    }
}

pub(super) const MODULE_SCHEMA: &str = "message modules {
    required int32 module (integer(32, false));
    required binary path (string);
    required int64 base (integer(64, false));
    required int64 size (integer(64, false));
    required binary build_id (string);
    optional int64 loaded (integer(64, false));
    optional int64 unloaded (integer(64, false));
}";

/// Rows of the table of modules.
#[derive(Debug, Default)]
pub(super) struct ModuleColumns {
    numbers: Vec<i32>,
    paths: Vec<ByteArray>,
    bases: Vec<i64>,
    sizes: Vec<i64>,
    build_ids: Vec<ByteArray>,
    loaded: Vec<Option<i64>>,
    unloaded: Vec<Option<i64>>,
}

impl ModuleColumns {
    pub(super) fn new<'a>(modules: impl Iterator<Item = &'a PlacedModule>) -> ModuleColumns {
        let mut columns = ModuleColumns::default();
        for placed in modules {
            let module = &placed.module;
            columns.numbers.push(module.id.0.cast_signed());
            columns.paths.push(lossy(&module.path).as_str().into());
            columns.bases.push(module.base.cast_signed());
            columns.sizes.push(module.size.cast_signed());
            let build_id = hexadecimal(&module.build_id);
            columns.build_ids.push(build_id.as_str().into());
            columns.loaded.push(placed.loaded.map(u64::cast_signed));
            columns.unloaded.push(placed.unloaded.map(u64::cast_signed));
        }
        columns
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// In the order of the schema.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        vec![
            Column::Int(&self.numbers),
            Column::Bytes(&self.paths),
            Column::Long(&self.bases),
            Column::Long(&self.sizes),
            Column::Bytes(&self.build_ids),
            Column::OptionalLong(&self.loaded),
            Column::OptionalLong(&self.unloaded),
        ]
    }
}
