//! `profile.db` and `cct.db`: the same values, by thread and by context.

use std::collections::BTreeMap;

use super::contexts::Threads;
use super::layout::Layout;
use super::meta::{HOST, PROCESS, RANK, THREAD};
use super::values::Value;

/// What stands in the place of a thread: all of them.
const SUMMARY: u32 = 0;

/// Sizes of what stands in lists.
const PROFILE_BYTES: usize = 0x30;
const CONTEXT_BYTES: usize = 0x20;

/// A plane of values: those of each key below each outer one, in order.
type Plane = BTreeMap<u32, Vec<(u32, f64)>>;

/// `profile.db`
pub(super) fn by_thread(values: &[Value], threads: &Threads) -> Vec<u8> {
    let mut planes: Vec<Plane> = vec![Plane::new(); threads.all.len() + 1];
    let mut sums: BTreeMap<(u32, u16), f64> = BTreeMap::new();
    for value in values {
        let plane = &mut planes[value.thread as usize];
        let of_context = plane.entry(value.context).or_default();
        of_context.push((value.metric.into(), value.value));
        *sums.entry((value.context, value.metric)).or_default() += value.value;
    }
    for ((context, metric), sum) in sums {
        let plane = &mut planes[SUMMARY as usize];
        plane.entry(context).or_default().push((metric.into(), sum));
    }
    let mut layout = Layout::new(b"prof", 2);
    let start = layout.here();
    let list = layout.room(16);
    layout.put(list, list + 16);
    layout.put(list + 8, planes.len() as u64 | (PROFILE_BYTES as u64) << 32);
    let profiles = layout.room(PROFILE_BYTES * planes.len());
    layout.section(0, start);
    let start = layout.here();
    for (place, thread) in threads.all.iter().enumerate() {
        let tuple = layout.here();
        let (pid, process) = thread.process;
        let mut identifiers = vec![(HOST, 1, 0, 0)];
        match thread.rank {
            Some(rank) => identifiers.push((RANK, 0, rank, u64::from(rank))),
            None => identifiers.push((PROCESS, 1, process, u64::from(pid))),
        }
        identifiers.push((THREAD, 0, thread.index, thread.index.into()));
        layout.u16(u16::try_from(identifiers.len()).unwrap_or(0));
        layout.align(8);
        for (kind, is_physical, logical, physical) in identifiers {
            layout.u8(kind);
            layout.u8(0);
            layout.u16(is_physical);
            layout.u32(logical);
            layout.u64(physical);
        }
        let profile = profiles + ((place + 1) * PROFILE_BYTES) as u64;
        layout.put(profile + 0x20, tuple);
    }
    layout.section(1, start);
    // The first is of all threads.
    layout.put(profiles + 0x28, 1);
    for (place, plane) in planes.iter_mut().enumerate() {
        let header = profiles + (place * PROFILE_BYTES) as u64;
        write_plane(&mut layout, header, plane, Widths { key: 4, value: 2 });
    }
    layout.finish(b"_prof.db")
}

/// `cct.db`
pub(super) fn by_context(values: &[Value], contexts: usize) -> Vec<u8> {
    let mut planes: Vec<Plane> = vec![Plane::new(); contexts + 1];
    for value in values {
        let plane = &mut planes[value.context as usize];
        let of_metric = plane.entry(value.metric.into()).or_default();
        of_metric.push((value.thread, value.value));
    }
    let mut layout = Layout::new(b"ctxt", 1);
    let start = layout.here();
    let list = layout.room(16);
    layout.put(list, list + 16);
    layout.put(list + 8, planes.len() as u64 | (CONTEXT_BYTES as u64) << 32);
    let infos = layout.room(CONTEXT_BYTES * planes.len());
    layout.section(0, start);
    for (place, plane) in planes.iter_mut().enumerate() {
        let header = infos + (place * CONTEXT_BYTES) as u64;
        write_plane(&mut layout, header, plane, Widths { key: 2, value: 4 });
    }
    layout.finish(b"__ctx.db")
}

/// Bytes of the numbers that values are found by.
#[derive(Clone, Copy)]
struct Widths {
    /// Contexts in `profile.db`, metrics in `cct.db`.
    key: usize,
    /// What stands before each value: metrics, or threads.
    value: usize,
}

fn number(layout: &mut Layout, value: u32, bytes: usize) {
    match bytes {
        2 => layout.u16(u16::try_from(value).unwrap_or(u16::MAX)),
        _ => layout.u32(value),
    }
}

/// A plane behind all else, and where it is in its header.
fn write_plane(layout: &mut Layout, header: u64, plane: &mut Plane, widths: Widths) {
    layout.align(8);
    let values = layout.here();
    let mut starts = Vec::new();
    let mut count = 0_u64;
    for (key, of_key) in plane {
        of_key.sort_by_key(|(number, _)| *number);
        starts.push((*key, count));
        for (own, value) in of_key {
            number(layout, *own, widths.value);
            layout.f64(*value);
            count += 1;
        }
    }
    layout.align(8);
    let indices = layout.here();
    for (key, start) in &starts {
        number(layout, *key, widths.key);
        layout.u64(*start);
    }
    layout.put(header, count);
    layout.put(header + 8, values);
    layout.put(header + 0x10, starts.len() as u64);
    layout.put(header + 0x18, indices);
}
