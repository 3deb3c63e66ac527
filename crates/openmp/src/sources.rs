//! From addresses to functions and source lines, and from lines to their text.

use std::cell::OnceCell;
use std::path::Path;

use addr2line::Loader;
use rustc_hash::FxHashMap;
use unspool_openmp_record::Module;

use crate::location::Location;

/// The modules of one process, and the sources that they were built from.
pub(crate) struct Sources<'record> {
    modules: &'record [Module],
    loaders: Vec<OnceCell<Option<Loader>>>,
    files: FxHashMap<String, Vec<String>>,
}

/// Functions are searched for so many bytes.
const LONGEST_FUNCTION_BYTES: u64 = 1 << 16;

/// Parts of the observer and of OpenMP runtimes: code that is not the program's.
const NOT_THE_PROGRAM: [&str; 5] = [
    "libunspool_collector",
    "libgomp",
    "libomp",
    "libiomp5",
    "ld-linux",
];

impl<'record> Sources<'record> {
    /// Nothing is opened before it is needed.
    pub(crate) fn new(modules: &'record [Module]) -> Sources<'record> {
        Sources {
            modules,
            loaders: modules.iter().map(|_| OnceCell::new()).collect(),
            files: FxHashMap::default(),
        }
    }

    fn module_at(&self, address: u64) -> Option<usize> {
        // A later module may stand where an earlier one was unloaded.
        self.modules
            .iter()
            .rposition(|module| (module.start..module.end).contains(&address))
    }

    /// Whether an address is in the program's own code, or in a library of its.
    pub(crate) fn is_of_program(&self, address: u64) -> bool {
        self.module_at(address).is_some_and(|index| {
            let path = Path::new(&self.modules[index].path);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !NOT_THE_PROGRAM.iter().any(|start| name.starts_with(start))
        })
    }

    /// Where the call is that returns to this address.
    pub(crate) fn locate(&self, return_address: u64) -> Location {
        let address = return_address.saturating_sub(1);
        let Some(index) = self.module_at(address) else {
            return Location::default();
        };
        let module = &self.modules[index];
        let loader = self.loaders[index].get_or_init(|| Loader::new(&module.path).ok());
        let probe = address.wrapping_sub(module.bias);
        let mut location = Location {
            module: module.path.clone(),
            offset: probe,
            ..Location::default()
        };
        let Some(loader) = loader else {
            return location;
        };
        let (function, line) = outermost_at(loader, probe);
        location.function = function;
        (location.file, location.line) = line;
        location
    }

    /// The name of a critical construct, from the variable that compilers make for it. The
    /// one without a name has none.
    pub(crate) fn critical_name(&self, address: u64) -> Option<String> {
        let symbol = self.symbol(address)?;
        let name = symbol.strip_prefix(".gomp_critical_user_")?;
        Some(name.strip_suffix(".var").unwrap_or(name).to_owned())
    }

    /// The variable at an address, if it is one of a module. Compilers add numbers to the
    /// names of those that belong to a function.
    pub(crate) fn variable_name(&self, address: u64) -> Option<String> {
        let symbol = self.symbol(address)?;
        let name = symbol.split('.').next().filter(|name| !name.is_empty())?;
        Some(name.to_owned())
    }

    fn symbol(&self, address: u64) -> Option<&str> {
        let index = self.module_at(address)?;
        let module = &self.modules[index];
        let loader = self.loaders[index].get_or_init(|| Loader::new(&module.path).ok());
        let loader = loader.as_ref()?;
        loader.find_symbol(address.wrapping_sub(module.bias))
    }

    /// Whether the line table has a row that starts at the call which returns to this
    /// address: that is so for calls that stand in the source, and not for those that a
    /// compiler adds behind other code.
    pub(crate) fn starts_a_line(&self, return_address: u64) -> bool {
        let Some(index) = self.module_at(return_address.saturating_sub(1)) else {
            return false;
        };
        let module = &self.modules[index];
        let loader = self.loaders[index].get_or_init(|| Loader::new(&module.path).ok());
        let end = return_address.wrapping_sub(module.bias);
        let Some(loader) = loader else { return false };
        // Calls of runtimes are direct or through the table of addresses.
        let starts = [end.wrapping_sub(5), end.wrapping_sub(6)];
        let Ok(rows) = loader.find_location_range(starts[1], end) else {
            return false;
        };
        rows.into_iter()
            .any(|(start, _, _)| starts.contains(&start))
    }

    /// The source line with a barrier at which a function jumps away instead of calling:
    /// one that no call returning to any of these addresses belongs to.
    pub(crate) fn barrier_without_return(
        &mut self,
        function: u64,
        known: &[u64],
    ) -> Option<Location> {
        let index = self.module_at(function)?;
        let bias = self.modules[index].bias;
        let start = function.wrapping_sub(bias);
        let rows = {
            let module = &self.modules[index];
            let loader = self.loaders[index]
                .get_or_init(|| Loader::new(&module.path).ok())
                .as_ref()?;
            let name = loader.find_symbol(start)?;
            let rows = loader
                .find_location_range(start, start + LONGEST_FUNCTION_BYTES)
                .ok()?;
            let rows = rows.map(|(row, _, _)| row);
            let own = rows.take_while(|row| loader.find_symbol(*row) == Some(name));
            own.collect::<Vec<u64>>()
        };
        rows.into_iter().map(|row| row + bias).find_map(|row| {
            let is_call = known
                .iter()
                .any(|address| (row + 5..=row + 6).contains(address));
            let location = self.locate(row + 1);
            let text = self.text(&location)?.to_ascii_lowercase();
            (!is_call && text.contains("barrier")).then_some(location)
        })
    }

    /// The text of a line of a source, where the source is there.
    pub(crate) fn text(&mut self, location: &Location) -> Option<&str> {
        let (file, line) = (location.file.as_ref()?, location.line?);
        let lines = self.files.entry(file.clone()).or_insert_with(|| {
            let bytes = std::fs::read(file).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            text.lines().map(str::to_owned).collect()
        });
        let index = (line as usize).checked_sub(1)?;
        lines.get(index).map(String::as_str)
    }
}

/// A file and a line in it.
type Line = (Option<String>, Option<u32>);

/// The program's function at an address, the one that encloses inlined ones, and the line in it.
///
/// clang writes a block's code into a function of its own, which a second one calls that it
/// inlines from `-O1` on. The call's line is that of the region: what tells is the line within the
/// block.
fn outermost_at(loader: &Loader, probe: u64) -> (Option<String>, Line) {
    let mut frames_outwards = Vec::new();
    let own = |found: addr2line::Location<'_>| (found.file.map(str::to_owned), found.line);
    if let Ok(mut frames) = loader.find_frames(probe) {
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|function| {
                let name = function.raw_name().ok()?;
                Some(name.into_owned())
            });
            frames_outwards.push((function, frame.location.map(own)));
        }
    }
    let names: Vec<Option<&str>> = frames_outwards
        .iter()
        .map(|(function, _)| function.as_deref())
        .collect();
    let chosen = frame_of_program(&names);
    let (function, line) = match chosen {
        Some(index) => frames_outwards.swap_remove(index),
        None => (None, None),
    };
    let line = line.or_else(|| loader.find_location(probe).ok().flatten().map(own));
    let symbol = function.or_else(|| loader.find_symbol(probe).map(str::to_owned));
    let function = symbol.map(|symbol| unspool_binary::demangle(symbol.as_bytes()));
    (function, line.unwrap_or_default())
}

/// Which of the frames at an address, the innermost first, is that of the program's own function or
/// block: the outermost, unless that only calls the block.
fn frame_of_program(names_outwards: &[Option<&str>]) -> Option<usize> {
    let is_block = |name: &Option<&str>| name.is_some_and(is_outlined);
    let outermost = names_outwards.len().checked_sub(1)?;
    let blocks = names_outwards
        .iter()
        .rev()
        .take_while(|name| is_block(name));
    Some(outermost - blocks.count().saturating_sub(1))
}

/// Whether a compiler made this function of a construct's block.
pub(crate) fn is_outlined(function: &str) -> bool {
    function.contains("_omp_fn") || function.contains("omp_outlined") || function.contains(".omp_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_a_function_inlines_is_the_programs() {
        let block = Some(".omp_outlined._debug__");
        let caller = Some(".omp_outlined.");
        assert_eq!(frame_of_program(&[block, caller]), Some(0));
        // What the block inlines itself stands in another function, maybe in a header.
        assert_eq!(frame_of_program(&[Some("helper"), block, caller]), Some(1));
        assert_eq!(frame_of_program(&[Some("helper"), caller]), Some(1));
        // The controls: functions of the program's own, and none.
        assert_eq!(frame_of_program(&[Some("helper"), Some("main")]), Some(1));
        assert_eq!(frame_of_program(&[None, Some("main")]), Some(1));
        assert_eq!(frame_of_program(&[]), None);
    }
}
