//! Tells each call of certain functions, with arguments and result.
//!
//! The tool's arguments are names of functions. How many arguments a function has, machine code
//! does not say: three are shown.

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Constant, FunctionArgument, Image, ReturnValue, StackPointer, Superblock, Tool,
    arguments, say,
};

/// Logs calls.
#[derive(Default)]
pub struct FunctionLog {
    names: Mutex<Vec<String>>,
}

/// Calls that have not ended: where their return addresses are, and their text.
pub type Open = Vec<(Address, String)>;

impl FunctionLog {
    fn entered(
        &self,
        open: &mut Open,
        name: usize,
        place: Address,
        one: Address,
        two: Address,
        three: Address,
    ) {
        let names = self.names.lock();
        open.push((place, format!("{}({one}, {two}, {three})", names[name])));
    }

    fn returned(&self, open: &mut Open, place: Address, value: Address) {
        close(open, place, &format!("= {value}"));
    }

    fn unwound(&self, open: &mut Open, place: Address) {
        close(open, place, "did not return");
    }
}

fn close(open: &mut Open, place: Address, end: &str) {
    if let Some(index) = open.iter().rposition(|call| call.0 == place) {
        let (_, call) = open.remove(index);
        say(&format!("{:index$}{call} {end}", ""));
    }
}

impl Tool for FunctionLog {
    type Thread = Open;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        for name in arguments().iter().filter_map(|name| name.to_str()) {
            for routine in image.routines_named(name) {
                let mut names = self.names.lock();
                let number = Constant(names.len());
                names.push(name.to_owned());
                let first = (
                    number,
                    StackPointer,
                    FunctionArgument::<Address, 0>::new(),
                    FunctionArgument::<Address, 1>::new(),
                    FunctionArgument::<Address, 2>::new(),
                );
                let last = (StackPointer, ReturnValue::<Address>::new());
                routine.entry().call(FunctionLog::entered, first);
                routine.exit().call(FunctionLog::returned, last);
                routine.unwind().call(FunctionLog::unwound, (StackPointer,));
            }
        }
    }
}
