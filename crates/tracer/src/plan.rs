//! What the user asked the tracer to do, in a form that survives `execve`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use unspool_events::Order;

use super::receiver::Receiver;
use unspool_engine::plan::ClientPlan;

/// How the tracer is named where a plan goes to another process.
const CLIENT: &str = "tracer";

/// How a memory trace is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePlan {
    /// Where it goes.
    pub output: TraceOutput,
    /// The order between threads.
    pub order: Order,
    /// Trace only threads that registered.
    pub registered_only: bool,
    /// Names of functions whose calls are traced.
    pub functions: Vec<String>,
    /// Whether, where a runtime of OpenMP is, calls of its functions are traced and of what it is given
    /// to call, and the names of those whose calls are traced then, too.
    pub functions_with_openmp: Option<Vec<String>>,
    /// Trace accesses only inside regions of interest.
    pub regions_only: bool,
    /// Trace accesses only from where the process has a second thread, or a traced function is called: what
    /// comes before is nobody else's.
    pub concurrent_only: bool,
    /// Bytes of a line, a power of two.
    pub granule: u32,
    /// Number of owner entries; 0 for one a line.
    pub locks: u64,
    /// Accesses that a thread keeps before it writes them.
    pub buffer: u64,
    /// How far clocks may diverge; 0 for no bound.
    pub max_skew: u64,
    /// Count failed compare-and-swaps as writes.
    pub failed_cas: bool,
    /// Record values.
    pub verify: bool,
    /// Record each instruction, accessing or not.
    pub instructions: bool,
    /// What decides where threads wait so that they meet in other orders; 0: they do not.
    pub noise: u64,
    /// Whether this process was forked or executed by an observed one.
    pub child: bool,
    /// End with [`unspool_kernel::diagnostics::ENGINE_FAILURE`] where not everything was recorded.
    pub strict: bool,
    /// Say at the end what was recorded.
    pub summary: bool,
    /// Show a progress line.
    pub progress: bool,
    /// Run the program natively first, to tell what observing it costs.
    pub measure_slowdown: bool,
    /// What all processes of the run are told.
    pub run: Run,
}

/// Where what is recorded goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceOutput {
    /// Nowhere: it is counted.
    Discard,
    /// Into this file; `-` is standard output.
    File(PathBuf),
    /// To somebody in the process itself.
    Receiver(Receiver),
    /// Into this file, and to somebody in the process.
    FileAndReceiver(PathBuf, Receiver),
    /// To somebody in the process, and perhaps into a file, in a plan that came from another process:
    /// whoever decodes it puts the receiver in.
    ReceiverToCome(Option<PathBuf>),
}

impl TraceOutput {
    /// The file, if it is one.
    #[must_use]
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            TraceOutput::File(path) | TraceOutput::FileAndReceiver(path, _) => Some(path),
            TraceOutput::ReceiverToCome(path) => path.as_deref(),
            TraceOutput::Discard | TraceOutput::Receiver(_) => None,
        }
    }

    /// Whether somebody in the process hears of it.
    pub(crate) fn has_receiver(&self) -> bool {
        match self {
            TraceOutput::Discard | TraceOutput::File(_) => false,
            TraceOutput::Receiver(_)
            | TraceOutput::FileAndReceiver(..)
            | TraceOutput::ReceiverToCome(_) => true,
        }
    }

    fn encode(&self) -> [Vec<u8>; 2] {
        let path = self.file().map(|path| path.as_os_str().as_bytes().to_vec());
        let kind: &[u8] = match (self, &path) {
            (TraceOutput::Discard, _) => b"0",
            (TraceOutput::File(_), _) => b"1",
            (_, None) => b"2",
            (_, Some(_)) => b"3",
        };
        [kind.to_vec(), path.unwrap_or_default()]
    }

    fn decode(kind: &[u8], path: Vec<u8>) -> Option<TraceOutput> {
        match kind {
            b"0" => Some(TraceOutput::Discard),
            b"1" => Some(TraceOutput::File(OsString::from_vec(path).into())),
            b"2" => Some(TraceOutput::ReceiverToCome(None)),
            b"3" => Some(TraceOutput::ReceiverToCome(Some(
                OsString::from_vec(path).into(),
            ))),
            _ => None,
        }
    }
}

/// What the processes of a run are told of it. All times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Whether this process is the one that the user has started, whatever program it runs by now:
    /// its end is the run's.
    pub(crate) first_process: bool,
    /// When the run began, since 1970; 0 where it has not.
    pub(crate) started_unix_ns: u64,
    /// The same by the clock that nobody sets.
    pub(crate) started_ns: u64,
    /// Processor time that the process had taken before.
    pub(crate) processor_before_ns: u64,
    /// What a native run took of processor time; 0 if there was none.
    pub(crate) native_processor_ns: u64,
    /// How long that was.
    pub(crate) native_wall_ns: u64,
}

impl Run {
    fn numbers(&self) -> [u64; 6] {
        [
            u64::from(self.first_process),
            self.started_unix_ns,
            self.started_ns,
            self.processor_before_ns,
            self.native_processor_ns,
            self.native_wall_ns,
        ]
    }

    fn of_numbers(numbers: [u64; 6]) -> Run {
        let [
            first,
            started_unix_ns,
            started_ns,
            processor_before_ns,
            native_processor_ns,
            native_wall_ns,
        ] = numbers;
        Run {
            first_process: first != 0,
            started_unix_ns,
            started_ns,
            processor_before_ns,
            native_processor_ns,
            native_wall_ns,
        }
    }
}

impl Default for TracePlan {
    fn default() -> TracePlan {
        TracePlan {
            output: TraceOutput::Discard,
            order: Order::LineAtomic,
            registered_only: false,
            functions: Vec::new(),
            functions_with_openmp: None,
            regions_only: false,
            concurrent_only: false,
            granule: 64,
            locks: 0,
            buffer: 1 << 16,
            max_skew: 0,
            failed_cas: false,
            verify: false,
            instructions: false,
            noise: 0,
            child: false,
            strict: false,
            summary: true,
            progress: false,
            measure_slowdown: false,
            run: Run::default(),
        }
    }
}

impl TracePlan {
    /// The tracer of the program's next image is told this.
    #[must_use]
    pub(crate) fn encode(&self) -> ClientPlan {
        let flags = u32::from(self.registered_only)
            | u32::from(self.regions_only) << 1
            | u32::from(self.failed_cas) << 2
            | u32::from(self.verify) << 3
            | u32::from(self.summary) << 4
            | u32::from(self.progress) << 5
            | u32::from(self.strict) << 6
            | u32::from(self.instructions) << 7
            | u32::from(self.functions_with_openmp.is_some()) << 8
            | u32::from(self.concurrent_only) << 9;
        let numbers = [
            self.order as u64,
            u64::from(flags),
            u64::from(self.granule),
            self.locks,
            self.buffer,
            self.max_skew,
            self.noise,
            self.functions.len() as u64,
        ];
        let numbers = numbers.into_iter().chain(self.run.numbers());
        let mut words = self.output.encode().to_vec();
        words.extend(numbers.map(|number| number.to_string().into_bytes()));
        let names = self.functions.iter();
        let names = names.chain(self.functions_with_openmp.iter().flatten());
        words.extend(names.map(|name| name.clone().into_bytes()));
        ClientPlan {
            client: CLIENT.to_owned(),
            words,
        }
    }

    /// What the tracer of the program's last image has told that of this one. `None`: that is not
    /// for a tracer, or not what one says.
    #[must_use]
    pub fn decode(plan: &ClientPlan) -> Option<TracePlan> {
        if plan.client != CLIENT {
            return None;
        }
        let mut words = plan.words.iter().cloned();
        let output = TraceOutput::decode(&words.next()?, words.next()?)?;
        let mut number = || -> Option<u64> { String::from_utf8(words.next()?).ok()?.parse().ok() };
        let order = Order::from_u8(u8::try_from(number()?).ok()?)?;
        let flags = number()?;
        let granule = u32::try_from(number()?).ok()?;
        let (locks, buffer, max_skew) = (number()?, number()?, number()?);
        let noise = number()?;
        let function_count = usize::try_from(number()?).ok()?;
        let mut run = [0; 6];
        for word in &mut run {
            *word = number()?;
        }
        let mut functions = words
            .map(|name| String::from_utf8(name).ok())
            .collect::<Option<Vec<String>>>()?;
        if functions.len() < function_count {
            return None;
        }
        let beside = functions.split_off(function_count);
        Some(TracePlan {
            output,
            order,
            registered_only: flags & 1 != 0,
            functions,
            functions_with_openmp: (flags & 256 != 0).then_some(beside),
            regions_only: flags & 2 != 0,
            concurrent_only: flags & 512 != 0,
            granule,
            locks,
            buffer,
            max_skew,
            failed_cas: flags & 4 != 0,
            verify: flags & 8 != 0,
            instructions: flags & 128 != 0,
            noise,
            child: true,
            summary: flags & 16 != 0,
            progress: flags & 32 != 0,
            strict: flags & 64 != 0,
            measure_slowdown: false,
            run: Run::of_numbers(run),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unspool_events::TraceWriter;

    use super::*;

    #[test]
    fn plans_survive_encoding() {
        let plan = TracePlan {
            output: TraceOutput::File("/tmp/a,b%c d".into()),
            order: Order::Ticket,
            functions: vec!["atomic_trace::start_roi".into(), "f,g".into()],
            functions_with_openmp: Some(vec!["malloc".into()]),
            verify: true,
            instructions: true,
            noise: 7,
            child: true,
            run: Run::of_numbers([1, 2, 3, 4, 5, 6]),
            ..TracePlan::default()
        };
        assert_eq!(TracePlan::decode(&plan.encode()), Some(plan.clone()));
        let mut others = plan.encode();
        others.client.push('s');
        assert_eq!(TracePlan::decode(&others), None);
        let mut short = plan.encode();
        short.words.truncate(5);
        assert_eq!(TracePlan::decode(&short), None);
    }

    #[test]
    fn a_receiver_is_to_come_in_another_process() {
        let live = |output| TracePlan {
            output,
            child: true,
            ..TracePlan::default()
        };
        let receiver = Receiver::new(|header| Arc::new(TraceWriter::discarding(header)));
        let encoded = live(TraceOutput::Receiver(receiver)).encode();
        let expected = live(TraceOutput::ReceiverToCome(None));
        assert_eq!(TracePlan::decode(&encoded), Some(expected));
    }
}
