//! What is known of the code at an address: whose it is, what it does, where it comes from.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use unspool_events::{Event, Module, ModuleId, Trace, TraceHeader};

use super::code_file::CodeFile;
use super::mapped_modules::MappedModules;
use crate::description::lossy;

/// Instructions that are remembered. Few programs execute more; these begin anew.
const REMEMBERED: usize = 1 << 20;

/// An instruction of the program.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The function or module that it is in; empty where it is in none.
    pub(super) name: String,
    /// What it does; empty where that is not known.
    pub(super) disassembly: String,
    /// The line of the source.
    pub(super) line: Option<String>,
}

/// The path and the build-id of a file: a library may be loaded often.
type FileKey = (Vec<u8>, Vec<u8>);

/// All code of a trace.
#[derive(Debug)]
pub(super) struct Code {
    modules: MappedModules,
    started_ns: u64,
    files: FxHashMap<FileKey, Option<Rc<CodeFile>>>,
    places: FxHashMap<(ModuleId, u64), Rc<Place>>,
    remarks: Vec<String>,
}

impl Code {
    pub(super) fn of_trace(trace: &Trace) -> Code {
        Code {
            modules: MappedModules::of_trace(trace),
            ..Code::new(trace.header())
        }
    }

    /// Of a trace of which only the start is known yet.
    pub(super) fn new(header: &TraceHeader) -> Code {
        Code {
            modules: MappedModules::default(),
            started_ns: header.start_unix_ns,
            files: FxHashMap::default(),
            places: FxHashMap::default(),
            remarks: Vec::new(),
        }
    }

    /// Adds a module, unless it is known.
    pub(super) fn add_module(&mut self, module: &Module) {
        self.modules.add(module);
    }

    /// Learns when modules come and go.
    pub(super) fn event(&mut self, time: u64, event: &Event) {
        self.modules.event(time, event);
    }

    /// What there is to say about files that could not be used, once about each.
    pub(super) fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// The instruction at an address at a time.
    pub(super) fn place(&mut self, pc: u64, time: u64) -> Rc<Place> {
        let Some(module) = self.modules.find(pc, time) else {
            return Rc::default();
        };
        let key = (module.id, pc);
        if let Some(place) = self.places.get(&key) {
            return Rc::clone(place);
        }
        let module = module.clone();
        let file = self.file_of(&module);
        let place = Rc::new(look_up(pc, &module, file.as_deref()));
        if self.places.len() >= REMEMBERED {
            self.places.clear();
        }
        self.places.insert(key, Rc::clone(&place));
        place
    }

    fn file_of(&mut self, module: &Module) -> Option<Rc<CodeFile>> {
        let key = (module.path.clone(), module.build_id.clone());
        if let Some(file) = self.files.get(&key) {
            return file.clone();
        }
        let path = Path::new(OsStr::from_bytes(&module.path));
        let opened = CodeFile::open(path, &module.build_id, self.started_ns);
        let file = opened.map(Rc::new).map_err(|why| {
            let path = path.display();
            let remark = format!("{path} is shown without its code: {why}");
            self.remarks.push(remark);
        });
        let file = file.ok();
        self.files.insert(key, file.clone());
        file
    }
}

fn look_up(pc: u64, module: &Module, file: Option<&CodeFile>) -> Place {
    let offset = pc.wrapping_sub(module.base);
    let path = lossy(&module.path);
    let short = path.rsplit('/').next().unwrap_or_default();
    let in_module = format!("{short}+{offset:#x}");
    let found = file.and_then(|file| Some((file, file.bias(pc, module.base)?)));
    let Some((file, bias)) = found else {
        return Place {
            name: in_module,
            ..Place::default()
        };
    };
    let function = file.function(pc, bias);
    Place {
        name: function.map_or(in_module, |function| format!("{function} ({short})")),
        disassembly: file.disassembly(pc, module.base).unwrap_or_default(),
        line: file.line(pc, bias),
    }
}
