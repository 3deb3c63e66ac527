//! An opened program file: permissions, its first bytes, its path as the kernel shows it.

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::LoadError;

/// How much of a file's beginning the kernel looks at to tell its format.
pub(crate) const HEAD_SIZE: usize = 256;

/// Privileges that the kernel would grant on execution. An observed program does not get
/// them, like a program under a debugger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Privileges {
    /// The set-user-id bit is set.
    pub set_user_id: bool,
    /// The set-group-id bit is set (together with the group's execute bit, without which
    /// it means something else).
    pub set_group_id: bool,
    /// The file carries capabilities.
    pub file_capabilities: bool,
}

impl Privileges {
    /// Whether execution would raise any privilege.
    #[must_use]
    pub fn any(self) -> bool {
        self.set_user_id || self.set_group_id || self.file_capabilities
    }
}

/// A regular file that may be executed, opened for reading.
#[derive(Debug)]
pub(crate) struct Executable {
    /// As it was named.
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) size: u64,
    pub(crate) privileges: Privileges,
    head: [u8; HEAD_SIZE],
    head_length: usize,
}

impl Executable {
    /// Opens `path` if the kernel would execute it.
    pub(crate) fn open(path: &Path) -> Result<Executable, LoadError> {
        check_permission(path)?;
        // Should the name have become a pipe or a terminal since, opening must not block
        // on it or be controlled by it.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EACCES) => LoadError::Unreadable {
                    path: path.to_owned(),
                },
                _ => file_error(path, "open it", source),
            })?;
        let metadata = file
            .metadata()
            .map_err(|source| file_error(path, "examine it", source))?;
        require_regular(path, &metadata)?;
        let mut head = [0; HEAD_SIZE];
        let head_length = read_up_to(&file, &mut head, 0)
            .map_err(|source| file_error(path, "read it", source))?;
        let mode = metadata.mode();
        let privileges = Privileges {
            set_user_id: mode & libc::S_ISUID != 0,
            set_group_id: mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0,
            file_capabilities: has_capabilities(&file),
        };
        let size = metadata.size();
        Ok(Executable {
            path: path.to_owned(),
            file,
            size,
            privileges,
            head,
            head_length,
        })
    }

    /// The first bytes, filled up with zeros as the kernel does.
    pub(crate) fn head(&self) -> &[u8; HEAD_SIZE] {
        &self.head
    }

    /// How many bytes of [`Executable::head`] are really in the file.
    pub(crate) fn head_length(&self) -> usize {
        self.head_length
    }

    /// Up to `size` bytes from `offset`; fewer only if the file ends.
    pub(crate) fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>, LoadError> {
        let mut bytes = vec![0; size];
        let length = read_up_to(&self.file, &mut bytes, offset)
            .map_err(|source| file_error(&self.path, "read it", source))?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The path that `/proc/self/exe` would show: absolute, symbolic links followed.
    pub(crate) fn canonical_path(&self) -> PathBuf {
        std::fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .or_else(|_| std::fs::canonicalize(&self.path))
            .unwrap_or_else(|_| self.path.clone())
    }
}

/// Whether the kernel would let this process execute the file, whatever is in it.
pub(crate) fn check_permission(path: &Path) -> Result<(), LoadError> {
    let metadata = std::fs::metadata(path).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT) => LoadError::NotFound {
            path: path.to_owned(),
        },
        _ => file_error(path, "find it", source),
    })?;
    require_regular(path, &metadata)?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| LoadError::NotFound {
        path: path.to_owned(),
    })?;
    // SAFETY: `name` is a terminated string that outlives the call.
    let result =
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    if result == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::EACCES) => Err(LoadError::NotExecutable {
            path: path.to_owned(),
        }),
        _ => Err(file_error(
            path,
            "find out whether it may be executed",
            source,
        )),
    }
}

fn require_regular(path: &Path, metadata: &Metadata) -> Result<(), LoadError> {
    if metadata.is_dir() {
        return Err(LoadError::IsDirectory {
            path: path.to_owned(),
        });
    }
    if !metadata.is_file() {
        return Err(LoadError::NotRegular {
            path: path.to_owned(),
        });
    }
    Ok(())
}

fn file_error(path: &Path, operation: &'static str, source: io::Error) -> LoadError {
    LoadError::File {
        path: path.to_owned(),
        operation,
        source,
    }
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        let Some(position) = offset.checked_add(length as u64) else {
            break;
        };
        match file.read_at(&mut buffer[length..], position) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn has_capabilities(file: &File) -> bool {
    // SAFETY: the name is terminated, and a size of 0 asks only for the value's length.
    let length = unsafe {
        libc::fgetxattr(
            file.as_raw_fd(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    length > 0
}
