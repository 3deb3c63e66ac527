//! What the unwinder is given of the process that it runs in: images, registers, the stack.
#![allow(dead_code, reason = "who uses this uses a part of it")]

use std::arch::asm;
use std::ops::Range;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use unspool_unwind::{ImageCode, Module, RBP, RBX, RSP, Registers, Section};

/// An image of this process, read from its file.
pub(crate) struct Image {
    /// Where its code is.
    pub(crate) range: Range<u64>,
    /// What is added to addresses of its file.
    pub(crate) bias: u64,
    /// Its file.
    pub(crate) data: Vec<u8>,
}

pub(crate) fn images() -> Vec<Image> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut images = Vec::new();
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (range, rights) = (fields.next().unwrap(), fields.next().unwrap());
        let offset = u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
        let path = fields.nth(2).unwrap_or("");
        if !rights.contains('x') || !path.starts_with('/') {
            continue;
        }
        let (start, end) = range.split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        let data = std::fs::read(path).unwrap();
        let file = object::File::parse(&*data).unwrap();
        let mut segments = file.segments();
        let segment = segments.find(|segment| segment.file_range().0 & !0xfff == offset);
        let bias = start - (segment.unwrap().address() & !0xfff);
        images.push(Image {
            range: start..end,
            bias,
            data,
        });
    }
    images
}

pub(crate) fn section<'a>(file: &object::File<'a>, name: &str) -> Option<Section<'a>> {
    let section = file.section_by_name(name)?;
    Some(Section {
        address: section.address(),
        bytes: section.data().ok()?,
    })
}

/// What is said of the images.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Known {
    CallFrameInformation,
    Functions,
    Nothing,
}

pub(crate) fn module<'a>(image: &'a Image, functions: &'a [u64], known: Known) -> Module<'a> {
    let file = object::File::parse(&*image.data).unwrap();
    let code = file.segments().find_map(|segment| {
        let start = (segment.address() & !0xfff) + image.bias;
        (start == image.range.start).then(|| {
            ImageCode::Bytes(Section {
                address: segment.address(),
                bytes: segment.data().unwrap(),
            })
        })
    });
    let mut module = Module {
        range: image.range.clone(),
        bias: image.bias,
        code: code.unwrap(),
        ..Module::default()
    };
    match known {
        Known::CallFrameInformation => {
            module.frames = section(&file, ".eh_frame").unwrap_or_default();
            module.header = section(&file, ".eh_frame_hdr");
        }
        Known::Functions => module.functions = functions,
        Known::Nothing => {}
    }
    module
}

pub(crate) fn functions(image: &Image) -> Vec<u64> {
    let file = object::File::parse(&*image.data).unwrap();
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    let mut starts: Vec<u64> = functions.map(|symbol| symbol.address()).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The registers here.
#[inline(always)]
pub(crate) fn here() -> Registers {
    let (pc, rsp, rbp, rbx): (u64, u64, u64, u64);
    // SAFETY: registers are read; nothing changes.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", "mov {}, rbx",
            out(reg) pc, out(reg) rsp, out(reg) rbp, out(reg) rbx);
    }
    let mut registers = Registers::at(pc);
    registers.set(RSP, rsp);
    registers.set(RBP, rbp);
    registers.set(RBX, rbx);
    macro_rules! saved {
        ($($number:literal $name:literal)*) => {$(
            let value: u64;
            // SAFETY: as above.
            unsafe { asm!(concat!("mov {}, ", $name), out(reg) value) };
            registers.set($number, value);
        )*};
    }
    saved!(12 "r12" 13 "r13" 14 "r14" 15 "r15");
    registers
}

/// Reads words of this thread's stack from `bottom`, and of nothing else.
pub(crate) fn reader(bottom: u64) -> impl FnMut(u64) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    });
    let stack = ranges.find(|range| range.contains(&bottom)).unwrap();
    move |address| {
        let is_stack = (bottom..stack.end - 7).contains(&address);
        // SAFETY: the word is in the mapped part of this thread's stack that is in use.
        (is_stack && address.is_multiple_of(8)).then(|| unsafe { *(address as *const u64) })
    }
}
