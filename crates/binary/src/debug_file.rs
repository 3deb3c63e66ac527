//! Symbols and debugging information that were split off into files of their own.
//!
//! Source: "Debugging Information in Separate Files" of the GDB manual, which says how such a file is found
//! by the build identifier and by `.gnu_debuglink`; "Common DWARF" of the manual of dwz, for
//! `.gnu_debugaltlink`, which names a file with what several files have in common; debuginfod_find_debuginfo(3)
//! of elfutils, for where what was downloaded is kept.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use object::LittleEndian;
use object::elf::SHT_NOBITS;
use object::read::ReadCache;
use object::read::elf::SectionHeader;

use crate::debug_units;
use crate::elf_file::{Data, Source, open_file};
use crate::error::{ModuleError, Problem};
use crate::headers::Headers;

/// Where distributions install such files.
const DIRECTORY: &str = "/usr/lib/debug";

/// What says which file belongs to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The name of the file.
    name: PathBuf,
    /// What its contents sum up to.
    sum: u32,
}

impl Link {
    /// That of a file, if it has one.
    pub(crate) fn read(data: Data<'_>, headers: &Headers<'_>) -> Option<Link> {
        let bytes = headers.section(data, ".gnu_debuglink")?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let sum = bytes.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
        let name = Path::new(std::ffi::OsStr::from_bytes(&bytes[..end]));
        // A name, not a way to somewhere else.
        (name.file_name() == Some(name.as_os_str())).then(|| Link {
            name: name.to_owned(),
            sum: u32::from_le_bytes(*sum),
        })
    }
}

/// The file that has what was split off another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitOff<'a> {
    /// The other file.
    pub(crate) path: &'a Path,
    pub(crate) build_id: Option<&'a [u8]>,
    pub(crate) link: Option<&'a Link>,
}

impl SplitOff<'_> {
    /// The file, if it is there. Of those that may be it, what is wrong with them is a problem.
    pub(crate) fn find(self, problems: &mut Vec<Problem>) -> Option<PathBuf> {
        self.candidates().find_map(|(candidate, file)| {
            let its = file.and_then(|file| build_id(&candidate, file));
            let reason = match its {
                Ok(its) if self.is(&candidate, its.as_deref()) => return Some(candidate),
                Ok(_) => format!("{} belongs to another build", candidate.display()),
                Err(error) => error.to_string(),
            };
            problems.push(Problem {
                part: "debug file",
                reason,
            });
            None
        })
    }

    /// Files that may be it, which are there, opened.
    fn candidates(self) -> impl Iterator<Item = (PathBuf, Result<File, ModuleError>)> {
        let by_build_id = self.build_id.into_iter().flat_map(by_build_id);
        // Only if it is needed: it takes system calls, which a program may have forbidden itself.
        let by_link = self.link.into_iter().flat_map(move |link| {
            let own = std::fs::canonicalize(self.path).unwrap_or_else(|_| self.path.to_owned());
            let folder = own.parent().unwrap_or(Path::new("/"));
            let below = Path::new(DIRECTORY).join(folder.strip_prefix("/").unwrap_or(folder));
            let folders = [folder.to_owned(), folder.join(".debug"), below];
            let paths = folders.map(|it| it.join(&link.name));
            paths.into_iter().filter(move |it| *it != own)
        });
        by_build_id.chain(by_link).filter_map(|path| {
            // Opening it tells whether it is there without another system call.
            let file = open_file(&path);
            let is_missing = file.as_ref().is_err_and(ModuleError::is_missing);
            (!is_missing).then_some((path, file))
        })
    }

    /// Whether a file with this build identifier is it.
    fn is(self, candidate: &Path, build_id: Option<&[u8]>) -> bool {
        match (self.build_id, build_id) {
            (Some(own), Some(its)) => own == its,
            _ => self
                .link
                .is_some_and(|link| sum(candidate) == Some(link.sum)),
        }
    }
}

/// Where the file with this build identifier is if it is installed, or was downloaded.
fn by_build_id(build_id: &[u8]) -> impl Iterator<Item = PathBuf> {
    let name: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_usual = (2..=65).contains(&build_id.len());
    let installed = is_usual.then(|| {
        let (first, rest) = name.split_at(2);
        Path::new(DIRECTORY).join(format!(".build-id/{first}/{rest}.debug"))
    });
    let downloaded = is_usual.then(|| Some(downloads()?.join(name).join("debuginfo")));
    // An empty file says that there was none to download.
    let downloaded = downloaded.flatten().filter(|it| has_something(it));
    installed.into_iter().chain(downloaded)
}

/// Where debuginfod's client keeps what it has downloaded. Asked once: programs within which this runs
/// may change their environment while it is read.
fn downloads() -> Option<&'static Path> {
    static DIRECTORY: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let of = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
        if let Some(path) = of("DEBUGINFOD_CACHE_PATH") {
            return Some(path.into());
        }
        let caches = of("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(Path::new(&of("HOME")?).join(".cache")));
        Some(caches?.join("debuginfod_client"))
    });
    DIRECTORY.as_deref()
}

fn has_something(path: &Path) -> bool {
    let file = open_file(path);
    file.is_ok_and(|mut file| file.read(&mut [0]).is_ok_and(|length| length > 0))
}

/// The sum that a link has of the contents of a file.
fn sum(path: &Path) -> Option<u32> {
    let mut file = open_file(path).ok()?;
    let (mut sum, mut buffer) = (crc32fast::Hasher::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(sum.finalize()),
            length => sum.update(&buffer[..length]),
        }
    }
}

/// Where the debugging information (DWARF) of a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugInformation {
    /// The file that has it: the one that was asked for, or the one that it was split off to.
    pub path: PathBuf,
    /// The file that has what this one has in common with others (`dwz -m`).
    pub common: Option<PathBuf>,
}

impl DebugInformation {
    /// That of the file at a path; none where there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<DebugInformation> {
        DebugInformation::find(path, &mut Vec::new())
    }

    /// The same, with what is wrong with files that should have it.
    pub fn find(path: &Path, problems: &mut Vec<Problem>) -> Option<DebugInformation> {
        let own = DebugInformation::within(path, problems);
        own.or_else(|| {
            let split_off = split_off(path, problems)?;
            DebugInformation::within(&split_off, problems)
        })
    }

    /// Why some of its units cannot be read, if that is so: nothing that is looked up is found there.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let mut first = None;
        debug_units::for_each(&self.path, &self.package(), |_, unit| {
            if let (Err(problem), None) = (unit, &first) {
                first = Some(problem);
            }
        });
        first
    }

    /// Where units that were compiled apart (`-gsplit-dwarf`) are together, if they are.
    #[must_use]
    pub fn package(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".dwp");
        name.into()
    }

    /// That which a file has itself.
    fn within(path: &Path, problems: &mut Vec<Problem>) -> Option<DebugInformation> {
        let data = ReadCache::new(Source::File(open_file(path).ok()?));
        let headers = Headers::read(path, &data, &mut Vec::new()).ok()?;
        has_dwarf(&headers).then(|| DebugInformation {
            path: path.to_owned(),
            common: common(path, (&data, &headers), problems),
        })
    }
}

/// The file with what was split off the one at a path, if it is there.
pub(crate) fn split_off(path: &Path, problems: &mut Vec<Problem>) -> Option<PathBuf> {
    let data = ReadCache::new(Source::File(open_file(path).ok()?));
    let headers = Headers::read(path, &data, &mut Vec::new()).ok()?;
    let own = headers.build_id(&data, &mut Vec::new());
    let link = Link::read(&data, &headers);
    let wanted = SplitOff {
        path,
        build_id: own.as_deref(),
        link: link.as_ref(),
    };
    wanted.find(problems)
}

/// Whether a file has lines or more of its own.
fn has_dwarf(headers: &Headers<'_>) -> bool {
    let names = [".debug_info", ".debug_line", ".zdebug_info"];
    let is_there = |name: &str| {
        let section = headers
            .sections
            .section_by_name(LittleEndian, name.as_bytes());
        section.is_some_and(|(_, section)| section.sh_type(LittleEndian) != SHT_NOBITS)
    };
    names.into_iter().any(is_there)
}

/// The file that a file says to have in common with others.
fn common(
    path: &Path,
    (data, headers): (Data<'_>, &Headers<'_>),
    problems: &mut Vec<Problem>,
) -> Option<PathBuf> {
    let bytes = headers.section(data, ".gnu_debugaltlink")?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let (name, build_id) = (&bytes[..end], &bytes[end + 1..]);
    let folder = std::fs::canonicalize(path).ok()?;
    // An absolute name stands for itself.
    let named = folder.parent()?.join(std::ffi::OsStr::from_bytes(name));
    let mut candidates = std::iter::once(named.clone()).chain(by_build_id(build_id));
    let found = candidates.find(|candidate| {
        let its = build_id_of(candidate).ok().flatten();
        its.as_deref() == Some(build_id)
    });
    if found.is_none() {
        problems.push(Problem {
            part: "debug file",
            reason: format!(
                "{} is missing or of another build, with which {} has information in common",
                named.display(),
                path.display()
            ),
        });
    }
    found
}

/// The build identifier of the file at a path, if it has one.
///
/// # Errors
/// If the file cannot be opened or is not ELF for x86-64.
pub fn build_id_of(path: &Path) -> Result<Option<Vec<u8>>, ModuleError> {
    build_id(path, open_file(path)?)
}

fn build_id(path: &Path, file: File) -> Result<Option<Vec<u8>>, ModuleError> {
    let data = ReadCache::new(Source::File(file));
    let headers = Headers::read(path, &data, &mut Vec::new())?;
    Ok(headers.build_id(&data, &mut Vec::new()))
}
