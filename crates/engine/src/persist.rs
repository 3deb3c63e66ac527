//! Translations that are kept from one run of a program to the next.
//!
//! For each executable there is one file in a directory of the user's own. It holds the code
//! cache as a process left it, and says which pieces of which files the translations were made
//! of: their **modules**. A process that starts takes the cache over; translations of a module
//! are used from when the same piece of the same version of the file is mapped at the same
//! address, unless the program may write it. Code of no file (a just-in-time compiler's) is
//! never kept.
//!
//! The file is the user's as a program is: whoever may write it can make the program do
//! anything. So it must belong to the user, and nobody else may be able to write it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;
use xxhash_rust::xxh3::xxh3_64;

use crate::cache::Cache;
use crate::descriptors::Headroom;
use crate::file_identity::FileIdentity;
use crate::finish;
use crate::process::{Code, Process};
use crate::regions::{Object, Region, Regions, Version, View};

/// Begins each file; the last byte is the version of the format.
const MAGIC: [u8; 8] = *b"UNSPTRA\x01";
/// Bytes that the files of a directory may take together; the oldest ones go.
const DIRECTORY_LIMIT: u64 = 2 << 30;
/// A cache that has more code than this is not kept.
const CODE_LIMIT: u64 = 128 << 20;

/// A piece of a file that is mapped as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Module {
    start: u64,
    end: u64,
    object: Object,
    version: Version,
    offset: u64,
}

impl Module {
    fn new(start: u64, region: &Region, view: View, version: Version) -> Module {
        Module {
            start,
            end: region.end,
            object: view.object,
            version,
            offset: view.offset,
        }
    }

    fn contains(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.end
    }

    fn numbers(&self) -> [u64; 8] {
        let (seconds, nanoseconds) = self.version.modified;
        [
            self.start,
            self.end,
            self.object.device,
            self.object.inode,
            self.version.size,
            seconds as u64,
            nanoseconds as u64,
            self.offset,
        ]
    }

    fn from_numbers(numbers: [u64; 8]) -> Module {
        let [
            start,
            end,
            device,
            inode,
            size,
            seconds,
            nanoseconds,
            offset,
        ] = numbers;
        Module {
            start,
            end,
            object: Object { device, inode },
            version: Version {
                size,
                modified: (seconds as i64, nanoseconds as i64),
            },
            offset,
        }
    }
}

/// What this process keeps, and what it has taken over.
#[derive(Debug)]
pub struct Persistence {
    path: PathBuf,
    /// What must be the same for translations to be of use.
    key: Vec<u8>,
    user: u32,
    /// The root directory when the process began: in another one the path means another file.
    root: Option<Object>,
    /// The modules whose translations were taken over and still sleep, by number.
    sleeping: Vec<Option<Module>>,
    /// Instructions whose translations the file has.
    kept_instructions: u64,
}

impl Persistence {
    /// For a process that runs `executable`: takes over into a new cache what an earlier one
    /// kept in `directory`.
    pub fn start(directory: &Path, executable: &Path, cache: &mut Cache) -> Persistence {
        let key = format!(
            "{:?} {:?} {:?} {}",
            FileIdentity::at(Path::new("/proc/self/exe")),
            FileIdentity::at(executable),
            cache.gates,
            cache.layout(),
        )
        .into_bytes();
        let mut persistence = Persistence {
            path: directory.join(format!("{:016x}", xxh3_64(&key))),
            key,
            // SAFETY: has no preconditions.
            user: unsafe { libc::geteuid() },
            root: root(),
            sleeping: Vec::new(),
            kept_instructions: 0,
        };
        match persistence.take_over(cache) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                complain("used", &persistence.path, &error);
            }
            _ => {}
        }
        persistence
    }

    fn take_over(&mut self, cache: &mut Cache) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)?;
        let facts = file.metadata()?;
        if !facts.is_file() || facts.uid() != self.user || facts.mode() & 0o022 != 0 {
            return Err(io::Error::other("others may write it"));
        }
        // SAFETY: files are replaced as a whole, never written in place; who else could write
        // this one is the user.
        let bytes = unsafe { Mmap::map(&file) }?;
        let parts = Parts::read(&bytes).ok_or_else(|| io::Error::other("it is damaged"))?;
        if parts.key != self.key {
            // Another program's, by an accident of hashing.
            return Ok(());
        }
        cache.take_over(parts.snapshot).map_err(io::Error::other)?;
        self.kept_instructions = parts.instructions;
        self.sleeping = parts.modules.into_iter().map(Some).collect();
        Ok(())
    }
}

/// The parts of a file.
struct Parts<'a> {
    key: &'a [u8],
    instructions: u64,
    modules: Vec<Module>,
    snapshot: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Option<Parts<'a>> {
        let (content, checksum) = bytes.split_last_chunk()?;
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return None;
        }
        let mut rest = content.strip_prefix(&MAGIC)?;
        let mut number = || -> Option<u64> {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let instructions = number()?;
        let key_length = number()?;
        let count = number()?;
        let mut modules = Vec::new();
        for _ in 0..count {
            let mut numbers = [0; 8];
            for each in &mut numbers {
                *each = number()?;
            }
            modules.push(Module::from_numbers(numbers));
        }
        let (key, snapshot) = rest.split_at_checked(usize::try_from(key_length).ok()?)?;
        Some(Parts {
            key,
            instructions,
            modules,
            snapshot,
        })
    }
}

fn root() -> Option<Object> {
    FileIdentity::at(Path::new("/")).map(|root| root.object)
}

fn complain(what: &str, path: &Path, error: &io::Error) {
    finish::say(&format!(
        "unspool: translations in {} cannot be {what}: {error}",
        path.display()
    ));
}

/// Wakes the translations of all code that is there.
pub fn wake(code: &mut Code) {
    let Some(persistence) = &mut code.persistence else {
        return;
    };
    for (start, region, view, version) in code.regions.unchanged_code() {
        let here = Module::new(start, region, view, version);
        for (number, module) in (0..).zip(&mut persistence.sleeping) {
            if *module == Some(here) {
                *module = None;
                code.cache.wake(number);
            }
        }
    }
}

/// From now on the process may not do what keeping needs.
pub fn give_up() {
    Process::get().code().persistence = None;
}

/// Keeps the translations, if there are enough new ones. The process is about to end.
pub fn keep(process: &Process) {
    let mut code = process.code();
    let Code {
        cache,
        regions,
        persistence: Some(persistence),
        ..
    } = &mut *code
    else {
        return;
    };
    let new = cache.translated_instructions;
    let unchanged = new < 200 || new < persistence.kept_instructions / 20;
    // SAFETY: has no preconditions.
    let same_user = unsafe { libc::geteuid() } == persistence.user;
    if unchanged || cache.emitted_bytes() > CODE_LIMIT || !same_user || root() != persistence.root {
        return;
    }
    crate::signals::block_all();
    let mut written = persistence.write(cache, regions);
    if matches!(&written, Err(error) if error.raw_os_error() == Some(libc::EMFILE)) {
        // The program has used up its descriptors. It ends, and hardly wants more now.
        let _headroom = Headroom::get();
        written = persistence.write(cache, regions);
    }
    if let Err(error) = written {
        complain("kept", &persistence.path, &error);
    }
}

impl Persistence {
    fn write(&mut self, cache: &Cache, regions: &Regions) -> io::Result<()> {
        let mut modules: Vec<Module> = regions
            .unchanged_code()
            .map(|(start, region, view, version)| Module::new(start, region, view, version))
            .collect();
        let awake = modules.len();
        let mut numbers = vec![None; self.sleeping.len()];
        for (number, module) in numbers.iter_mut().zip(&self.sleeping) {
            *number = module.map(|module| {
                modules.push(module);
                modules.len() as u16 - 1
            });
        }
        let module_of = |range: Range<u64>| {
            let found = modules[..awake]
                .iter()
                .position(|module| module.contains(&range));
            found.map(|number| number as u16)
        };

        let instructions = self.kept_instructions + cache.translated_instructions;
        let mut bytes = MAGIC.to_vec();
        let head = [instructions, self.key.len() as u64, modules.len() as u64];
        for number in head
            .into_iter()
            .chain(modules.iter().flat_map(Module::numbers))
        {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(&self.key);
        cache.keep(
            module_of,
            |number| *numbers.get(usize::from(number))?,
            &mut bytes,
        );
        let checksum = xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());

        let directory = self.path.parent().unwrap_or(Path::new("/"));
        make_room(directory, bytes.len() as u64)?;
        let draft = self.path.with_extension(draft_extension());
        let written = write_new(&draft, &bytes).and_then(|()| std::fs::rename(&draft, &self.path));
        let is_anothers = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        if written.as_ref().is_err_and(|error| !is_anothers(error)) {
            // It may not exist.
            let _ = std::fs::remove_file(&draft);
        }
        written
    }
}

/// What no other process that writes at the same time has: ids are repeated in other PID
/// namespaces.
fn draft_extension() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let moment = since.map_or(0, |since| since.as_nanos());
    format!("{}-{moment}", std::process::id())
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    // Never a file with its name but without its content: not even after a power failure.
    file.sync_data()
}

/// Removes the oldest files of a directory that would be too large.
fn make_room(directory: &Path, wanted: u64) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = std::fs::read_dir(directory)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let facts = entry.metadata().ok()?;
            let is_file = facts.is_file();
            is_file.then_some((facts.modified().ok()?, facts.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total = wanted + files.iter().map(|(_, size, _)| size).sum::<u64>();
    for (_, size, path) in files {
        if total <= DIRECTORY_LIMIT {
            break;
        }
        // Another process may have removed it.
        let _ = std::fs::remove_file(path);
        total -= size;
    }
    Ok(())
}
