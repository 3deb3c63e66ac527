//! What the user asked the engine to do, in a form that survives `execve`.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use unspool_events::Order;

use crate::detach::When;
use crate::receiver::Receiver;

/// How a program is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What to trace; `None` runs the program without instrumentation.
    pub trace: Option<TracePlan>,
    /// Whether children are let go: a process that the program starts runs natively.
    pub leave_children: bool,
    /// When the process is let go, to run natively from there on.
    pub let_go: When,
    /// Bytes that translated code may take.
    pub code_cache: u64,
    /// Where translations without instrumentation are kept between runs, if they are.
    pub persistent_cache: Option<Keeping>,
    /// Whether the user has been told that the program wishes for memory that it does not get.
    pub told_of_wish: bool,
    /// The arguments of this executable that precede the program's: what they mean is its own
    /// business.
    pub own_arguments: Vec<OsString>,
}

/// Where translations are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// The directory; not empty.
    pub directory: PathBuf,
    /// Whether the user has asked for it, and is to be told why it does not work.
    pub asked: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            trace: None,
            leave_children: false,
            let_go: When::default(),
            code_cache: unspool_kernel::layout::CACHE_SIZE,
            persistent_cache: None,
            told_of_wish: false,
            own_arguments: Vec::new(),
        }
    }
}

/// The least number of bytes for translated code: there must be room for a large fragment
/// in both halves.
pub const SMALLEST_CODE_CACHE: u64 = 1 << 20;

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
    /// Trace accesses only inside regions of interest.
    pub regions_only: bool,
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
    /// Likewise, in a plan that came from another process: whoever decodes it puts the receiver in.
    ReceiverToCome,
}

impl TraceOutput {
    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            TraceOutput::File(path) => Some(path),
            _ => None,
        }
    }

    fn encode(&self) -> [Vec<u8>; 2] {
        match self {
            TraceOutput::Discard => [b"0".to_vec(), Vec::new()],
            TraceOutput::File(path) => [b"1".to_vec(), path.as_os_str().as_bytes().to_vec()],
            TraceOutput::Receiver(_) | TraceOutput::ReceiverToCome => [b"2".to_vec(), Vec::new()],
        }
    }

    fn decode(kind: &[u8], path: Vec<u8>) -> Option<TraceOutput> {
        match kind {
            b"0" => Some(TraceOutput::Discard),
            b"1" => Some(TraceOutput::File(OsString::from_vec(path).into())),
            b"2" => Some(TraceOutput::ReceiverToCome),
            _ => None,
        }
    }
}

/// What the processes of a run are told of it. All times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Whether this process is the one that the user has started, whatever program it runs by now:
    /// its end is the run's.
    pub first_process: bool,
    /// When the run began, since 1970; 0 where it has not.
    pub started_unix_ns: u64,
    /// The same by the clock that nobody sets.
    pub started_ns: u64,
    /// Processor time that the process had taken before.
    pub processor_before_ns: u64,
    /// What a native run took of processor time; 0 if there was none.
    pub native_processor_ns: u64,
    /// How long that was.
    pub native_wall_ns: u64,
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
            regions_only: false,
            granule: 64,
            locks: 0,
            buffer: 1 << 16,
            max_skew: 0,
            failed_cas: false,
            verify: false,
            instructions: false,
            child: false,
            strict: false,
            summary: true,
            progress: false,
            measure_slowdown: false,
            run: Run::default(),
        }
    }
}

/// The first argument of an engine that was started by an observed process's `execve`.
pub const CONTINUE: &str = "--unspool-continue";
/// The same where the program's file is an open descriptor, whose number follows.
pub const CONTINUE_OPEN: &str = "--unspool-continue-open";

/// What the program's next image inherits of signals. The kernel's own record of it is the
/// engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    /// The mask.
    pub mask: u64,
    /// Those that are ignored.
    pub ignored: u64,
}

impl Inherited {
    fn encode(self) -> String {
        format!("{:x},{:x}", self.mask, self.ignored)
    }

    /// The inverse.
    #[must_use]
    pub fn decode(text: &str) -> Option<Inherited> {
        let (mask, ignored) = text.split_once(',')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Inherited {
            mask: number(mask)?,
            ignored: number(ignored)?,
        })
    }
}

/// The arguments that come before a plan for another process.
pub(crate) fn continuation(open: Option<i32>, inherited: Inherited) -> Vec<CString> {
    let mut words = match open {
        None => vec![CONTINUE.to_owned()],
        Some(number) => vec![CONTINUE_OPEN.to_owned(), number.to_string()],
    };
    words.push(inherited.encode());
    let plain = |word| CString::new(word).expect("no NUL");
    words.into_iter().map(plain).collect()
}

impl Plan {
    fn flags(&self) -> u8 {
        let asked = self.persistent_cache.as_ref().is_some_and(|it| it.asked);
        u8::from(self.leave_children) | u8::from(self.told_of_wish) << 1 | u8::from(asked) << 2
    }

    /// The plan as one argument.
    #[must_use]
    pub fn encode(&self) -> CString {
        let mut fields: Vec<Vec<u8>> = vec![
            vec![b'0' + self.flags()],
            self.let_go.deadline_ns.to_string().into_bytes(),
            vec![b'0' + u8::from(self.let_go.at_region_end)],
            self.code_cache.to_string().into_bytes(),
            self.persistent_cache
                .as_ref()
                .map_or_else(Vec::new, |it| it.directory.as_os_str().as_bytes().to_vec()),
            self.own_arguments.len().to_string().into_bytes(),
        ];
        let own = self.own_arguments.iter();
        fields.extend(own.map(|argument| argument.as_bytes().to_vec()));
        if let Some(trace) = &self.trace {
            let flags = u32::from(trace.registered_only)
                | u32::from(trace.regions_only) << 1
                | u32::from(trace.failed_cas) << 2
                | u32::from(trace.verify) << 3
                | u32::from(trace.summary) << 4
                | u32::from(trace.progress) << 5
                | u32::from(trace.strict) << 6
                | u32::from(trace.instructions) << 7;
            fields.extend(trace.output.encode());
            let numbers = [
                trace.order as u64,
                u64::from(flags),
                u64::from(trace.granule),
                trace.locks,
                trace.buffer,
                trace.max_skew,
            ];
            let numbers = numbers.into_iter().chain(trace.run.numbers());
            fields.extend(numbers.map(|number| number.to_string().into_bytes()));
            fields.extend(trace.functions.iter().map(|name| name.clone().into_bytes()));
        }
        let text = fields
            .iter()
            .map(|field| escape(field))
            .collect::<Vec<_>>()
            .join(&b',');
        CString::new(text).expect("escaping leaves no NUL")
    }

    /// The inverse of [`Plan::encode`]; the process that decodes is a child.
    #[must_use]
    pub fn decode(text: &[u8]) -> Option<Plan> {
        let mut fields = text.split(|&byte| byte == b',').map(unescape);
        let flags = *fields.next()??.first()?;
        let [leave_children, told_of_wish, asked] = [1, 2, 4].map(|flag| flags & flag != 0);
        let let_go = When {
            deadline_ns: String::from_utf8(fields.next()??).ok()?.parse().ok()?,
            at_region_end: fields.next()?? == b"1",
        };
        let code_cache = String::from_utf8(fields.next()??).ok()?.parse().ok()?;
        let directory = PathBuf::from(OsString::from_vec(fields.next()??));
        let persistent_cache = Some(Keeping { directory, asked })
            .filter(|keeping| !keeping.directory.as_os_str().is_empty());
        let count: usize = String::from_utf8(fields.next()??).ok()?.parse().ok()?;
        let own_arguments = fields
            .by_ref()
            .take(count)
            .map(|argument| argument.map(OsString::from_vec))
            .collect::<Option<Vec<_>>>()
            .filter(|all| all.len() == count)?;
        let Some(output_kind) = fields.next() else {
            return Some(Plan {
                trace: None,
                leave_children,
                let_go,
                code_cache,
                persistent_cache,
                told_of_wish,
                own_arguments,
            });
        };
        let output = TraceOutput::decode(&output_kind?, fields.next()??)?;
        let mut number =
            || -> Option<u64> { String::from_utf8(fields.next()??).ok()?.parse().ok() };
        let order = Order::from_u8(u8::try_from(number()?).ok()?)?;
        let flags = number()?;
        let granule = u32::try_from(number()?).ok()?;
        let (locks, buffer, max_skew) = (number()?, number()?, number()?);
        let mut run = [0; 6];
        for word in &mut run {
            *word = number()?;
        }
        let functions = fields
            .map(|name| String::from_utf8(name?).ok())
            .collect::<Option<Vec<String>>>()?;
        let trace = TracePlan {
            output,
            order,
            registered_only: flags & 1 != 0,
            functions,
            regions_only: flags & 2 != 0,
            granule,
            locks,
            buffer,
            max_skew,
            failed_cas: flags & 4 != 0,
            verify: flags & 8 != 0,
            instructions: flags & 128 != 0,
            child: true,
            summary: flags & 16 != 0,
            progress: flags & 32 != 0,
            strict: flags & 64 != 0,
            measure_slowdown: false,
            run: Run::of_numbers(run),
        };
        Some(Plan {
            trace: Some(trace),
            leave_children,
            let_go,
            code_cache,
            persistent_cache,
            told_of_wish,
            own_arguments,
        })
    }
}

fn escape(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in field {
        match byte {
            b',' | b'%' => text.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            _ => text.push(byte),
        }
    }
    text
}

fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unspool_events::TraceWriter;

    use super::*;

    #[test]
    fn what_is_inherited_survives_encoding() {
        let inherited = Inherited {
            mask: u64::MAX,
            ignored: 1 << 63 | 5,
        };
        assert_eq!(Inherited::decode(&inherited.encode()), Some(inherited));
        assert_eq!(Inherited::decode("5"), None);
    }

    #[test]
    fn plans_survive_encoding() {
        let trace = TracePlan {
            output: TraceOutput::File("/tmp/a,b%c d".into()),
            order: Order::Ticket,
            functions: vec!["atomic_trace::start_roi".into(), "f,g".into()],
            verify: true,
            instructions: true,
            child: true,
            run: Run::of_numbers([1, 2, 3, 4, 5, 6]),
            ..TracePlan::default()
        };
        for plan in [
            Plan::default(),
            Plan {
                trace: None,
                leave_children: true,
                let_go: When {
                    deadline_ns: 17,
                    at_region_end: true,
                },
                code_cache: 1 << 21,
                persistent_cache: Some(Keeping {
                    directory: "/var/cache,/%".into(),
                    asked: true,
                }),
                told_of_wish: true,
                own_arguments: vec!["tool".into(), "a,b%".into(), "".into()],
            },
            Plan {
                trace: Some(trace),
                ..Plan::default()
            },
        ] {
            assert_eq!(Plan::decode(plan.encode().as_bytes()), Some(plan));
        }
        let live = |output| Plan {
            trace: Some(TracePlan {
                output,
                child: true,
                ..TracePlan::default()
            }),
            ..Plan::default()
        };
        let receiver = Receiver::new(|header| Arc::new(TraceWriter::discarding(header)));
        let encoded = live(TraceOutput::Receiver(receiver)).encode();
        assert_eq!(
            Plan::decode(encoded.as_bytes()),
            Some(live(TraceOutput::ReceiverToCome))
        );
        assert_eq!(Plan::decode(b"0,0,0,1,,0,1,x,9,0,0,0,0,0"), None);
        assert_eq!(Plan::decode(b"0,0,0,1,,2,x"), None);
    }
}
