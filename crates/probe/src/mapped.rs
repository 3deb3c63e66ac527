//! What the unwinder is given of the process: where code is, and what compilers say of its frames.
//!
//! It is read when the loader has mapped something, and copied, so that nothing is allocated, locked
//! or read from a file while a thread walks, and an image that goes takes nothing away.

use std::cell::UnsafeCell;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::{PF_R, PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use unspool_unwind::{ImageCode, Module, Modules, Section};

use crate::readable;

/// An image.
#[derive(Debug)]
pub(crate) struct MappedImage {
    /// What is added to addresses of its file.
    pub(crate) bias: u64,
    /// Its file; empty if it is the program.
    pub(crate) path: PathBuf,
    /// Its code, by the addresses of the process.
    pub(crate) code: Vec<Range<u64>>,
    frames: Option<Frames>,
}

/// What compilers say of its frames, by the addresses of the file.
#[derive(Debug, Default)]
struct Frames {
    header: (u64, Vec<u8>),
    information: (u64, Vec<u8>),
}

/// All images at one time.
#[derive(Debug)]
pub(crate) struct Mapped {
    images: Vec<Arc<MappedImage>>,
    /// Another one each time that images have come or gone.
    pub(crate) version: u64,
}

impl Mapped {
    /// The image in whose code an address is.
    pub(crate) fn image_at(&self, address: u64) -> Option<(&MappedImage, &Range<u64>)> {
        self.images.iter().find_map(|image| {
            let range = image.code.iter().find(|range| range.contains(&address))?;
            Some((&**image, range))
        })
    }
}

impl Modules for Mapped {
    fn module_at(&self, address: u64) -> Option<Module<'_>> {
        let (image, range) = self.image_at(address)?;
        let bias = image.bias;
        Some(Module {
            range: range.clone(),
            bias,
            frames: image
                .frames
                .as_ref()
                .map_or(Section::default(), |frames| section(&frames.information)),
            header: image.frames.as_ref().map(|frames| section(&frames.header)),
            code: ImageCode::Memory {
                range: range.start.wrapping_sub(bias)..range.end.wrapping_sub(bias),
                bias,
                read: &readable::copy,
            },
            functions: &[],
        })
    }
}

fn section((address, bytes): &(u64, Vec<u8>)) -> Section<'_> {
    Section {
        address: *address,
        bytes,
    }
}

/// The images as they are now; null until they have been looked at.
static NOW: AtomicPtr<Mapped> = AtomicPtr::new(std::ptr::null_mut());
/// How many threads are looking at some.
static READERS: AtomicUsize = AtomicUsize::new(0);
static VERSION: AtomicU64 = AtomicU64::new(0);
static RETIRED: Retired = Retired(UnsafeCell::new(Vec::new()));

/// Earlier images, at which a thread may still be looking.
struct Retired(UnsafeCell<Vec<*mut Mapped>>);

// SAFETY: only used at the process's start and with the loader's lock.
unsafe impl Sync for Retired {}

/// Looks at all images anew.
///
/// # Safety
/// To be called at the process's start, or by the loader.
pub(crate) unsafe fn look() {
    // SAFETY: nobody else changes what is there, the caller says.
    let before = unsafe { NOW.load(Ordering::SeqCst).as_ref() };
    let known = before.map_or(&[][..], |mapped| &mapped.images);
    let mut found = Found {
        known,
        images: Vec::new(),
    };
    // SAFETY: the function is called with this very value, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    let is_same = known.len() == found.images.len()
        && known
            .iter()
            .zip(&found.images)
            .all(|(one, other)| Arc::ptr_eq(one, other));
    if is_same && before.is_some() {
        return;
    }
    let new = Box::new(Mapped {
        images: found.images,
        version: VERSION.fetch_add(1, Ordering::Relaxed),
    });
    let old = NOW.swap(Box::into_raw(new), Ordering::SeqCst);
    // SAFETY: the caller's. What was there came from a box, and is nobody's once no thread looks at
    // any: who begins to look from now on looks at the new ones.
    unsafe {
        let retired = &mut *RETIRED.0.get();
        if !old.is_null() {
            retired.push(old);
        }
        if READERS.load(Ordering::SeqCst) == 0 {
            retired
                .drain(..)
                .for_each(|mapped| drop(Box::from_raw(mapped)));
        }
    }
}

/// Has a function look at the images as they are. None if nobody has asked for them.
pub(crate) fn with<R>(look: impl FnOnce(&Mapped) -> R) -> Option<R> {
    /// Also where the function panics.
    struct Reading;
    impl Drop for Reading {
        fn drop(&mut self) {
            READERS.fetch_sub(1, Ordering::SeqCst);
        }
    }
    READERS.fetch_add(1, Ordering::SeqCst);
    let _reading = Reading;
    // SAFETY: they are kept while somebody looks at them.
    unsafe { NOW.load(Ordering::SeqCst).as_ref() }.map(look)
}

/// The process is a copy: threads that were looking are not in it.
pub(crate) fn forked() {
    READERS.store(0, Ordering::SeqCst);
}

struct Found<'a> {
    known: &'a [Arc<MappedImage>],
    images: Vec<Arc<MappedImage>>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader gives what it says, and what it was given.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found<'_>>()) };
    // SAFETY: an image has its program headers in memory, and a name that ends in a zero byte.
    let (headers, name) = unsafe {
        let count = usize::from(info.dlpi_phnum);
        (
            std::slice::from_raw_parts(info.dlpi_phdr, count),
            CStr::from_ptr(info.dlpi_name),
        )
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    let in_process = |header: &libc::Elf64_Phdr| {
        let start = header.p_vaddr.wrapping_add(info.dlpi_addr);
        start..start.wrapping_add(header.p_memsz)
    };
    let segments = || headers.iter().filter(|header| header.p_type == PT_LOAD);
    let code: Vec<_> = segments()
        .filter(|header| header.p_flags & PF_X != 0)
        .map(in_process)
        .collect();
    let same = |image: &&Arc<MappedImage>| {
        image.bias == info.dlpi_addr && image.path == path && image.code == code
    };
    let image = found.known.iter().find(same).cloned().unwrap_or_else(|| {
        let header = headers
            .iter()
            .find(|header| header.p_type == PT_GNU_EH_FRAME);
        let header = header.map(in_process);
        let segment = header.as_ref().and_then(|header| {
            segments()
                .filter(|segment| segment.p_flags & PF_R != 0)
                .map(in_process)
                .find(|segment| segment.contains(&header.start))
        });
        // SAFETY: the loader has mapped the segment, to be read.
        let frames = header.zip(segment).and_then(|(header, segment)| unsafe {
            let length = usize::try_from(segment.end - segment.start).ok()?;
            let bytes = std::slice::from_raw_parts(segment.start as *const u8, length);
            Frames::read(bytes, segment.start, header, info.dlpi_addr)
        });
        Arc::new(MappedImage {
            bias: info.dlpi_addr,
            path,
            code,
            frames,
        })
    });
    found.images.push(image);
    0
}

impl Frames {
    /// Copies what is said in a segment that begins at `start`. None if the table is not of the form
    /// in which all linkers write it.
    fn read(segment: &[u8], start: u64, header: Range<u64>, bias: u64) -> Option<Frames> {
        /// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`, `DW_EH_PE_udata4` and `DW_EH_PE_datarel |
        /// DW_EH_PE_sdata4`, behind the version.
        const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let at = |address: u64| usize::try_from(address.checked_sub(start)?).ok();
        let word = |bytes: &[u8], at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
        };
        let table = segment.get(at(header.start)?..at(header.end)?)?;
        if table.get(..4)? != FORM {
            return None;
        }
        let relative =
            |from: u64, distance: u32| from.wrapping_add_signed(i64::from(distance as i32));
        let first = relative(header.start + 4, word(table, 4)?);
        let (rows, _) = table.get(12..)?.as_chunks::<8>();
        let rows = &rows[..rows.len().min(word(table, 8)? as usize)];
        let entries = rows
            .iter()
            .filter_map(|row| Some(relative(header.start, word(row, 4)?)));
        // The section ends with the last entry, of so many bytes behind its length.
        let last = at(entries.max()?)?;
        let end = last
            .checked_add(4)?
            .checked_add(word(segment, last)? as usize)?;
        let information = segment.get(at(first)?..end)?;
        Some(Frames {
            header: (header.start.wrapping_sub(bias), table.to_vec()),
            information: (first.wrapping_sub(bias), information.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was found without sections is what the file says of them.
    #[test]
    fn frame_information_ends_where_its_section_does() {
        // SAFETY: only this test looks.
        unsafe { look() };
        let here = look as *const () as u64;
        let path = std::env::current_exe().unwrap();
        let module = unspool_binary::Module::open(&path).unwrap();
        let section = |name| {
            let mut sections = module.sections().iter();
            let section = sections.find(|section| section.name == name).unwrap();
            (section.address.0, section.size)
        };
        with(|mapped| {
            let (image, _) = mapped.image_at(here).unwrap();
            let frames = image.frames.as_ref().unwrap();
            let place = |(address, bytes): &(u64, Vec<u8>)| (*address, bytes.len() as u64);
            assert_eq!(place(&frames.header), section(".eh_frame_hdr"));
            let (start, length) = place(&frames.information);
            let (section_start, section_length) = section(".eh_frame");
            assert_eq!(start, section_start);
            // Behind the last entry there is its end mark, or nothing.
            let mut rest = vec![1; (section_length - length) as usize];
            let at = (start + length).wrapping_add(image.bias);
            assert_eq!(readable::copy(at, &mut rest), rest.len());
            assert!(rest.len() <= 4 && rest.iter().all(|byte| *byte == 0));
        })
        .unwrap();
        // Nothing has come or gone since.
        let version = with(|mapped| mapped.version);
        // SAFETY: as above.
        unsafe { look() };
        assert_eq!(with(|mapped| mapped.version), version);
    }
}
