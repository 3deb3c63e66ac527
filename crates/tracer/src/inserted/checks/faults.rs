//! Faults of checks: at owner words that are not accessible yet, and where a check looks at what no
//! line can have.

use unspool_code_cache::address::CacheAddress;
use unspool_engine::client::ClientFault;
use unspool_kernel::guarded;
use unspool_kernel::layout::{BRANCH_TABLE, OWNER_WORDS};

use crate::ownership;

/// Looks at an access at `pc` that has faulted at `address`. Called in signal handlers.
pub(crate) fn fault(pc: u64, address: u64) -> Option<ClientFault> {
    if !ownership::are_reserved() {
        return None;
    }
    let at = CacheAddress::of(pc);
    if !ownership::is_word(address) {
        let is_check = at.and_then(fails_at).is_some();
        return is_check.then_some(ClientFault::Equal(COMPARISON));
    }
    let by_engine = match at {
        Some(at) => looks_at_owner(at),
        None => guarded::recover(pc).is_none(),
    };
    by_engine.then(|| {
        ownership::open(address);
        ClientFault::Again
    })
}

/// Bytes of the instruction that compares two owner words with the thread's.
const COMPARISON: u64 = 8;

/// Where the program goes on if the comparison of two owner words at `at` fails; nothing if the
/// code there is something else.
pub(crate) fn fails_at(at: CacheAddress) -> Option<CacheAddress> {
    const COMPARE: usize = COMPARISON as usize;
    let mut bytes = [0; COMPARE + 6];
    if !guarded::read_any(at.get(), &mut bytes) {
        return None;
    }
    let (compare, jump) = bytes.split_at(COMPARE);
    let is_compare = compare[0] & 0xf8 == 0x48
        && compare[1] == 0x39
        && compare[2] & 0xc7 == 0x04
        && compare[3] & 0xc7 == 0x85
        && compare[4..] == (OWNER_WORDS as u32).to_le_bytes();
    let distance = jump.strip_prefix(&[0x0f, 0x85])?.try_into().ok()?;
    let behind = at.plus(bytes.len() as u32);
    is_compare.then(|| behind.jump_target(u32::from_le_bytes(distance)))
}

/// Whether the instruction in the cache at `at` is one of those that checks consist of: they look
/// at an owner word or put the thread there.
fn looks_at_owner(at: CacheAddress) -> bool {
    let mut bytes = [0; 10];
    guarded::read_any(at.get(), &mut bytes) && is_on_owner_word(&bytes)
}

fn is_on_owner_word(bytes: &[u8; 10]) -> bool {
    let (is_locked, bytes) = match bytes {
        [0xf0, rest @ ..] => (true, rest),
        [rest @ .., _] => (false, rest),
    };
    let [rex, rest @ ..] = bytes;
    let rest: &[u8] = match rest {
        [0x0f, 0xb1, rest @ ..] if is_locked => rest,
        [0x39 | 0x8b, rest @ ..] if !is_locked => rest,
        _ => return false,
    };
    let [modrm, sib, displacement @ ..] = rest else {
        return false;
    };
    let Some(&displacement) = displacement.first_chunk() else {
        return false;
    };
    let displacement = u64::from(u32::from_le_bytes(displacement));
    let at_index = sib & 0xc7 == 0x85 && displacement == OWNER_WORDS;
    let at_known = *sib == 0x25 && (OWNER_WORDS..BRANCH_TABLE).contains(&displacement);
    rex & 0xf0 == 0x40 && modrm & 0xc7 == 0x04 && (at_index || at_known)
}

#[cfg(test)]
mod tests {
    use super::is_on_owner_word;

    #[test]
    fn instructions_of_checks_are_known() {
        let cases: [(&[u8], bool); 10] = [
            // cmp [rcx * 4 + 0x70000000], rdx
            (&[0x48, 0x39, 0x14, 0x8d, 0, 0, 0, 0x70], true),
            // cmp [r9 * 4 + 0x70000000], r10
            (&[0x4e, 0x39, 0x14, 0x8d, 0, 0, 0, 0x70], true),
            // mov ecx, [rcx * 4 + 0x70000000]
            (&[0x40, 0x8b, 0x0c, 0x8d, 0, 0, 0, 0x70], true),
            // lock cmpxchg [rcx * 4 + 0x70000000], edx
            (&[0xf0, 0x40, 0x0f, 0xb1, 0x14, 0x8d, 0, 0, 0, 0x70], true),
            // cmp [0x70123450], edx
            (&[0x40, 0x39, 0x14, 0x25, 0x50, 0x34, 0x12, 0x70], true),
            // The same elsewhere; without the lock; another scale; a base; another operation.
            (&[0x40, 0x39, 0x14, 0x25, 0x50, 0x34, 0x12, 0x75], false),
            (&[0x40, 0x0f, 0xb1, 0x14, 0x8d, 0, 0, 0, 0x70], false),
            (&[0x48, 0x39, 0x14, 0xcd, 0, 0, 0, 0x70], false),
            (&[0x48, 0x39, 0x94, 0x8b, 0, 0, 0, 0x70], false),
            (&[0x48, 0x3b, 0x14, 0x8d, 0, 0, 0, 0x70], false),
        ];
        for (instruction, expected) in cases {
            let mut bytes = [0x90; 10];
            bytes[..instruction.len()].copy_from_slice(instruction);
            assert_eq!(is_on_owner_word(&bytes), expected, "{instruction:x?}");
        }
    }
}
