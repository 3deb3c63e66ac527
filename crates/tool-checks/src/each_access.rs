//! Each access to memory, as entries have it, into the file that the second word names: address of
//! the instruction, kind, address and bytes. With a third word their buffer is not the first, whose
//! position is in a register.

use std::fs::File;
use std::io::{BufWriter, Write};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Buffer, Constant, ElementAddress, ElementIsWritten, ElementSize, InstructionPointer,
    Register, Superblock, Tool, arguments, entry,
};

entry! {
    /// An access.
    struct Access {
        pc: Address,
        stack: u64,
        address: Address,
        size: u32,
        is_write: bool,
        mark: u8,
    }
}

/// The tool.
pub(crate) struct EachAccess {
    /// The least that there can be: it is full often.
    accesses: Buffer<EachAccess, Access>,
    file: Mutex<BufWriter<File>>,
}

const MARK: u8 = 0xa5;

impl EachAccess {
    pub(crate) fn new() -> EachAccess {
        let name = arguments().get(1).expect("the file is named");
        let file = File::create(name).expect("the file can be made");
        if arguments().get(2).is_some() {
            let _first = Buffer::<EachAccess, Address>::new(1, |_, _, _| ());
        }
        EachAccess {
            accesses: Buffer::new(1, EachAccess::write),
            file: Mutex::new(BufWriter::new(file)),
        }
    }

    fn write(&self, _: &mut (), batch: &[Access]) {
        let mut file = self.file.lock();
        for access in batch {
            assert!(access.mark == MARK && access.stack != 0, "another field");
            let kind = if access.is_write { 'w' } else { 'r' };
            writeln!(
                file,
                "{:x} {kind} {:x} {}",
                access.pc, access.address, access.size
            )
            .expect("there is room");
        }
    }
}

impl Tool for EachAccess {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let access = (
                InstructionPointer,
                Register::Rsp,
                ElementAddress,
                ElementSize,
                ElementIsWritten,
                Constant(MARK),
            );
            instruction.append_accesses(self.accesses, access);
        }
    }

    fn end(&self) {
        self.file.lock().flush().expect("there is room");
    }
}
