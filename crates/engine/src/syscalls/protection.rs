//! How the program's memory is protected, which may make it code, and code writable.

use std::ops::Range;

use unspool_kernel::regions::Object;

use super::contents;
use super::memory::{changed, kernel, meets_engine};
use super::pages::whole_pages;
use crate::call::{Call, succeeded};
use crate::code_pages;
use crate::process::{Process, Translations};

/// `mprotect` and `pkey_mprotect`.
pub(super) fn protect(process: &Process, call: &Call) -> i64 {
    let [address, size, protection, ..] = call.arguments;
    let mut range = whole_pages(address, size);
    if meets_engine(&range) {
        return -i64::from(libc::ENOMEM);
    }
    let mut code = process.code();
    if protection & libc::PROT_GROWSDOWN as u64 != 0
        && let Some((start, _)) = code.regions.find(range.start)
    {
        range.start = start;
        // The kernel goes down as far as pages are alike: those that are watched are not.
        code_pages::release(&mut code, range.clone());
    }
    code.lending.keeps();
    let result = kernel(process, call.number as i64, call.arguments);
    if succeeded(result) {
        let objects = protected(&mut code, range, protection as i32);
        drop(code);
        contents::became_code(&objects);
    } else if [libc::ENOMEM, libc::EACCES].contains(&(-result as i32)) {
        protected_in_part(process, &mut code, call, range);
    }
    result
}

/// Returns which objects show there, if they are code now.
fn protected(code: &mut Translations, range: Range<u64>, protection: i32) -> Vec<Object> {
    let protection = protection & !libc::PROT_GROWSDOWN;
    code_pages::forget(code, range.clone());
    code.regions.protect(range.clone(), protection);
    changed(code, range.clone());
    let pieces = code.regions.within(range);
    let objects = pieces.filter_map(|(_, region)| Some(region.view?.object));
    match protection & libc::PROT_EXEC {
        0 => Vec::new(),
        _ => objects.collect(),
    }
}

/// The kernel has protected what comes before the place at which it could not. Asked for each
/// mapping alone, it says where that is.
fn protected_in_part(process: &Process, code: &mut Translations, call: &Call, range: Range<u64>) {
    let [_, _, protection, key, ..] = call.arguments;
    let pieces: Vec<_> = code.regions.within(range.clone()).collect();
    let mut end = range.start;
    for (here, _) in pieces {
        let size = here.end - here.start;
        let arguments = [here.start, size, protection, key, 0, 0];
        if here.start != end || !succeeded(kernel(process, call.number as i64, arguments)) {
            return;
        }
        end = here.end;
        protected(code, here, protection as i32);
    }
}

/// `mseal`: from now on no protection of these pages can be changed. Those that are watched
/// become what the program made them; see [`code_pages::watch`] for what is run there later.
pub(super) fn seal(process: &Process, call: &Call) -> i64 {
    let [address, size, ..] = call.arguments;
    let mut code = process.code();
    code_pages::release(&mut code, whole_pages(address, size));
    kernel(process, call.number as i64, call.arguments)
}
