//! What is not generated, and why.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Whether an instruction is left out.
///
/// - System calls: their effects go beyond the case.
/// - What the engine says it refuses: memory through GS, writes to the selectors and bases of
///   FS and GS, far transfers, software interrupts, near branches with an operand-size prefix
///   (makers of processors disagree about them).
/// - Transactions: those of an observed program always abort.
/// - What gives another answer each time: clocks, counters, random numbers.
/// - What may wait for an event.
/// - `int1`: on a virtual machine the program counter behind it varies from run to run.
/// - Calls of a hypervisor, which rewrites the code.
/// - Stores of descriptor tables with a 32-bit address or relative to RIP: the kernel emulates
///   them, but not all of those relative to RIP, of which the engine makes others where they
///   are out of reach.
/// - The 16-bit forms of `fnstenv` and `fnsave`: the engine cannot tell whose the 16 bits of
///   the x87 instruction pointer are that they store, and leaves those of its copy there.
pub(super) fn is_excluded(instruction: &Instruction, bytes: &[u8]) -> bool {
    // A jump into the middle of an instruction must not meet a system call either.
    let calls_kernel = bytes
        .windows(2)
        .any(|pair| matches!(pair, [0x0f, 0x05 | 0x34] | [0xcd, _]));
    let calls_hypervisor = bytes
        .windows(3)
        .any(|bytes| matches!(bytes, [0x0f, 0x01, 0xc1 | 0xd9]));
    calls_kernel
        || calls_hypervisor
        || names_gs(instruction)
        || transfers_oddly(instruction, bytes)
        || writes_selector(instruction)
        || is_unrepeatable(instruction.mnemonic())
        || stores_half_a_pointer(instruction)
        || is_emulated_oddly(instruction, bytes)
}

fn names_gs(instruction: &Instruction) -> bool {
    instruction.segment_prefix() == Register::GS
}

fn transfers_oddly(instruction: &Instruction, bytes: &[u8]) -> bool {
    use Mnemonic as M;
    let far = matches!(
        instruction.mnemonic(),
        M::Retf
            | M::Iret
            | M::Iretd
            | M::Iretq
            | M::Uiret
            | M::Syscall
            | M::Sysenter
            | M::Int
            | M::Xbegin
            | M::Sysret
            | M::Sysretq
            | M::Sysexit
            | M::Sysexitq
            | M::Jmpe
    ) || instruction.is_call_far_indirect()
        || instruction.is_jmp_far_indirect();
    let is_transfer = !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Exception | FlowControl::Interrupt
    );
    far || is_transfer && is_narrow(bytes)
}

/// Whether a prefix asks for operands of 16 bits, and no REX.W overrules it.
fn is_narrow(bytes: &[u8]) -> bool {
    let is_prefix = |byte: &&u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let prefixes: Vec<u8> = bytes.iter().take_while(is_prefix).copied().collect();
    let wide = prefixes
        .last()
        .is_some_and(|last| (0x48..0x50).contains(last));
    prefixes.contains(&0x66) && !wide
}

fn writes_selector(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let writes = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().is_segment_register()
        && instruction.mnemonic() != M::Push;
    writes
        || matches!(
            instruction.mnemonic(),
            M::Lfs | M::Lgs | M::Lss | M::Wrgsbase | M::Rdgsbase | M::Swapgs
        )
        || instruction.code() == iced_x86::Code::Wrfsbase_r32
}

fn is_emulated_oddly(instruction: &Instruction, bytes: &[u8]) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Sgdt | M::Sidt | M::Sldt | M::Smsw | M::Str
    ) && (bytes.contains(&0x67) || instruction.is_ip_rel_memory_operand())
}

fn stores_half_a_pointer(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Fnstenv | Mnemonic::Fnsave | Mnemonic::Fstenv | Mnemonic::Fsave
    ) && !matches!(instruction.memory_size().size(), 28 | 108)
}

fn is_unrepeatable(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Rdtsc
            | M::Rdtscp
            | M::Rdrand
            | M::Rdseed
            | M::Rdpru
            | M::Rdpmc
            | M::Int1
            | M::Mwait
            | M::Mwaitx
            | M::Monitor
            | M::Monitorx
            | M::Umwait
            | M::Tpause
            | M::Xstore
            | M::Enclu
    )
}
