//! `trace.db`: when each thread was where.

use std::collections::BTreeMap;

use unspool_profile_record::{Recording, Sample};

use super::contexts::{Contexts, GLOBAL, Threads};
use super::layout::Layout;

const TRACE_BYTES: usize = 0x18;

/// The samples of time, each from where it begins. A thread is nowhere where it has no samples.
pub(super) fn file(
    recording: &Recording,
    threads: &Threads,
    contexts: &mut Contexts<'_>,
) -> Vec<u8> {
    let mut lines: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
    let samples = match recording.sampled_event {
        None => &recording.samples[..],
        Some(_) => &[],
    };
    for sample in samples {
        let thread = threads.number((sample.pid, sample.tid));
        lines.entry(thread).or_default().push(sample);
    }
    let begins = |sample: &Sample| sample.time_ns.saturating_sub(sample.weight);
    let first_ns = samples.iter().map(begins).min().unwrap_or(0);
    let start_ns = recording.header.start_unix_ns;
    let at = |time_ns: u64| start_ns.saturating_add(time_ns.saturating_sub(first_ns));
    let period_ns = recording.settings.map_or(0, |settings| settings.period_ns);

    let mut layout = Layout::new(b"trce", 1);
    let start = layout.here();
    let list = layout.room(0x20);
    layout.put(list, list + 0x20);
    layout.put(list + 8, lines.len() as u64 | (TRACE_BYTES as u64) << 32);
    let headers = layout.room(TRACE_BYTES * lines.len());
    layout.section(0, start);
    let (mut least, mut most) = (u64::MAX, 0);
    for (place, (thread, mut samples)) in lines.into_iter().enumerate() {
        samples.sort_by_key(|sample| sample.time_ns);
        let header = headers + (place * TRACE_BYTES) as u64;
        layout.put(header, thread.into());
        layout.align(8);
        layout.put(header + 8, layout.here());
        let mut ended_ns = 0;
        let mut element = |layout: &mut Layout, time_ns: u64, context: u32| {
            (least, most) = (least.min(time_ns), most.max(time_ns));
            layout.u64(time_ns);
            layout.u32(context);
        };
        for sample in samples {
            let from_ns = at(begins(sample)).max(ended_ns);
            // Times of samples are not exact: what is shorter than half a period is none.
            if ended_ns > 0 && from_ns > ended_ns.saturating_add(period_ns / 2) {
                element(&mut layout, ended_ns, GLOBAL);
            }
            let context = contexts.of(sample);
            element(&mut layout, from_ns, context);
            ended_ns = at(sample.time_ns).max(from_ns + 1);
        }
        element(&mut layout, ended_ns, GLOBAL);
        layout.put(header + 0x10, layout.here());
    }
    layout.put(list + 0x10, least.min(most));
    layout.put(list + 0x18, most);
    layout.finish(b"trace.db")
}
