//! Fails in a function that is called before instructions: with `fault` by a fault, else by a panic;
//! with `looping` in one that is too long to be copied, with `floating` in one around which
//! everything is kept, with `rarely` in what another one calls so, else in one that is copied to where
//! it is called.
#![expect(unsafe_code, reason = "it accesses memory that is not there")]

use unspool_tool::{Constant, Superblock, Tool, rarely};

use crate::asked;

/// The tool.
pub(crate) struct Failing;

/// What a thread has.
#[derive(Default)]
pub(crate) struct State {
    number: f64,
    table: [u64; 4],
}

impl Failing {
    fn panics(&self, state: &mut State, index: u64) {
        state.table[index as usize] += 1;
    }

    fn loops(&self, state: &mut State, index: u64) {
        for _ in 0..std::hint::black_box(1) {
            self.panics(state, index);
        }
    }

    fn computes(&self, state: &mut State, index: u64) {
        state.number = state.number * 1.5 + 1.0;
        self.panics(state, index);
    }

    fn panics_rarely(&self, state: &mut State, index: u64) {
        rarely(|| self.computes(state, index));
    }

    fn faults(&self, state: &mut State, address: u64) {
        // SAFETY: none: it is to fault.
        state.table[0] = unsafe { (address as *const u64).read_volatile() };
    }

    fn loops_and_faults(&self, state: &mut State, address: u64) {
        for _ in 0..std::hint::black_box(1) {
            self.faults(state, address);
        }
    }

    fn computes_and_faults(&self, state: &mut State, address: u64) {
        state.number = state.number * 1.5 + 1.0;
        self.faults(state, address);
    }

    fn faults_rarely(&self, state: &mut State, address: u64) {
        rarely(|| self.computes_and_faults(state, address));
    }
}

impl Tool for Failing {
    type Thread = State;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let before = superblock.blocks().next().expect("it has one").before();
        let argument = (Constant(16_u64),);
        let way = ["looping", "floating", "rarely"]
            .into_iter()
            .find(|way| asked(way));
        match (asked("fault"), way) {
            (false, None) => before.call(Failing::panics, argument),
            (false, Some("looping")) => before.call(Failing::loops, argument),
            (false, Some("floating")) => before.call(Failing::computes, argument),
            (false, Some(_)) => before.call(Failing::panics_rarely, argument),
            (true, None) => before.call(Failing::faults, argument),
            (true, Some("looping")) => before.call(Failing::loops_and_faults, argument),
            (true, Some("floating")) => before.call(Failing::computes_and_faults, argument),
            (true, Some(_)) => before.call(Failing::faults_rarely, argument),
        }
    }
}
