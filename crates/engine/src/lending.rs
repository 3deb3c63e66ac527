//! Which shared memory is as private as other memory, so that only this process writes it.
//!
//! That is memory made here (`memfd_create`, anonymous shared mappings) which nobody else has
//! been given. A fork lends it to the child, mostly for a short time: until the child executes
//! another program, or ends. The engine looks from time to time whether the child's mappings are
//! gone, by trying to read the child's memory where they were. A child that could have kept the
//! memory otherwise (it has a descriptor, has forked, or has moved or protected mappings) keeps
//! it for good. What another process opens through `/proc` is not seen.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use unspool_code_cache::cache::Cache;
use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::ids::Pid;
use unspool_kernel::regions::{Object, Regions};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What of the process's shared memory others have.
#[derive(Default)]
pub struct Lending {
    /// Objects that were made here, and not given away.
    own: BTreeSet<Object>,
    /// Children that have them since a fork.
    borrowers: Vec<Pid>,
    /// Where each of the objects is mapped in the children.
    places: Vec<u64>,
    /// When to look next whether the children have them still, and how long to wait then.
    next_look: Option<(Instant, Duration)>,
    /// Counts what the children do so that they may keep the memory unseen.
    kept: Option<&'static AtomicU64>,
    /// The same of processes whose memory this one has.
    lenders: Vec<&'static AtomicU64>,
}

impl Lending {
    /// The program has made an object.
    pub(crate) fn made(&mut self, object: Object) {
        self.own.insert(object);
    }

    /// Whether nobody else can have this object but by a fork.
    #[must_use]
    pub fn is_own(&self, object: Object) -> bool {
        self.own.contains(&object)
    }

    /// This process may keep what it has of others' memory unseen.
    pub(crate) fn keeps(&self) {
        for lender in &self.lenders {
            lender.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Descriptors are given to another process: whoever has them may write what they stand for.
    pub(crate) fn give_away(
        &mut self,
        (regions, cache): (&mut Regions, &mut Cache),
        descriptors: &[i32],
    ) {
        for &descriptor in descriptors {
            let Some(file) = FileIdentity::open(descriptor) else {
                continue;
            };
            self.own.remove(&file.object);
            regions.open_object(file.object);
            forget_open_code(regions, cache);
        }
    }

    /// Another process is about to have the program's shared memory.
    pub(crate) fn before_fork(&mut self, (regions, cache): (&mut Regions, &mut Cache)) {
        self.keeps();
        let code_of_own = shared_code(regions);
        let mut lent: BTreeSet<Object> = code_of_own
            .filter(|&object| self.own.contains(&object))
            .collect();
        if !lent.is_empty() && self.kept.is_none() {
            self.kept = shared_word();
        }
        if self.kept.is_none() {
            lent.clear();
        } else if !lent.is_empty() {
            for object in open_files() {
                lent.remove(&object);
            }
        }
        self.own.retain(|object| lent.contains(object));
        self.places = places_of(regions, &lent);
        self.next_look = Some((Instant::now() + FIRST_PAUSE, FIRST_PAUSE));
        regions.open_all_objects_but(&lent);
        regions.lend(lent);
        forget_open_code(regions, cache);
    }

    /// This child has what was lent.
    pub(crate) fn lent_to(&mut self, child: Pid) {
        self.borrowers.push(child);
    }

    /// This is the child.
    pub(crate) fn begin_child(&mut self, regions: &mut Regions) {
        self.lenders.extend(self.kept.take());
        self.borrowers.clear();
        self.own.clear();
        regions.open_all_objects_but(&BTreeSet::new());
    }

    /// Takes back what all children have given up, if it is time to look.
    pub(crate) fn take_back(&mut self, (regions, cache): (&mut Regions, &mut Cache)) {
        let Some((time, pause)) = self.next_look else {
            return;
        };
        let now = Instant::now();
        if now < time {
            return;
        }
        let pause = (pause * 2).min(LONGEST_PAUSE);
        self.next_look = Some((now + pause, pause));
        let count = self.kept.map_or(1, |kept| kept.load(Ordering::SeqCst));
        if count != 0 {
            // For good: `next_look` is not needed any more.
            self.next_look = None;
            return;
        }
        let places = &self.places;
        let has = |&child: &Pid| places.iter().any(|&place| may_have(child, place));
        self.borrowers.retain(has);
        // What a child did before its mappings were gone counts.
        let count = self.kept.map_or(1, |kept| kept.load(Ordering::SeqCst));
        if self.borrowers.is_empty() && count == 0 {
            self.next_look = None;
            for range in regions.end_lending() {
                cache.allow_links(&range);
                cache.invalidate(range);
            }
        }
    }
}

/// Translations of code that other processes may change are not to be used.
fn forget_open_code(regions: &Regions, cache: &mut Cache) {
    let open: Vec<_> = regions.code_open_to_others().collect();
    for range in open {
        cache.invalidate(range);
    }
}

/// Whether a process may have something mapped at an address.
fn may_have(process: Pid, address: u64) -> bool {
    let mut byte = 0_u8;
    let to = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let from = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: 1,
    };
    // SAFETY: one byte is written, for which there is room.
    let read =
        unsafe { libc::process_vm_readv(process.get(), &raw const to, 1, &raw const from, 1, 0) };
    let error = std::io::Error::last_os_error().raw_os_error();
    read >= 0 || !matches!(error, Some(libc::EFAULT | libc::ESRCH))
}

/// The objects that the process has descriptors of.
fn open_files() -> Vec<Object> {
    const AT_ONCE: u64 = 4096;
    let limit = unspool_kernel::limits::get(libc::RLIMIT_NOFILE)
        .map_or(u64::from(u16::MAX), |limit| limit.rlim_cur);
    let mut found = Vec::new();
    let mut first = 0;
    while first < limit {
        let number = |descriptor: u64| libc::pollfd {
            fd: descriptor as i32,
            events: 0,
            revents: 0,
        };
        let mut all: Vec<_> = (first..limit.min(first + AT_ONCE)).map(number).collect();
        // SAFETY: the array is as long as is said.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, 0) };
        let open = all.iter().filter(|one| one.revents & libc::POLLNVAL == 0);
        found.extend(
            open.filter_map(|one| FileIdentity::open(one.fd))
                .map(|file| file.object),
        );
        first += AT_ONCE;
    }
    found
}

/// A word that children will share with this process.
fn shared_word() -> Option<&'static AtomicU64> {
    // SAFETY: new memory, which is never unmapped.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        (page != libc::MAP_FAILED).then(|| AtomicU64::from_ptr(page.cast()))
    }
}

/// Objects of which a shared mapping is executable.
fn shared_code(regions: &Regions) -> impl Iterator<Item = Object> + '_ {
    regions
        .shared_views()
        .filter(|(_, region, _)| region.protection & libc::PROT_EXEC != 0)
        .map(|(_, _, object)| object)
}

/// Where shared mappings of these objects start.
fn places_of(regions: &Regions, objects: &BTreeSet<Object>) -> Vec<u64> {
    regions
        .shared_views()
        .filter(|(_, _, object)| objects.contains(object))
        .map(|(start, ..)| start)
        .collect()
}
