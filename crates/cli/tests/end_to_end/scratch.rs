//! A folder for one test.

use std::path::{Path, PathBuf};

/// A folder that exists for one test, and stays where the test fails.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    work: PathBuf,
}

impl Scratch {
    /// A new, empty folder named after the test.
    pub(crate) fn new(test: &str) -> std::io::Result<Scratch> {
        Scratch::below(
            &Path::new(env!("CARGO_TARGET_TMPDIR")).join("end-to-end"),
            test,
        )
    }

    /// One that is not inside this project, whose settings Cargo would heed there.
    pub(crate) fn outside(test: &str) -> std::io::Result<Scratch> {
        Scratch::below(&std::env::temp_dir().join("unspool-end-to-end"), test)
    }

    fn below(folder: &Path, test: &str) -> std::io::Result<Scratch> {
        let name = test.replace(['/', ':', ' '], "-");
        let path = folder.join(format!("{name}-{}", std::process::id()));
        let work = path.join("work");
        std::fs::create_dir_all(&work)?;
        Ok(Scratch { path, work })
    }

    /// The folder: for traces and captured output.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the observed program runs.
    pub(crate) fn work(&self) -> &Path {
        &self.work
    }

    /// Empties the folder in which the program runs, so that the next run finds it as the
    /// first one did.
    pub(crate) fn start_over(&self) -> std::io::Result<()> {
        std::fs::remove_dir_all(&self.work)?;
        std::fs::create_dir(&self.work)
    }

    /// The test has passed.
    pub(crate) fn remove(self) {
        // A program that still dies may hold the folder up; the next `cargo clean` gets it.
        let _left_behind = std::fs::remove_dir_all(&self.path);
    }
}
