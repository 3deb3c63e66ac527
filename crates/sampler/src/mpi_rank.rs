//! Which process of an MPI job a process is: launchers say so by its environment.

use std::fs::File;
use std::io::Read;

/// What launchers set: Open MPI, PMIx, MPICH and Intel MPI (PMI), Slurm. A library's own comes first,
/// because a launcher of its own may have been started by a batch system's.
const RANKS: [&str; 4] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
];
/// How many ranks there are, as they say.
const COUNTS: [&str; 4] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
];
/// No environment is read any further.
const MOST_BYTES: u64 = 8 << 20;

/// The rank of this process, if it is one of a job.
#[must_use]
pub fn own() -> Option<u32> {
    of_process(std::process::id())
}

/// How many ranks the job has that this process is one of, as far as its launcher says.
#[must_use]
pub fn count() -> Option<u32> {
    number(&environment(std::process::id())?, &COUNTS)
}

/// The rank of a process, if it is one of a job and can still be asked.
pub(crate) fn of_process(pid: u32) -> Option<u32> {
    number(&environment(pid)?, &RANKS)
}

fn environment(pid: u32) -> Option<Vec<u8>> {
    let mut environment = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut environment).ok()?;
    Some(environment)
}

/// The first of these variables that is a number.
fn number(environment: &[u8], names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| {
        let value = |word: &[u8]| {
            let value = word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            str::from_utf8(value).ok()?.parse().ok()
        };
        environment.split(|byte| *byte == 0).find_map(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_a_number_of_the_librarys_own() {
        let rank = |text: &str| number(text.replace(' ', "\0").as_bytes(), &RANKS);
        assert_eq!(rank("A=1 PMI_RANK=3 B="), Some(3));
        assert_eq!(rank("SLURM_PROCID=0 PMIX_RANK=7"), Some(7));
        assert_eq!(rank("SLURM_PROCID=2"), Some(2));
        for none in ["", "PMI_RANKS=3", "XPMI_RANK=3", "PMI_RANK=-1", "PMI_RANK="] {
            assert_eq!(rank(none), None, "{none}");
        }
    }
}
