//! Many cases, recorded: every first instruction's accesses must be what they should be.

use std::collections::HashMap;
use std::path::Path;

use iced_x86::InstructionInfoFactory;
use unspool_events::{Access, AccessFlags, Sink, ThreadId, Trace};

use crate::accesses::{Recorded, agree, expected};
use crate::campaign::{Summary, run_natively};
use crate::compare::ended;
use crate::execute::Executor;
use crate::generate::Generator;

/// The orders in which cases are recorded, file by file.
const ORDERS: [&str; 4] = ["line-atomic", "none", "ticket", "timestamp"];

/// A control: what is changed in one record of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falsehood {
    /// The address.
    Address,
    /// The size.
    Size,
    /// Read for write, or write for read.
    Kind,
    /// An access that was not made.
    Added,
    /// One that is missing.
    Removed,
}

impl Falsehood {
    /// All of them.
    pub const ALL: [Falsehood; 5] = [
        Falsehood::Address,
        Falsehood::Size,
        Falsehood::Kind,
        Falsehood::Added,
        Falsehood::Removed,
    ];
}

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The `unspool` under test.
    pub unspool: &'a Path,
    /// How many cases, at least, are recorded.
    pub cases: usize,
    /// How many of them in one file.
    pub batch: usize,
    /// What the cases follow from.
    pub seed: u64,
    /// A control.
    pub falsify: Option<Falsehood>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Findings {
    /// Cases that were recorded.
    pub recorded: usize,
    /// Of these, cases whose first instruction was compared.
    pub compared: usize,
    /// Accesses of those.
    pub accesses: usize,
    /// What differs: the case, and both sides.
    pub differences: Vec<String>,
}

/// Records cases, and compares.
///
/// # Errors
/// If a runner cannot be started or dies, or a trace is damaged.
pub fn run(plan: Plan, mut progress: impl FnMut(&Findings)) -> anyhow::Result<Findings> {
    let executor = Executor::new()?;
    let mut generator = Generator::new(plan.seed);
    let mut factory = InstructionInfoFactory::new();
    let mut findings = Findings::default();
    for order in ORDERS.into_iter().cycle() {
        if findings.recorded >= plan.cases {
            break;
        }
        let wanted = plan.batch.min(plan.cases - findings.recorded).max(50);
        let cases: Vec<_> = (0..wanted).map(|_| generator.next_case()).collect();
        let mut batch = executor.batch(&cases, false)?;
        let native = run_natively(&mut batch, &mut Summary::default())?;
        let (mut recorded, refused) = first_accesses(&mut batch, plan.unspool, order)?;
        let expectations: Vec<_> = (0..cases.len())
            .filter(|index| ended(&native[*index]) && !refused.contains(index))
            .filter_map(|index| {
                findings.recorded += 1;
                let expected = expected(&mut factory, batch.record(index), &native[index])?;
                Some((index, expected))
            })
            .collect();
        if let Some(falsehood) = plan.falsify {
            let sure = expectations.iter().find(|(_, expected)| {
                !expected.is_empty() && expected.iter().all(|expected| !expected.optional)
            });
            if let Some((index, _)) = sure {
                falsify(recorded.entry(*index).or_default(), falsehood);
            }
        }
        for (index, expected) in expectations {
            let recorded = recorded.remove(&index).unwrap_or_default();
            findings.compared += 1;
            findings.accesses += recorded.len();
            if !agree(&expected, &recorded) {
                let case = &cases[index];
                findings.differences.push(format!(
                    "{case}\n  order {order}, first instruction\n  recorded {recorded:x?}\n  expected {expected:x?}"
                ));
            }
        }
        progress(&findings);
    }
    Ok(findings)
}

fn falsify(recorded: &mut Vec<Recorded>, falsehood: Falsehood) {
    let Some(first) = recorded.first_mut() else {
        return;
    };
    match falsehood {
        Falsehood::Address => first.address ^= 1,
        Falsehood::Size => first.size += 1,
        Falsehood::Kind => first.write = !first.write,
        Falsehood::Added => recorded.push(Recorded {
            address: 0x1000,
            size: 8,
            write: false,
        }),
        Falsehood::Removed => recorded.clear(),
    }
}

/// The accesses of the first execution of each case's first instruction, and the cases that
/// `unspool` refuses.
fn first_accesses(
    batch: &mut crate::execute::Batch,
    unspool: &Path,
    order: &str,
) -> anyhow::Result<(ByCase, Vec<usize>)> {
    let (trace, refused) = batch.record_to_trace(unspool, order)?;
    let trace = Trace::open(&trace)?;
    let mut collector = Collector::default();
    for index in 0..batch.len() {
        collector.cases.insert(batch.record(index).address, index);
    }
    let problems = trace.merged().deliver(&mut collector);
    anyhow::ensure!(
        problems.is_empty() && trace.problems().is_empty(),
        "the trace is damaged: {problems:?} {:?}",
        trace.problems()
    );
    Ok((collector.accesses, refused))
}

/// Accesses by the numbers of the cases.
type ByCase = HashMap<usize, Vec<Recorded>>;

#[derive(Default)]
struct Collector {
    /// Where cases start.
    cases: HashMap<u64, usize>,
    accesses: ByCase,
    /// The one whose accesses are coming.
    current: Option<usize>,
}

impl Sink for Collector {
    fn accesses(&mut self, _: ThreadId, batch: &[Access]) {
        for access in batch {
            if access.flags.contains(AccessFlags::FIRST) {
                let case = self.cases.get(&access.pc).copied();
                // A case may come back to its first instruction.
                self.current = case.filter(|case| !self.accesses.contains_key(case));
            }
            if let Some(case) = self.current {
                let accesses = self.accesses.entry(case).or_default();
                accesses.push(Recorded::new(access));
            }
        }
    }
}
