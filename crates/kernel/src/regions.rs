//! The program's address space, as the program made it: which ranges are mapped, and how.
//!
//! Kept up to date by the memory system calls. It answers what may be fetched as code,
//! where code can be put below 2 GiB, and which translations a change makes stale.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A mapped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its end (exclusive); its start is its key.
    pub end: u64,
    /// PROT_READ, PROT_WRITE, PROT_EXEC as the program asked for them.
    pub protection: i32,
    /// What it shows of memory that can be mapped elsewhere too.
    pub view: Option<View>,
    /// The version of the file whose content it is: only as long as the program has never
    /// been able to write it.
    pub version: Option<Version>,
    /// Whether the kernel lets it grow downwards where memory below it is touched.
    pub grows: bool,
}

/// Which content a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Its length in bytes.
    pub size: u64,
    /// When it was last written: seconds and nanoseconds. Programs set this as they like …
    pub modified: (i64, i64),
    /// … but not when it was last changed in any way.
    pub changed: (i64, i64),
}

/// What a region shows of a memory object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Which object.
    pub object: Object,
    /// Where in the object the region starts.
    pub offset: u64,
    /// Whether writes to the region are writes to the object.
    pub shared: bool,
}

/// Memory that several mappings can show: a file, or memory that processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// The device of the file.
    pub device: u64,
    /// Its number on the device.
    pub inode: u64,
}

/// All mapped ranges, by start, without overlaps.
#[derive(Debug, Default)]
pub struct Regions {
    by_start: BTreeMap<u64, Region>,
    /// Objects that this process may write through a shared mapping.
    written: BTreeSet<Object>,
    /// Objects that other processes may write.
    open: BTreeSet<Object>,
    /// Objects that children may write until they execute another program or end.
    lent: BTreeSet<Object>,
    /// Where regions start that grow.
    growing: BTreeSet<u64>,
    /// What a stack may still grow into, as far as is known: the lower end of its region.
    unreached: Range<u64>,
}

/// Down to where a region that grows is mapped, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The lowest address.
    pub address: u64,
    /// Where something else ends, below which it cannot come.
    pub floor: u64,
    /// Where the region ends.
    pub end: u64,
    /// The protection of what is mapped there.
    pub protection: i32,
}

impl Regions {
    /// Adds a range, replacing what was there.
    pub fn insert(&mut self, range: Range<u64>, protection: i32, view: Option<View>) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        let region = Region {
            end: range.end,
            protection,
            view,
            version: None,
            grows: false,
        };
        self.by_start.insert(range.start, region);
        self.note_writer(&region);
    }

    /// Adds all that a stack may become, of which only what is at `reached` and above is known to
    /// be mapped. The rest counts as mapped in everything but [`mapped`](Regions::mapped).
    pub fn insert_stack(&mut self, range: Range<u64>, protection: i32, reached: u64) {
        self.insert(range.clone(), protection, None);
        self.set_growing(range.start);
        self.unreached = range.start..reached;
    }

    /// The region that starts at `start` grows downwards.
    pub fn set_growing(&mut self, start: u64) {
        if let Some(region) = self.by_start.get_mut(&start) {
            region.grows = true;
            self.growing.insert(start);
        }
    }

    /// Down to where the regions are mapped that grow.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.growing
            .iter()
            .filter_map(move |&start| self.edge_of(start))
    }

    /// Down to where the region is mapped that starts at `start` and grows.
    #[must_use]
    pub fn edge_of(&self, start: u64) -> Option<Edge> {
        let region = self.by_start.get(&start).filter(|region| region.grows)?;
        let below = || self.by_start.range(..start).next_back();
        let (address, floor) = match self.unreached.contains(&start) {
            true => (self.unreached.end, start),
            false => (start, below().map_or(0, |(_, region)| region.end)),
        };
        Some(Edge {
            address,
            floor,
            end: region.end,
            protection: region.protection,
        })
    }

    /// A region that was mapped down to `from` has grown down to `to`, if that is not known yet.
    pub fn grow(&mut self, from: u64, to: u64) {
        if !self.unreached.is_empty() && from == self.unreached.end {
            self.unreached.end = to;
        } else if self.growing.remove(&from)
            && let Some(region) = self.by_start.remove(&from)
        {
            self.by_start.insert(to, region);
            self.growing.insert(to);
        }
    }

    /// The region that starts at `start` is a private mapping of a file of this version.
    pub fn set_version(&mut self, start: u64, version: Version) {
        if let Some(region) = self.by_start.get_mut(&start)
            && region.protection & libc::PROT_WRITE == 0
        {
            region.version = Some(version);
        }
    }

    /// The content of a range is no file's any more.
    pub fn forget_version(&mut self, range: Range<u64>) {
        let first = self
            .find(range.start)
            .map_or(range.start, |(start, _)| start);
        for (_, region) in self.by_start.range_mut(first..range.end.max(first)) {
            region.version = None;
        }
    }

    /// All regions that hold unchanged code of a file, with their starts.
    pub fn unchanged_code(&self) -> impl Iterator<Item = (u64, &Region, View, Version)> {
        self.by_start.iter().filter_map(|(&start, region)| {
            let executable = region.protection & libc::PROT_EXEC != 0;
            let view = region.view.filter(|view| executable && !view.shared)?;
            Some((start, region, view, region.version?))
        })
    }

    fn note_writer(&mut self, region: &Region) {
        if let (Some(view), true) = (region.view, region.protection & libc::PROT_WRITE != 0)
            && view.shared
        {
            self.written.insert(view.object);
        }
    }

    /// Other processes may write this object from now on.
    pub fn open_object(&mut self, object: Object) {
        self.open.insert(object);
    }

    /// All shared memory but some: another process is about to have it too.
    pub fn open_all_objects_but(&mut self, kept: &BTreeSet<Object>) {
        let objects = self.shared_views().map(|(_, _, object)| object);
        let given: Vec<Object> = objects.filter(|object| !kept.contains(object)).collect();
        self.open.extend(given);
    }

    /// Children may write these objects for a while.
    pub fn lend(&mut self, objects: BTreeSet<Object>) {
        self.lent = objects;
    }

    /// Children do not write what was lent any more. Returns what of it is executable.
    pub fn end_lending(&mut self) -> Vec<Range<u64>> {
        let lent = std::mem::take(&mut self.lent);
        let views = self.shared_views();
        views
            .filter(|(_, region, object)| {
                lent.contains(object) && region.protection & libc::PROT_EXEC != 0
            })
            .map(|(start, region, _)| start..region.end)
            .collect()
    }

    /// All shared mappings: where they start, and of what.
    pub fn shared_views(&self) -> impl Iterator<Item = (u64, &Region, Object)> {
        self.by_start.iter().filter_map(|(&start, region)| {
            let view = region.view.filter(|view| view.shared)?;
            Some((start, region, view.object))
        })
    }

    /// Whether code in the region may be changed by another process.
    #[must_use]
    pub fn changes_from_outside(&self, region: &Region) -> bool {
        region.view.filter(|view| view.shared).is_some_and(|view| {
            self.open.contains(&view.object) || self.lent.contains(&view.object)
        })
    }

    /// The regions that are executable and may be changed by other processes.
    pub fn code_open_to_others(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let executable = self
            .by_start
            .iter()
            .filter(|(_, region)| region.protection & libc::PROT_EXEC != 0);
        executable
            .filter(|(_, region)| self.changes_from_outside(region))
            .map(|(&start, region)| start..region.end)
    }

    /// Where else the memory of a range (within one region) is mapped, with how it is mapped
    /// there. Nothing where no shared mapping can write it: then no place changes another.
    #[must_use]
    pub fn other_views(&self, range: Range<u64>) -> Vec<(Range<u64>, Region)> {
        let Some((start, region)) = self.find(range.start) else {
            return Vec::new();
        };
        let Some(view) = region
            .view
            .filter(|view| self.written.contains(&view.object))
        else {
            return Vec::new();
        };
        let first = view.offset + (range.start - start);
        let last = first + (range.end.min(region.end) - range.start);
        let mut found = Vec::new();
        for (&other_start, other) in &self.by_start {
            let Some(other_view) = other.view.filter(|other| other.object == view.object) else {
                continue;
            };
            let end = other_view.offset + (other.end - other_start);
            let (from, to) = (first.max(other_view.offset), last.min(end));
            if from < to && other_start != start {
                let place = other_start + (from - other_view.offset);
                found.push((place..place + (to - from), *other));
            }
        }
        found
    }

    /// Where code of an object is mapped.
    #[must_use]
    pub fn code_of(&self, object: Object) -> Vec<Range<u64>> {
        let shows = |region: &Region| {
            let is_code = region.protection & libc::PROT_EXEC != 0;
            is_code && region.view.is_some_and(|view| view.object == object)
        };
        let all = self.by_start.iter().filter(|(_, region)| shows(region));
        all.map(|(&start, region)| start..region.end).collect()
    }

    /// Whether code of an object is mapped.
    #[must_use]
    pub fn is_code_of(&self, object: Object) -> bool {
        !self.code_of(object).is_empty()
    }

    /// Mappings of which the program has some memory at another address too, and may write it at
    /// one of them; with what they show.
    #[must_use]
    pub fn aliased(&self) -> Vec<(Range<u64>, View)> {
        if self.written.is_empty() {
            return Vec::new();
        }
        let mut shown: Vec<(View, Range<u64>)> = self
            .by_start
            .iter()
            .filter_map(|(&start, region)| Some((region.view?, start..region.end)))
            .filter(|(view, _)| self.written.contains(&view.object))
            .collect();
        shown.sort_by_key(|(view, _)| (view.object, view.offset));
        let end = |(view, range): &(View, Range<u64>)| view.offset + (range.end - range.start);
        let mut reached = None;
        let mut aliased = Vec::new();
        for (place, one) in shown.iter().enumerate() {
            let (view, range) = one;
            let meets_earlier = reached
                .is_some_and(|(object, reached)| object == view.object && view.offset < reached);
            let meets_later = shown
                .get(place + 1)
                .is_some_and(|(next, _)| next.object == view.object && next.offset < end(one));
            if meets_earlier || meets_later {
                aliased.push((range.clone(), *view));
            }
            reached = match reached {
                Some((object, reached)) if object == view.object => {
                    Some((object, end(one).max(reached)))
                }
                _ => Some((view.object, end(one))),
            };
        }
        aliased
    }

    /// Whether what is mapped in a range changes only by system calls: no mapping of this or
    /// another process can write it.
    #[must_use]
    pub fn is_stable(&self, range: Range<u64>) -> bool {
        let first = self
            .find(range.start)
            .map_or(range.start, |(start, _)| start);
        self.by_start
            .range(first..range.end)
            .all(|(&start, region)| {
                let here = start.max(range.start)..region.end.min(range.end);
                let is_written =
                    |(_, other): &(_, Region)| other.protection & libc::PROT_WRITE != 0;
                region.protection & libc::PROT_WRITE == 0
                    && !self.changes_from_outside(region)
                    && !self.other_views(here).iter().any(is_written)
            })
    }

    /// Removes a range, splitting what reaches over its ends.
    pub fn remove(&mut self, range: Range<u64>) {
        self.split_at(range.start);
        self.split_at(range.end);
        let starts: Vec<u64> = self
            .by_start
            .range(range.clone())
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            self.by_start.remove(&start);
            self.growing.remove(&start);
        }
        self.cut_unreached(&range);
    }

    /// What lies in a range is no longer what a stack may grow into, nor is what lies below.
    fn cut_unreached(&mut self, range: &Range<u64>) {
        let unreached = self.unreached.clone();
        if range.is_empty() || range.end <= unreached.start || unreached.end <= range.start {
            return;
        }
        self.unreached = range.end.min(unreached.end)..unreached.end;
        if unreached.start < range.start {
            self.remove(unreached.start..range.start);
        }
    }

    /// Changes the protection of what is mapped in a range.
    pub fn protect(&mut self, range: Range<u64>, protection: i32) {
        let unreached = &mut self.unreached;
        if unreached.contains(&range.start) && range.start != unreached.start {
            // The kernel protects only what is there.
            unreached.end = range.start;
        }
        self.split_at(range.start);
        self.split_at(range.end);
        let mut changed = Vec::new();
        for (_, region) in self.by_start.range_mut(range) {
            region.protection = protection;
            if protection & libc::PROT_WRITE != 0 {
                region.version = None;
            }
            changed.push(*region);
        }
        for region in changed {
            self.note_writer(&region);
        }
    }

    /// The region that holds `address`, with its start.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(u64, Region)> {
        let (&start, &region) = self.by_start.range(..=address).next_back()?;
        (address < region.end).then_some((start, region))
    }

    /// What is mapped in a range, cut to it, by address.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Region)> + '_ {
        let first = self
            .find(range.start)
            .map_or(range.start, |(start, _)| start);
        self.by_start
            .range(first..range.end.max(first))
            .map(move |(&start, region)| {
                let from = start.max(range.start);
                let view = region.view.map(|view| View {
                    offset: view.offset + (from - start),
                    ..view
                });
                let here = from..region.end.min(range.end);
                (here, Region { view, ..*region })
            })
    }

    /// The same, without what stacks have not grown into as far as is known.
    pub fn mapped(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Region)> + '_ {
        self.within(range).filter_map(move |(here, region)| {
            let start = match self.unreached.contains(&here.start) {
                true => self.unreached.end,
                false => here.start,
            };
            (start < here.end).then_some((start..here.end, region))
        })
    }

    /// Whether anything in the range may be executed.
    #[must_use]
    pub fn any_executable(&self, range: Range<u64>) -> bool {
        let first = self
            .find(range.start)
            .map_or(range.start, |(start, _)| start);
        self.by_start
            .range(first..range.end)
            .any(|(_, region)| region.protection & libc::PROT_EXEC != 0)
    }

    /// Whether a thread of the program may have to serve accesses to a page. It cannot where the
    /// page is that of a file on a disk: `userfaultfd` serves no such mapping, and file systems that
    /// a process serves have no version.
    #[must_use]
    pub fn may_be_served(&self, address: u64) -> bool {
        self.find(address).is_none_or(|(_, region)| {
            let device = region.view.map_or(0, |view| view.object.device);
            region.version.is_none() || libc::major(device) == 0
        })
    }

    /// How many bytes from `address` on may be fetched as code (0: none).
    #[must_use]
    pub fn executable_length(&self, address: u64) -> u64 {
        let mut end = address;
        while let Some((_, region)) = self.find(end) {
            if region.protection & libc::PROT_EXEC == 0 {
                break;
            }
            end = region.end;
        }
        end - address
    }

    /// Whether nothing is mapped in a range.
    #[must_use]
    pub(crate) fn is_free(&self, range: Range<u64>) -> bool {
        self.find(range.start).is_none() && self.by_start.range(range).next().is_none()
    }

    /// The lowest free range of `size` bytes inside `area`.
    #[must_use]
    pub fn find_gap(&self, size: u64, area: Range<u64>) -> Option<u64> {
        let mut candidate = area.start;
        let first = self.find(area.start).map_or(area.start, |(start, _)| start);
        for (&start, region) in self.by_start.range(first..area.end) {
            if start >= candidate && start - candidate >= size {
                break;
            }
            candidate = candidate.max(region.end);
        }
        (candidate + size <= area.end).then_some(candidate)
    }

    /// Where in `area` a mapping belongs that wishes for `wish`: there if that is free, else at
    /// the lowest place with room for it. A just-in-time compiler that wishes for a place near
    /// its own code is served better by another one there than by one far away.
    #[must_use]
    pub fn place_near(&self, wish: Range<u64>, area: Range<u64>) -> Option<u64> {
        let fits = area.start <= wish.start && wish.end <= area.end;
        if fits && self.is_free(wish.clone()) {
            return Some(wish.start);
        }
        self.find_gap(wish.end - wish.start, area)
    }

    fn split_at(&mut self, address: u64) {
        let Some((start, region)) = self.find(address) else {
            return;
        };
        if start != address {
            self.by_start.insert(
                start,
                Region {
                    end: address,
                    ..region
                },
            );
            let view = region.view.map(|view| View {
                offset: view.offset + (address - start),
                ..view
            });
            self.by_start.insert(address, Region { view, ..region });
            if region.grows {
                self.growing.insert(address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
