//! The program in the debugger's hands.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use unspool_engine::requests;
use unspool_events::ThreadId;

use unspool_kernel::ids::Tid;
use unspool_kernel::lock::Mutex;
use unspool_kernel::{descriptors, diagnostics};
use unspool_loader::LoadedProgram;

use super::hooks;
use super::reason::{Reason, WatchKind};
use super::registers::Registers;
use super::watch;
use super::world::{self, At, BELL, Stop, lock};
use unspool_engine::code_pages;
use unspool_engine::process::{Process, Translations};

/// What a thread does when the program goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on, with a signal perhaps.
    Continue(Option<i32>),
    /// It executes one instruction; a signal's handler is entered instead of that.
    Step(Option<i32>),
}

/// A thread of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadStatus {
    /// The kernel's id of it.
    pub tid: Tid,
    /// 0 for the first thread, 1 for the next one to be created, and so on.
    pub(crate) id: ThreadId,
    /// Its name, as the kernel knows it.
    pub name: String,
    /// Whether it is in a system call.
    pub in_call: bool,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// The program has stopped, or ended.
    Stopped(Stop),
    /// The descriptor can be read, or its other end is closed.
    Readable,
}

type Front = Box<dyn FnOnce(Debuggee) + Send>;

static FRONT: Mutex<Option<Front>> = Mutex::new(None);

/// Has the program that will be run in this process debugged: `front` is called in a thread of
/// its own once the program is loaded, which is stopped before its first instruction.
///
/// The program is translated as for a tool, also if there is none.
pub fn install(front: impl FnOnce(Debuggee) + Send + 'static) {
    unspool_instrument::watch(&watch::Watches);
    *FRONT.lock() = Some(Box::new(front));
    world::enable(true);
}

/// The program is loaded: starts the debugger's thread.
pub(super) fn start(process: &'static Process, loaded: &LoadedProgram) {
    let Some(front) = FRONT.lock().take() else {
        return;
    };
    let debuggee = match Debuggee::new(process, loaded) {
        Ok(debuggee) => debuggee,
        Err(error) => diagnostics::fatal(&format!("cannot look at the program's memory: {error}")),
    };
    unspool_engine::signals::block_all();
    let spawned = std::thread::Builder::new()
        .name("debugger".to_owned())
        .spawn(move || front(debuggee));
    if let Err(error) = spawned {
        diagnostics::fatal(&format!("cannot start the debugger's thread: {error}"));
    }
}

/// The program, as its debugger sees it. What concerns threads and memory is to be asked only
/// while the program is stopped.
pub struct Debuggee {
    process: &'static Process,
    memory: File,
    bell: OwnedFd,
    auxv: Vec<u8>,
}

impl Debuggee {
    fn new(process: &'static Process, loaded: &LoadedProgram) -> io::Result<Debuggee> {
        let memory = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")?;
        let memory = File::from(descriptors::move_away(memory.into()));
        // SAFETY: makes a descriptor, which is nobody else's.
        let bell = unsafe {
            let bell = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if bell < 0 {
                return Err(io::Error::last_os_error());
            }
            descriptors::move_away(OwnedFd::from_raw_fd(bell))
        };
        BELL.store(bell.as_raw_fd(), Ordering::Relaxed);
        hooks::protect(memory.as_raw_fd());
        hooks::protect(bell.as_raw_fd());
        let words = loaded.auxv.iter().flat_map(|&(kind, value)| [kind, value]);
        Ok(Debuggee {
            process,
            memory,
            bell,
            auxv: words.flat_map(u64::to_le_bytes).collect(),
        })
    }

    /// Takes a descriptor out of the program's way, which can neither close it nor replace it
    /// until [`Debuggee::give_up`].
    #[must_use]
    pub fn keep(&self, file: OwnedFd) -> OwnedFd {
        let file = descriptors::move_away(file);
        hooks::protect(file.as_raw_fd());
        file
    }

    /// The descriptor has been closed.
    pub fn give_up(&self, file: RawFd) {
        hooks::unprotect(file);
    }

    /// A debugger is there from now on. The program is stopped.
    pub fn attach(&self) {
        lock().attached = true;
        self.interrupt();
    }

    /// The debugger is gone: the program goes on, without breakpoints and watched memory.
    pub fn detach(&self) {
        self.remove_all();
        let mut world = lock();
        world.attached = false;
        world.stop = None;
        world.told_end = true;
        for stand in world.threads.values_mut() {
            (stand.go, stand.step, stand.resumed) = (true, false, true);
            stand.signal = None;
        }
        world.newcomers_go = true;
        world.release();
    }

    fn remove_all(&self) {
        let stops: Vec<u64> = lock().breakpoints.iter().copied().collect();
        for stop in stops {
            self.remove_breakpoint(stop);
        }
        if watch::forget_all() {
            self.process.code().cache.invalidate(0..u64::MAX);
        }
    }

    /// Stops the program. Returns why it has stopped meanwhile, if it has, or the thread to look
    /// at first.
    pub fn interrupt(&self) -> Stop {
        let mut world = lock();
        if !world.stopped {
            world.halt();
        }
        let stop = world.stop.take();
        drop(world);
        self.silence();
        world::wait_until_quiet(self.process);
        watch::memory_changed();
        stop.unwrap_or_else(|| Stop {
            thread: lock().threads.keys().next().copied().unwrap_or(Tid::of(0)),
            reason: Reason::Interrupted,
        })
    }

    fn silence(&self) {
        let mut count = 0_u64;
        // SAFETY: reads eight bytes into our own.
        unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Waits until the program stops, or something can be read.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn wait(&self, input: BorrowedFd) -> io::Result<Wake> {
        loop {
            let mut polled = [self.bell.as_raw_fd(), input.as_raw_fd()].map(wanted);
            // SAFETY: two entries, as the call says.
            let count = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
            let error = io::Error::last_os_error();
            if count < 0 && error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
            self.silence();
            let stop = lock().stop.take();
            if let Some(stop) = stop {
                if !matches!(stop.reason, Reason::Exited(_) | Reason::Killed(_)) {
                    world::wait_until_quiet(self.process);
                    watch::memory_changed();
                }
                return Ok(Wake::Stopped(stop));
            }
            if polled[1].revents != 0 {
                return Ok(Wake::Readable);
            }
        }
    }

    /// Lets threads go: each as it is said for it, the others as it is said for them, or not.
    pub fn resume(&self, actions: &[(Tid, Action)], others: Option<Action>) {
        let mut world = lock();
        for (tid, stand) in &mut world.threads {
            let own = actions.iter().find(|(wanted, _)| wanted == tid);
            let action = own.map(|&(_, action)| action).or(others);
            stand.go = action.is_some();
            if let Some(action) = action {
                stand.resumed = true;
                (stand.step, stand.signal) = match action {
                    Action::Continue(signal) => (false, signal),
                    Action::Step(signal) => (true, signal),
                };
            }
        }
        world.newcomers_go = others.is_some();
        world.release();
    }

    /// The threads of the program, in the order in which they were created.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadStatus> {
        let mut threads: Vec<_> = lock()
            .threads
            .iter()
            .map(|(&tid, stand)| ThreadStatus {
                tid,
                id: stand.id,
                name: String::new(),
                in_call: stand.at == At::Calling,
            })
            .collect();
        threads.sort_by_key(|thread| thread.id);
        for thread in &mut threads {
            let name = std::fs::read(format!("/proc/self/task/{}/comm", thread.tid));
            thread.name = String::from_utf8_lossy(name.unwrap_or_default().trim_ascii()).into();
        }
        threads
    }

    /// The registers of a thread; `None` if it is not there, or does not stand.
    #[must_use]
    pub fn registers(&self, tid: Tid) -> Option<Registers> {
        let world = lock();
        let registers = world.threads.get(&tid)?.registers.as_deref();
        registers.cloned()
    }

    /// Changes the registers of a thread. One that is in a system call is brought out of it.
    ///
    /// Returns whether that was possible.
    #[must_use]
    pub fn set_registers(&self, tid: Tid, registers: Registers) -> bool {
        let mut world = lock();
        let Some(stand) = world.threads.get_mut(&tid) else {
            return false;
        };
        if stand.registers.is_none() {
            return false;
        }
        stand.registers = Some(Box::new(registers));
        stand.changed = true;
        let calls = stand.at == At::Calling;
        drop(world);
        if calls {
            let threads = self.process.threads.lock();
            if let Some(handle) = threads.iter().find(|handle| handle.tid == tid) {
                requests::request_stop(*handle);
            }
        }
        true
    }

    /// Reads the program's memory, up to what is not mapped. Returns how many bytes were read.
    #[must_use]
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            let length = self.mapped(at).min((bytes.len() - done) as u64) as usize;
            match self.memory.read_at(&mut bytes[done..done + length], at) {
                Ok(count) if count != 0 => done += count,
                _ => break,
            }
        }
        done
    }

    /// Writes the program's memory, also where the program itself may not. Returns whether all
    /// of it could be written.
    #[must_use]
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let end = address.saturating_add(bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            let length = self.mapped(at).min((bytes.len() - done) as u64) as usize;
            match self.memory.write_at(&bytes[done..done + length], at) {
                Ok(count) if count != 0 => done += count,
                _ => break,
            }
        }
        let mut code = self.process.code();
        code_pages::release(&mut code, address..end);
        let Translations { cache, regions, .. } = &mut *code;
        cache.invalidate(address..end);
        for (range, _) in regions.other_views(address..end) {
            cache.invalidate(range);
        }
        drop(code);
        watch::memory_changed();
        done == bytes.len()
    }

    /// How many bytes are the program's from an address on.
    fn mapped(&self, address: u64) -> u64 {
        let code = self.process.code();
        let region = code.regions.find(address);
        region.map_or(0, |(_, region)| region.end - address)
    }

    /// Has threads stop before an instruction.
    pub fn add_breakpoint(&self, address: u64) {
        lock().breakpoints.insert(address);
        let mut code = self.process.code();
        code.cache.stops.insert(address);
        code.cache.invalidate(address..address.saturating_add(1));
    }

    /// The inverse. Returns whether there was one.
    pub fn remove_breakpoint(&self, address: u64) -> bool {
        lock().breakpoints.remove(&address);
        let mut code = self.process.code();
        code.cache.invalidate(address..address.saturating_add(1));
        code.cache.stops.remove(&address)
    }

    /// Has threads stop behind accesses to some memory. Returns false for what cannot be watched:
    /// nothing, or beyond the end of the address space.
    #[must_use]
    pub fn add_watch(&self, address: u64, length: u64, kind: WatchKind) -> bool {
        if length == 0 || address.checked_add(length).is_none() {
            return false;
        }
        watch::add(address, length, kind);
        self.process.code().cache.invalidate(0..u64::MAX);
        true
    }

    /// The inverse. Returns whether that memory was watched so.
    #[must_use]
    pub fn remove_watch(&self, address: u64, length: u64, kind: WatchKind) -> bool {
        let found = watch::remove(address, length, kind);
        self.process.code().cache.invalidate(0..u64::MAX);
        found
    }

    /// The program's auxiliary vector, as it found it on its stack.
    #[must_use]
    pub fn auxiliary_vector(&self) -> &[u8] {
        &self.auxv
    }

    /// The program's file.
    #[must_use]
    pub fn executable(&self) -> &Path {
        &self.process.executable
    }

    /// The tool's answer to a command of the user's.
    #[must_use]
    pub fn ask_tool(&self, words: &str) -> Option<String> {
        unspool_instrument::ask_tool(words)
    }

    /// The debugger knows that the program ends: it may.
    pub fn told_end(&self) {
        lock().told_end = true;
        world::notify();
    }

    /// Kills the process.
    pub fn kill(&self) -> ! {
        // SAFETY: ends the process.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
            libc::_exit(128 + libc::SIGKILL)
        }
    }
}

fn wanted(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}
