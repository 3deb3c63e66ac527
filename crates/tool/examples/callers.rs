//! Tells through which calls a program comes to a function, which is the tool's argument, and how
//! often through each.

use std::collections::HashMap;
use std::sync::Mutex;

use unspool_tool::{Context, FullContext, Superblock, Tool, arguments, image_at, say};

/// So many callers are told.
const DEPTH: usize = 16;

struct Callers {
    function: String,
    paths: Mutex<HashMap<Vec<u64>, u64>>,
}

impl Callers {
    fn called(&self, _: &mut (), context: Context) {
        let mut path = [0; DEPTH];
        let length = context.call_path(&mut path);
        let mut paths = self.paths.lock().unwrap();
        *paths.entry(path[..length].to_vec()).or_default() += 1;
    }
}

/// The function that an address is in.
fn name_of(address: u64) -> String {
    let named =
        image_at(address).and_then(|image| image.routine_at(address).map(|routine| routine.name()));
    named.unwrap_or_else(|| format!("{address:#x}"))
}

impl Tool for Callers {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let address = instruction.address();
            let image = image_at(address);
            let routine = image.as_ref().and_then(|image| image.routine_at(address));
            if routine.is_some_and(|it| it.address() == address && it.name() == self.function) {
                instruction.before().call(Callers::called, (FullContext,));
            }
        }
    }

    fn end(&self) {
        let paths = self.paths.lock().unwrap();
        let mut paths: Vec<_> = paths.iter().collect();
        paths.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (path, count) in paths {
            let callers: Vec<String> = path[1..].iter().map(|address| name_of(*address)).collect();
            say(&format!("{count} times from {}", callers.join(", ")));
        }
    }
}

fn main() {
    let function = arguments().first().and_then(|word| word.to_str());
    let Some(function) = function else {
        say("usage: callers FUNCTION -- PROGRAM [ARGUMENT]...");
        std::process::exit(2)
    };
    unspool_tool::run(Callers {
        function: function.to_owned(),
        paths: Mutex::default(),
    })
}
