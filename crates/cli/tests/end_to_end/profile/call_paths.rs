//! Call paths that are known by construction, of what compilers, libraries and languages make of calls; and
//! those of real programs, which must be whole.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;

use super::built::built;
use super::{By, array, number, profiled_with, total_of, uncertain};
use crate::observer::{Verdict, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::call_paths::{name}"), test)
    };
    let program = |name: &str, script: &'static str| {
        trial(format!("profile::call_paths::{name}"), move |scratch| {
            are_whole(scratch, script)
        })
    };
    vec![
        test("c", |scratch| c(scratch, "gcc", "-O2")),
        test("c_unoptimised", |scratch| c(scratch, "gcc", "-O0")),
        test("c_clang", |scratch| c(scratch, "clang", "-O2")),
        test("cxx", |scratch| cxx(scratch, "g++")),
        test("cxx_clang", |scratch| cxx(scratch, "clang++")),
        test("fortran", fortran),
        test("rust", rust),
        test("deep_recursion", deep_recursion),
        program("python", PYTHON),
        program("gcc", GCC),
        program("sqlite", SQLITE),
        program("stripped_xz", XZ),
    ]
}

/// Functions with what is spent below them, in seconds.
type Expected<'a> = &'a [(&'a str, f64)];

/// Each of the functions has what is expected below it, and all paths are whole. The control: what is expected
/// of the next function is not what a function has.
fn expect(scratch: &Scratch, program: OsString, expected: Expected<'_>) -> Result<(), Verdict> {
    let report = profiled_with(scratch, By::Kernel, &[], &[program])?;
    let most = uncertain(&report) + 0.01;
    let is = |name: &str| total_of(&report, name);
    for (name, must) in expected {
        if (is(name) - must).abs() > most {
            let is = is(name);
            return Err(Verdict::Wrong(format!(
                "{name}: {is} s, not {must}: {report:#}"
            )));
        }
    }
    let others = expected.iter().skip(1).chain(expected);
    let differ = expected
        .iter()
        .zip(others)
        .filter(|((name, _), (_, other))| (is(name) - other).abs() > most);
    if differ.count() < expected.len() / 2 {
        return Err(Verdict::Wrong(
            "exchanged times are taken for right".to_owned(),
        ));
    }
    check_whole(&report)
}

/// Nearly no path ends before its thread begins, or leads over what calls nothing.
fn check_whole(report: &Value) -> Result<(), Verdict> {
    let ends = &report["unwinds"];
    let complete = number(&ends["complete"]);
    let bad = number(&ends["failed"]) + number(&report["steps"]["wrong"]);
    let samples = number(&report["samples"]);
    match samples > 200.0 && complete >= 0.99 * samples && bad <= 0.002 * samples {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "unwinds {ends}, steps {}, {samples} samples",
            report["steps"]
        ))),
    }
}

const C: &str = r#"
#include "profile/burn.h"
#include <math.h>
#include <stdlib.h>
static int compared(const void *one, const void *other) { burn(0.1); return *(int *)one - *(int *)other; }
APART void sorts(void) { int two[2] = {2, 1}; qsort(two, 2, sizeof *two, compared); __asm__ volatile(""); }
APART double leaps(double seconds) { return burn(seconds); }
APART void tail_calls(void) { leaps(0.15); __asm__ volatile(""); }
APART void asks_for_time(void) {
    struct timespec time;
    double end = now() + 0.2;
    while (now() < end)
        for (int i = 0; i < 1000; i++)
            clock_gettime(CLOCK_REALTIME, &time);
}
APART void calls_library(void) {
    volatile double value = 1;
    double end = now() + 0.25;
    while (now() < end)
        for (int i = 0; i < 1000; i++)
            value = sin(value + i);
}
int main(void) { sorts(); tail_calls(); asks_for_time(); calls_library(); return 0; }
"#;

/// Callbacks of the C library, tail calls, the vdso, and the procedure linkage table.
fn c(scratch: &Scratch, compiler: &str, level: &str) -> Result<(), Verdict> {
    let options = [level, "-fomit-frame-pointer", "-Wl,-z,lazy"];
    let program = built(scratch, (compiler, "calls.c"), C, &options)?;
    let expected = [
        ("sorts", 0.1),
        ("tail_calls", 0.15),
        ("asks_for_time", 0.2),
        ("calls_library", 0.25),
        ("main", 0.7),
    ];
    expect(scratch, program, &expected)
}

const CXX: &str = r#"
#include "profile/burn.h"
#include <algorithm>
#include <vector>
struct Shape { virtual double area() = 0; virtual ~Shape() {} };
struct Circle : Shape { double area() override { return burn(0.1); } };
struct Ends { ~Ends() { burn(0.15); } };
APART void virtual_call(Shape *shape) { volatile double area = shape->area(); }
APART void throws(int depth) {
    if (depth == 0) throw 1;
    throws(depth - 1);
    __asm__ volatile("");
}
APART void unwinds() { Ends ends; throws(20); __asm__ volatile(""); }
APART void catches() { try { unwinds(); } catch (int) { burn(0.2); } }
APART void visits() {
    std::vector<int> all{1, 2, 3};
    std::for_each(all.begin(), all.end(), [](int) { burn(0.1); });
    __asm__ volatile("");
}
int main() { Circle circle; virtual_call(&circle); catches(); visits(); return 0; }
"#;

/// Virtual calls, destructors that an exception executes, handlers, and lambdas.
fn cxx(scratch: &Scratch, compiler: &str) -> Result<(), Verdict> {
    let options = ["-O2", "-fomit-frame-pointer"];
    let program = built(scratch, (compiler, "calls.cpp"), CXX, &options)?;
    let expected = [
        ("virtual_call(Shape*)", 0.1),
        ("unwinds()", 0.15),
        ("catches()", 0.35),
        ("visits()", 0.3),
        ("main", 0.75),
    ];
    expect(scratch, program, &expected)
}

const FORTRAN: &str = "
module work
  implicit none
contains
  subroutine spends(seconds)
    real(8), intent(in) :: seconds
    real(8) :: begin, now, value
    integer :: i
    call cpu_time(begin)
    now = begin
    value = 1
    do while (now < begin + seconds)
      do i = 1, 20000
        value = value * 1.0000001d0
      end do
      call cpu_time(now)
    end do
    if (value < 0) print *, value
  end subroutine
  subroutine applied(f, seconds)
    interface
      subroutine f(seconds)
        real(8), intent(in) :: seconds
      end subroutine
    end interface
    real(8), intent(in) :: seconds
    call f(seconds)
    call f(seconds)
  end subroutine
  recursive subroutine descends(depth)
    integer, intent(in) :: depth
    real(8) :: own(8)
    own = depth
    if (depth == 0) call spends(0.3d0)
    if (depth > 0) call descends(depth - 1)
    if (sum(own) < 0) print *, own
  end subroutine
end module
program calls
  use work
  call applied(spends, 0.1d0)
  call descends(15)
end program
";

/// Procedures as arguments, and recursion.
fn fortran(scratch: &Scratch) -> Result<(), Verdict> {
    let options = [
        "-O2",
        "-fno-inline",
        "-fno-ipa-cp",
        "-fno-ipa-sra",
        "-fno-optimize-sibling-calls",
    ];
    let program = built(scratch, ("gfortran", "calls.f90"), FORTRAN, &options)?;
    let expected = [
        ("work::applied", 0.2),
        ("work::descends", 0.3),
        ("main", 0.5),
    ];
    expect(scratch, program, &expected)
}

const RUST: &str = r#"
use std::hint::black_box;
#[inline(never)]
fn collatz(from: u64) -> u64 {
    (1..from).map(|start| std::iter::successors(Some(start), |&n| match n {
        1 => None,
        n if n % 2 == 0 => Some(n / 2),
        n => Some(3 * n + 1),
    }).count() as u64).max().unwrap_or(0)
}
#[inline(never)]
fn iterates() {
    for _ in 0..15000 {
        black_box(collatz(black_box(2000)));
    }
}
fn main() { iterates(); }
"#;

/// Iterators and closures that were inlined are functions of their own, within the one that has them.
fn rust(scratch: &Scratch) -> Result<(), Verdict> {
    let options = ["-Copt-level=3", "-g", "-Cforce-frame-pointers=no"];
    let program = built(scratch, ("rustc", "calls.rs"), RUST, &options)?;
    let report = profiled_with(scratch, By::Kernel, &[], &[program])?;
    check_whole(&report)?;
    let total = number(&report["total"]);
    let functions = array(&report, "functions");
    let named = |part: &str| -> f64 {
        let of_name = functions.iter().filter(|it| {
            let name = it["name"].as_str().unwrap_or_default();
            name.contains(part)
        });
        of_name.map(|it| number(&it["total"])).fold(0.0, f64::max)
    };
    let is_most = |part: &str| named(part) > 0.9 * total;
    let within = ["iterates", "collatz", "fold", "Successors"].map(is_most);
    match within == [true; 4] && named("no_such_iterator") == 0.0 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{within:?}: {report:#}"))),
    }
}

const DEEP: &str = r#"
#include "profile/burn.h"
APART int descends(int depth) {
    if (depth == 0) { burn(0.3); return 1; }
    int below = descends(depth - 1);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}
int main(int count, char **arguments) { return descends(count > 1 ? 10000 : 2000) == 0; }
"#;

/// Thousands of frames are one entry of their function, below the one that began; deeper than what is
/// copied of the stack, the path is said to be cut off, and all of it is of the same function.
fn deep_recursion(scratch: &Scratch) -> Result<(), Verdict> {
    let options = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let program = built(scratch, ("gcc", "deep.c"), DEEP, &options)?;
    let observed = |arguments: &[&str]| {
        let words = [program.clone()].into_iter();
        let words: Vec<OsString> = words.chain(arguments.iter().map(OsString::from)).collect();
        let options = ["--stack-bytes=60000".into()];
        profiled_with(scratch, By::Kernel, &options, &words)
    };
    let whole = observed(&[])?;
    check_whole(&whole)?;
    let of = |report: &Value, name: &str| total_of(report, name) / number(&report["total"]);
    let cut = observed(&["more"])?;
    let ends = &cut["unwinds"];
    let is_cut = number(&ends["cut_off"]) > 0.9 * number(&cut["samples"])
        && number(&ends["failed"]) == 0.0
        && number(&cut["steps"]["wrong"]) == 0.0;
    let is_known = of(&whole, "main") > 0.95 && of(&whole, "descends") > 0.95;
    match is_known && is_cut && of(&cut, "descends") > 0.9 && of(&cut, "main") < 0.1 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{whole:#}{cut:#}"))),
    }
}

const PYTHON: &str = "exec python3 -c '
import json, re
text = json.dumps([{\"a\": i, \"b\": [str(i)] * 5} for i in range(20000)])
for _ in range(16):
    json.loads(text)
    sorted(re.findall(r\"[0-9]+\", text))
'";
const GCC: &str = "printf '#include <algorithm>\\n#include <map>\\n#include <regex>\\nint main() { std::map<int, std::regex> m; return m.size(); }' > a.cpp && for number in 1 2 3 4; do g++ -O1 -c -o a.o a.cpp; done";
const SQLITE: &str = "exec sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 1600000) select sum(i), count(distinct i % 1000), max(length(hex(i))) from n;'";
/// Neither symbols nor call-frame information are left of the program itself.
const XZ: &str = "objcopy --strip-all --remove-section=.eh_frame --remove-section=.eh_frame_hdr $(command -v xz) xz && head -c 3000000 /usr/bin/python3* | ./xz -T1 -5 -c > out.xz";

/// All but few paths of a real program are whole.
fn are_whole(scratch: &Scratch, script: &str) -> Result<(), Verdict> {
    let script = format!("cd '{}' && {script}", scratch.path().display());
    let words = ["sh", "-c", &script].map(OsString::from);
    check_whole(&profiled_with(scratch, By::Kernel, &[], &words)?)
}
