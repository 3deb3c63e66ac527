//! Executables and libraries: when they are mapped, and when they are gone.
//!
//! One that is mapped anew is another module, wherever it lies, so that an address belongs to the
//! one that is mapped at its time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use unspool_events::{Event, Mapping, ModuleId, RecordSink};
use unspool_kernel::lock::Mutex;
use unspool_kernel::regions::{Object, Regions};
use unspool_kernel::{layout, maps};

use crate::functions::{Functions, translate_anew};
use crate::trace_buffer::TraceBuffer;
use unspool_engine::call::Call;
use unspool_engine::process::Process;

/// What glibc keeps free for thread-local variables of libraries that are loaded later (version 2.36:
/// `_dl_tls_static_surplus_init`, with the settings that it has by itself).
const FOR_LATER_LIBRARIES: u64 = 1664;

/// The modules of a process.
#[derive(Debug, Default)]
pub(crate) struct Modules(Mutex<Known>);

/// What is known of them.
#[derive(Debug, Default)]
struct Known {
    count: u32,
    /// By where their code starts.
    mapped: BTreeMap<u64, Mapped>,
    /// The most bytes that thread-local variables take of each thread's memory, by files.
    thread_local: BTreeMap<PathBuf, u64>,
}

#[derive(Debug)]
struct Mapped {
    id: ModuleId,
    /// Whether the trace has an event of its loading.
    is_told: bool,
    /// What it is code of, once that is told.
    object: Option<Object>,
    /// Whether it is the kernel's, which nobody unmaps.
    is_kernels: bool,
}

impl Known {
    fn add_kernels(&mut self, start: u64) -> ModuleId {
        let id = self.add(start);
        if let Some(module) = self.mapped.get_mut(&start) {
            module.is_kernels = true;
        }
        id
    }

    fn add(&mut self, start: u64) -> ModuleId {
        let id = ModuleId(self.count);
        self.count += 1;
        let module = Mapped {
            id,
            is_told: false,
            object: None,
            is_kernels: false,
        };
        self.mapped.insert(start, module);
        id
    }

    /// Modules of whose loading there is no event yet.
    fn take_untold(&mut self, regions: &Regions) -> Vec<ModuleId> {
        let untold = self.mapped.iter_mut();
        let untold = untold.filter(|(_, module)| !module.is_told);
        untold
            .map(|(&start, module)| {
                module.is_told = true;
                module.object = object_at(regions, start);
                module.id
            })
            .collect()
    }

    /// Modules whose code is not where it was.
    fn take_gone(&mut self, regions: &Regions) -> Vec<ModuleId> {
        let gone = self.mapped.extract_if(.., |&start, module| {
            let is_there =
                regions.find(start).is_some() && object_at(regions, start) == module.object;
            module.is_told && !module.is_kernels && !is_there
        });
        gone.map(|(_, module)| module.id).collect()
    }
}

impl Modules {
    /// In a file of its own: it tells of all modules anew.
    pub(crate) fn forget(&self) {
        *self.0.lock() = Known::default();
    }

    /// The kernel's code, at the address where the program sees it, and the data that it reads.
    pub(crate) fn define_kernels(&self, sink: &dyn RecordSink) {
        let text = maps::read();
        let mut modules = self.0.lock();
        for maps::Line { range, name, .. } in maps::lines(&text) {
            let base = match name {
                b"[vdso]" => layout::vdso(),
                _ if name.starts_with(b"[vvar") => range.start,
                _ => continue,
            };
            sink.define_module(&unspool_events::Module {
                id: modules.add_kernels(base),
                path: name.to_vec(),
                base,
                size: range.end - range.start,
                build_id: Vec::new(),
            });
        }
    }

    /// Code of a file was mapped. What is wanted of it is found. Returns where code that was mapped
    /// before is to be translated anew.
    pub(crate) fn define(
        &self,
        sink: &dyn RecordSink,
        functions: &Functions,
        code: &FileCode,
    ) -> Vec<u64> {
        let &FileCode {
            ref path,
            address,
            offset,
            size,
        } = code;
        let Ok(module) = unspool_binary::Module::open(path) else {
            return Vec::new();
        };
        {
            let mut modules = self.0.lock();
            let thread_local = module.thread_local_bytes();
            modules.thread_local.insert(path.clone(), thread_local);
            sink.define_module(&unspool_events::Module {
                id: modules.add(address),
                path: path.as_os_str().as_bytes().to_vec(),
                base: address.wrapping_sub(offset),
                size: size + offset,
                build_id: module.build_id().unwrap_or_default().to_vec(),
            });
        }
        functions.find_in(&module, address, offset, sink)
    }

    /// The most bytes that thread-local variables take below the pointer of a thread that begins now.
    pub(crate) fn thread_local_bytes(&self) -> u64 {
        let modules = self.0.lock();
        let sizes = modules.thread_local.values();
        // A program without libraries, and without their loader, gets none.
        let later = match modules.thread_local.len() {
            0 | 1 => 0,
            _ => FOR_LATER_LIBRARIES,
        };
        sizes.fold(later, |sum, &size| sum.saturating_add(size))
    }

    /// Adds an event for each module of which there is none yet.
    pub(crate) fn tell(&self, process: &Process, buffer: &mut TraceBuffer) {
        let loaded = {
            let code = process.code();
            self.0.lock().take_untold(&code.regions)
        };
        for module in loaded {
            buffer.event(&Event::Mapping(Mapping::ModuleLoad { module }));
        }
    }

    /// Behind a system call that may have changed the program's mappings.
    pub(crate) fn follow(
        &self,
        functions: &Functions,
        process: &Process,
        buffer: &mut TraceBuffer,
        call: &Call,
        result: i64,
    ) {
        let gone = {
            let code = process.code();
            self.0.lock().take_gone(&code.regions)
        };
        for module in gone {
            buffer.event(&Event::Mapping(Mapping::ModuleUnload { module }));
        }
        if let Some(code) = FileCode::mapped_by(call, result) {
            for address in self.define(&*buffer.recording.sink(), functions, &code) {
                translate_anew(process, address);
            }
            self.tell(process, buffer);
        }
    }
}

/// Code of a file that was mapped.
#[derive(Debug)]
pub(crate) struct FileCode {
    pub(crate) path: PathBuf,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl FileCode {
    fn mapped_by(call: &Call, result: i64) -> Option<FileCode> {
        let [_, size, protection, flags, file, offset] = call.arguments;
        let is_mapped = call.number as i64 == libc::SYS_mmap && result > 0;
        let is_code = protection & libc::PROT_EXEC as u64 != 0;
        if !is_mapped || !is_code || flags & libc::MAP_ANONYMOUS as u64 != 0 {
            return None;
        }
        Some(FileCode {
            path: std::fs::read_link(format!("/proc/self/fd/{}", file as i32)).ok()?,
            address: result as u64,
            offset,
            size,
        })
    }

    /// What is mapped in this process now and belongs to the program.
    pub(crate) fn all_mapped() -> Vec<FileCode> {
        let own = std::fs::read_link("/proc/self/exe").ok();
        let text = maps::read();
        let executable = maps::lines(&text).filter(|line| line.permissions.contains('x'));
        let of_files = executable.filter_map(|line| {
            let path = Path::new(OsStr::from_bytes(line.name));
            let is_programs = path.is_absolute() && Some(path) != own.as_deref();
            is_programs.then(|| FileCode {
                path: path.to_owned(),
                address: line.range.start,
                offset: line.offset,
                size: line.range.end - line.range.start,
            })
        });
        of_files.collect()
    }
}

fn object_at(regions: &Regions, address: u64) -> Option<Object> {
    let (_, region) = regions.find(address)?;
    Some(region.view?.object)
}
