//! The file in which programs tell when they enter and leave regions of interest.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use unspool_sample_slots::regions::{
    FILE_BYTES, MAGIC, MARKS, VARIABLE, mark, place, time_place, who_place,
};

use crate::part_of_run::Mark;
use crate::removal::Removal;
use crate::shared_memory::SharedMemory;

/// Where files are memory.
const MEMORY: &str = "/dev/shm";

/// A mark that is taken and not written for so many readings is left out: its writer was ended in between.
const PATIENCE: u32 = 40;

/// The marks of a run. The file goes with this value.
pub(crate) struct RegionMarks {
    memory: SharedMemory,
    _file: File,
    /// Removes the file where this process is killed; before that, it is told not to.
    _removal: Option<Removal>,
    path: tempfile::TempPath,
    /// How often the next mark was not there yet.
    waited: u32,
    left_out: u64,
}

impl RegionMarks {
    pub(crate) fn new() -> io::Result<RegionMarks> {
        let mut named = tempfile::Builder::new();
        let named = named.prefix("unspool-regions-");
        let file = named.tempfile_in(MEMORY).or_else(|_| named.tempfile())?;
        let (file, path) = file.into_parts();
        let bytes = libc::off_t::try_from(FILE_BYTES).map_err(io::Error::other)?;
        // A program that wrote where there is no memory would be ended.
        // SAFETY: an open file, and numbers.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = SharedMemory::map(&file, 0, FILE_BYTES)?;
        let namespace = std::fs::metadata("/proc/self/ns/pid")?.ino();
        for (place, value) in [(place::PID_NAMESPACE, namespace), (place::MAGIC, MAGIC)] {
            memory.word(place).store(value, Ordering::Release);
        }
        Ok(RegionMarks {
            memory,
            _file: file,
            _removal: Removal::of(&path).ok(),
            path,
            waited: 0,
            left_out: 0,
        })
    }

    /// Tells the library where the file is, in a command and all that it starts.
    pub(crate) fn join(&self, command: &mut Command) {
        command.env(VARIABLE.to_str().expect("ASCII"), self.path());
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Takes out what has come.
    pub(crate) fn drain(&mut self, each: &mut dyn FnMut(Mark)) {
        let written = self.memory.word(place::WRITTEN).load(Ordering::Acquire);
        let mut read = self.memory.word(place::READ).load(Ordering::Relaxed);
        // Nobody writes more than there is room for: then a program has written to what is not its own.
        if written.wrapping_sub(read) > MARKS {
            read = written;
        }
        while read != written {
            let time = self.memory.word(time_place(read));
            match time.swap(0, Ordering::AcqRel) {
                0 if self.waited < PATIENCE => {
                    self.waited += 1;
                    break;
                }
                0 => self.left_out += 1,
                time_ns => {
                    let who = self.memory.word(who_place(read)).load(Ordering::Relaxed);
                    let (pid, enters) = mark::parts(who);
                    each(Mark {
                        time_ns,
                        pid,
                        enters,
                    });
                }
            }
            self.waited = 0;
            read = read.wrapping_add(1);
        }
        self.memory.word(place::READ).store(read, Ordering::Release);
    }

    /// Marks that found no room, or were not written to their end.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self.memory.word(place::LOST).load(Ordering::Acquire);
        lost.saturating_add(self.left_out)
    }

    /// Processes in another PID namespace, whose marks are not taken.
    pub(crate) fn elsewhere(&self) -> u64 {
        self.memory.word(place::ELSEWHERE).load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl RegionMarks {
        /// Takes the next number, as a writer does.
        fn take(&self) -> u64 {
            self.memory
                .word(place::WRITTEN)
                .fetch_add(1, Ordering::AcqRel)
        }

        fn fill(&self, number: u64, time_ns: u64) {
            let who = self.memory.word(who_place(number));
            who.store(
                mark::of(number as u32, number.is_multiple_of(2)),
                Ordering::Relaxed,
            );
            self.memory
                .word(time_place(number))
                .store(time_ns, Ordering::Release);
        }

        fn read(&mut self) -> Vec<Mark> {
            let mut marks = Vec::new();
            self.drain(&mut |mark| marks.push(mark));
            marks
        }
    }

    #[test]
    fn marks_are_read_once_and_in_order() {
        let mut marks = RegionMarks::new().unwrap();
        for turn in 0..3 * MARKS / 5 {
            let numbers: Vec<u64> = (0..5).map(|_| marks.take()).collect();
            numbers.iter().rev().for_each(|it| marks.fill(*it, it + 1));
            let read = marks.read();
            let times: Vec<u64> = read.iter().map(|mark| mark.time_ns - 1).collect();
            assert_eq!(times, numbers, "{turn}");
            assert!(
                read.iter()
                    .all(|mark| mark.enters == mark.pid.is_multiple_of(2))
            );
        }
        assert_eq!(marks.lost(), 0);
    }

    #[test]
    fn a_writer_that_has_ended_holds_the_others_up_for_a_while_only() {
        let mut marks = RegionMarks::new().unwrap();
        let (ended, next) = (marks.take(), marks.take());
        marks.fill(next, 7);
        let mut read = Vec::new();
        while read.is_empty() {
            assert_eq!(marks.lost(), 0);
            read = marks.read();
        }
        assert_eq!((read.len(), read[0].time_ns, marks.lost()), (1, 7, 1));
        assert_eq!(ended, 0);
        // Whatever a program writes there, reading ends.
        marks
            .memory
            .word(place::WRITTEN)
            .store(u64::MAX / 2, Ordering::Release);
        assert!(marks.read().is_empty());
    }
}
