//! Threads that are ready to run and have no processor.

use super::{Finding, seconds};
use crate::characteristics::{Characteristics, LossClass};
use crate::recording::{Others, Process};

/// What is less than this part of all threads' time says nothing: any machine does something
/// else at times.
const WORTH_SAYING: f64 = 0.05;
/// What is less, in processors, is what any system does beside a program.
const LEAST_USED: f64 = 0.05;

/// Too few processors for the threads, or processors that others use. It comes first, because it
/// is in all other figures: threads that wait for one without a processor wait longer.
pub(super) fn lacking(
    process: &Process,
    others: Option<&Others>,
    characteristics: &Characteristics,
) -> Option<Finding> {
    let (threads, processors) = (process.threads, process.processors);
    let lost = characteristics.losses().get(LossClass::Processor);
    let part = lost as f64 / characteristics.total_ns().max(1) as f64;
    let too_many = processors > 0 && threads > processors;
    let sentence = match (too_many, part >= WORTH_SAYING) {
        (false, false) => return None,
        (true, false) => format!(
            "{threads} threads share {processors} processors: times include waiting for a processor"
        ),
        (_, true) => {
            let why = match too_many {
                true => format!(
                    "{threads} threads share {processors} processors; OMP_NUM_THREADS={processors} \
                     gives each its own"
                ),
                false => used_by(process, others),
            };
            format!(
                "threads were ready to run, or waited for one that was, without a processor for \
                 {:.3} s in all ({:.0} % of their time): {why}{}",
                seconds(lost),
                part * 100.0,
                spinning(process, characteristics)
            )
        }
    };
    Some((f64::INFINITY, sentence))
}

/// Who has the processors that the threads lack.
fn used_by(process: &Process, others: Option<&Others>) -> String {
    let Some(others) = others else {
        return "other programs use the processors, or a quota limits them".to_owned();
    };
    let on_average = |ran_ns: u64| ran_ns as f64 / process.duration_ns.max(1) as f64;
    let used = on_average(others.ran_ns);
    if used < LEAST_USED {
        return "no other program of this system uses them: other threads of this one do, a quota \
                limits it, or the system shares its processors with others"
            .to_owned();
    }
    let most = others.most.as_ref().map(|most| {
        format!(
            ", most of all {} (process {}) {:.1}",
            most.name,
            most.process,
            on_average(most.ran_ns)
        )
    });
    format!(
        "other programs use {used:.1} processors meanwhile{}; with those free the time falls",
        most.unwrap_or_default()
    )
}

/// What threads that run while they wait take from those that work.
fn spinning(process: &Process, characteristics: &Characteristics) -> String {
    let ran: u64 = process.thread_times.iter().map(|one| one.ran_ns).sum();
    let spun = seconds(ran) - seconds(worked_ns(characteristics));
    if spun < WORTH_SAYING * seconds(characteristics.total_ns()) {
        return String::new();
    }
    format!(
        "; threads that wait use {spun:.3} s of processor time meanwhile, which \
         OMP_WAIT_POLICY=passive leaves to those that work"
    )
}

/// How long threads did what the program says, be it of use or not.
fn worked_ns(characteristics: &Characteristics) -> u64 {
    let duplicated = characteristics.losses().get(LossClass::Duplicated);
    characteristics.productive_ns().saturating_add(duplicated)
}
