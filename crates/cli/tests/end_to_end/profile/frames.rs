//! Frames that are harder to find: in a library that is opened later, of inlined functions, and
//! below more stack than is copied.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{By, by_both, guest_named, number, profiled_with, share_from, share_of, uncertain};
use crate::observer::Verdict;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let found = by_both("opened_library_and_inlined_function", found);
    let cut_off = by_both("stack_beyond_the_copy", cut_off);
    found.into_iter().chain(cut_off).collect()
}

/// Each of the guest's three ways takes a third of its time.
const THIRD: f64 = 1.0 / 3.0;

fn profiled(scratch: &Scratch, by: By, options: &[&str]) -> Result<Value, Verdict> {
    let options: Vec<OsString> = options.iter().map(OsString::from).collect();
    profiled_with(scratch, by, &options, &guest_named("profile/frames", "")?)
}

fn expect(what: &str, is: f64, must: f64, most: f64) -> Result<(), Verdict> {
    match (is - must).abs() < most {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}: {is:.3}, not {must:.3}"))),
    }
}

/// The library's function is named, between its caller and what it calls; and so is the inlined
/// function, below the one that it is part of. Nobody else calls either.
fn found(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let profile = profiled(scratch, by, &[])?;
    let most = uncertain(&profile) / 0.9;
    let carry = share_of(&profile, "main", "carry");
    expect("main, carry", carry, THIRD, most)?;
    let burn = share_from(&profile, "carry");
    expect("carry, burn", burn, THIRD, most)?;
    let inlined = share_of(&profile, "inlines", "multiplied");
    expect("inlines, multiplied", inlined, THIRD, most)?;
    let elsewhere = share_of(&profile, "burn", "multiplied");
    expect("burn, multiplied", elsewhere, 0.0, 0.01)
}

/// A stack that is longer than the copy is cut off, and said to be; a larger copy has all of it.
fn cut_off(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let copies = [("16384", THIRD), ("60000", 0.0)];
    for (bytes, must) in copies {
        let profile = profiled(scratch, by, &["--stack-bytes", bytes])?;
        let most = uncertain(&profile) / 0.9;
        let samples = number(&profile["samples"]);
        let share = number(&profile["unwinds"]["cut_off"]) / samples;
        // How many samples a third of the time has is a matter of chance with timers.
        let most_of_samples = match by {
            By::Kernel => most,
            By::Timers => 5.0 * (must * (1.0 - must) / samples).sqrt() + 1.0 / samples,
        };
        expect(&format!("cut off at {bytes}"), share, must, most_of_samples)?;
        let whole = share_of(&profile, "main", "descend");
        expect(&format!("whole at {bytes}"), whole, THIRD - must, most)?;
        let below = share_from(&profile, "descend");
        expect(&format!("at {bytes}"), below, THIRD, most)?;
        if number(&profile["unwinds"]["failed"]) != 0.0 {
            return Err(Verdict::Wrong(format!("{}", profile["unwinds"])));
        }
    }
    Ok(())
}
