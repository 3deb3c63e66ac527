//! Writing a recording while the program runs.

use std::io::{self, Write};

use unspool_container::in_place::{block_header, start};
use unspool_container::{ThreadId, TraceHeader};

use crate::record::Record;
use crate::{SAMPLES, declaration};

/// A block that has become so long is written.
const BLOCK_BYTES: usize = 1 << 16;

/// A file that grows block by block.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    block: Vec<u8>,
    blocks: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(mut output: W, header: &TraceHeader) -> io::Result<Writer<W>> {
        output.write_all(&start(header, &[declaration()]))?;
        Ok(Writer {
            output,
            block: Vec::new(),
            blocks: 0,
        })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        record.put(&mut self.block);
        match self.block.len() {
            ..BLOCK_BYTES => Ok(()),
            _ => self.flush(),
        }
    }

    /// Has a reader see all records that were added.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let length = self.block.len() as u64;
        let header = block_header(SAMPLES, ThreadId(0), self.blocks, length);
        self.output.write_all(&header)?;
        self.output.write_all(&self.block)?;
        self.output.flush()?;
        self.block.clear();
        self.blocks += 1;
        Ok(())
    }
}
