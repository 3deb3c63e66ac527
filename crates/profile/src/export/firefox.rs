//! The processed format of the Firefox Profiler, by the crate `fxprof-processed-profile`.

use std::collections::BTreeMap;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, Timestamp,
};

use crate::named_paths::{NamedPaths, Step};

/// Each thread with its samples, at their times. A sample's weight is the number of periods that it
/// stands for, or of events.
#[must_use]
pub fn firefox(paths: &NamedPaths<'_>) -> Profile {
    let recording = paths.recording;
    let period_ns = recording
        .settings
        .map_or(1_000_000, |settings| settings.period_ns.max(1));
    let start = Duration::from_nanos(recording.header.start_unix_ns);
    let start = ReferenceTimestamp::from_duration_since_unix_epoch(start);
    let interval = SamplingInterval::from_nanos(period_ns);
    let mut profile = Profile::new(&paths.command().join(" "), start, interval);
    // Names are in it: nobody needs to look them up.
    profile.set_symbolicated(true);
    let times = recording.samples.iter().map(|sample| sample.time_ns);
    let first_ns = times.min().unwrap_or(0);
    let at = |time_ns: u64| Timestamp::from_nanos_since_reference(time_ns.saturating_sub(first_ns));
    let is_of_events = recording.sampled_event.is_some();
    let is_cpu_time = !is_of_events
        && recording
            .settings
            .is_none_or(|settings| settings.source.is_of_cpu_time());
    let mut processes: BTreeMap<u32, ProcessHandle> = BTreeMap::new();
    for ((pid, tid), samples) in paths.by_thread() {
        let begins = at(samples.first().map_or(first_ns, |sample| sample.time_ns));
        let process = *processes
            .entry(pid)
            .or_insert_with(|| profile.add_process(&process_name(paths, pid), pid, begins));
        let thread = profile.add_thread(process, tid, begins, pid == tid);
        profile.set_thread_name(thread, paths.thread_name((pid, tid)));
        let last_ns = samples.last().map(|sample| sample.time_ns);
        for sample in samples {
            let mut steps: Vec<Step<'_>> = Vec::new();
            for frame in paths.frames(sample) {
                steps.extend(paths.steps(frame));
            }
            let frames: Vec<FrameInfo> = steps
                .into_iter()
                .rev()
                .map(|step| FrameInfo {
                    frame: Frame::Label(profile.intern_string(step.name)),
                    category_pair: CategoryHandle::OTHER.into(),
                    flags: FrameFlags::empty(),
                })
                .collect();
            let stack = profile.intern_stack_frames(thread, frames.into_iter());
            let used = match is_cpu_time {
                true => CpuDelta::from_nanos(sample.weight),
                false => CpuDelta::ZERO,
            };
            let weight = match is_of_events {
                true => sample.weight,
                false => (sample.weight / period_ns).max(1),
            };
            let weight = i32::try_from(weight).unwrap_or(i32::MAX);
            profile.add_sample(thread, at(sample.time_ns), stack, used, weight);
        }
        if let Some(last_ns) = last_ns {
            profile.set_thread_end_time(thread, at(last_ns));
        }
    }
    profile
}

/// A process of an MPI job with its rank.
fn process_name(paths: &NamedPaths<'_>, pid: u32) -> String {
    let name = paths.process_name(pid);
    match paths.rank(pid) {
        Some(rank) => format!("rank {rank}: {name}"),
        None => name.to_owned(),
    }
}
