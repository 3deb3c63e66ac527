//! A directory for one test's files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{LoadError, LoadRequest, LoadedProgram, ProgramStack};

/// Loads a program, with a stack of its own.
pub(super) fn load(request: &LoadRequest) -> Result<LoadedProgram, LoadError> {
    let prepared = crate::prepare(&request.path, None)?;
    crate::load(request, prepared, &ProgramStack::mapped(STACK_SIZE))
}

/// Bytes of the stack that [`load`] maps.
pub(super) const STACK_SIZE: u64 = 8 << 20;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Removed when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Scratch {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("unspool-loader-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a new directory");
        Scratch(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file with the given permissions.
    pub(super) fn write(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a writable directory");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("our own file");
        path
    }

    /// Compiles a C program; none, with a word on why, if there is no compiler.
    pub(super) fn compile(&self, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
        let source_path = self.write(&format!("{name}.c"), source.as_bytes(), 0o644);
        let program = self.path(name);
        let output = Command::new("gcc")
            .arg(&source_path)
            .args(flags)
            .arg("-o")
            .arg(&program)
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: there is no gcc");
            return None;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gcc {flags:?}: {errors}");
        Some(program)
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
