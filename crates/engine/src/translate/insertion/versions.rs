//! Superblocks that exist in two versions, between which a thread chooses where it comes there.
//!
//! What other code leads to is the fragment that was made first, with the version that was wanted
//! then: before its first instruction, behind what is done there in any case, it looks at a slot of
//! the thread, and leads to the other version or goes on. That is made when a thread wants it, as a
//! fragment that nothing else leads to ([`ExitKind::Version`]). So code that is only executed in one
//! version is translated once.
//!
//! A thread that is on its way from one fragment to the other is not between two instructions: what is
//! to be done where the code is reached was done, and would be done again if the thread were taken
//! out there ([`Position::boundary`](unspool_code_cache::cache::Position::boundary)).

use unspool_code_cache::cache::Exit;
use unspool_code_cache::emit::gpr;
use unspool_code_cache::exit::{ExitKind, Version};

use super::walk::{Inserters, Walk};
use super::{Choice, PathEnd};
use crate::translate::superblock::Item;

/// Conditions, as opcodes have them.
const EQUAL: u8 = 4;
const NOT_EQUAL: u8 = 5;

impl Walk<'_> {
    /// Emits, before the first instruction, what leads to the other version a thread whose switch
    /// says so.
    pub(super) fn choose(&mut self, inserters: Inserters, item: &Item) {
        let Some(choice) = inserters.iter().find_map(|inserter| inserter.choice()) else {
            return;
        };
        let Choice { version, switch } = choice;
        self.give_back_all();
        let is_zero = version == Version::On;
        if item.flags_live {
            self.take_register(gpr::RCX, 0);
            let code = &mut self.builder.code;
            code.load_slot(gpr::RCX, switch);
            code.bytes(if is_zero {
                &[0xe3, 2, 0xeb, 0] // jrcxz over a short jump
            } else {
                &[0xe3, 0] // jrcxz
            });
            let stays = code.here().before();
            self.borrowed.restore(&mut self.builder.code);
            self.leave_for(inserters, item.pc, version.other());
            self.builder.code.land_short(stays);
            return;
        }
        let (leaves, stays) = match is_zero {
            true => (EQUAL, NOT_EQUAL),
            false => (NOT_EQUAL, EQUAL),
        };
        self.builder.code.compare_slot_zero(switch);
        if self.is_alone() {
            self.exit_to_version(Some(leaves), item.pc, version.other());
            return;
        }
        let stays = self.builder.code.jump_forward_if(stays);
        self.leave_for(inserters, item.pc, version.other());
        self.builder.code.land(stays);
    }

    /// Ends the path that has not begun, and leaves for another version.
    fn leave_for(&mut self, inserters: Inserters, pc: u64, version: Version) {
        if !self.is_alone() {
            self.close(inserters, 0, PathEnd::Exit(None));
        }
        self.exit_to_version(None, pc, version);
    }

    fn exit_to_version(&mut self, condition: Option<u8>, pc: u64, version: Version) {
        let here = self.builder.code.here();
        let field = self.builder.code.patchable_jump(condition, here);
        let mut exit = Exit::by_jump(ExitKind::Version(version), pc, field);
        exit.binding = self.binding.unwrap_or_default();
        self.builder.new_fragment.exits.push(exit);
    }
}
