//! The recordings of an MPI job's ranks as one: each rank has its own or adds up its share of them, and gives
//! the sum to a lower one, which adds it to its own, as in a binomial tree, until the first has all.
//!
//! Ranks meet in a folder beside the file that the sum is kept in, which all of them see. One asks by a file
//! with a word that it has just made up, and the other answers by a file whose name has this word, so that
//! what an earlier job has left there is not taken for an answer. The one that has given waits until it is let
//! go: then the sum is written, and whatever becomes of the job, it is there.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use unspool_profile_record::{Recording, merge};
use unspool_sampler::mpi_rank;

use super::output::{Output, named};
use super::{gather, observes, present};
use crate::arguments::ProfileArguments;
use crate::exit_status;
use crate::failure::{Failure, warn};

/// How often is looked whether another rank has come.
const PAUSE: Duration = Duration::from_millis(20);
/// After what time it is said for whom this rank waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a rank has, and what could not be used of it.
#[derive(Default)]
struct Share {
    recordings: Vec<Recording>,
    problems: Vec<String>,
}

/// Where ranks meet.
struct Meeting {
    folder: PathBuf,
    rank: u32,
    size: u32,
}

/// Runs the program as one rank of a job, or adds up recordings together with the other ranks. The first
/// rank reports.
pub(super) fn profile(typed: &ProfileArguments) -> Result<u8, Failure> {
    let (rank, size) = place()?;
    let output = typed.output.as_deref().unwrap_or(Path::new(""));
    if output
        .as_os_str()
        .as_bytes()
        .windows(2)
        .any(|it| it == b"%r")
    {
        let problem = format!("{}: there is one sum of all ranks", output.display());
        return Err(Failure::new(problem).with_help("-o FILE, without %r"));
    }
    let output = named(output)?;
    let mut folder = output.clone().into_os_string();
    folder.push(".ranks");
    let meeting = Meeting {
        folder: folder.into(),
        rank,
        size,
    };
    let cannot_write = |error| Failure::cannot_write(&meeting.folder, error);
    fs::create_dir_all(&meeting.folder).map_err(cannot_write)?;
    let (mut share, status) = meeting.own(typed);
    let mut asked = Vec::new();
    let mut step = 1;
    while rank & step == 0 && step < size {
        if rank + step < size {
            let theirs = meeting.take(rank + step).map_err(cannot_write)?;
            share.add(theirs, rank + step);
            asked.push(rank + step);
        }
        step <<= 1;
    }
    if rank != 0 {
        let given = share.pack().map_err(cannot_write)?;
        meeting.give(&given).map_err(cannot_write)?;
        meeting.let_go(&asked);
        return Ok(status);
    }
    let shown = share.sum().and_then(|sum| {
        let mut output = Output::open(Some(&output))?;
        io::Write::write_all(&mut output, &sum)?;
        let mut recording = output.read_again()?;
        recording.problems.append(&mut share.problems);
        present(&recording, status, typed)
    });
    meeting.let_go(&asked);
    meeting.tidy_up();
    shown
}

/// This process's rank, and how many there are.
fn place() -> Result<(u32, u32), Failure> {
    let Some(rank) = mpi_rank::own() else {
        let problem = "--by-ranks: this is no process of an MPI job";
        return Err(Failure::new(problem).with_help("mpirun -n 8 unspool profile --by-ranks ..."));
    };
    match mpi_rank::count() {
        Some(size) if rank < size => Ok((rank, size)),
        _ => {
            let problem = "--by-ranks: the launcher does not say how many ranks there are";
            let help = "record each rank alone (-o parts/%r), and add them up: unspool profile -o FILE parts/*";
            Err(Failure::new(problem).with_help(help))
        }
    }
}

impl Share {
    fn add(&mut self, theirs: Share, rank: u32) {
        self.recordings.extend(theirs.recordings);
        let problems = theirs.problems.into_iter();
        self.problems
            .extend(problems.map(|it| match it.starts_with("rank ") {
                true => it,
                false => format!("rank {rank}: {it}"),
            }));
    }

    /// All recordings as one; of those that are no such time as the first's, nothing. What could not be read
    /// of them is not in it, and stays here.
    fn sum(&mut self) -> Result<Vec<u8>, Failure> {
        for recording in &mut self.recordings {
            self.problems.append(&mut recording.problems);
        }
        let mut sum = Vec::new();
        if let Err(error) = merge(&self.recordings, &mut sum) {
            self.problems.push(error.to_string());
            sum.clear();
            let first = self.recordings.get(..1).unwrap_or_default();
            merge(first, &mut sum).map_err(anyhow::Error::new)?;
        }
        Ok(sum)
    }

    /// As it is given: how many bytes problems have, these, and the sum.
    fn pack(&mut self) -> io::Result<Vec<u8>> {
        let sum = match self.recordings.is_empty() {
            true => Vec::new(),
            false => self
                .sum()
                .map_err(|failure| io::Error::other(failure.error))?,
        };
        let problems = serde_json::to_vec(&self.problems)?;
        let mut bytes = (problems.len() as u64).to_le_bytes().to_vec();
        bytes.extend(problems);
        bytes.extend(sum);
        Ok(bytes)
    }

    fn unpack(bytes: &[u8]) -> Share {
        let read = || {
            let (length, rest) = bytes.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (problems, sum) = rest.split_at_checked(length)?;
            let problems = serde_json::from_slice(problems).ok()?;
            let recordings = match sum.is_empty() {
                true => Vec::new(),
                false => vec![Recording::read(sum).ok()?],
            };
            Some(Share {
                recordings,
                problems,
            })
        };
        read().unwrap_or_else(|| Share {
            recordings: Vec::new(),
            problems: vec!["what it gave is damaged".to_owned()],
        })
    }
}

impl Meeting {
    /// What this rank has itself, and the status to end with. What fails is told, and leaves nothing.
    fn own(&self, typed: &ProfileArguments) -> (Share, u8) {
        let gathered = match observes(typed) {
            true => {
                // If the job is killed, this can be read.
                gather(&typed.words, typed, Some(&self.part())).map(Some)
            }
            false => {
                let files = &typed.words;
                let bound = |rank: u32| files.len() * rank as usize / self.size as usize;
                match &files[bound(self.rank)..bound(self.rank + 1)] {
                    [] => Ok(None),
                    own => gather(own, typed, None).map(Some),
                }
            }
        };
        let mut share = Share::default();
        let status = match gathered {
            Ok(gathered) => gathered.map_or(exit_status::SUCCESS, |(recording, status)| {
                share.recordings.push(recording);
                status
            }),
            Err(failure) => {
                failure.report();
                let problem = format!("rank {}: {:#}", self.rank, failure.error);
                share.problems.push(problem);
                failure.status
            }
        };
        (share, status)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn part(&self) -> PathBuf {
        self.file(&format!("part-{}", self.rank))
    }

    fn wanted(&self, rank: u32) -> PathBuf {
        self.file(&format!("wanted-{rank}"))
    }

    fn given(&self, rank: u32, word: &str) -> PathBuf {
        self.file(&format!("given-{rank}-{word}"))
    }

    /// Asks another rank for what it has, and waits for it.
    fn take(&self, rank: u32) -> io::Result<Share> {
        let now = (Instant::now(), std::process::id());
        let word = format!("{:016x}", RandomState::new().hash_one(now));
        write_whole(&self.wanted(rank), word.as_bytes())?;
        let given = self.given(rank, &word);
        let mut waiting = Waiting::begin(rank);
        while !given.exists() {
            waiting.pause();
        }
        let share = Share::unpack(&fs::read(&given)?);
        fs::remove_file(&given)?;
        Ok(share)
    }

    /// Gives what this rank has to the one that asks for it, until that one lets it go.
    fn give(&self, bytes: &[u8]) -> io::Result<()> {
        let wanted = self.wanted(self.rank);
        let mut waiting = Waiting::begin(self.rank & (self.rank - 1));
        let mut answered = None;
        loop {
            match (fs::read_to_string(&wanted), &answered) {
                (Ok(word), answered) if answered.as_ref() == Some(&word) => {}
                (Ok(word), _) if is_word(&word) => {
                    write_whole(&self.given(self.rank, &word), bytes)?;
                    answered = Some(word);
                }
                (Ok(_), _) => {}
                (Err(error), Some(_)) if error.kind() == io::ErrorKind::NotFound => break,
                (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {}
                (Err(error), _) => return Err(error),
            }
            waiting.pause();
        }
        let _ = fs::remove_file(self.part());
        Ok(())
    }

    /// Lets those go that have given.
    fn let_go(&self, asked: &[u32]) {
        for rank in asked {
            // One that cannot be removed has been already.
            let _ = fs::remove_file(self.wanted(*rank));
        }
    }

    /// Removes the folder when all have gone. What an earlier job left there stays.
    fn tidy_up(&self) {
        let _ = fs::remove_file(self.part());
        let begin = Instant::now();
        while fs::remove_dir(&self.folder).is_err() && begin.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether this is such a word as ranks make up, and no way to somewhere else.
fn is_word(word: &str) -> bool {
    word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a file that nobody sees before all of it is there.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, path)
}

/// One rank waits for another.
struct Waiting {
    rank: u32,
    begin: Instant,
    is_told: bool,
}

impl Waiting {
    fn begin(rank: u32) -> Waiting {
        Waiting {
            rank,
            begin: Instant::now(),
            is_told: false,
        }
    }

    fn pause(&mut self) {
        std::thread::sleep(PAUSE);
        if self.begin.elapsed() > PATIENCE && !std::mem::replace(&mut self.is_told, true) {
            warn(format_args!("waiting for rank {}", self.rank));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_arrives_and_damage_is_told() {
        let mut share = Share {
            recordings: Vec::new(),
            problems: vec!["one".to_owned(), "rank 7: two".to_owned()],
        };
        let bytes = share.pack().unwrap();
        let mut all = Share::default();
        all.add(Share::unpack(&bytes), 3);
        assert_eq!(all.problems, ["rank 3: one", "rank 7: two"]);
        for damaged in [
            &bytes[..5],
            &bytes[..bytes.len() - 1],
            &[&bytes[..], b"recording"].concat(),
        ] {
            let read = Share::unpack(damaged);
            assert_eq!(read.problems, ["what it gave is damaged"]);
        }
    }

    #[test]
    fn words_lead_nowhere() {
        assert!(is_word("0123456789abcdef"));
        for other in [
            "",
            "0123456789abcde",
            "../../../../etc/",
            "0123456789abcdeg",
        ] {
            assert!(!is_word(other));
        }
    }
}
