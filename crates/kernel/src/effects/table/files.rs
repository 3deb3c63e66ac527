//! System calls that are about files.

use super::*;

/// A string in argument 0; in 1; in both; in 1 and 3.
const PATH: &[MemoryPart] = &[part(Input, 0, Text)];
const PATH_AT: &[MemoryPart] = &[part(Input, 1, Text)];
const PATHS: &[MemoryPart] = &[part(Input, 0, Text), part(Input, 1, Text)];
const PATHS_AT: &[MemoryPart] = &[part(Input, 1, Text), part(Input, 3, Text)];

/// Reading, writing, and where in a file.
pub(super) fn contents(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_getdents | libc::SYS_getdents64 => {
            const { &[part(Output, 1, ResultUpTo(2))] }
        }
        libc::SYS_write | libc::SYS_pwrite64 => const { &[part(Input, 1, ResultUpTo(2))] },
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => {
            const { &[part(Output, 1, VectorsUpToResult(2))] }
        }
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            const { &[part(Input, 1, VectorsUpToResult(2))] }
        }
        libc::SYS_vmsplice | libc::SYS_process_madvise => const { &[part(Input, 1, Vectors(2))] },
        libc::SYS_sendfile => const { &[part(Update, 2, LONG)] },
        libc::SYS_splice | libc::SYS_copy_file_range => {
            const { &[part(Update, 1, LONG), part(Update, 3, LONG)] }
        }
        libc::SYS_pipe | libc::SYS_pipe2 => const { &[part(Output, 0, LONG)] },
        libc::SYS_getrandom => const { &[part(Output, 0, ResultUpTo(1))] },
        libc::SYS_getcwd => const { &[part(Output, 0, ResultUpTo(1))] },
        libc::SYS_readlink => const { &[part(Input, 0, Text), part(Output, 1, ResultUpTo(2))] },
        libc::SYS_readlinkat => const { &[part(Input, 1, Text), part(Output, 2, ResultUpTo(3))] },
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_access
        | libc::SYS_chdir
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown
        | libc::SYS_truncate
        | libc::SYS_mknod
        | libc::SYS_chroot
        | libc::SYS_acct
        | libc::SYS_swapon
        | libc::SYS_swapoff
        | libc::SYS_umount2
        | libc::SYS_memfd_create
        | libc::SYS_mq_unlink
        | libc::SYS_uselib => PATH,
        libc::SYS_openat
        | libc::SYS_mkdirat
        | libc::SYS_mknodat
        | libc::SYS_fchownat
        | libc::SYS_unlinkat
        | libc::SYS_fchmodat
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_fchmodat2
        | libc::SYS_inotify_add_watch => PATH_AT,
        libc::SYS_openat2 => const { &[part(Input, 1, Text), part(Input, 2, Argument(3))] },
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink | libc::SYS_pivot_root => PATHS,
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => PATHS_AT,
        libc::SYS_symlinkat => const { &[part(Input, 0, Text), part(Input, 2, Text)] },
        libc::SYS_mount => {
            const {
                &[
                    part(Input, 0, Text),
                    part(Input, 1, Text),
                    part(Input, 2, Text),
                ]
            }
        }
        libc::SYS_fanotify_mark => const { &[part(Input, 4, Text)] },
        _ => return None,
    })
}

/// What is known of files: status, extended attributes, times.
pub(super) fn attributes(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_stat | libc::SYS_lstat => {
            const { &[part(Input, 0, Text), part(Output, 1, STAT)] }
        }
        libc::SYS_fstat => const { &[part(Output, 1, STAT)] },
        libc::SYS_newfstatat => const { &[part(Input, 1, Text), part(Output, 2, STAT)] },
        libc::SYS_statx => const { &[part(Input, 1, Text), part(Output, 4, Fixed(256))] },
        libc::SYS_statfs => const { &[part(Input, 0, Text), part(Output, 1, STATFS)] },
        libc::SYS_fstatfs => const { &[part(Output, 1, STATFS)] },
        libc::SYS_ustat => const { &[part(Output, 1, Fixed(32))] },
        libc::SYS_utime => const { &[part(Input, 0, Text), part(Input, 1, TIME)] },
        libc::SYS_utimes => const { &[part(Input, 0, Text), part(Input, 1, TIMES)] },
        libc::SYS_futimesat | libc::SYS_utimensat => {
            const { &[part(Input, 1, Text), part(Input, 2, TIMES)] }
        }
        libc::SYS_setxattr | libc::SYS_lsetxattr => {
            const {
                &[
                    part(Input, 0, Text),
                    part(Input, 1, Text),
                    part(Input, 2, Argument(3)),
                ]
            }
        }
        libc::SYS_fsetxattr => const { &[part(Input, 1, Text), part(Input, 2, Argument(3))] },
        libc::SYS_getxattr | libc::SYS_lgetxattr => {
            const {
                &[
                    part(Input, 0, Text),
                    part(Input, 1, Text),
                    part(Output, 2, ResultUpTo(3)),
                ]
            }
        }
        libc::SYS_fgetxattr => const { &[part(Input, 1, Text), part(Output, 2, ResultUpTo(3))] },
        libc::SYS_listxattr | libc::SYS_llistxattr => {
            const { &[part(Input, 0, Text), part(Output, 1, ResultUpTo(2))] }
        }
        libc::SYS_flistxattr => const { &[part(Output, 1, ResultUpTo(2))] },
        libc::SYS_removexattr | libc::SYS_lremovexattr => PATHS,
        libc::SYS_fremovexattr => PATH_AT,
        _ => return None,
    })
}
