//! What compiled functions of a tool change.
//!
//! The C calling convention lets a function change nine general registers, all vector registers
//! and the flags; few functions do. Before a function is called for the first time its machine
//! code is followed from its entry, through jumps and direct calls, until it returns. Registers
//! that nothing on the way can change need not be kept. Where the way cannot be followed, or
//! wide vector registers or floating-point arithmetic come, nothing is said, and all is kept.
//!
//! Ways that end in a panic change nothing that matters: the process ends. What is called by
//! [`rarely`](crate::rarely()) keeps what is not said here.

mod body;
mod own_code;

use std::collections::HashMap;
use std::sync::Arc;

use unspool_kernel::lock::Mutex;

use iced_x86::{
    Code, EncodingKind, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    Register,
};

pub(crate) use self::body::{Body, BodyInstruction, Renaming};
use self::own_code::OwnCode;
use crate::rarely::call_keeping_all;

/// The most instructions that are followed.
const MOST_INSTRUCTIONS: usize = 4000;
/// The most calls within each other that are followed.
const MOST_DEPTH: usize = 40;
/// What a function may change by the calling convention.
const VOLATILE: u16 = 0b1111_1100_0111;
/// The status flags, as iced has them.
pub(in crate::compiled) const STATUS: u32 = iced_x86::RflagsBits::OF
    | iced_x86::RflagsBits::SF
    | iced_x86::RflagsBits::ZF
    | iced_x86::RflagsBits::AF
    | iced_x86::RflagsBits::CF
    | iced_x86::RflagsBits::PF;

/// What a function that returns can have changed.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// General registers, by number.
    pub(crate) changes: u16,
    /// General registers that it reads, or may pass on.
    pub(crate) reads: u16,
    /// Registers of which it changes the low 128 bits, and leaves the rest.
    pub(crate) vectors: u16,
    /// Whether it changes status flags.
    pub(crate) flags: bool,
    /// Its code, if that is short enough to stand where it is called.
    pub(crate) body: Option<Body>,
    /// The same, where nobody looks at what it returns.
    pub(crate) effects: Option<Body>,
}

/// What is known of functions that are called, by address.
#[derive(Default)]
pub(crate) struct CompiledFunctions(Mutex<HashMap<u64, Option<Arc<Compiled>>>>);

impl CompiledFunctions {
    /// What is known of a function that is to be called.
    pub(crate) fn get(&self, function: u64) -> Option<Arc<Compiled>> {
        self.0
            .lock()
            .entry(function)
            .or_insert_with(|| Compiled::examine(function).map(Arc::new))
            .clone()
    }
}

impl Compiled {
    /// What is known of the function at an address; `None` if it may change anything.
    pub(crate) fn examine(entry: u64) -> Option<Compiled> {
        let own = OwnCode::get()?;
        let mut walk = Walk::new(own);
        walk.function(entry, 0)?;
        let mut found = walk.found;
        found.changes &= VOLATILE;
        found.body = Body::copy(own, entry, |target| {
            walk.functions.get(&target) == Some(&false)
        });
        found.effects = found.body.as_ref().map(Body::without_result);
        Some(found)
    }
}

/// Functions that run something on another stack, by address.
pub(crate) struct CoroutineCode {
    /// What begins and resumes it.
    pub(crate) entries: [u64; 2],
    /// What goes from one stack to the other, and is jumped to: it changes no vector register, and comes back
    /// behind the jump.
    pub(crate) switches: [u64; 2],
    /// What does not return.
    pub(crate) leaves: u64,
}

impl Compiled {
    /// What is changed where a function runs on another stack, each time that it goes on until it
    /// switches back; `None` if that may be anything.
    pub(crate) fn examine_coroutine(code: &CoroutineCode, function: u64) -> Option<Compiled> {
        let mut walk = Walk::new(OwnCode::get()?);
        walk.found.changes = VOLATILE;
        walk.found.flags = true;
        walk.switches = code.switches.to_vec();
        walk.functions.insert(code.leaves, false);
        for entry in code.entries.into_iter().chain([function]) {
            walk.function(entry, 0)?;
        }
        let mut found = walk.found;
        found.changes &= VOLATILE;
        Some(found)
    }
}

/// The function that calls others and keeps all but general registers and flags.
fn keeps_all() -> u64 {
    call_keeping_all as *const () as u64
}

struct Walk<'a> {
    own: &'a OwnCode,
    factory: InstructionInfoFactory,
    found: Compiled,
    /// Whether functions return; those that are being followed are taken to.
    functions: HashMap<u64, bool>,
    followed: usize,
    /// What goes to another stack, and comes back behind the jump to it.
    switches: Vec<u64>,
}

impl<'a> Walk<'a> {
    fn new(own: &'a OwnCode) -> Walk<'a> {
        Walk {
            own,
            factory: InstructionInfoFactory::new(),
            found: Compiled::default(),
            functions: HashMap::new(),
            followed: 0,
            switches: Vec::new(),
        }
    }

    /// Follows a function. Returns whether it returns.
    fn function(&mut self, entry: u64, depth: usize) -> Option<bool> {
        if entry == self.own.panics {
            self.functions.insert(entry, false);
            return Some(false);
        }
        if entry == keeps_all() {
            let [function, argument] = [Register::RDI, Register::RSI];
            self.found.reads |= 1 << function.number() | 1 << argument.number();
            self.found.changes |= VOLATILE;
            self.found.flags = true;
            self.functions.insert(entry, true);
            return Some(true);
        }
        if let Some(&returns) = self.functions.get(&entry) {
            return Some(returns);
        }
        if depth == MOST_DEPTH {
            return None;
        }
        self.functions.insert(entry, true);
        let mut returns = false;
        let mut seen = std::collections::HashSet::new();
        let mut open = vec![entry];
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            // What a jump leads to may be another function's start.
            let is_known = self.functions.contains_key(&at) || at == keeps_all();
            if at != entry && is_known || at == self.own.panics {
                returns |= self.function(at, depth + 1)?;
                continue;
            }
            self.followed += 1;
            if self.followed > MOST_INSTRUCTIONS {
                return None;
            }
            let instruction = self.own.decode(at)?;
            self.note(&instruction)?;
            match instruction.flow_control() {
                FlowControl::Next => open.push(instruction.next_ip()),
                FlowControl::ConditionalBranch => {
                    open.push(instruction.near_branch_target());
                    open.push(instruction.next_ip());
                }
                FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                    let target = self.own.target(&instruction)?;
                    open.push(match self.switches.contains(&target) {
                        true => instruction.next_ip(),
                        false => target,
                    });
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    let callee = self.own.target(&instruction)?;
                    if self.function(callee, depth + 1)? {
                        open.push(instruction.next_ip());
                    }
                }
                FlowControl::Return => returns = true,
                // `ud2` and `int3`: the tool's failure.
                FlowControl::Exception | FlowControl::Interrupt => {}
                FlowControl::XbeginXabortXend => return None,
            }
        }
        self.functions.insert(entry, returns);
        Some(returns)
    }

    /// Notes what an instruction changes; `None` if that may be anything.
    fn note(&mut self, instruction: &Instruction) -> Option<()> {
        let allowed = instruction.encoding() == EncodingKind::Legacy
            && !instruction.is_string_instruction()
            && !instruction.is_privileged()
            && !instruction.fpu_stack_increment_info().writes_top();
        if !allowed || instruction.rflags_modified() & !STATUS != 0 {
            return None;
        }
        if matches!(instruction.code(), Code::Syscall | Code::Sysenter) {
            return None;
        }
        self.found.flags |= instruction.rflags_modified() != 0;
        let mut vectors = false;
        for used in self.factory.info(instruction).used_registers() {
            let register = used.register();
            let reads = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite);
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            let full = register.full_register();
            if register.is_gpr() {
                let bit = 1 << full.number();
                // A conditional write may leave what was there.
                let keeps = used.access() == OpAccess::CondWrite || register.size() < 4;
                self.found.reads |= if reads || keeps { bit } else { 0 };
                self.found.changes |= if writes { bit } else { 0 };
            } else if register.is_xmm() {
                vectors = true;
                self.found.vectors |= if writes { 1 << register.number() } else { 0 };
            } else if !register.is_segment_register()
                && register != Register::None
                && !register.is_ip()
                || register.is_segment_register() && writes
            {
                return None;
            }
        }
        if vectors && !is_plain_vector(instruction.mnemonic()) {
            return None;
        }
        Some(())
    }
}

/// Whether an instruction on vector registers neither depends on MXCSR nor changes it.
fn is_plain_vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Andnpd, Andnps, Andpd, Andps, Movapd, Movaps, Movd, Movdqa, Movdqu, Movhlps, Movhpd,
        Movhps, Movlhps, Movlpd, Movlps, Movmskpd, Movmskps, Movq, Movsd, Movss, Movupd, Movups,
        Orpd, Orps, Packssdw, Packsswb, Packuswb, Paddb, Paddd, Paddq, Paddw, Pand, Pandn, Pavgb,
        Pavgw, Pcmpeqb, Pcmpeqd, Pcmpeqw, Pcmpgtb, Pcmpgtd, Pcmpgtw, Pextrw, Pinsrw, Pmaxsw,
        Pmaxub, Pminsw, Pminub, Pmovmskb, Pmuludq, Por, Pshufd, Pshufhw, Pshuflw, Pslld, Pslldq,
        Psllq, Psllw, Psrad, Psraw, Psrld, Psrldq, Psrlq, Psrlw, Psubb, Psubd, Psubq, Psubw,
        Punpckhbw, Punpckhdq, Punpckhqdq, Punpckhwd, Punpcklbw, Punpckldq, Punpcklqdq, Punpcklwd,
        Pxor, Shufpd, Shufps, Unpckhpd, Unpckhps, Unpcklpd, Unpcklps, Xorpd, Xorps,
    };
    matches!(
        mnemonic,
        Andnpd
            | Andnps
            | Andpd
            | Andps
            | Movapd
            | Movaps
            | Movd
            | Movdqa
            | Movdqu
            | Movhlps
            | Movhpd
            | Movhps
            | Movlhps
            | Movlpd
            | Movlps
            | Movmskpd
            | Movmskps
            | Movq
            | Movsd
            | Movss
            | Movupd
            | Movups
            | Orpd
            | Orps
            | Packssdw
            | Packsswb
            | Packuswb
            | Paddb
            | Paddd
            | Paddq
            | Paddw
            | Pand
            | Pandn
            | Pavgb
            | Pavgw
            | Pcmpeqb
            | Pcmpeqd
            | Pcmpeqw
            | Pcmpgtb
            | Pcmpgtd
            | Pcmpgtw
            | Pextrw
            | Pinsrw
            | Pmaxsw
            | Pmaxub
            | Pminsw
            | Pminub
            | Pmovmskb
            | Pmuludq
            | Por
            | Pshufd
            | Pshufhw
            | Pshuflw
            | Pslld
            | Pslldq
            | Psllq
            | Psllw
            | Psrad
            | Psraw
            | Psrld
            | Psrldq
            | Psrlq
            | Psrlw
            | Psubb
            | Psubd
            | Psubq
            | Psubw
            | Punpckhbw
            | Punpckhdq
            | Punpckhqdq
            | Punpckhwd
            | Punpcklbw
            | Punpckldq
            | Punpcklqdq
            | Punpcklwd
            | Pxor
            | Shufpd
            | Shufps
            | Unpckhpd
            | Unpckhps
            | Unpcklpd
            | Unpcklps
            | Xorpd
            | Xorps
    )
}

#[cfg(test)]
mod tests;
