//! What a step costs, beside framehop, which the profilers samply and Firefox use: a walk over
//! 100 frames of a recursion and what has called it, by call-frame information.
//!
//! `first` is a walk by an unwinder that has met nothing yet, `known` one by an unwinder that has
//! met all of it.

#[path = "../tests/own_process/mod.rs"]
mod own_process;

use std::hint::black_box;

use divan::Bencher;
use framehop::Unwinder as _;
use own_process::{Image, Known, functions, here, images, module, reader, section};
use unspool_unwind::{Module, RBP, RSP, Registers, Step, Unwinder};

const DEPTH: u32 = 100;

fn main() {
    divan::main();
}

/// Calls itself so many times before it runs something.
#[inline(never)]
fn recursion(depth: u32, run: &mut dyn FnMut(&Registers)) {
    let words = black_box([u64::from(depth); 5]);
    match depth {
        0 => run(&here()),
        _ => recursion(depth - 1, run),
    }
    black_box(words);
}

/// Counts the frames above.
fn walk(unwinder: &mut Unwinder, modules: &[Module<'_>], from: &Registers) -> u32 {
    let mut read = reader(from.sp().unwrap());
    walk_with(unwinder, modules, from, &mut read)
}

fn walk_with(
    unwinder: &mut Unwinder,
    modules: &[Module<'_>],
    from: &Registers,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> u32 {
    let mut registers = *from;
    let mut frames = 0;
    while let Ok(Step::Caller(_)) = unwinder.step(modules, &mut registers, read) {
        frames += 1;
    }
    frames
}

fn with_modules(known: Known, run: impl FnOnce(&[Module<'_>])) {
    let images = images();
    let functions: Vec<Vec<u64>> = images.iter().map(functions).collect();
    let modules: Vec<_> = images
        .iter()
        .zip(&functions)
        .map(|(image, functions)| module(image, functions, known))
        .collect();
    run(&modules);
}

fn ours(bencher: Bencher<'_, '_>, known: Known, is_known: bool) {
    let mut bencher = Some(bencher);
    with_modules(known, |modules| {
        recursion(DEPTH, &mut |registers| {
            let mut unwinder = Unwinder::new();
            let frames = walk(&mut unwinder, modules, registers);
            assert!(frames > DEPTH, "{frames}");
            let mut read = reader(registers.sp().unwrap());
            bencher.take().unwrap().bench_local(|| {
                if !is_known {
                    unwinder.forget();
                }
                black_box(walk_with(&mut unwinder, modules, registers, &mut read))
            });
        });
    });
}

#[divan::bench]
fn call_frame_information_known(bencher: Bencher<'_, '_>) {
    ours(bencher, Known::CallFrameInformation, true);
}

#[divan::bench]
fn call_frame_information_first(bencher: Bencher<'_, '_>) {
    ours(bencher, Known::CallFrameInformation, false);
}

#[divan::bench]
fn analysis_known(bencher: Bencher<'_, '_>) {
    ours(bencher, Known::Functions, true);
}

type Framehop = framehop::x86_64::UnwinderX86_64<Vec<u8>>;
type FramehopCache = framehop::x86_64::CacheX86_64;

fn framehop_of(images: &[Image]) -> Framehop {
    let mut unwinder = Framehop::new();
    for image in images {
        let file = object::File::parse(&*image.data).unwrap();
        let address = |name| section(&file, name).map(|section| section.address);
        let of = |name| {
            section(&file, name).map(|section| {
                let end = section.address + section.bytes.len() as u64;
                section.address..end
            })
        };
        let bytes = |name| section(&file, name).map(|section| section.bytes.to_vec());
        assert!(address(".eh_frame").is_some());
        unwinder.add_module(framehop::Module::new(
            "image".to_owned(),
            image.range.clone(),
            image.bias,
            framehop::ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma: of(".text"),
                text: bytes(".text"),
                eh_frame_svma: of(".eh_frame"),
                eh_frame: bytes(".eh_frame"),
                eh_frame_hdr_svma: of(".eh_frame_hdr"),
                eh_frame_hdr: bytes(".eh_frame_hdr"),
                ..Default::default()
            },
        ));
    }
    unwinder
}

fn framehop_walk(
    unwinder: &Framehop,
    cache: &mut FramehopCache,
    from: &Registers,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> u32 {
    let (pc, sp) = (from.pc, from.sp().unwrap());
    let registers =
        framehop::x86_64::UnwindRegsX86_64::new(pc, sp, from.get(RBP).unwrap_or_default());
    let mut read = |address| read(address).ok_or(());
    let mut frames = unwinder.iter_frames(pc, registers, cache, &mut read);
    let mut count = 0;
    while let Ok(Some(_)) = frames.next() {
        count += 1;
    }
    count
}

fn framehop(bencher: Bencher<'_, '_>, is_known: bool) {
    let images = images();
    let unwinder = framehop_of(&images);
    let mut bencher = Some(bencher);
    recursion(DEPTH, &mut |registers| {
        let mut cache = FramehopCache::new();
        let mut read = reader(registers.get(RSP).unwrap());
        let frames = framehop_walk(&unwinder, &mut cache, registers, &mut read);
        assert!(frames > DEPTH, "{frames}");
        bencher.take().unwrap().bench_local(|| {
            if !is_known {
                cache = FramehopCache::new();
            }
            black_box(framehop_walk(&unwinder, &mut cache, registers, &mut read))
        });
    });
}

#[divan::bench]
fn framehop_known(bencher: Bencher<'_, '_>) {
    framehop(bencher, true);
}

#[divan::bench]
fn framehop_first(bencher: Bencher<'_, '_>) {
    framehop(bencher, false);
}
