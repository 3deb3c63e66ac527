//! One Parquet file, written a row group at a time.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::{ExportError, PendingFile};

/// The name of the trace's description in a file's metadata.
const DESCRIPTION_KEY: &str = "unspool";

/// The values of one column of a row group.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column<'a> {
    Int(&'a [i32]),
    Long(&'a [i64]),
    Boolean(&'a [bool]),
    Bytes(&'a [ByteArray]),
    OptionalLong(&'a [Option<i64>]),
    OptionalBytes(&'a [Option<ByteArray>]),
}

/// A Parquet file that is being written.
pub(super) struct TableWriter {
    path: PathBuf,
    pending: PendingFile,
    writer: SerializedFileWriter<BufWriter<File>>,
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TableWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl TableWriter {
    /// Creates the file.
    pub(super) fn create(
        path: &Path,
        schema: &str,
        purpose: Purpose,
    ) -> Result<TableWriter, ExportError> {
        let failed = |source| ExportError::Table {
            path: path.to_owned(),
            source,
        };
        let not_created = |source| ExportError::Create {
            path: path.to_owned(),
            source,
        };
        let pending = PendingFile::create(path).map_err(not_created)?;
        let file = pending.writer().map_err(not_created)?;
        let schema = Arc::new(parse_message_type(schema).map_err(failed)?);
        let writer =
            SerializedFileWriter::new(BufWriter::new(file), schema, Arc::new(purpose.properties()))
                .map_err(failed)?;
        Ok(TableWriter {
            path: path.to_owned(),
            pending,
            writer,
        })
    }

    /// Writes one row group. The columns stand in the order of the schema and have the same
    /// number of rows.
    pub(super) fn write_group(&mut self, columns: &[Column<'_>]) -> Result<(), ExportError> {
        self.try_write_group(columns)
            .map_err(|source| ExportError::Table {
                path: self.path.clone(),
                source,
            })
    }

    /// Writes the end of the file, with the description of the trace in its metadata.
    pub(super) fn finish(self, description: &str) -> Result<(), ExportError> {
        let TableWriter {
            path,
            pending,
            mut writer,
        } = self;
        let description = KeyValue::new(DESCRIPTION_KEY.to_owned(), description.to_owned());
        writer.append_key_value_metadata(description);
        let failed = |source| ExportError::Table {
            path: path.clone(),
            source,
        };
        let buffered = writer.into_inner().map_err(failed)?;
        buffered
            .into_inner()
            .map_err(|error| ExportError::Write(error.into_error()))?;
        pending
            .complete()
            .map_err(|source| ExportError::Create { path, source })
    }

    fn try_write_group(&mut self, columns: &[Column<'_>]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in columns {
            match column {
                Column::Int(values) => write_column::<Int32Type>(&mut group, values, None)?,
                Column::Long(values) => write_column::<Int64Type>(&mut group, values, None)?,
                Column::Boolean(values) => write_column::<BoolType>(&mut group, values, None)?,
                Column::Bytes(values) => write_column::<ByteArrayType>(&mut group, values, None)?,
                Column::OptionalLong(values) => {
                    write_optional_column::<Int64Type>(&mut group, values)?;
                }
                Column::OptionalBytes(values) => {
                    write_optional_column::<ByteArrayType>(&mut group, values)?;
                }
            }
        }
        group.close()?;
        Ok(())
    }
}

/// What a table is to be good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Many rows, written fast.
    Fast,
    /// Few rows, in little room.
    Small,
}

impl Purpose {
    fn properties(self) -> WriterProperties {
        // Times mostly rise by little.
        let time = ColumnPath::from("time");
        let all = WriterProperties::builder()
            .set_created_by(concat!("unspool ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_column_dictionary_enabled(time.clone(), false)
            .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED);
        match self {
            Purpose::Small => all.set_compression(Compression::ZSTD(ZstdLevel::default())),
            // A dictionary looks each value up. LZ4 finds what repeats at a fraction of the cost.
            Purpose::Fast => LOOKED_FOR.into_iter().fold(
                all.set_compression(Compression::LZ4_RAW)
                    .set_dictionary_enabled(false)
                    .set_statistics_enabled(EnabledStatistics::None),
                |all, name| {
                    let column = ColumnPath::from(name);
                    all.set_column_statistics_enabled(column, EnabledStatistics::Chunk)
                },
            ),
        }
        .build()
    }
}

/// Columns whose ranges tell readers which row groups they need not read.
const LOOKED_FOR: [&str; 3] = ["time", "thread", "address"];

fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
    values: &[T::T],
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<T>().write_batch(values, present, None)?;
    column.close()
}

fn write_optional_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
    values: &[Option<T::T>],
) -> Result<(), ParquetError> {
    let present: Vec<i16> = values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect();
    let values: Vec<T::T> = values.iter().flatten().cloned().collect();
    write_column::<T>(group, &values, Some(&present))
}
