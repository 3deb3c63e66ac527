//! What unwinding needs of a file, and which address of it is where in a process.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use unspool_binary::{FileOffset, FrameInformation, LoadedBytes, Module, RuntimeAddress};
use unspool_kernel::maps;
use unspool_unwind::{Entries, Section, search_table, undescribed_functions};

/// The code at an entry is short: it calls a function with call-frame information and never returns.
const ENTRY_BYTES: u64 = 128;

/// What the kernel calls the image that it gives each process itself.
const VDSO: &str = "[vdso]";

/// A file, or what has none.
#[derive(Debug)]
pub(crate) struct Image {
    /// Its number in the recording.
    pub(crate) number: u32,
    pub(crate) build_id: Vec<u8>,
    /// What could be read of it.
    contents: Option<Contents>,
}

#[derive(Debug)]
struct Contents {
    module: Module,
    frames: FrameInformation,
    /// Where functions begin, for those without call-frame information.
    functions: Vec<u64>,
    /// Where functions begin that have call-frame information.
    described: Vec<u64>,
}

impl Image {
    /// Reads what is known of an image, as the process sees its path.
    pub(crate) fn read(number: u32, pid: u32, path: &str) -> Image {
        let contents = match path {
            VDSO => vdso().and_then(|bytes| Contents::of_bytes(Path::new(VDSO), bytes)),
            _ if path.starts_with('/') => {
                // Through the process, which may have another root; when it has ended already, as
                // it is here.
                let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
                Contents::of_file(&inside).or_else(|| Contents::of_file(Path::new(path)))
            }
            _ => None,
        };
        Image::new(number, contents)
    }

    /// The same of a process of another time or place: what lies at its path here, unless another build
    /// identifier is known of it.
    pub(crate) fn read_elsewhere(number: u32, path: &str, build_id: Option<&[u8]>) -> Image {
        let contents = match path {
            // That of another kernel is another one.
            VDSO => None,
            _ if path.starts_with('/') => Contents::of_file(Path::new(path)),
            _ => None,
        };
        let image = Image::new(number, contents);
        match build_id {
            Some(known) if known != image.build_id => Image {
                number,
                build_id: known.to_vec(),
                contents: None,
            },
            _ => image,
        }
    }

    fn new(number: u32, contents: Option<Contents>) -> Image {
        let build_id = contents
            .as_ref()
            .and_then(|contents| contents.module.build_id());
        Image {
            number,
            build_id: build_id.unwrap_or_default().to_vec(),
            contents,
        }
    }

    /// What is added to addresses of the file where its page at `offset` is mapped to `start`;
    /// none where no file is known.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let module = &self.contents.as_ref()?.module;
        let bias = module.bias_of_mapping(RuntimeAddress(start), FileOffset(offset), true);
        bias.map(|bias| bias.0)
    }

    /// Whether an address of the file is in the code at its entry, where no call-frame information
    /// says more.
    pub(crate) fn begins_at(&self, address: u64) -> bool {
        let Some(contents) = &self.contents else {
            return false;
        };
        let entry = contents.module.entry().0;
        let behind = contents.described.partition_point(|start| *start <= entry);
        let end = contents.described.get(behind).copied();
        let end = end
            .unwrap_or(u64::MAX)
            .min(entry.saturating_add(ENTRY_BYTES));
        entry != 0 && (entry..end).contains(&address)
    }

    /// What unwinding needs for code around an address of the file.
    pub(crate) fn unwinding(&self, address: u64) -> Option<Unwinding<'_>> {
        let contents = self.contents.as_ref()?;
        let mut code = contents.frames.code.iter().map(section);
        Some(Unwinding {
            frames: section(&contents.frames.frames),
            header: contents.frames.header.as_ref().map(section),
            code: code.find(|code| (code.address..code.end()).contains(&address))?,
            functions: &contents.functions,
        })
    }
}

/// Parts of an image.
pub(crate) struct Unwinding<'a> {
    pub(crate) frames: Section<'a>,
    pub(crate) header: Option<Section<'a>>,
    pub(crate) code: Section<'a>,
    pub(crate) functions: &'a [u64],
}

impl Contents {
    fn of_file(path: &Path) -> Option<Contents> {
        let frames = FrameInformation::open(path).ok()?;
        Some(Contents::new(Module::open(path).ok()?, frames))
    }

    fn of_bytes(path: &Path, bytes: Vec<u8>) -> Option<Contents> {
        let frames = FrameInformation::from_bytes(path, bytes.clone()).ok()?;
        Some(Contents::new(Module::from_bytes(path, bytes).ok()?, frames))
    }

    fn new(module: Module, mut frames: FrameInformation) -> Contents {
        let header = frames.header.as_ref().map(section);
        if let Some(bytes) = search_table(header, section(&frames.frames)) {
            let address = frames.frames.address;
            frames.header = Some(LoadedBytes { address, bytes });
        }
        let mut functions: Vec<u64> = module
            .functions()
            .map(|function| function.address().0)
            .collect();
        let entries = Entries::new(section(&frames.frames));
        let bounds: Vec<_> = entries.map(|entry| entry.code).collect();
        let code: Vec<Section<'_>> = frames.code.iter().map(section).collect();
        let named = module.functions();
        let named: Vec<_> = named.map(|it| it.address().0..it.end().0).collect();
        let stripped = undescribed_functions(&code, &bounds, &named, module.entry().0);
        functions.extend(stripped.into_iter().map(|function| function.start));
        functions.sort_unstable();
        functions.dedup();
        let mut described: Vec<u64> = bounds.iter().map(|code| code.start).collect();
        described.sort_unstable();
        Contents {
            described,
            module,
            frames,
            functions,
        }
    }
}

fn section(loaded: &LoadedBytes) -> Section<'_> {
    Section {
        address: loaded.address.0,
        bytes: &loaded.bytes,
    }
}

/// The vdso of this process: all processes of a system have the same one.
fn vdso() -> Option<Vec<u8>> {
    let text = maps::read();
    let line = maps::lines(&text).find(|line| line.name == VDSO.as_bytes())?;
    let memory = std::fs::File::open("/proc/self/mem").ok()?;
    let length = line.range.end.checked_sub(line.range.start)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    memory.read_exact_at(&mut bytes, line.range.start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_what_is_none_is_unknown() {
        let own = std::env::current_exe().unwrap();
        let image = Image::read(0, std::process::id(), own.to_str().unwrap());
        let function = image.contents.as_ref().unwrap().functions[0];
        let unwinding = image.unwinding(function).unwrap();
        assert!(!unwinding.frames.bytes.is_empty() && unwinding.header.is_some());
        assert!(image.unwinding(u64::MAX).is_none());
        // Nothing but the bytes of memory says what the vdso has.
        let vdso = Image::read(2, std::process::id(), VDSO);
        assert!(!vdso.contents.unwrap().described.is_empty());
        let unknown = Image::read(1, std::process::id(), "//anon");
        assert_eq!((unknown.bias(0x1000, 0), unknown.build_id.len()), (None, 0));
    }
}
