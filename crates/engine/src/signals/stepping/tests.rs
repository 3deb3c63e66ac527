use unspool_code_cache::address::CacheAddress;
use unspool_kernel::layout;

use super::{Boundary, Location, Look, Steps, Trap};

const BOUNDARY: Option<Boundary> = Some(Boundary { prologue_end: None });

/// A place in translated code, so many bytes behind another one.
fn at(bytes: u32) -> CacheAddress {
    CacheAddress::of(layout::cache())
        .expect("it begins there")
        .plus(bytes)
}

fn look(steps: &mut Steps, at: CacheAddress, boundary: Option<Boundary>, debugger: bool) -> Look {
    steps.look(at, boundary, debugger, false, || false)
}

#[test]
fn the_engine_steps_to_the_next_boundary_and_no_trap_is_seen() {
    let mut steps = Steps::default();
    steps.step_out();
    assert_eq!(steps.trapped(Location::Entering, true, false), Trap::StepOn);
    assert_eq!(steps.trapped(Location::Translated, true, false), Trap::Look);
    assert_eq!(look(&mut steps, at(0), None, false), Look::StepOn);
    assert_eq!(steps.trapped(Location::Translated, true, false), Trap::Look);
    assert_eq!(
        look(&mut steps, at(4), BOUNDARY, false),
        Look::Leave { trap: false }
    );
    assert_eq!(steps, Steps::default());
}

#[test]
fn a_thread_that_leaves_by_itself_is_stepped_no_more() {
    let mut steps = Steps::default();
    steps.step_out();
    assert_eq!(steps.trapped(Location::Leaving, true, false), Trap::Run);
    assert_eq!(steps, Steps::default());
}

#[test]
fn one_instruction_is_stepped_over_for_a_debugger() {
    let mut steps = Steps::default();
    steps.step_over(at(0));
    assert_eq!(steps.trapped(Location::Entering, true, true), Trap::StepOn);
    // At the instruction itself nothing has been executed yet.
    assert_eq!(look(&mut steps, at(0), BOUNDARY, true), Look::StepOn);
    assert_eq!(
        look(&mut steps, at(3), BOUNDARY, true),
        Look::Leave { trap: false }
    );
}

#[test]
fn a_prologue_is_no_instruction() {
    let prologue = Some(Boundary {
        prologue_end: Some(at(8)),
    });
    let mut steps = Steps::default();
    steps.step_over(at(0));
    assert_eq!(look(&mut steps, at(0), prologue, true), Look::StepOn);
    assert_eq!(look(&mut steps, at(8), BOUNDARY, true), Look::StepOn);
    assert_eq!(
        look(&mut steps, at(9), BOUNDARY, true),
        Look::Leave { trap: false }
    );
}

#[test]
fn a_signal_lets_the_thread_leave_before_the_instruction() {
    let mut steps = Steps::default();
    steps.step_over(at(0));
    let look = steps.look(at(0), BOUNDARY, true, true, || false);
    assert_eq!(look, Look::Leave { trap: false });
}

#[test]
fn the_program_sets_its_flag_and_gets_a_trap_behind_each_instruction() {
    let mut steps = Steps::default();
    // Its `popf` is the last instruction of a fragment, and the trap comes on the way out.
    assert_eq!(steps.trapped(Location::Leaving, true, false), Trap::Run);
    assert!(steps.program_flag && !steps.due.is_due());
    steps.step_over(at(0));
    assert_eq!(steps.trapped(Location::Entering, true, false), Trap::StepOn);
    assert_eq!(look(&mut steps, at(0), BOUNDARY, false), Look::StepOn);
    assert_eq!(
        look(&mut steps, at(2), BOUNDARY, false),
        Look::Leave { trap: true }
    );
    // An instruction that leaves the cache by itself has its trap due outside.
    steps.step_over(at(2));
    assert_eq!(look(&mut steps, at(2), BOUNDARY, false), Look::StepOn);
    assert_eq!(steps.trapped(Location::Leaving, true, false), Trap::Run);
    assert!(steps.due.program && !steps.due.debugger);
}

#[test]
fn the_program_takes_its_flag_away_and_gets_the_last_trap() {
    let mut steps = Steps {
        program_flag: true,
        ..Steps::default()
    };
    steps.step_over(at(0));
    assert_eq!(look(&mut steps, at(0), BOUNDARY, false), Look::StepOn);
    assert_eq!(
        steps.trapped(Location::Translated, false, false),
        Trap::Look
    );
    assert!(!steps.program_flag && steps.due.program);
    let mut left = Steps {
        program_flag: true,
        ..Steps::default()
    };
    left.step_over(at(0));
    left.flags_popped(false);
    assert!(!left.program_flag && left.due.program && !left.is_stepping());
}

/// Whatever comes in whatever order, a trap on the way in gives the program no trap flag, and
/// nothing is due to anybody who has not asked for it.
#[test]
fn nobody_gets_a_trap_without_having_asked() {
    let places = [Location::Translated, Location::Entering, Location::Leaving];
    let mut states = vec![Steps::default()];
    let mut seen = Vec::new();
    while let Some(state) = states.pop() {
        if seen.contains(&state) {
            continue;
        }
        seen.push(state);
        assert!(!state.due.is_due() && !state.program_flag, "{state:?}");
        let mut next = |change: &dyn Fn(&mut Steps)| {
            let mut state = state;
            change(&mut state);
            states.push(state);
        };
        next(&|steps| steps.step_out());
        next(&|steps| steps.flags_popped(false));
        next(&|steps| _ = steps.left());
        next(&|steps| steps.goes_on_mid_fragment());
        for boundary in [None, BOUNDARY] {
            next(&move |steps| _ = look(steps, at(0), boundary, false));
        }
        for place in places {
            // Outside, a trap that nobody expects is the program's `popf`.
            if state.is_stepping() || place == Location::Entering {
                next(&move |steps| _ = steps.trapped(place, true, false));
            }
        }
    }
    assert!(seen.len() > 1);
}
