//! What `gdbstub` may ask of the program.

use std::num::NonZeroUsize;
use unspool_kernel::ids;

use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use unspool_debuggee::{self as debug, Action, Debuggee};

use crate::registers::{Layout, Wire, X86};
use crate::signals;

/// The program, for one debugger.
pub(crate) struct Debugged<'a> {
    pub(crate) debuggee: &'a Debuggee,
    layout: Layout,
    description: String,
    /// What the next `resume` is about.
    actions: Vec<(ids::Tid, Action)>,
    /// Whether threads without an action stay.
    locked: bool,
    /// The thread that is to be stepped as long as it is in a range.
    pub(crate) range: Option<(ids::Tid, std::ops::Range<u64>)>,
}

impl<'a> Debugged<'a> {
    /// The program is stopped.
    pub(crate) fn new(debuggee: &'a Debuggee) -> Debugged<'a> {
        let mut threads = debuggee.threads().into_iter();
        let extended = threads.find_map(|it| debuggee.registers(it.tid));
        let layout = Layout::of_this_processor(&extended.map(|it| it.extended).unwrap_or_default());
        Debugged {
            debuggee,
            description: layout.description(),
            layout,
            actions: Vec::new(),
            locked: false,
            range: None,
        }
    }

    /// Lets the program go on as it was asked for the last time.
    pub(crate) fn go_on(&self) {
        let others = (!self.locked).then_some(Action::Continue(None));
        self.debuggee.resume(&self.actions, others);
    }

    /// Whether a thread is where it is to be stepped further.
    pub(crate) fn is_in_range(&self, tid: ids::Tid) -> bool {
        self.range.as_ref().is_some_and(|(stepped, range)| {
            let registers = || self.debuggee.registers(*stepped);
            *stepped == tid && registers().is_some_and(|it| range.contains(&it.pc))
        })
    }
}

/// A thread's number, as gdb has it.
pub(crate) fn to_gdb(tid: ids::Tid) -> Tid {
    NonZeroUsize::new(tid.get() as usize).unwrap_or(NonZeroUsize::MIN)
}

fn from_gdb(tid: Tid) -> ids::Tid {
    ids::Tid::of(i32::try_from(tid.get()).unwrap_or(0))
}

/// A part of something that is read piece by piece.
fn piece(all: &[u8], offset: u64, length: usize, into: &mut [u8]) -> usize {
    let start = usize::try_from(offset).unwrap_or(all.len()).min(all.len());
    let part = &all[start..];
    let count = part.len().min(length).min(into.len());
    into[..count].copy_from_slice(&part[..count]);
    count
}

impl Target for Debugged<'_> {
    type Arch = X86;
    type Error = std::io::Error;

    fn base_ops(&mut self) -> BaseOps<'_, X86, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debugged<'_> {
    fn read_registers(&mut self, wire: &mut Wire, tid: Tid) -> TargetResult<(), Self> {
        let registers = self.debuggee.registers(from_gdb(tid));
        *wire = self.layout.encode(&registers.ok_or(TargetError::NonFatal)?);
        Ok(())
    }

    fn write_registers(&mut self, wire: &Wire, tid: Tid) -> TargetResult<(), Self> {
        let tid = from_gdb(tid);
        let mut registers = self.debuggee.registers(tid).ok_or(TargetError::NonFatal)?;
        let done =
            self.layout.decode(wire, &mut registers) && self.debuggee.set_registers(tid, registers);
        done.then_some(()).ok_or(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, at: u64, bytes: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.debuggee.read(at, bytes) {
            0 if !bytes.is_empty() => Err(TargetError::Errno(libc::EFAULT as u8)),
            count => Ok(count),
        }
    }

    fn write_addrs(&mut self, at: u64, bytes: &[u8], _: Tid) -> TargetResult<(), Self> {
        let written = self.debuggee.write(at, bytes);
        written
            .then_some(())
            .ok_or(TargetError::Errno(libc::EFAULT as u8))
    }

    fn list_active_threads(&mut self, tell: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        let threads = self.debuggee.threads();
        threads.iter().for_each(|thread| tell(to_gdb(thread.tid)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Debugged<'_> {
    fn thread_extra_info(&self, tid: Tid, into: &mut [u8]) -> Result<usize, Self::Error> {
        let threads = self.debuggee.threads();
        let thread = threads.iter().find(|thread| thread.tid == from_gdb(tid));
        let text = thread.map_or_else(String::new, |thread| {
            let call = if thread.in_call {
                ", in a system call"
            } else {
                ""
            };
            format!("{}{call}", thread.name)
        });
        Ok(piece(text.as_bytes(), 0, into.len(), into))
    }
}

impl MultiThreadResume for Debugged<'_> {
    fn resume(&mut self) -> Result<(), Self::Error> {
        self.go_on();
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.actions.clear();
        self.locked = false;
        self.range = None;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), Self::Error> {
        let signal = signal.and_then(signals::from_gdb);
        self.actions.push((from_gdb(tid), Action::Continue(signal)));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debugged<'_> {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), Self::Error> {
        let signal = signal.and_then(signals::from_gdb);
        self.actions.push((from_gdb(tid), Action::Step(signal)));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debugged<'_> {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Self::Error> {
        self.actions.push((from_gdb(tid), Action::Step(None)));
        self.range = Some((from_gdb(tid), start..end));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debugged<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        self.locked = true;
        Ok(())
    }
}

impl Breakpoints for Debugged<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debugged<'_> {
    fn add_sw_breakpoint(&mut self, at: u64, _: usize) -> TargetResult<bool, Self> {
        self.debuggee.add_breakpoint(at);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, at: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.debuggee.remove_breakpoint(at))
    }
}

/// No memory is changed for a breakpoint anyway.
impl HwBreakpoint for Debugged<'_> {
    fn add_hw_breakpoint(&mut self, at: u64, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(at, kind)
    }

    fn remove_hw_breakpoint(&mut self, at: u64, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(at, kind)
    }
}

fn watched(kind: WatchKind) -> debug::WatchKind {
    match kind {
        WatchKind::Write => debug::WatchKind::Write,
        WatchKind::Read => debug::WatchKind::Read,
        WatchKind::ReadWrite => debug::WatchKind::Access,
    }
}

impl HwWatchpoint for Debugged<'_> {
    fn add_hw_watchpoint(
        &mut self,
        at: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.debuggee.add_watch(at, length, watched(kind)))
    }

    fn remove_hw_watchpoint(
        &mut self,
        at: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.debuggee.remove_watch(at, length, watched(kind)))
    }
}

impl Auxv for Debugged<'_> {
    fn get_auxv(&self, offset: u64, length: usize, into: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(piece(
            self.debuggee.auxiliary_vector(),
            offset,
            length,
            into,
        ))
    }
}

impl ExecFile for Debugged<'_> {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        into: &mut [u8],
    ) -> TargetResult<usize, Self> {
        use std::os::unix::ffi::OsStrExt;
        let path = self.debuggee.executable().as_os_str().as_bytes();
        Ok(piece(path, offset, length, into))
    }
}

impl TargetDescriptionXmlOverride for Debugged<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        into: &mut [u8],
    ) -> TargetResult<usize, Self> {
        match annex {
            b"target.xml" => Ok(piece(self.description.as_bytes(), offset, length, into)),
            _ => Err(TargetError::NonFatal),
        }
    }
}

impl MonitorCmd for Debugged<'_> {
    fn handle_monitor_cmd(
        &mut self,
        words: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Self::Error> {
        let words = String::from_utf8_lossy(words);
        match self.debuggee.ask_tool(words.trim()) {
            Some(answer) => outputln!(out, "{answer}"),
            None => outputln!(
                out,
                "the program runs under no tool that knows this command"
            ),
        }
        Ok(())
    }
}
