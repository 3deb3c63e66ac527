//! Analyses in the process that they are about: a command that reads traces is given a program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use unspool_analyses::heap;
use unspool_engine::Plan;
use unspool_events::{Conclusion, LiveAnalysis, Problem, Seen, Sink, TraceHeader, Verdict};
use unspool_tracer::{Receiver, TraceOutput, TracePlan};

use super::answer_file::AnswerFile;
use super::observe::observe;
use crate::exit_status;
use crate::failure::Failure;
use crate::plan::{Children, LivePlan};

/// What an analysis has found, and with which status the command would end.
#[derive(Debug)]
pub(super) struct Answer {
    /// For people or programs, in whole lines.
    pub(super) text: String,
    /// The exit status.
    pub(super) status: u8,
    /// Whether a program that fails by itself ends with its own.
    pub(super) yields_to_failure: bool,
}

/// Functions whose calls an analysis needs.
#[derive(Debug, Default)]
pub(super) struct FollowedFunctions {
    pub(super) names: Vec<String>,
    /// Where a runtime of OpenMP is, its functions, and those with these names, if that is wanted.
    pub(super) with_openmp: Option<Vec<String>>,
    /// Whether what a thread does is wanted only from where there may be others, or such a function is called.
    pub(super) concurrent_only: bool,
}

/// The functions that are followed where a runtime of OpenMP is: memory that is given out again is
/// other memory.
pub(super) fn followed_with_openmp() -> Vec<String> {
    heap::functions().map(str::to_owned).collect()
}

/// Runs a program, and has its records go to the receiver, with the calls of these functions. Does
/// not return once it has started.
pub(super) fn run(
    plan: &LivePlan,
    with_values: bool,
    functions: FollowedFunctions,
    receiver: Receiver,
) -> Result<u8, Failure> {
    let trace = TracePlan {
        output: output(plan.record.clone(), receiver),
        order: plan.order,
        granule: plan.granule,
        max_skew: plan.max_skew,
        noise: plan.noise,
        buffer: super::observe::DEFAULT_BUFFER,
        verify: with_values,
        concurrent_only: functions.concurrent_only,
        functions: functions.names,
        functions_with_openmp: functions.with_openmp,
        ..TracePlan::default()
    };
    let engine_plan = Plan {
        leave_children: plan.children == Children::Leave,
        own_arguments: own_arguments(),
        ..Plan::default()
    };
    observe(engine_plan, Some(trace), &plan.observed)
}

/// To the analysis, and to a file where one is wanted.
pub(super) fn output(record: Option<PathBuf>, receiver: Receiver) -> TraceOutput {
    match record {
        None => TraceOutput::Receiver(receiver),
        Some(path) => TraceOutput::FileAndReceiver(path, receiver),
    }
}

/// The words of the command line that precede the program's: what a program that this one executes
/// is told.
fn own_arguments() -> Vec<OsString> {
    let words = std::env::args_os().skip(1);
    words.take_while(|word| word != "--").collect()
}

/// What there is to say of one analysis.
pub(super) trait Question: Send + Sync + 'static {
    /// What is asked.
    type Analysis: Sink + Send + 'static;

    /// Begins with nothing seen.
    fn begin(&self) -> Self::Analysis;

    /// What has come of it at the end.
    fn answer(
        &self,
        analysis: Self::Analysis,
        seen: &Seen,
        header: &TraceHeader,
    ) -> Result<Answer, Failure>;

    /// What has come of it until now.
    fn so_far(
        &self,
        analysis: &Self::Analysis,
        seen: &Seen,
        header: &TraceHeader,
    ) -> Result<Answer, Failure>;
}

/// Asks each process and program of a run, and says what it answers.
pub(super) fn receiver(plan: LivePlan, question: impl Question) -> Receiver {
    let question = Arc::new(question);
    Receiver::new(move |header| {
        let asked = Asked {
            question: Arc::clone(&question),
            place: plan
                .output
                .as_deref()
                .map(|path| AnswerFile::of(path, header)),
            header: header.clone(),
        };
        Arc::new(LiveAnalysis::new(
            header,
            plan.max_waiting,
            question.begin(),
            asked,
        ))
    })
}

/// A question to one process.
struct Asked<Asks> {
    question: Arc<Asks>,
    /// Nothing for standard error.
    place: Option<AnswerFile>,
    header: TraceHeader,
}

impl<Asks: Question> Conclusion<Asks::Analysis> for Asked<Asks> {
    fn conclude(&mut self, analysis: Asks::Analysis, seen: &Seen) -> Verdict {
        let Answer {
            text,
            status,
            yields_to_failure,
        } = match self.question.answer(analysis, seen, &self.header) {
            Ok(answer) => answer,
            Err(failure) => return failed(&format!("{:#}", failure.error)),
        };
        let problems: String = seen
            .problems
            .iter()
            .map(|problem| format!("unspool: warning: {problem}\n"))
            .chain(help(&seen.problems))
            .collect();
        let status = Some(status).filter(|&status| status != exit_status::SUCCESS);
        let text = match &self.place {
            None => format!("{}:\n{problems}{text}", self.process()),
            Some(place) => match place.write(&text) {
                Ok(()) => problems,
                // The program may have moved away from what it could write when it was started.
                Err(error) => {
                    let found = format!("what was found:\n{problems}{text}");
                    return failed(&format!("cannot write {place}: {error}; {found}"));
                }
            },
        };
        Verdict {
            text,
            status,
            yields_to_failure,
        }
    }

    fn so_far(&mut self, analysis: &Asks::Analysis, seen: &Seen) -> String {
        let process = self.process();
        if seen.summary.accesses + seen.summary.events == 0 {
            return format!("{process}: killed before anything was found\n");
        }
        let text = match self.question.so_far(analysis, seen, &self.header) {
            Ok(answer) => answer.text,
            Err(failure) => format!("{:#}\n", failure.error),
        };
        let noted = self.place.as_ref().map(|place| place.write_so_far(&text));
        match noted {
            Some(Ok(Some(path))) => {
                let path = path.display();
                format!("{process}: killed; what had been found until then is in {path}\n")
            }
            _ => format!("{process}: killed; what had been found until then:\n{text}"),
        }
    }
}

impl<Asks> Asked<Asks> {
    /// Which process it is.
    fn process(&self) -> String {
        let program = String::from_utf8_lossy(&self.header.program);
        format!("unspool: process {}, {program}", self.header.process)
    }
}

/// The way out of what has ended an analysis.
fn help(problems: &[Problem]) -> Option<String> {
    let is_short = |problem: &Problem| matches!(problem, Problem::TooMuchWaits { .. });
    let text = "unspool: help: let more wait with --max-waiting, or write a trace with unspool trace \
                and analyse that\n";
    problems.iter().any(is_short).then(|| text.to_owned())
}

/// The status of records that could not all be understood, or of which some were lost.
pub(super) fn damage(seen: &Seen) -> u8 {
    match seen.problems.is_empty() && seen.summary.dropped_words == 0 {
        true => exit_status::SUCCESS,
        false => exit_status::INPUT_DAMAGED,
    }
}

/// The command has failed, as far as this process goes.
fn failed(text: &str) -> Verdict {
    Verdict {
        text: format!("error: {text}"),
        status: Some(exit_status::FAILED),
        yields_to_failure: false,
    }
}
