//! Tables of made-up measurements.

use super::*;
use crate::bench::catalogue::Sharing;
use crate::bench::process::Usage;
use crate::bench::variant::Variant;

/// A program that takes a second natively, and in each mode what is given, round by round.
fn program(name: &'static str, modes: &[(Mode, [f64; 5])]) -> ProgramResult {
    let native = [(Mode::Native, [1.0; 5])];
    let columns = native.iter().chain(modes).map(|(mode, times)| {
        let mut column = ColumnResult::new(Variant {
            mode: *mode,
            observer: vec!["/u".into()],
            is_other_build: false,
        });
        for &cpu_s in times {
            column.add_run(Usage {
                cpu_s,
                wall_s: cpu_s,
                largest_process_bytes: 10_000_000,
            });
        }
        column
    });
    let mut result = ProgramResult {
        columns: columns.collect(),
        ..ProgramResult::bare(name, Sharing::Alone)
    };
    result.derive_ratios();
    result
}

fn row<'a>(table: &'a Table, name: &str) -> &'a [String] {
    let mut rows = table.rows.iter();
    rows.find(|row| row[0] == name).expect("a row of that name")
}

#[test]
fn a_figure_stands_below_its_heading() {
    let openmp = ProgramResult {
        uses_openmp: true,
        ..program("a", &[(Mode::Openmp, [1.0; 5]), (Mode::Run, [2.0; 5])])
    };
    let plain = program("b", &[(Mode::Run, [8.0; 5])]);
    let table = ratios("CPU", &[openmp, plain], ColumnResult::cpu);
    assert_eq!(table.header[3..], ["openmp", "run"]);
    assert_eq!(row(&table, "b")[3..], ["", "8.00"]);
    assert_eq!(row(&table, "geometric mean")[3..], ["1.00", "4.00"]);
    assert_eq!(
        row(&table, "programs that count")[3..],
        ["1 of 1", "2 of 2"]
    );
}

#[test]
fn a_mean_says_how_many_programs_it_is_of() {
    let steady = program("a", &[(Mode::Run, [2.0; 5])]);
    let unsteady = program("b", &[(Mode::Run, [1.0, 1.0, 1.0, 1.0, 1.5])]);
    let skipped = ProgramResult {
        skipped: Some("not installed".to_owned()),
        ..ProgramResult::bare("c", Sharing::Alone)
    };
    let application = ProgramResult {
        run_limit: Some(2.0),
        ..program("d", &[(Mode::Run, [9.0; 5])])
    };
    let programs = [steady, unsteady, skipped, application];
    let table = ratios("CPU", &programs, ColumnResult::cpu);
    assert_eq!(row(&table, "b")[3], "1.00 (rounds differ by 50 %)");
    assert_eq!(row(&table, "d")[3], "9.00");
    assert_eq!(row(&table, "geometric mean")[3], "2.00");
    assert_eq!(row(&table, "programs that count")[3], "1 of 3");
    let apart = spreads(&programs);
    assert_eq!(row(&apart, "a")[3], "0 %");
    assert_eq!(row(&apart, "b")[3], "50 %");
}

#[test]
fn memory_is_told_without_times() {
    let table = memory(&[program("a", &[(Mode::Run, [2.0; 5])])]);
    assert_eq!(table.header, ["program", "native", "run"]);
    assert_eq!(row(&table, "a"), ["a", "10.0", "0.00"]);
}
