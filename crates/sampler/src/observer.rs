//! Follows what the kernel says of all processes of a run, and writes it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::SystemTime;

use rustc_hash::FxHashMap;
use unspool_kernel::maps;
use unspool_profile_record::{
    Image as ImageRecord, Occurrence, Process, Rank, Record, Sample, StepCertainty, Symbol, Thread,
    Writer,
};

use crate::address_space::{AddressSpace, Mapping};
use crate::call_path::{CallPaths, PathFrame};
use crate::generated_code::GeneratedCode;
use crate::image::Image;
use crate::kernel_record::{KernelRecord, Sampled, What};
use crate::mpi_rank;
use crate::part_of_run::PartOfRun;
use crate::perf_map::Function;
use crate::tree::Tree;
use crate::waits::{Place, Waits};

/// What stands for the kernel's code.
const KERNEL: &str = "[kernel]";

/// What stands for code in memory without a file.
pub(crate) const WITHOUT_FILE: &str = "//anon";

/// A process of the run.
struct Observed {
    space: AddressSpace,
    paths: CallPaths,
}

/// By what an image is known: a file by its path, memory without one by its process.
fn key(pid: u32, path: &str) -> String {
    match path {
        WITHOUT_FILE => format!("{path}/{pid}"),
        path => path.to_owned(),
    }
}

/// Where what is observed runs.
pub(crate) enum Origin {
    /// Here and now. The path is that of what is in the program for our sake, if anything is: its frames are
    /// left out.
    Here { left_out: Option<String> },
    /// It ran some time, somewhere: its numbers of processes mean nothing here, and files are its own only
    /// if they have these build identifiers, by their paths.
    Elsewhere { build_ids: HashMap<String, Vec<u8>> },
}

/// All processes of a run.
pub(crate) struct Observer<W> {
    writer: Writer<W>,
    tree: Tree,
    processes: FxHashMap<u32, Observed>,
    images: FxHashMap<String, Rc<Image>>,
    next_image: u32,
    origin: Origin,
    /// Samples of other times are left out.
    pub(crate) part: PartOfRun,
    /// When the first process began.
    since: SystemTime,
    ranks: FxHashMap<u32, u32>,
    /// Code that programs have made themselves, by the numbers of its images.
    generated: FxHashMap<u32, GeneratedCode>,
    waits: Waits,
    path: Vec<PathFrame>,
}

impl Origin {
    fn paths(&self, pid: u32) -> CallPaths {
        match self {
            Origin::Here { .. } => CallPaths::new(pid),
            Origin::Elsewhere { .. } => CallPaths::without_process(),
        }
    }

    fn image(&self, number: u32, pid: u32, path: &str) -> Image {
        match self {
            Origin::Here { .. } => Image::read(number, pid, path),
            Origin::Elsewhere { build_ids } => {
                let known = build_ids.get(path).map(Vec::as_slice);
                Image::read_elsewhere(number, path, known)
            }
        }
    }
}

impl<W: Write> Observer<W> {
    pub(crate) fn new(
        writer: Writer<W>,
        origin: Origin,
        part: PartOfRun,
        since: SystemTime,
    ) -> Observer<W> {
        Observer {
            origin,
            part,
            since,
            generated: FxHashMap::default(),
            ranks: FxHashMap::default(),
            writer,
            tree: Tree::default(),
            processes: FxHashMap::default(),
            images: FxHashMap::default(),
            next_image: 0,
            waits: Waits::default(),
            path: Vec::new(),
        }
    }

    /// Has a reader see what is known so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        for (image, code) in &mut self.generated {
            for Function {
                start,
                length,
                name,
            } in code.new_functions(self.since)
            {
                let image = *image;
                self.writer.write(&Record::Symbol(Symbol {
                    image,
                    start,
                    length,
                    name,
                }))?;
            }
        }
        self.writer.flush()
    }

    /// Writes a record that does not come from the kernel.
    pub(crate) fn write(&mut self, record: &Record) -> io::Result<()> {
        self.writer.write(record)
    }

    /// Takes in what the kernel says, in the order of time.
    pub(crate) fn take(&mut self, record: KernelRecord) -> io::Result<()> {
        let (pid, tid) = (record.pid, record.tid);
        match record.what {
            What::Sampled(sampled) if self.part.contains(pid, record.time_ns) => {
                let sample = self.sample(pid, tid, record.time_ns, &sampled)?;
                self.writer.write(&Record::Sample(sample))?;
            }
            What::Occurred(event, sampled) if self.part.contains(pid, record.time_ns) => {
                let sample = self.sample(pid, tid, record.time_ns, &sampled)?;
                self.writer
                    .write(&Record::Occurrence(Occurrence { event, sample }))?;
            }
            What::Sampled(_) | What::Occurred(..) => {}
            What::Leaving(sampled) => {
                let place = self.place(pid, &sampled)?;
                self.waits.leaving((pid, tid), place);
            }
            What::Left { is_preempted } => {
                let (thread, part) = ((pid, tid), &mut self.part);
                self.waits.left(thread, record.time_ns, part, is_preempted);
            }
            What::Entered => {
                let (thread, part) = ((pid, tid), &mut self.part);
                if let Some(wait) = self.waits.entered(thread, record.time_ns, part) {
                    self.writer.write(&Record::Wait(wait))?;
                }
            }
            What::Mapped {
                start,
                length,
                offset,
                path,
            } => {
                let end = start.saturating_add(length);
                self.map(pid, start, end, offset, &String::from_utf8_lossy(&path))?;
            }
            What::Mappings(text) => {
                for line in maps::lines(&text).filter(|line| line.is_code()) {
                    let path = match line.name {
                        // What the kernel calls it in the records of its events.
                        b"" => WITHOUT_FILE.into(),
                        name => String::from_utf8_lossy(name),
                    };
                    self.map(pid, line.range.start, line.range.end, line.offset, &path)?;
                }
            }
            What::Named { name, is_execution } => {
                if is_execution {
                    self.part.executed(pid, record.time_ns);
                    self.processes.remove(&pid);
                    self.images.remove(&key(pid, WITHOUT_FILE));
                }
                self.named(pid, tid, &name)?;
            }
            What::Started { parent } if parent != pid => {
                self.part.started(parent, pid, record.time_ns);
                let space = self.process(parent).space.clone();
                let paths = self.origin.paths(pid);
                self.processes.insert(pid, Observed { space, paths });
                if let Some(rank) = self.ranks.get(&parent).copied() {
                    self.ranked(pid, rank)?;
                }
            }
            What::Started { .. } => {}
            What::Lost(count) => self.writer.write(&Record::Lost(count))?,
        }
        Ok(())
    }

    fn map(&mut self, pid: u32, start: u64, end: u64, offset: u64, path: &str) -> io::Result<()> {
        let image = self.image(pid, path)?;
        let process = self.process(pid);
        if !process.space.has(start, end, &image) {
            process.space.map(Mapping {
                start,
                end,
                bias: image.bias(start, offset),
                image,
            });
            process.paths.forget();
        }
        Ok(())
    }

    fn named(&mut self, pid: u32, tid: u32, name: &[u8]) -> io::Result<()> {
        let name = String::from_utf8_lossy(name).into_owned();
        if pid == tid {
            let name = name.clone();
            self.writer.write(&Record::Process(Process { pid, name }))?;
            if matches!(self.origin, Origin::Here { .. })
                && let Some(rank) = mpi_rank::of_process(pid)
            {
                self.ranked(pid, rank)?;
            }
        }
        self.writer
            .write(&Record::Thread(Thread { pid, tid, name }))
    }

    /// A process is a rank of an MPI job.
    fn ranked(&mut self, pid: u32, rank: u32) -> io::Result<()> {
        match self.ranks.insert(pid, rank) {
            Some(known) if known == rank => Ok(()),
            _ => self.writer.write(&Record::Rank(Rank { pid, rank })),
        }
    }

    fn process(&mut self, pid: u32) -> &mut Observed {
        let origin = &self.origin;
        self.processes.entry(pid).or_insert_with(|| Observed {
            space: AddressSpace::default(),
            paths: origin.paths(pid),
        })
    }

    /// The image of a path, which is read when it is met first.
    fn image(&mut self, pid: u32, path: &str) -> io::Result<Rc<Image>> {
        let key = key(pid, path);
        if let Some(image) = self.images.get(&key) {
            return Ok(Rc::clone(image));
        }
        let number = self.next_image;
        self.next_image = number.checked_add(1).ok_or(io::ErrorKind::OutOfMemory)?;
        let image = Rc::new(self.origin.image(number, pid, path));
        if path == WITHOUT_FILE {
            self.generated.insert(number, GeneratedCode::of(pid));
        }
        self.writer.write(&Record::Image(ImageRecord {
            number,
            path: path.to_owned(),
            build_id: image.build_id.clone(),
        }))?;
        self.images.insert(key, Rc::clone(&image));
        Ok(image)
    }

    /// The run is over: nobody waits any more.
    pub(crate) fn end(&mut self, time_ns: u64) -> io::Result<()> {
        for wait in self.waits.end(time_ns, &mut self.part) {
            self.writer.write(&Record::Wait(wait))?;
        }
        Ok(())
    }

    fn sample(
        &mut self,
        pid: u32,
        tid: u32,
        time_ns: u64,
        sampled: &Sampled,
    ) -> io::Result<Sample> {
        let (mut node, end) = self.place(pid, sampled)?;
        if sampled.is_in_kernel {
            let place = (Some(self.image(pid, KERNEL)?.number), 0);
            let certainty = StepCertainty::NoCall;
            node = Some(self.tree.node(&mut self.writer, node, place, certainty)?);
        }
        Ok(Sample {
            pid,
            tid,
            time_ns,
            weight: sampled.weight,
            node,
            end,
        })
    }

    /// Where in the program a thread is.
    fn place(&mut self, pid: u32, sampled: &Sampled) -> io::Result<Place> {
        let mut path = std::mem::take(&mut self.path);
        let process = self.process(pid);
        let end = process.paths.follow(&process.space, sampled, &mut path);
        let mut node = None;
        let process = &self.processes[&pid];
        let left_out = match &self.origin {
            Origin::Here {
                left_out: Some(path),
            } => self.images.get(path),
            _ => None,
        };
        for frame in path.iter().rev() {
            let place = match process.space.mapping_at(frame.address) {
                Some(mapping) if left_out.is_some_and(|own| Rc::ptr_eq(own, &mapping.image)) => {
                    continue;
                }
                Some(mapping) => {
                    if let Some(code) = self.generated.get_mut(&mapping.image.number) {
                        code.found(frame.address);
                    }
                    (
                        Some(mapping.image.number),
                        frame.address.wrapping_sub(mapping.bias.unwrap_or(0)),
                    )
                }
                None => (None, frame.address),
            };
            let certainty = frame.certainty;
            node = Some(self.tree.node(&mut self.writer, node, place, certainty)?);
        }
        self.path = path;
        Ok((node, end))
    }
}
