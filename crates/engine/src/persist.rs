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
//!
//! Translations are kept without being asked for, so nothing of it may show: what cannot be kept
//! or used is left, without a word unless the user has named the directory.

mod directory;
mod file;
mod module;
mod seal;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;
use unspool_code_cache::cache::{Cache, KeptCode, ModuleIndex};
use unspool_kernel::descriptors::Headroom;
use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::regions::{Object, Regions};
use unspool_kernel::{diagnostics, limits};
use xxhash_rust::xxh3::xxh3_64;

use self::file::Parts;
use self::module::Module;
use self::seal::{Seal, SealState};
use crate::plan::Keeping;

/// A cache that has more code than this is not kept.
const CODE_LIMIT: u64 = 128 << 20;

/// Translations of less code are not worth a file.
const FEW_BYTES: u64 = 800;

/// What this process keeps, and what it has taken over.
#[derive(Debug)]
pub(crate) struct Persistence {
    path: PathBuf,
    /// Whether the user wants to know why nothing can be kept.
    asked: bool,
    /// What must be the same for translations to be of use.
    key: Vec<u8>,
    user: u32,
    /// The root directory when the process began: in another one the path means another file.
    root: Option<Object>,
    /// When the process began, in seconds.
    began: i64,
    /// The modules whose translations were taken over and still sleep, by number.
    inactive: Vec<Option<Module>>,
    /// Bytes of code whose translations the file has.
    kept_bytes: u64,
    /// Which file was taken over.
    taken: Option<(u64, i64, i64)>,
    /// Whether the file is to be written anew even if nothing is to be added.
    renew: bool,
}

impl Persistence {
    /// For a process that runs `executable`: takes over into a new cache what an earlier one
    /// kept. `None`: nothing is kept.
    pub(crate) fn start(
        wanted: &Keeping,
        executable: &Path,
        cache: &mut Cache,
    ) -> Option<Persistence> {
        // SAFETY: has no preconditions.
        let user = unsafe { libc::geteuid() };
        if !wanted.asked && !directory::is_own(&wanted.directory, user) {
            return None;
        }
        let key = key(executable, cache);
        let mut persistence = Persistence {
            path: wanted.directory.join(format!("{:016x}", xxh3_64(&key))),
            asked: wanted.asked,
            key,
            user,
            root: root(),
            began: now(),
            inactive: Vec::new(),
            kept_bytes: 0,
            taken: None,
            renew: false,
        };
        match persistence.take_over(cache) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                persistence.complain("used", &error);
            }
            _ => {}
        }
        Some(persistence)
    }

    fn take_over(&mut self, cache: &mut Cache) -> io::Result<()> {
        let damaged = || io::Error::other("it is damaged");
        let file = self.open()?;
        // SAFETY: files are replaced as a whole, never written in place; who else could write
        // this one is the user.
        let bytes = unsafe { Mmap::map(&file) }?;
        let parts = Parts::read(&bytes).ok_or_else(damaged)?;
        let facts = file.metadata()?;
        let state = parts.seal.examine(&facts);
        let whole = state == SealState::Whole;
        if state == SealState::Broken || !whole && !parts.are_sound() {
            return Err(damaged());
        }
        if parts.key != self.key {
            // Another program's, by an accident of hashing.
            return Ok(());
        }
        // What a server holds may be gone when a page of it is wanted.
        let stays = FileIdentity::reliable(file.as_raw_fd()).is_some();
        let code = KeptCode {
            file: stays.then(|| file.as_fd()),
            trusted: whole,
            tables: parts.tables,
            halves: parts.code,
            branches: parts.branches,
        };
        cache.take_over(&code).map_err(io::Error::other)?;
        self.kept_bytes = parts.code_bytes;
        self.taken = Some(version(&facts));
        self.renew = !whole;
        self.inactive = parts.modules.into_iter().map(Some).collect();
        Ok(())
    }

    /// Opens the file, if nobody but the user can have written it.
    fn open(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)?;
        let facts = file.metadata()?;
        if !facts.is_file() || facts.uid() != self.user || facts.mode() & 0o022 != 0 {
            return Err(io::Error::other("others may write it"));
        }
        Ok(file)
    }

    fn complain(&self, what: &str, error: &io::Error) {
        if self.asked {
            diagnostics::say(&format!(
                "unspool: translations in {} cannot be {what}: {error}",
                self.path.display()
            ));
        }
    }
}

/// What translations depend on beside the code that they are made of: this build, the executable,
/// what the processor and the kernel offer, and where things lie.
fn key(executable: &Path, cache: &Cache) -> Vec<u8> {
    // SAFETY: has no preconditions.
    let offered = [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| unsafe { libc::getauxval(kind) });
    format!(
        "{:?} {:?} {offered:x?} {:?} {}",
        FileIdentity::at(Path::new("/proc/self/exe")),
        FileIdentity::at(executable),
        cache.gates,
        cache.layout(),
    )
    .into_bytes()
}

fn root() -> Option<Object> {
    FileIdentity::at(Path::new("/")).map(|root| root.object)
}

/// The time of day, in seconds.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// What tells a file from one that has taken its place: its inode and its time of modification.
fn version(facts: &Metadata) -> (u64, i64, i64) {
    (facts.ino(), facts.mtime(), facts.mtime_nsec())
}

/// Whether the process has a limit on memory or on the size of files, which keeping could meet:
/// the first would end the engine, the second sends a signal.
fn is_limited() -> bool {
    let all = [libc::RLIMIT_FSIZE, libc::RLIMIT_AS, libc::RLIMIT_DATA];
    let limited =
        |resource| limits::get(resource).is_ok_and(|it| it.rlim_cur != libc::RLIM_INFINITY);
    all.into_iter().any(limited)
}

/// The module, of those that are given by their starts, that holds a range.
fn module_of(modules: &[Module], range: Range<u64>) -> Option<ModuleIndex> {
    let after = modules.partition_point(|module| module.start() <= range.start);
    let place = after.checked_sub(1)?;
    let module = modules[place].contains(&range);
    module.then(|| ModuleIndex::at(place))?
}

impl Persistence {
    /// Activates the translations of all code that is there.
    pub(crate) fn activate(&mut self, regions: &Regions, cache: &mut Cache) {
        for (start, region, view, version) in regions.unchanged_code() {
            let here = Module::new(start, region, view, version);
            let indices = (0..).map_while(ModuleIndex::at);
            for (index, module) in indices.zip(&mut self.inactive) {
                if *module == Some(here) {
                    *module = None;
                    cache.activate(index);
                }
            }
        }
    }

    /// Keeps the translations, if there are enough new ones. The process is about to end.
    pub(crate) fn keep(&mut self, regions: &Regions, cache: &Cache) {
        if cache.translated_bytes < FEW_BYTES && !self.renew {
            return;
        }
        let modules = self.modules(regions);
        let new = cache.new_bytes(|range| module_of(&modules, range));
        let few = new < FEW_BYTES || new < self.kept_bytes / 20;
        let unchanged = few && !self.renew || self.is_outdone(new);
        // SAFETY: has no preconditions.
        let same_user = unsafe { libc::geteuid() } == self.user;
        let fits = cache.emitted_bytes() <= CODE_LIMIT && !is_limited();
        if unchanged || !fits || !same_user || root() != self.root {
            return;
        }
        crate::signals::block_all();
        let mut written = self.write(cache, modules.clone(), new);
        if matches!(&written, Err(error) if error.raw_os_error() == Some(libc::EMFILE)) {
            // The program has used up its descriptors. It ends, and hardly wants more now.
            let _headroom = Headroom::get();
            written = self.write(cache, modules.clone(), new);
        }
        if let Err(error) = written {
            self.complain("kept", &error);
        }
    }

    /// Whether another process has kept as much meanwhile as this one would, with so many bytes of
    /// new code. Of a server's processes, which all begin with the same, the one that has
    /// translated most leaves its translations, and not the one that ends last.
    fn is_outdone(&self, new: u64) -> bool {
        let kept_by_others = self.bytes_kept_by_others().ok().flatten();
        let most = kept_by_others.map(|number| number + number / 20);
        most.is_some_and(|most| self.kept_bytes + new <= most)
    }

    /// Bytes of code whose translations the file has, if it is another one than was taken over.
    fn bytes_kept_by_others(&self) -> io::Result<Option<u64>> {
        let file = self.open()?;
        let facts = file.metadata()?;
        if self.taken == Some(version(&facts)) {
            return Ok(None);
        }
        // SAFETY: as where a file is taken over.
        let bytes = unsafe { Mmap::map(&file) }?;
        let usable =
            |parts: &Parts| parts.key == self.key && parts.seal.examine(&facts) == SealState::Whole;
        let parts = Parts::read(&bytes).filter(usable);
        Ok(parts.map(|parts| parts.code_bytes))
    }

    /// The modules that are there and may be kept, by their starts.
    fn modules(&self, regions: &Regions) -> Vec<Module> {
        regions
            .unchanged_code()
            .map(|(start, region, view, version)| Module::new(start, region, view, version))
            .filter(|module| module.is_older_than(self.began))
            .collect()
    }

    /// Keeps the translations, among them those of so many bytes of new code. The modules are those
    /// that are there.
    fn write(&mut self, cache: &Cache, mut modules: Vec<Module>, new: u64) -> io::Result<()> {
        let active = modules.len();
        let mut indices = vec![None; self.inactive.len()];
        for (index, module) in indices.iter_mut().zip(&self.inactive) {
            *index = module.and_then(|module| {
                modules.push(module);
                ModuleIndex::at(modules.len() - 1)
            });
        }
        let snapshot = cache.keep(
            |range| module_of(&modules[..active], range),
            |index| *indices.get(index.place())?,
        );
        let bytes = self.kept_bytes + new;
        let seal = Seal::new(now());
        let head = (seal, &self.key[..]);
        let content = file::compose(head, bytes, &modules, &snapshot);
        directory::replace(&self.path, content.bytes(), seal.written, |file| {
            content.write(file)
        })
    }
}
