//! How every file of Unspool is framed, whoever wrote it: a header that says of which run it is,
//! then chunks, which carry records of streams. `docs/format.md` draws it byte by byte.
//!
//! A **stream** is a sequence of records of one kind: accesses, samples, what a collector counts.
//! A file [declares](stream::Declaration) each with a name, a number that stands for it in this
//! file, and the version of its schema, so that a reader can list what it does not understand and
//! pass over it.
//!
//! There are two ways to fill a file. What is [appended](Layout::Appended) has an index and an end
//! behind it. What is filled [in place](in_place) is mapped into the memory of the process that
//! writes it: it is readable at any moment, and nothing has to happen at its end.
//!
//! What records mean is not known here: `unspool-events` knows it of those that it defines, and
//! whoever defines others, of those. This crate is small, because it is also part of what is
//! loaded into programs that run natively.
//!
//! ```
//! use unspool_container::in_place::{self, InPlace};
//! use unspool_container::stream::{Declaration, Form, StreamNumber};
//! use unspool_container::{Order, ThreadId, TraceHeader};
//!
//! const COUNTS: StreamNumber = StreamNumber(0x200);
//! let header = TraceHeader {
//!     order: Order::None,
//!     granule: 0,
//!     program: b"/bin/true".to_vec(),
//!     arguments: vec![b"true".to_vec()],
//!     options: Vec::new(),
//!     process: 1,
//!     parent_process: None,
//!     start_unix_ns: 0,
//!     tool_version: "0.1.0".to_owned(),
//! };
//! let streams = [Declaration {
//!     number: COUNTS,
//!     name: "counts".into(),
//!     version: 1,
//!     form: Form::Blocks,
//! }];
//! let mut bytes = in_place::start(&header, &streams);
//! bytes.extend(in_place::block_header(COUNTS, ThreadId(0), 0, 16));
//! bytes.extend(17_u64.to_le_bytes());
//! bytes.resize(bytes.len() + 8 + 4096, 0);
//!
//! let file = InPlace::read(&bytes)?;
//! assert_eq!(file.streams, streams);
//! assert_eq!(file.blocks[0].payload[..8], 17_u64.to_le_bytes());
//! assert!(file.gaps.is_empty());
//! # Ok::<(), unspool_container::HeaderError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bytes;
pub mod chunk;
mod header;
pub mod in_place;
mod order;
pub mod stream;
mod thread;

pub use header::{FieldsCheck, HeaderError, Layout, TraceHeader};
pub use order::Order;
pub use thread::ThreadId;

/// The version of the format that is written.
pub(crate) const FORMAT_VERSION: u32 = 6;

/// The oldest version that is read. In version 2 all path ids are of one generation; before
/// version 4 there are no values of operands whose extent is known only at run time; before version
/// 5 no streams are declared; before version 6 nothing tells calls and returns from other accesses.
pub(crate) const OLDEST_VERSION: u32 = 2;

/// The first version in which streams are declared.
pub const FIRST_WITH_STREAMS: u32 = 5;

/// Bytes before the file header's fields: magic, version, length, checksum.
pub const FIXED_BYTES: usize = 24;
