//! Puts a planned layout into memory.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::regions::Version;

use super::error::LoadError;
use super::executable::Executable;
use super::layout::{ADDRESSES_END, Layout, PAGE, page_end};
use super::memory::Reservation;

/// Where 32-bit displacements end.
const LOW_END: u64 = 0x8000_0000;
/// How far apart the places are that are tried for a relocatable image.
const PLACE_STEP: u64 = 16 << 20;

/// Pages of the program, mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedSegment {
    /// First address; page-aligned.
    pub address: u64,
    /// Bytes, in whole pages.
    pub size: u64,
    /// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC` of `mmap`.
    pub protection: i32,
    /// The mapped file; none for memory that started as zeros.
    pub file: Option<PathBuf>,
    /// Where in the file the pages start.
    pub offset: u64,
    /// Which file it is, as it was when it was mapped.
    pub identity: Option<FileIdentity>,
    /// Which content it has, where the file system can be relied on to tell.
    pub version: Option<Version>,
}

impl MappedSegment {
    /// The address after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

/// A program or dynamic loader in memory. Dropping it unmaps it, unless it is kept.
#[derive(Debug)]
pub(crate) struct MappedFile {
    /// What to add to the file's addresses.
    pub(crate) bias: u64,
    pub(crate) path: PathBuf,
    pub(crate) segments: Vec<MappedSegment>,
    occupied: Vec<(u64, u64)>,
    reservations: Vec<Reservation>,
}

impl MappedFile {
    /// Maps the file by its layout: at the addresses that it asks for or, if it asks for
    /// none, at the first free place from `base` on.
    pub(crate) fn map(
        executable: &Executable,
        layout: &Layout,
        base: u64,
    ) -> Result<MappedFile, LoadError> {
        let path = &executable.path;
        let (bias, reservations) = if layout.relocatable {
            let (bias, reservation) = place(path, layout, base)?;
            (bias, vec![reservation])
        } else {
            (0, reserve_fixed(path, layout)?)
        };
        let mut image = MappedFile {
            bias,
            path: executable.canonical_path(),
            segments: Vec::new(),
            occupied: layout
                .occupied()
                .iter()
                .map(|&(start, end)| (start.wrapping_add(bias), end.wrapping_add(bias)))
                .collect(),
            reservations,
        };
        image.map_pieces(executable, layout)?;
        Ok(image)
    }

    /// Leaves the image in place for the program.
    pub(crate) fn keep(self) -> io::Result<Vec<MappedSegment>> {
        for reservation in self.reservations {
            let inside: Vec<(u64, u64)> = self
                .occupied
                .iter()
                .copied()
                .filter(|&(start, end)| reservation.contains(start, end - start))
                .collect();
            reservation.keep_only(&inside)?;
        }
        Ok(self.segments)
    }

    fn map_pieces(&mut self, executable: &Executable, layout: &Layout) -> Result<(), LoadError> {
        let file = executable.file.as_raw_fd();
        let identity = FileIdentity::open(file);
        let version = FileIdentity::reliable(file).map(|file| file.version);
        for mapping in &layout.mappings {
            let address = mapping.address.wrapping_add(self.bias);
            let failed = |operation| {
                move |source| LoadError::Map {
                    path: executable.path.clone(),
                    operation,
                    address,
                    size: mapping.size,
                    source,
                }
            };
            // A mapping never lies across two reservations: they are merged mapping ranges.
            let reservation = self
                .reservations
                .iter()
                .find(|reservation| reservation.contains(address, mapping.size))
                .ok_or_else(|| failed("place a segment")(io::ErrorKind::InvalidInput.into()))?;
            match mapping.offset {
                Some(offset) => reservation.map_file(
                    address,
                    mapping.size,
                    mapping.protection,
                    &executable.file,
                    offset,
                ),
                None => reservation.map_zeros(address, mapping.size, mapping.protection),
            }
            .map_err(failed("map a segment"))?;
            if let Some(zero_from) = mapping.zero_from {
                // At most a page, and page tables for it: an array will do.
                let zeros = [0; PAGE as usize];
                let length = (mapping.end() - zero_from).min(PAGE) as usize;
                reservation
                    .write(zero_from.wrapping_add(self.bias), &zeros[..length])
                    .map_err(failed("clear the end of a segment"))?;
            }
            record(
                &mut self.segments,
                MappedSegment {
                    address,
                    size: mapping.size,
                    protection: mapping.protection,
                    file: mapping.offset.map(|_| self.path.clone()),
                    offset: mapping.offset.unwrap_or(0),
                    identity: identity.filter(|_| mapping.offset.is_some()),
                    version: version.filter(|_| mapping.offset.is_some()),
                },
            );
        }
        Ok(())
    }
}

/// Adds a segment, taking away from earlier ones the pages that it replaces.
fn record(segments: &mut Vec<MappedSegment>, new: MappedSegment) {
    let mut remaining = Vec::with_capacity(segments.len() + 1);
    for old in segments.drain(..) {
        if old.address < new.address {
            let size = old.size.min(new.address - old.address);
            remaining.push(MappedSegment {
                size,
                ..old.clone()
            });
        }
        if old.end() > new.end() {
            let address = old.address.max(new.end());
            let offset = old.offset
                + if old.file.is_some() {
                    address - old.address
                } else {
                    0
                };
            remaining.push(MappedSegment {
                address,
                size: old.end() - address,
                offset,
                ..old
            });
        }
    }
    remaining.push(new);
    remaining.sort_by_key(|segment| segment.address);
    *segments = remaining;
}

fn reserve_fixed(path: &Path, layout: &Layout) -> Result<Vec<Reservation>, LoadError> {
    let reserve = |(start, end): (u64, u64)| {
        Reservation::at(start, end - start).map_err(|source| match source.raw_os_error() {
            Some(libc::EEXIST) => LoadError::AddressInUse {
                path: path.to_owned(),
                start,
                end,
            },
            _ => LoadError::Map {
                path: path.to_owned(),
                operation: "take the addresses that the program is built for",
                address: start,
                size: end - start,
                source,
            },
        })
    };
    layout.ranges().into_iter().map(reserve).collect()
}

/// Finds a place for a relocatable image, and the bias that this means.
fn place(path: &Path, layout: &Layout, base: u64) -> Result<(u64, Reservation), LoadError> {
    let size = layout.end - layout.start;
    let mut wanted = base;
    while let Some(place) = aligned_place(layout, wanted) {
        if place.checked_add(size).is_none_or(|end| end > LOW_END) {
            break;
        }
        if let Ok(reservation) = Reservation::at(place, size) {
            return Ok((place.wrapping_sub(layout.start), reservation));
        }
        wanted = place + PLACE_STEP;
    }
    place_anywhere(layout, size).map_err(|source| LoadError::Map {
        path: path.to_owned(),
        operation: "find room for its segments",
        address: 0,
        size,
        source,
    })
}

/// The lowest address from `wanted` on at which the image may start: that address and the
/// file's differ by a multiple of the alignment.
fn aligned_place(layout: &Layout, wanted: u64) -> Option<u64> {
    let mask = layout.alignment - 1;
    let place = (wanted & !mask).checked_add(layout.start & mask)?;
    if place >= wanted {
        Some(place)
    } else {
        place.checked_add(layout.alignment)
    }
}

fn place_anywhere(layout: &Layout, size: u64) -> io::Result<(u64, Reservation)> {
    let room = size
        .checked_add(layout.alignment)
        .filter(|&room| room < ADDRESSES_END)
        .ok_or(io::ErrorKind::OutOfMemory)?;
    let reservation = Reservation::anywhere(page_end(room), 0)?;
    let place = aligned_place(layout, reservation.start()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok((place.wrapping_sub(layout.start), reservation))
}
