//! `unspool race`

mod annotations;
mod coverage;
mod described;
mod described_race;
mod heap_block;
mod locks;
mod mending;
mod sarif;
mod source_tree;
mod stacks;
mod standard_libraries;
mod string_functions;
mod suppressions;
mod system_call_names;
mod text;

use std::io;
use std::path::{Path, PathBuf, absolute};

use unspool_analyses::{RaceCheck, heap, locks as lock_analysis};
use unspool_events::{Order, Problem, Seen, TraceHeader};
use unspool_report::Both;
use unspool_tracer::Receiver;

use super::answer_file::AnswerFile;
use super::live::{self, Answer, FollowedFunctions};
use super::standard_output::print_result;
use super::{followed, opened};
use crate::arguments::{AnnotationChoice, RaceArguments};
use crate::exit_status;
use crate::failure::Failure;
use crate::plan::LivePlan;
use crate::progress::Progress;
use described::Described;
use source_tree::SourceTree;
use suppressions::Suppressions;

/// Finds races in a trace, or in a program's run.
pub(crate) fn race(typed: &RaceArguments) -> Result<u8, Failure> {
    let Some(input) = &typed.input else {
        return race_live(typed);
    };
    let question = RaceQuestion::new(typed)?;
    let (header, check, problems, damage) = match typed.follow {
        true => follow(input, &question)?,
        false => read(input, &question)?,
    };
    let write = |path: &Path, text: &str| AnswerFile::exactly(path, &header).write(text);
    let Answer { text, status, .. } = question.answer(&check, &header, &problems, damage, write)?;
    print_result(text.as_bytes())?;
    Ok(status)
}

/// What is asked, and what is to be left out of the answer.
#[derive(Debug, Clone)]
pub(super) struct RaceQuestion {
    typed: RaceArguments,
    suppressions: Suppressions,
    sources: SourceTree,
    /// Where SARIF goes. The program may change its folder.
    sarif: Option<PathBuf>,
}

type Read = (TraceHeader, RaceCheck, Vec<Problem>, u8);

/// Looks at a trace as far as it is there.
fn read(input: &Path, question: &RaceQuestion) -> Result<Read, Failure> {
    let trace = opened::open(input)?;
    check_order(trace.header().order)?;
    let mut check = question.check();
    check.cut_off(&trace.threads());
    let mut progress = Progress::of_trace(&trace, question.typed.progress, false);
    let problems = trace.merged().deliver(&mut Both(&mut check, &mut progress));
    drop(progress);
    let damage = opened::report_problems(trace.problems(), &problems);
    if !trace.is_complete() {
        followed::mention_rest(input);
    }
    let problems = trace.problems().iter().cloned().chain(problems);
    Ok((trace.header().clone(), check, problems.collect(), damage))
}

/// Looks at a trace while it is written.
fn follow(input: &Path, question: &RaceQuestion) -> Result<Read, Failure> {
    let reader = followed::open(input)?;
    let header = reader.header().clone();
    check_order(header.order)?;
    let mut check = question.check();
    let delivered = reader.deliver(&mut check);
    check.cut_off(&delivered.threads);
    let damage = opened::report_problems(&delivered.problems, &[]);
    Ok((header, check, delivered.problems, damage))
}

/// Looks at a program while it runs.
fn race_live(typed: &RaceArguments) -> Result<u8, Failure> {
    match (LivePlan::new(&typed.live)?, receiver(typed.clone())?) {
        (Some(plan), Some(receiver)) => {
            check_order(plan.order)?;
            live::run(&plan, false, followed_functions(typed), receiver)
        }
        _ => Err(Failure::new("there is neither a trace nor a program")),
    }
}

/// The functions whose calls the analysis needs.
fn followed_functions(typed: &RaceArguments) -> FollowedFunctions {
    let follows_locks = typed.locks || typed.predict || typed.coverage;
    let of_locks = follows_locks.then(lock_analysis::functions);
    let of_heap = typed.heap.then(heap::functions);
    let names = of_locks.into_iter().flatten();
    let names = names.chain(of_heap.into_iter().flatten());
    FollowedFunctions {
        names: names.map(str::to_owned).collect(),
        with_openmp: (!typed.no_openmp && !typed.predict).then(live::followed_with_openmp),
        concurrent_only: true,
    }
}

/// What looks at the processes of a run, if a program is to be run.
pub(super) fn receiver(typed: RaceArguments) -> Result<Option<Receiver>, Failure> {
    let Some(plan) = LivePlan::new(&typed.live)? else {
        return Ok(None);
    };
    Ok(Some(live::receiver(plan, RaceQuestion::new(&typed)?)))
}

/// Only one order tells which store each load has seen.
fn check_order(order: Order) -> Result<(), Failure> {
    if order == Order::LineAtomic {
        return Ok(());
    }
    let name = order.name();
    Err(Failure::new(format!(
        "races cannot be told in the order {name}, which does not say what plain loads have seen"
    ))
    .with_help("use the order that is used without --order, line-atomic"))
}

impl RaceQuestion {
    fn new(typed: &RaceArguments) -> Result<RaceQuestion, Failure> {
        let suppressions = Suppressions::read(&typed.suppressions, !typed.no_default_suppressions)?;
        Ok(RaceQuestion {
            typed: typed.clone(),
            suppressions,
            sources: SourceTree::of_working_directory(),
            sarif: typed.sarif.as_deref().map(absolute).transpose()?,
        })
    }

    fn check(&self) -> RaceCheck {
        let check = RaceCheck::new(self.typed.memory);
        let check = match self.typed.no_openmp {
            true => check.without_openmp(),
            false => check,
        };
        match self.typed.predict {
            true => check.predicting(self.typed.memory),
            false => check,
        }
    }

    /// What is said, and the exit status; `damage` is that of the records, and `write` puts SARIF
    /// into a file.
    fn answer(
        &self,
        check: &RaceCheck,
        header: &TraceHeader,
        problems: &[Problem],
        damage: u8,
        write: impl FnOnce(&Path, &str) -> io::Result<()>,
    ) -> Result<Answer, Failure> {
        let is_whole = damage == exit_status::SUCCESS;
        let described = Described::new(check, problems, header, &self.suppressions, is_whole);
        let show = self.typed.show;
        let mut text = match self.typed.json {
            true => described.as_json()?,
            false => {
                let races = text::of(&described, show, self.typed.heap);
                let coverage = self.typed.coverage.then(|| described.coverage.text(show));
                races + &described.locks.text() + &coverage.unwrap_or_default()
            }
        };
        if let Some(AnnotationChoice::Github) = self.typed.annotations {
            text += &annotations::for_github(&described, &self.sources, show);
        }
        if let Some(path) = &self.sarif {
            let written = write(path, &sarif::of(&described, &self.sources)?);
            written.map_err(|error| Failure::cannot_write(path, error))?;
        }
        let has_races = !described.races.is_empty() || !described.predicted.is_empty();
        let has_findings = has_races || described.locks.has_findings();
        let status = match has_findings {
            true => self.typed.exit_status,
            false => damage,
        };
        Ok(Answer {
            text,
            status,
            yields_to_failure: true,
        })
    }
}

impl live::Question for RaceQuestion {
    type Analysis = RaceCheck;

    fn begin(&self) -> RaceCheck {
        self.check()
    }

    fn answer(
        &self,
        check: RaceCheck,
        seen: &Seen,
        header: &TraceHeader,
    ) -> Result<Answer, Failure> {
        let write = |path: &Path, text: &str| AnswerFile::of(path, header).write(text);
        self.answer(&check, header, &seen.problems, live::damage(seen), write)
    }

    fn so_far(
        &self,
        check: &RaceCheck,
        seen: &Seen,
        header: &TraceHeader,
    ) -> Result<Answer, Failure> {
        let write = |path: &Path, text: &str| {
            let written = AnswerFile::of(path, header).write_so_far(text);
            written.map(drop)
        };
        let damage = exit_status::INPUT_DAMAGED;
        self.answer(check, header, &seen.problems, damage, write)
    }
}
