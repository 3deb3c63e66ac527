//! Where text exporters put their lines.

use std::io::Write;

use crate::ExportError;

/// Text is passed on once there is this much of it: large enough that the cost of a system
/// call vanishes, small enough to stay in the processor's cache.
const PASS_ON_BYTES: usize = 256 << 10;

/// A buffer before an output that may fail.
///
/// Readers of traces cannot be stopped by their sinks, so the first error is kept until the
/// end, and what comes after it is thrown away.
#[derive(Debug)]
pub(crate) struct BufferedOutput<W> {
    output: W,
    text: Vec<u8>,
    error: Option<std::io::Error>,
}

impl<W: Write> BufferedOutput<W> {
    pub(crate) fn new(output: W) -> Self {
        // The slack takes the line or the batch that crosses the mark.
        BufferedOutput {
            output,
            text: Vec::with_capacity(2 * PASS_ON_BYTES),
            error: None,
        }
    }

    /// The text, to append to. Call [`BufferedOutput::pass_on`] between lines.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Passes the text on if there is enough of it.
    #[inline]
    pub(crate) fn pass_on(&mut self) {
        if self.text.len() >= PASS_ON_BYTES {
            self.write_out();
        }
    }

    /// Passes on what there is.
    pub(crate) fn pass_on_all(&mut self) {
        if !self.text.is_empty() {
            self.write_out();
        }
    }

    /// Passes the rest on.
    ///
    /// # Errors
    /// The first one of all.
    pub(crate) fn finish(mut self) -> Result<(), ExportError> {
        self.write_out();
        match self.error.take() {
            Some(error) => Err(ExportError::Write(error)),
            None => self.output.flush().map_err(ExportError::Write),
        }
    }

    #[cold]
    fn write_out(&mut self) {
        if self.error.is_none() {
            self.error = self.output.write_all(&self.text).err();
        }
        self.text.clear();
    }
}

/// Appends a number in decimal.
#[inline]
pub(crate) fn push_decimal(text: &mut Vec<u8>, value: impl itoa::Integer) {
    text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a number as `0x` and hexadecimal digits without leading zeros.
#[inline]
pub(crate) fn push_hexadecimal(text: &mut Vec<u8>, value: u64) {
    let digits = (16 - value.leading_zeros() as usize / 4).max(1);
    text.extend_from_slice(b"0x");
    text.extend(
        (0..digits)
            .rev()
            .map(|digit| HEXADECIMAL[(value >> (4 * digit) & 15) as usize]),
    );
}

/// Appends bytes as hexadecimal digits, the byte at the lowest address first.
pub(crate) fn push_bytes(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend(bytes.iter().flat_map(|byte| {
        [
            HEXADECIMAL[usize::from(byte >> 4)],
            HEXADECIMAL[usize::from(byte & 15)],
        ]
    }));
}

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for value in [
            0,
            1,
            9,
            15,
            16,
            255,
            256,
            4095,
            4096,
            u64::MAX >> 1,
            u64::MAX,
        ] {
            let mut text = Vec::new();
            push_hexadecimal(&mut text, value);
            text.push(b' ');
            push_decimal(&mut text, value);
            assert_eq!(
                String::from_utf8(text).unwrap(),
                format!("{value:#x} {value}")
            );
        }
    }

    #[test]
    fn the_first_error_is_reported_and_nothing_is_kept_after_it() {
        struct Full(u32);
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                self.0 += 1;
                assert_eq!(self.0, 1, "written again after an error");
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut output = BufferedOutput::new(Full(0));
        for _ in 0..3 {
            output.text().resize(PASS_ON_BYTES, b'x');
            output.pass_on();
        }
        assert!(matches!(output.finish(), Err(ExportError::Write(error))
            if error.kind() == std::io::ErrorKind::StorageFull));
    }
}
