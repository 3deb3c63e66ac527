//! The registers of a thread, as the program has them.

use unspool_code_cache::emit::gpr;

use unspool_engine::signal_handling::frame::FullState;
use unspool_engine::signals::TRAP_FLAG;
use unspool_engine::thread::Thread;

/// The registers of a thread of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
    pub general: [u64; 16],
    /// The program counter.
    pub pc: u64,
    /// The flags.
    pub flags: u64,
    /// The base of the FS segment.
    pub fs_base: u64,
    /// That of the GS segment. Neither can be changed here.
    pub gs_base: u64,
    /// In a system call its number, with rax at `-ERESTARTSYS` (-512), as for a native debugger:
    /// if both are so when the thread goes on, the call does. Otherwise -1.
    pub call: i64,
    /// x87, SSE, AVX and AVX-512 state as `XSAVE` writes it, in the standard format.
    pub extended: Vec<u8>,
}

/// What rax shows of a thread in a system call: the kernel's `ERESTARTSYS`.
pub(super) const IN_CALL: i64 = -512;
/// The error numbers of calls that are made again: `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`.
const RESTARTED: std::ops::RangeInclusive<i64> = -516..=-512;

impl Registers {
    /// Those of the calling thread, which is out of the cache.
    pub(super) fn of(thread: &Thread) -> Registers {
        let mut state = FullState::capture(thread);
        let slots = thread.slots();
        let trap_flag = if thread.steps.program_flag {
            TRAP_FLAG
        } else {
            0
        };
        Registers {
            general: slots.registers(),
            pc: slots.pc.get(),
            flags: slots.flags.get() & !TRAP_FLAG | trap_flag,
            fs_base: slots.program_fs.get(),
            gs_base: slots.program_gs.get(),
            call: -1,
            extended: state.bytes().to_vec(),
        }
    }

    /// Whether the system call in which the thread was is to go on.
    pub(super) fn call_goes_on(&self) -> bool {
        self.call >= 0 && RESTARTED.contains(&(self.general[usize::from(gpr::RAX)] as i64))
    }

    /// Makes them the calling thread's, which is out of the cache.
    pub(super) fn install(&self, thread: &mut Thread) {
        // What user code may change: the status flags, DF, NT, RF, AC, ID.
        const CHANGEABLE: u64 = 0x25_4cd5;
        let slots = thread.slots();
        slots.set_registers(&self.general);
        slots.pc.set(self.pc);
        slots.flags.set(self.flags & CHANGEABLE | 0x202);
        thread.steps.program_flag = self.flags & TRAP_FLAG != 0;
        FullState::from_bytes(&self.extended).install(thread);
    }
}
