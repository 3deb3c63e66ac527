//! Runs a program as if it had no network: its attempts to connect to an Internet address are
//! refused, and named. Sockets of the machine itself go on working.

use unspool_tool::{Address, Superblock, SystemCall, Tool, read_memory, say};

struct RefuseNetwork;

/// No system call has this number, so the kernel does nothing.
const NONE: u64 = u64::MAX;

/// Whether a `sockaddr` is one of the Internet: the family stands in its first two bytes.
fn is_internet(address: Address) -> bool {
    let mut family = [0; 2];
    let is_read = read_memory(address, &mut family) == family.len();
    let family = i32::from(u16::from_ne_bytes(family));
    is_read && [libc::AF_INET, libc::AF_INET6].contains(&family)
}

impl Tool for RefuseNetwork {
    /// Whether the system call that the thread makes is being refused.
    type Thread = bool;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn system_call_entry(&self, refused: &mut bool, call: &mut SystemCall) {
        *refused =
            call.number == libc::SYS_connect as u64 && is_internet(Address(call.arguments[1]));
        if *refused {
            say("refused a connection");
            call.number = NONE;
        }
    }

    fn system_call_exit(&self, refused: &mut bool, _: &SystemCall, result: &mut i64) {
        if *refused {
            *result = -i64::from(libc::ENETUNREACH);
        }
    }
}

fn main() {
    unspool_tool::run(RefuseNetwork)
}
