//! What the threads of OpenMP's runtime execute is told where the source has it.

use std::ffi::OsString;

use libtest_mimic::Trial;

use super::built::built;
use super::{By, number, profiled_with, total_of, uncertain};
use crate::observer::{Verdict, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let of = |name: &str, by: By, compiler: &'static str, options: &'static [&'static str]| {
        trial(format!("profile::{name}"), move |scratch| {
            regions(scratch, by, compiler, options)
        })
    };
    vec![
        of("openmp::gcc", By::Kernel, "gcc", &["-O2"]),
        of("openmp::clang", By::Kernel, "clang", &["-O2"]),
        of("openmp::unoptimised", By::Kernel, "gcc", &["-O0"]),
        of("openmp::static", By::Kernel, "gcc", &["-O2", "-static"]),
        of(
            "openmp::stripped",
            By::Kernel,
            "gcc",
            &["-O2", "-s", "-rdynamic"],
        ),
        of("timers::openmp::gcc", By::Timers, "gcc", &["-O2"]),
    ]
}

/// One region, to which the program comes from two functions, and in each of its threads one within it.
const SOURCE: &str = r#"
#include "profile/burn.h"
APART void within(double seconds) {
#pragma omp parallel num_threads(1)
    burn(seconds);
}
APART void region(double seconds, double more) {
#pragma omp parallel num_threads(2)
    {
        burn(seconds);
        within(more);
    }
}
APART void first(void) { region(0.1, 0.05); __asm__ volatile(""); }
APART void second(void) { region(0.3, 0.15); __asm__ volatile(""); }
int main(void) { first(); second(); return 0; }
"#;

/// Each function has what both threads spent below it. The control: as threads execute it, those that
/// come there by the source have only their own.
fn regions(scratch: &Scratch, by: By, compiler: &str, options: &[&str]) -> Result<(), Verdict> {
    let own = ["-fopenmp", "-fomit-frame-pointer"];
    let options = [&own, options].concat();
    let program = built(scratch, (compiler, "teams.c"), SOURCE, &options)?;
    let shares = |options: &[&str]| -> Result<[f64; 3], Verdict> {
        let options: Vec<OsString> = options.iter().map(OsString::from).collect();
        let report = profiled_with(scratch, by, &options, std::slice::from_ref(&program))?;
        let most = uncertain(&report);
        if (number(&report["total"]) - 1.2).abs() > most + 0.1 {
            return Err(Verdict::CannotTell(format!("{} s", report["total"])));
        }
        Ok(["main", "second", "within"].map(|name| total_of(&report, name)))
    };
    // Of 1.2 seconds.
    let at_home = shares(&[])?;
    let executed = shares(&["--no-openmp"])?;
    // On a busy machine a thread may be at work in a region before the one that came there is seen in it.
    let is_near = |is: [f64; 3], must: [f64; 3]| {
        let most = [0.08, 0.2, 0.08].iter();
        let mut all = is.iter().zip(must).zip(most);
        all.all(|((is, must), most)| (is - must).abs() < *most)
    };
    match is_near(at_home, [1.2, 0.9, 0.4]) && is_near(executed, [0.6, 0.45, 0.4]) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{at_home:?}, {executed:?}"))),
    }
}
