//! Images: the files (and other memory) that the program's code comes from.
//!
//! What is executable is an image's, whoever mapped it: the kernel's part at the start, the
//! dynamic loader, or the program itself. An image is announced when its first page becomes
//! executable, so before anything of it runs, and gone when its last one is unmapped. That code
//! is made writable for a while, as just-in-time compilers do, changes nothing.
//!
//! Files are read when something is asked of them, and not before.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::lock::Mutex;
use unspool_kernel::maps;
use unspool_kernel::regions::{Region, Regions};
use unspool_loader::LoadedProgram;

use unspool_engine::call::{Call, succeeded};
use unspool_engine::process::Process;
use unspool_engine::syscalls::whole_pages;

use image::CodeRange;
pub use image::{Image, ImageKind, Routine};

mod image;

/// All images of the process.
#[derive(Debug, Default)]
pub(crate) struct Images {
    all: Mutex<Arc<Vec<Arc<Image>>>>,
    /// How often they, or their code, have changed.
    changes: AtomicU64,
}

impl Images {
    /// Those that there are, and how often they have changed.
    pub(super) fn now(&self) -> (Arc<Vec<Arc<Image>>>, u64) {
        let all = self.all.lock();
        (Arc::clone(&all), self.changes.load(Ordering::Relaxed))
    }

    /// A program has been loaded. Returns the first images.
    pub(crate) fn begin(&self, process: &Process, loaded: &LoadedProgram) -> Vec<Arc<Image>> {
        let images = first_images(process, loaded);
        *self.all.lock() = Arc::new(images.clone());
        images
    }

    /// The one that holds the code at an address.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Image>> {
        let all = self.all.lock();
        let holds = |image: &&Arc<Image>| {
            let code = image.code.lock();
            code.iter().any(|piece| piece.range.contains(&address))
        };
        all.iter().find(holds).cloned()
    }

    /// Takes note of what is mapped in a range now. Returns the images that are gone, and those
    /// that are new.
    pub(crate) fn update(
        &self,
        regions: &Regions,
        range: &Range<u64>,
    ) -> (Vec<Arc<Image>>, Vec<Arc<Image>>) {
        let now: Vec<(Range<u64>, Region)> = regions.within(range.clone()).collect();
        let mut all = self.all.lock();
        let all = Arc::make_mut(&mut all);
        let mut is_changed = false;
        let mut gone = Vec::new();
        all.retain(|image| {
            let mut code = image.code.lock();
            if !code.iter().any(|piece| meet(&piece.range, range)) {
                return true;
            }
            is_changed = true;
            let rest = code.iter().flat_map(|piece| image.rest(piece, range, &now));
            *code = rest.collect();
            if code.is_empty() {
                gone.push(Arc::clone(image));
            }
            !code.is_empty()
        });
        let mut new = Vec::new();
        for (piece, region) in now {
            if region.protection & libc::PROT_EXEC != 0
                && !all.iter().any(|image| image.covers(&piece))
            {
                is_changed = true;
                new.extend(add(all, piece, &region));
            }
        }
        if is_changed {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        (gone, new)
    }
}

/// Makes executable pages an image's. Returns it if it is a new one.
fn add(all: &mut Vec<Arc<Image>>, range: Range<u64>, region: &Region) -> Option<Arc<Image>> {
    let piece = CodeRange {
        distance: range
            .start
            .wrapping_sub(region.view.map_or(0, |view| view.offset)),
        range,
    };
    let path = region.view.and_then(|_| path_at(piece.range.start));
    let owner = match &path {
        // What is generated grows.
        None => all
            .iter()
            .find(|image| image.kind == ImageKind::Generated && image.touches(&piece.range)),
        // A file that is mapped a second time, by `dlmopen` for instance, is another image.
        Some(path) => all.iter().find(|image| {
            image.path == *path
                && image.code.lock().iter().all(|known| {
                    let offset = |piece: &CodeRange| piece.range.start.wrapping_sub(piece.distance);
                    known.distance == piece.distance || offset(known) != offset(&piece)
                })
        }),
    };
    if let Some(image) = owner {
        image.code.lock().push(piece);
        return None;
    }
    let kind = match &path {
        None => ImageKind::Generated,
        Some(_) => ImageKind::Library,
    };
    let image = Image::new(kind, path.unwrap_or_default(), piece);
    let image = Arc::new(image.of_file(region.version, region.view.map(|view| view.object)));
    all.push(Arc::clone(&image));
    Some(image)
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The file that is mapped at an address, as long as it has a name.
fn path_at(address: u64) -> Option<PathBuf> {
    let text = maps::read();
    let path = maps::lines(&text)
        .find(|line| line.range.contains(&address))?
        .name;
    let named =
        path.starts_with(b"/") && !path.ends_with(b" (deleted)") && !path.starts_with(b"/memfd:");
    named.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The images of a program that has been loaded: the first ones.
fn first_images(process: &Process, loaded: &LoadedProgram) -> Vec<Arc<Image>> {
    let mut images: Vec<Arc<Image>> = Vec::new();
    for segment in &loaded.segments {
        let Some(path) = &segment.file else { continue };
        if segment.protection & libc::PROT_EXEC == 0 {
            continue;
        }
        let piece = CodeRange {
            range: segment.address..segment.end(),
            distance: segment.address.wrapping_sub(segment.offset),
        };
        if let Some(image) = images.iter().find(|image| image.path == *path) {
            image.code.lock().push(piece);
            continue;
        }
        let kind = match loaded.interpreter.as_ref() == Some(path) {
            true => ImageKind::Interpreter,
            false => ImageKind::Program,
        };
        let identity = FileIdentity::at(path);
        let image = Image::new(kind, path.clone(), piece).of_file(
            identity.map(|identity| identity.version),
            identity.map(|identity| identity.object),
        );
        images.push(Arc::new(image));
    }
    images.sort_by_key(|image| image.kind != ImageKind::Program);
    let vdso = process.vdso;
    if vdso.size != 0 {
        let piece = CodeRange {
            range: vdso.start..vdso.start + vdso.size,
            distance: vdso.start,
        };
        let image = Image::new(ImageKind::Vdso, "[vdso]".into(), piece);
        images.push(Arc::new(image));
    }
    images
}

/// Where a system call that is over may have changed what can be executed.
pub(crate) fn changed_by(call: &Call, result: i64) -> Vec<Range<u64>> {
    const EVERYTHING: Range<u64> = 0..u64::MAX;
    if !succeeded(result) {
        return Vec::new();
    }
    let [first, second, third, ..] = call.arguments;
    match call.number as i64 {
        libc::SYS_mmap => vec![whole_pages(result as u64, second)],
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            vec![whole_pages(first, second)]
        }
        libc::SYS_mremap => vec![
            whole_pages(first, second),
            whole_pages(result as u64, third),
        ],
        libc::SYS_shmat | libc::SYS_shmdt => vec![EVERYTHING],
        _ => Vec::new(),
    }
}
