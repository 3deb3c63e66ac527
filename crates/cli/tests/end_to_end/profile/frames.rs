//! Frames that are harder to find: in a library that is opened later, of inlined functions, and
//! below more stack than is copied.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{guest_named, number, profiled_with, share_from, share_of};
use crate::observer::{Verdict, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "profile::opened_library_and_inlined_function".to_owned(),
            found,
        ),
        trial("profile::stack_beyond_the_copy".to_owned(), cut_off),
    ]
}

/// Each of the guest's three ways takes a third of its time.
const THIRD: f64 = 1.0 / 3.0;

fn profiled(scratch: &Scratch, options: &[&str]) -> Result<Value, Verdict> {
    let options: Vec<OsString> = options.iter().map(OsString::from).collect();
    profiled_with(scratch, &options, &guest_named("profile/frames", "")?)
}

fn expect(what: &str, is: f64, must: f64) -> Result<(), Verdict> {
    match (is - must).abs() < 0.04 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}: {is:.3}, not {must:.3}"))),
    }
}

/// The library's function is named, between its caller and what it calls; and so is the inlined
/// function, below the one that it is part of. Nobody else calls either.
fn found(scratch: &Scratch) -> Result<(), Verdict> {
    let profile = profiled(scratch, &[])?;
    expect("main, carry", share_of(&profile, "main", "carry"), THIRD)?;
    expect("carry, burn", share_from(&profile, "carry"), THIRD)?;
    let inlined = share_of(&profile, "inlines", "multiplied");
    expect("inlines, multiplied", inlined, THIRD)?;
    let elsewhere = share_of(&profile, "burn", "multiplied");
    expect("burn, multiplied", elsewhere, 0.0)
}

/// A stack that is longer than the copy is cut off, and said to be; a larger copy has all of it.
fn cut_off(scratch: &Scratch) -> Result<(), Verdict> {
    let copies = [("16384", THIRD), ("60000", 0.0)];
    for (bytes, must) in copies {
        let profile = profiled(scratch, &["--stack-bytes", bytes])?;
        let share = number(&profile["unwinds"]["cut_off"]) / number(&profile["samples"]);
        expect(&format!("cut off at {bytes}"), share, must)?;
        let whole = share_of(&profile, "main", "descend");
        expect(&format!("whole at {bytes}"), whole, THIRD - must)?;
        expect(
            &format!("at {bytes}"),
            share_from(&profile, "descend"),
            THIRD,
        )?;
        if number(&profile["unwinds"]["failed"]) != 0.0 {
            return Err(Verdict::Wrong(format!("{}", profile["unwinds"])));
        }
    }
    Ok(())
}
