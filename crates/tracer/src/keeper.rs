//! What threads have recorded reaches the file while they sleep.
//!
//! A thread that waits in the kernel, perhaps for ever, cannot write what is left in its buffer,
//! and whoever kills it leaves it no time. A second process that shares the program's memory
//! does it for threads that have been asleep for a while: the keeper. It looks at them a few times
//! a second, so that a program that calls the kernel often is not made to write more, nor earlier.
//!
//! It is a process, because threads can be counted: programs find them in `/proc/self/task`,
//! and the kernel forbids processes with several threads to change their user namespace. It is a
//! child that sends no signal at its end and that no usual `wait` finds, in a session of its own,
//! so that no group of the program's seems to live on in it; it has no descriptor but
//! the trace's and the one to speak to, blocks all signals, and goes when the program ends, is let go, or becomes another
//! one. Where the program is killed it writes what sleeping threads have left, and goes.
//!
//! Where an analysis gets what is recorded, it also has that note now and then what it has found, and
//! tells the user if the program is killed.
//!
//! It runs in the thread-local memory of an engine thread that has been started for that, and
//! has left it and itself to the keeper.

use std::ffi::c_void;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use unspool_events::RecordSink;
use unspool_kernel::lock::Mutex;
use unspool_kernel::raw_call::raw_system_call;
use unspool_kernel::{diagnostics, layout};

use crate::recording::Recording;
use crate::skew::Skew;
use crate::sleep::{Looks, wait, wake};
use unspool_engine::call::{KernelCall, start_child};
use unspool_engine::process::HELPER;

/// How often it looks. A thread that sleeps at two looks is shown: after one to two of these.
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// Between two times at which it is noted what has been found there are so many times as long as that took:
/// the program is held back meanwhile.
const NOTE_PAUSES: u32 = 30;

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long others are waited for before it is looked whether they are still there.
const PATIENCE: Duration = Duration::from_millis(100);

const STACK_BYTES: u64 = 256 << 10;

/// The keeper of this process, if there is one.
#[derive(Default)]
pub(crate) struct Keeper {
    post: Mutex<Option<&'static Post>>,
}

/// What the keeper shares with its process. It stays for good, as a keeper that was killed leaves
/// nobody who could say that it is not used any more.
struct Post {
    /// The process for which it works.
    process: i32,
    /// The trace's file, if there is one.
    file: Option<RawFd>,
    /// Where what is recorded goes.
    sink: Arc<dyn RecordSink>,
    /// The threads that it looks at.
    skew: &'static Skew,
    /// The keeper's id once it works; an errno with a minus if there is none. It is waited for, so
    /// it is of the type of such words.
    id: AtomicU32,
    /// 1 until the keeper has left the memory.
    here: AtomicU32,
    /// 1 once it is to go.
    dismissed: AtomicU32,
    /// Whether it is using what belongs to others.
    busy: AtomicBool,
    /// Its stack.
    stack: u64,
}

impl Keeper {
    /// Has one write what this process's threads leave when they fall asleep, unless it is there.
    pub(crate) fn start(&self, recording: &Recording, skew: &'static Skew) {
        let (file, sink) = (recording.file(), recording.sink());
        if file.is_none() && sink.last_words().is_none() {
            return;
        }
        let mut post = self.post.lock();
        if post.is_some() {
            return;
        }
        match Post::take_up(file, sink, skew) {
            Ok(taken_up) => *post = Some(taken_up),
            Err(error) if recording.is_first_process() => diagnostics::say(&format!(
                "unspool: what a thread has recorded when it falls asleep is written only later, \
                 as there is no process that could do it: {error}"
            )),
            Err(_) => {}
        }
    }

    /// Sends it away, and waits until it is gone.
    pub(crate) fn dismiss(&self) {
        if let Some(post) = self.post.lock().take() {
            post.leave();
        }
    }

    /// In a forked child: the keeper is its parent's.
    pub(crate) fn forget(&self) {
        if let Some(parents) = self.post.lock().take() {
            parents.unmap_stack();
        }
    }

    /// Ends the process where its keeper was killed while it used what belongs to others: that is
    /// half changed, and nobody will give it back.
    pub(crate) fn end_if_killed_at_work(&self) {
        let Some(post) = self.post.try_lock().and_then(|post| *post) else {
            return;
        };
        if post.here.load(Ordering::Acquire) == 0 && post.busy.load(Ordering::Acquire) {
            diagnostics::fatal(
                "the process that writes what sleeping threads have recorded was killed while it did so\n\
                 help: run it again: it can only be killed by SIGKILL, and hardly ever in that moment",
            );
        }
    }
}

impl Post {
    /// Fails where the kernel gives no process.
    fn take_up(
        file: Option<RawFd>,
        sink: Arc<dyn RecordSink>,
        skew: &'static Skew,
    ) -> std::io::Result<&'static Post> {
        let post: &'static Post = Box::leak(Box::new(Post {
            process: std::process::id() as i32,
            file,
            sink,
            skew,
            id: AtomicU32::new(0),
            here: AtomicU32::new(1),
            dismissed: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            stack: layout::map_memory(STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE)?,
        }));
        // The handle is never used: the thread has no end of its own that could be waited for.
        let spawned = std::thread::Builder::new()
            .stack_size(STACK_BYTES as usize)
            .spawn(|| post.become_keeper());
        let id = match spawned {
            Err(error) => -error.raw_os_error().unwrap_or(libc::EAGAIN),
            Ok(_) => post.await_keeper(),
        };
        if id < 0 {
            post.unmap_stack();
            return Err(std::io::Error::from_raw_os_error(-id));
        }
        Ok(post)
    }

    /// Starts the keeper with all that this thread has, which uses nothing of it any more.
    fn become_keeper(&'static self) {
        unspool_engine::signals::set_exact_mask(!0);
        let word = self.here.as_ptr() as u64;
        let call = KernelCall::sharing_memory((self.stack, STACK_BYTES), word);
        // SAFETY: the stack is mapped for the keeper. It uses the thread-local memory of this
        // thread, which ends without a touch of it.
        unsafe {
            let id = start_child(&call, keep, std::ptr::from_ref(self).cast_mut().cast());
            if id < 0 {
                self.id.store(id as u32, Ordering::Release);
                let all = i32::MAX as u64;
                let futex = [self.id.as_ptr() as u64, libc::FUTEX_WAKE as u64, all, 0, 0];
                raw_system_call(libc::SYS_futex, futex);
            }
            raw_system_call(libc::SYS_exit, [0; 5]);
        }
    }

    /// The keeper's id once it holds nothing of the program's any more, or a minus and an errno.
    fn await_keeper(&self) -> i32 {
        loop {
            let id = self.id.load(Ordering::Acquire);
            if id != 0 {
                return id.cast_signed();
            }
            if self.here.load(Ordering::Acquire) == 0 {
                return -libc::EAGAIN;
            }
            wait(&self.id, 0, PATIENCE);
        }
    }

    fn leave(&self) {
        self.dismissed.store(1, Ordering::Release);
        wake(&self.dismissed);
        while self.here.load(Ordering::Acquire) != 0 {
            wait(&self.here, 1, PATIENCE);
        }
        let id = self.id.load(Ordering::Acquire).cast_signed();
        // SAFETY: takes the report of a child that is the engine's own.
        unsafe { libc::waitpid(id, std::ptr::null_mut(), libc::__WALL) };
        self.unmap_stack();
    }

    fn unmap_stack(&self) {
        // SAFETY: the mapping was made for the keeper, which is gone, or has it in another memory.
        unsafe { libc::munmap(self.stack as *mut c_void, STACK_BYTES as usize) };
    }

    /// Waits until it is time for the next look. False: it is to go.
    fn await_next_look(&self) -> bool {
        let is_dismissed = || self.dismissed.load(Ordering::Acquire) != 0;
        if !is_dismissed() {
            wait(&self.dismissed, 0, BETWEEN_LOOKS);
        }
        !is_dismissed()
    }
}

/// The keeper's life.
unsafe extern "C" fn keep(argument: *mut c_void) -> i32 {
    // SAFETY: `become_keeper` passes a post, which stays for good.
    let post = unsafe { &*argument.cast::<Post>() };
    let sink = &post.sink;
    let speaks = sink.last_words().is_some();
    let kept = [post.file, speaks.then(diagnostics::diagnostics_fd)];
    close_all_but(kept.into_iter().flatten().collect());
    // SAFETY: the name is a C string; a new child leads no group.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, HELPER.as_ptr());
        libc::setsid();
    }
    post.id.store(std::process::id(), Ordering::Release);
    wake(&post.id);
    let mut looks = Looks::default();
    let mut next_note = Instant::now();
    while post.await_next_look() {
        // SAFETY: has no preconditions.
        let is_alone = unsafe { libc::getppid() } != post.process;
        if is_alone && let Some(last_words) = sink.last_words() {
            diagnostics::say_lines(&last_words);
            if post.file.is_none() {
                break;
            }
        }
        post.busy.store(true, Ordering::Release);
        // What threads hold that were killed is never given back: it is not waited for.
        if !sink.is_busy() {
            post.skew.show_sleepers(&mut looks, is_alone);
        }
        let start = Instant::now();
        if start >= next_note {
            sink.note_findings();
            let end = Instant::now();
            next_note = end + pause_after_note(end - start);
        }
        post.busy.store(false, Ordering::Release);
        if is_alone {
            break;
        }
    }
    0
}

/// How long nothing is noted after what took so long.
fn pause_after_note(taken: Duration) -> Duration {
    taken.saturating_mul(NOTE_PAUSES).min(LONGEST_PAUSE)
}

/// Descriptors that another process has open are not closed for their readers and waiters.
fn close_all_but(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut next = 0;
    let mut ranges = Vec::new();
    for &number in &kept {
        if next < number as u32 {
            ranges.push((next, number as u32 - 1));
        }
        next = next.max(number as u32 + 1);
    }
    ranges.push((next, u32::MAX));
    // SAFETY: the descriptors are copies that this process alone has.
    let close =
        |range: (u32, u32)| unsafe { libc::syscall(libc::SYS_close_range, range.0, range.1, 0) };
    if ranges.into_iter().map(close).all(|result| result == 0) {
        return;
    }
    // Before Linux 5.9.
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let names = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    let unwanted = names.filter(|number| !kept.contains(number));
    for number in unwanted.collect::<Vec<_>>() {
        // SAFETY: as above.
        unsafe { libc::close(number) };
    }
}
