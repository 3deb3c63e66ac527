//! Names of the system calls whose memory other threads may meet.

/// The name of a system call, or its number.
pub(super) fn system_call_name(number: u32) -> String {
    const NAMES: [(i64, &str); 12] = [
        (libc::SYS_read, "read"),
        (libc::SYS_write, "write"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_pwrite64, "pwrite64"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_writev, "writev"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_newfstatat, "newfstatat"),
    ];
    let known = NAMES.iter().find(|(known, _)| *known == i64::from(number));
    match known {
        Some((_, name)) => (*name).to_owned(),
        None => format!("system call {number}"),
    }
}
