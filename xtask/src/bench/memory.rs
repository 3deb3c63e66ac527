//! Samples the memory of a process tree while it runs.
//!
//! The peaks come from `/proc`: per process the kernel's own high-water mark, and for the
//! tree the greatest sum of resident sets seen at one sample.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// The peaks of a process tree.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct TreePeaks {
    /// Greatest sum of resident sets, in bytes. Pages that processes share count for each.
    pub(crate) tree_bytes: u64,
    /// Of each program seen, the greatest high-water mark of one of its processes, in bytes.
    pub(crate) by_program: BTreeMap<String, u64>,
}

/// A running sampler.
pub(crate) struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<TreePeaks>,
}

impl Sampler {
    /// Starts sampling the tree below a process.
    pub(crate) fn start(root: u32) -> Sampler {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut peaks = TreePeaks::default();
            loop {
                peaks.add_sample(root);
                if stopped.recv_timeout(SAMPLE_PERIOD) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return peaks;
                }
            }
        });
        Sampler { stop, thread }
    }

    /// Ends sampling.
    pub(crate) fn finish(self) -> TreePeaks {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

impl TreePeaks {
    fn add_sample(&mut self, root: u32) {
        let mut pending = vec![root];
        let mut sum = 0;
        while let Some(process) = pending.pop() {
            pending.extend(children(process));
            // A process may end between any two reads: then it simply is not counted.
            let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else {
                continue;
            };
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            sum += field("VmRSS:").and_then(kilobytes).unwrap_or(0);
            if let (Some(program), Some(peak)) =
                (field("Name:"), field("VmHWM:").and_then(kilobytes))
            {
                let known = self
                    .by_program
                    .entry(program.trim().to_owned())
                    .or_default();
                *known = peak.max(*known);
            }
        }
        self.tree_bytes = self.tree_bytes.max(sum);
    }
}

fn kilobytes(field: &str) -> Option<u64> {
    Some(field.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn children(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return found;
    };
    for thread in threads.flatten() {
        let listed = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(
            listed
                .split_whitespace()
                .filter_map(|id| id.parse::<u32>().ok()),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_a_grandchild_and_its_memory() {
        let mut child = std::process::Command::new("sh")
            .args([
                "-c",
                "sh -c 'x=$(head -c 20000000 /dev/zero | tr \"\\0\" x); sleep 0.3'; true",
            ])
            .spawn()
            .unwrap();
        let sampler = Sampler::start(child.id());
        child.wait().unwrap();
        let peaks = sampler.finish();
        assert!(peaks.tree_bytes > 20_000_000, "{peaks:?}");
        assert!(peaks.by_program.contains_key("sleep"), "{peaks:?}");
        assert!(peaks.by_program["sh"] > 20_000_000, "{peaks:?}");
    }
}
