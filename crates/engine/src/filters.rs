//! The filters of the program's threads, with which the module [`seccomp`](crate::seccomp) judges
//! their calls: how they come ([`install`]), how the next program in the process gets them
//! ([`succession`]), and how the kernel does when the process is let go ([`native`]).

pub(crate) mod install;
pub(crate) mod native;
pub(crate) mod succession;
