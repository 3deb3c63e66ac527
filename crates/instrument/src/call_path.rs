//! Call paths: through which calls a thread has come to where it is.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use unspool_kernel::guarded;
use unspool_unwind::{
    ImageCode, Module, Modules, Registers, Section, Step, Unwinder, from_hardware,
};

use super::Instrumenter;
use super::context::Context;
use super::frames::OwnedSection;
use super::images::{Image, ImageKind};

thread_local! {
    /// The thread's unwinder, and which images it knows.
    static UNWINDER: RefCell<Option<(u64, Unwinder)>> = const { RefCell::new(None) };
}

/// The images at one time.
struct Mapped(Arc<Vec<Arc<Image>>>);

impl Modules for Mapped {
    fn module_at(&self, address: u64) -> Option<Module<'_>> {
        let mut images = self.0.iter();
        let (image, range) =
            images.find_map(|image| Some((image, image.code_range_at(address)?)))?;
        Some(module(image, range))
    }
}

/// What is known of code of an image.
fn module(image: &Image, range: Range<u64>) -> Module<'_> {
    let frames = match image.kind() {
        ImageKind::Generated => None,
        _ => image.frames(),
    };
    let bias = frames.and_then(|_| image.bias()).unwrap_or(0);
    let code = ImageCode::Memory {
        range: range.start.wrapping_sub(bias)..range.end.wrapping_sub(bias),
        bias,
        read: &read_code,
    };
    Module {
        range,
        bias,
        frames: frames.map_or(Section::default(), |frames| frames.information.section()),
        header: frames
            .and_then(|frames| frames.header.as_ref())
            .map(OwnedSection::section),
        code,
        functions: frames.map_or(&[], |frames| &frames.functions),
    }
}

fn read_code(address: u64, to: &mut [u8]) -> usize {
    if guarded::read(address, to) {
        to.len()
    } else {
        0
    }
}

impl Context {
    /// Through which calls the thread has come to this place: puts the address of the instruction
    /// and then one in each call, innermost first, into `path`: that of its last byte, one less than
    /// the return address. Where a signal has interrupted a function, it is that of the instruction
    /// that is executed next. So each is in the function to be named. Returns how many there are. It ends
    /// before the outermost function where `path` is too short, or where nothing tells how a
    /// function was called: a just-in-time compiler's code, for instance, that keeps no frame
    /// pointer.
    ///
    /// Frames are found by the information that compilers leave for exceptions; in functions
    /// without any by their instructions, else by the frame pointer, else by the next word of the
    /// stack to which a call returns.
    #[must_use]
    pub fn call_path(&self, path: &mut [u64]) -> usize {
        let Some(instrumenter) = Instrumenter::get() else {
            return 0;
        };
        let (images, version) = instrumenter.images.now();
        let images = Mapped(images);
        let mut registers = self.frame();
        let mut count = 0;
        UNWINDER.with_borrow_mut(|unwinder| {
            let (known, unwinder) = unwinder.get_or_insert_with(|| (version, Unwinder::new()));
            if std::mem::replace(known, version) != version {
                unwinder.forget();
            }
            for place in path {
                *place = registers.lookup_address();
                count += 1;
                let mut read = guarded::read_quickly;
                match unwinder.step(&images, &mut registers, &mut read) {
                    Ok(Step::Caller(_)) => {}
                    Ok(Step::Outermost) | Err(_) => break,
                }
            }
        });
        count
    }

    /// The registers as the unwinder wants them.
    fn frame(&self) -> Registers {
        let mut registers = Registers::at(self.instruction_pointer());
        for number in 0..16 {
            registers.set(from_hardware(number), self.register(number));
        }
        registers
    }
}
