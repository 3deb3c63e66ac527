//! Opening files that a trace names. The names are whatever somebody wrote into the trace: a pipe
//! or a device must not be opened, and nothing that blocks be read.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file that has contents on a disk; otherwise says why not.
pub(super) fn open(path: &Path) -> Result<File, String> {
    if !path.is_absolute() {
        return Err("this is not the path of a file".to_owned());
    }
    // Opening a device can have effects, so that is not tried.
    let facts = path.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    // What has its name may be another file by now; opening that does not wait.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| error.to_string())?;
    let facts = file.metadata().map_err(|error| error.to_string())?;
    // Files that the kernel makes up while they are read seem empty, and reading some waits.
    match facts.is_file() && facts.len() > 0 {
        true => Ok(file),
        false => Err("it is not a plain file with contents".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, plain, link] = ["pipe", "plain", "link"].map(|name| folder.path().join(name));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        std::fs::write(&plain, "x").unwrap();
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        assert!(open(&plain).is_ok());
        let others = [
            "/dev/zero",
            "/proc/kmsg",
            "/proc/self/maps",
            "/",
            "[vdso]",
            "plain",
        ];
        let others = others.iter().map(Path::new);
        for path in others.chain([pipe.as_path(), &link]) {
            assert!(open(path).is_err(), "{}", path.display());
        }
    }
}
