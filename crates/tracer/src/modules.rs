//! Executables and libraries: when they are mapped, and when they are gone.
//!
//! One that is mapped anew is another module, wherever it lies, so that an address belongs to the
//! one that is mapped at its time.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use unspool_events::{Event, Mapping, ModuleId};
use unspool_kernel::regions::{Object, Regions};
use unspool_kernel::{layout, maps};

use super::client;
use crate::tracer::Tracer;
use unspool_engine::call::Call;
use unspool_engine::thread::Thread;

/// The modules of a process.
#[derive(Debug, Default)]
pub(super) struct Modules {
    count: u32,
    /// By where their code starts.
    mapped: BTreeMap<u64, Mapped>,
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

impl Modules {
    /// In a file of its own: it tells of all modules anew.
    pub(super) fn forget(&mut self) {
        *self = Modules::default();
    }

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

fn object_at(regions: &Regions, address: u64) -> Option<Object> {
    let (_, region) = regions.find(address)?;
    Some(region.view?.object)
}

impl Tracer {
    /// Code of a file was mapped.
    pub(super) fn module_mapped(&self, path: &Path, address: u64, offset: u64, size: u64) {
        let Ok(module) = unspool_binary::Module::open(path) else {
            return;
        };
        let writer = self.writer.lock().clone();
        {
            let mut modules = self.modules.lock();
            writer.define_module(&unspool_events::Module {
                id: modules.add(address),
                path: path.as_os_str().as_bytes().to_vec(),
                base: address.wrapping_sub(offset),
                size: size + offset,
                build_id: module.build_id().unwrap_or_default().to_vec(),
            });
        }
        self.functions.find_in(&module, address, offset, &*writer);
    }
}

impl Tracer {
    /// The kernel's code, at the address where the program sees it, and the data that it reads.
    pub(super) fn define_kernels_modules(&self) {
        let text = maps::read();
        let writer = self.writer.lock().clone();
        let mut modules = self.modules.lock();
        for maps::Line { range, name, .. } in maps::lines(&text) {
            let base = match name {
                b"[vdso]" => layout::vdso(),
                _ if name.starts_with(b"[vvar") => range.start,
                _ => continue,
            };
            writer.define_module(&unspool_events::Module {
                id: modules.add_kernels(base),
                path: name.to_vec(),
                base,
                size: range.end - range.start,
                build_id: Vec::new(),
            });
        }
    }
}

/// Adds an event for each module of which there is none yet.
pub(super) fn tell(tracer: &Tracer, thread: &mut Thread) {
    let loaded = {
        let code = thread.process.code();
        tracer.modules.lock().take_untold(&code.regions)
    };
    for module in loaded {
        client::event(thread, &Event::Mapping(Mapping::ModuleLoad { module }));
    }
}

/// Behind a system call that may have changed the program's mappings.
pub(super) fn follow(tracer: &Tracer, thread: &mut Thread, call: &Call, result: i64) {
    let gone = {
        let code = thread.process.code();
        tracer.modules.lock().take_gone(&code.regions)
    };
    for module in gone {
        client::event(thread, &Event::Mapping(Mapping::ModuleUnload { module }));
    }
    let [_, size, protection, flags, file, offset] = call.arguments;
    let mapped = call.number as i64 == libc::SYS_mmap && result > 0;
    let executable = protection & libc::PROT_EXEC as u64 != 0;
    if mapped
        && executable
        && flags & libc::MAP_ANONYMOUS as u64 == 0
        && let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{}", file as i32))
    {
        tracer.module_mapped(&path, result as u64, offset, size);
        tell(tracer, thread);
    }
}
