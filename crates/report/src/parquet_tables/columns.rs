//! The columns of each table, as they are collected. Parquet stores unsigned numbers in its
//! signed types and notes in the schema what they are.

use parquet::data_type::ByteArray;

use unspool_events::{Access, AccessFlags, AccessKind, ThreadId};

use super::table::Column;
use crate::description::{hexadecimal, lossy};
use crate::placed_module::PlacedModule;

pub(super) const ACCESS_SCHEMA: &str = "message accesses {
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
    pub(super) times: Vec<i64>,
    pub(super) threads: Vec<i32>,
    pub(super) pcs: Vec<i64>,
    pub(super) addresses: Vec<i64>,
    pub(super) sizes: Vec<i32>,
    pub(super) writes: Vec<bool>,
    pub(super) atomics: Vec<bool>,
    pub(super) failed_cas: Vec<bool>,
    pub(super) firsts: Vec<bool>,
    pub(super) non_temporals: Vec<bool>,
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

    /// In the order of the schema.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
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

    pub(super) fn clear(&mut self) {
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

pub(super) const EVENT_SCHEMA: &str = "message events {
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
    pub(super) times: Vec<i64>,
    pub(super) threads: Vec<i32>,
    pub(super) kinds: Vec<ByteArray>,
    pub(super) numbers: Vec<Option<i64>>,
    pub(super) addresses: Vec<Option<i64>>,
    pub(super) sizes: Vec<Option<i64>>,
    pub(super) names: Vec<Option<ByteArray>>,
    pub(super) arguments: [Vec<Option<i64>>; 6],
}

impl EventColumns {
    /// In the order of the schema.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
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

    pub(super) fn clear(&mut self) {
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

pub(super) const VALUE_SCHEMA: &str = "message values {
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
    pub(super) times: Vec<i64>,
    pub(super) threads: Vec<i32>,
    pub(super) pcs: Vec<i64>,
    pub(super) addresses: Vec<i64>,
    pub(super) writes: Vec<bool>,
    pub(super) values: Vec<ByteArray>,
}

impl ValueColumns {
    /// In the order of the schema.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        vec![
            Column::Long(&self.times),
            Column::Int(&self.threads),
            Column::Long(&self.pcs),
            Column::Long(&self.addresses),
            Column::Boolean(&self.writes),
            Column::Bytes(&self.values),
        ]
    }

    pub(super) fn clear(&mut self) {
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
