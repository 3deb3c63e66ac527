//! What threads did with eight bytes of memory.

use smallvec::SmallVec;
use unspool_events::ThreadId;

use crate::races::cell::Bytes;
use crate::races::sites::SiteId;
use crate::reordering::Moment;

/// An access that later ones are held against: the last of its kind by a thread between two points at
/// which that learns something, takes a lock or releases one. If any of those may stand beside another
/// access, this may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Earlier {
    pub(super) moment: Moment,
    /// Between which points.
    stretch: u32,
    pub(super) site: SiteId,
    pub(super) is_write: bool,
    pub(super) bytes: Bytes,
}

/// Eight bytes.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// What wrote what is there.
    written: SmallVec<[Written; 1]>,
    earlier: SmallVec<[Earlier; 2]>,
    settled: Settled,
}

/// Who has accessed a cell last, in which stretch, and which bytes it has read and written in it:
/// nothing is learnt from what it does with these again.
#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    by: Option<(ThreadId, u32)>,
    read: Bytes,
    written: Bytes,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    by: Moment,
    bytes: Bytes,
}

/// Stretches in which a thread did the same to the same bytes that are kept: so many of the first, and
/// as many of the last.
const LIKE_KEPT: usize = 4;
/// All accesses to a cell that are kept.
const MOST_KEPT: usize = 64;

impl Earlier {
    pub(super) fn new(
        moment: Moment,
        stretch: u32,
        bytes: Bytes,
        is_write: bool,
        site: SiteId,
    ) -> Earlier {
        Earlier {
            moment,
            stretch,
            site,
            is_write,
            bytes,
        }
    }

    fn is_like(&self, other: &Earlier) -> bool {
        (self.moment.thread, self.is_write, self.bytes)
            == (other.moment.thread, other.is_write, other.bytes)
    }
}

impl Cell {
    /// Whether the thread has done the same in this stretch, and nobody anything since.
    #[inline]
    pub(super) fn is_settled(&self, who: (ThreadId, u32), is_write: bool, bytes: Bytes) -> bool {
        let Settled { by, read, written } = self.settled;
        let done = if is_write { written } else { read };
        by == Some(who) && bytes & !done == 0
    }

    /// What another access might race with.
    pub(super) fn met_by(&self, new: &Earlier) -> impl Iterator<Item = Earlier> {
        let earlier = self.earlier.iter().copied();
        earlier.filter(move |it| {
            it.moment.thread != new.moment.thread
                && it.bytes & new.bytes != 0
                && (it.is_write || new.is_write)
        })
    }

    /// What wrote these bytes.
    pub(super) fn writers(&self, bytes: Bytes) -> impl Iterator<Item = Moment> {
        let of_them = self.written.iter().filter(move |it| it.bytes & bytes != 0);
        of_them.map(|it| it.by)
    }

    /// Something has written there.
    pub(super) fn is_written(&mut self, by: Moment, bytes: Bytes) {
        if let [last] = &mut self.written[..]
            && last.bytes & !bytes == 0
        {
            *last = Written { by, bytes };
            return;
        }
        self.remove_writers(bytes);
        self.written.push(Written { by, bytes });
    }

    /// What is done next is to be looked at whoever does it.
    pub(super) fn is_disturbed(&mut self) {
        self.settled = Settled::default();
    }

    /// Keeps an access. Returns false if there are too many others.
    pub(super) fn keep(&mut self, new: Earlier) -> bool {
        let by = Some((new.moment.thread, new.stretch));
        if self.settled.by != by {
            self.settled = Settled {
                by,
                ..Settled::default()
            };
        }
        match new.is_write {
            true => self.settled.written |= new.bytes,
            false => self.settled.read |= new.bytes,
        }
        let like = |it: &Earlier| it.is_like(&new);
        if let Some(last) = self.earlier.iter_mut().rfind(|it| like(it))
            && last.stretch == new.stretch
        {
            *last = new;
            return true;
        }
        if self.earlier.iter().filter(|it| like(it)).count() == 2 * LIKE_KEPT {
            let mut places = (0..self.earlier.len()).filter(|it| like(&self.earlier[*it]));
            if let Some(oldest_of_last) = places.nth(LIKE_KEPT) {
                self.earlier.remove(oldest_of_last);
            }
        }
        let is_kept = self.earlier.len() < MOST_KEPT;
        if is_kept {
            self.earlier.push(new);
        }
        is_kept
    }

    /// These bytes are other memory now.
    pub(super) fn forget(&mut self, bytes: Bytes) {
        self.is_disturbed();
        self.remove_writers(bytes);
        for earlier in &mut self.earlier {
            earlier.bytes &= !bytes;
        }
        self.earlier.retain(|it| it.bytes != 0);
    }

    /// What it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let elsewhere = |is_spilled: bool, bytes: usize| if is_spilled { bytes } else { 0 };
        elsewhere(
            self.written.spilled(),
            self.written.capacity() * size_of::<Written>(),
        ) + elsewhere(
            self.earlier.spilled(),
            self.earlier.capacity() * size_of::<Earlier>(),
        )
    }

    fn remove_writers(&mut self, bytes: Bytes) {
        for written in &mut self.written {
            written.bytes &= !bytes;
        }
        self.written.retain(|it| it.bytes != 0);
    }
}
