//! Builds guests, each when it is first asked for and once for all tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use crate::requirement::find_program;
use crate::{Guest, Language, catalog};

/// Why a guest is not there.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BuildError {
    /// The machine has no compiler for it: nothing can be said about the guest.
    #[error("{0} is not installed")]
    NoCompiler(String),
    /// The compiler refused it: a mistake in the guest.
    #[error("building a guest failed: {command}\n{output}")]
    Refused {
        /// The command that failed.
        command: String,
        /// What the compiler said.
        output: String,
    },
    /// The folder of the built guests cannot be used.
    #[error("{path}: {problem}")]
    Folder {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// What examples are built for, whatever the configuration says.
const TARGET: &str = "x86_64-unknown-linux-gnu";

type Slot = Arc<OnceLock<Result<PathBuf, BuildError>>>;

/// Builds guests into one folder. May be used by many threads at once.
#[derive(Debug)]
pub struct Workshop {
    folder: PathBuf,
    built: Mutex<HashMap<String, Slot>>,
}

impl Workshop {
    /// A workshop that leaves the guests in `folder`, which need not exist.
    #[must_use]
    pub fn new(folder: &Path) -> Workshop {
        Workshop {
            folder: folder.to_owned(),
            built: Mutex::new(HashMap::new()),
        }
    }

    /// The path of the built guest. `variant` is one of the names in [`Guest::variants`],
    /// or empty for the plain build.
    ///
    /// # Errors
    /// If it cannot be built; the same error each time.
    ///
    /// # Panics
    /// If another thread panicked while it built.
    pub fn build(&self, guest: &Guest, variant: &str) -> Result<PathBuf, BuildError> {
        let mut name = guest.name.replace('/', "-");
        if !variant.is_empty() {
            name = format!("{name}-{variant}");
        }
        self.once(&name, || {
            for plugin in &guest.plugins {
                self.build_plugin(plugin)?;
            }
            let family = if guest.by_clang { "clang" } else { variant };
            let mut command = compiler(guest.language, family)?;
            if family == "clang" {
                for flag in guest.flags.iter().filter(|flag| needs_runtime(flag)) {
                    require_runtime(&mut compiler(guest.language, family)?, flag)?;
                }
            }
            command.args(&guest.flags).args(variant_flags(variant));
            command
                .arg("-o")
                .arg(self.unfinished(&name))
                .arg(&guest.source);
            command.args(&guest.libraries);
            self.compile(&name, &guest.source, command)
        })
    }

    /// Builds a source as a shared library, `NAME.so` in the folder of the guests.
    fn build_plugin(&self, source: &Path) -> Result<PathBuf, BuildError> {
        let name = format!("{}.so", source.file_stem().unwrap_or_default().display());
        self.once(&name, || {
            let language = Language::of(source).unwrap_or(Language::C);
            let mut command = compiler(language, "")?;
            command
                .args(["-O2", "-shared", "-fPIC", "-o"])
                .arg(self.unfinished(&name))
                .arg(source);
            self.compile(&name, source, command)
        })
    }

    /// Builds an example of this crate by cargo, with the crates that it depends on, as an
    /// ordinary dynamic program.
    ///
    /// # Errors
    /// If cargo refuses it.
    pub fn build_example(&self, name: &str) -> Result<PathBuf, BuildError> {
        self.once(&format!("example-{name}"), || {
            let folder = self.folder.join("examples");
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command
                .args([
                    "build",
                    "--quiet",
                    "--release",
                    "--example",
                    name,
                    "--target",
                    TARGET,
                ])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .arg("--target-dir")
                .arg(&folder)
                // The workspace's own flags make static programs.
                .env("CARGO_ENCODED_RUSTFLAGS", "");
            let line = format!("{command:?}");
            let output = command.output().map_err(|problem| BuildError::Folder {
                path: folder.clone(),
                problem: problem.to_string(),
            })?;
            if !output.status.success() {
                let output = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(BuildError::Refused {
                    command: line,
                    output,
                });
            }
            Ok(folder.join(TARGET).join("release/examples").join(name))
        })
    }

    fn once(
        &self,
        name: &str,
        build: impl FnOnce() -> Result<PathBuf, BuildError>,
    ) -> Result<PathBuf, BuildError> {
        let mut built = self.built.lock().expect("no builder panicked");
        let slot = Arc::clone(built.entry(name.to_owned()).or_default());
        drop(built);
        slot.get_or_init(build).clone()
    }

    /// Another process may build the same guest: each writes its own file, and the last
    /// to finish renames it into place.
    fn unfinished(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{}", std::process::id()))
    }

    fn compile(
        &self,
        name: &str,
        source: &Path,
        mut command: Command,
    ) -> Result<PathBuf, BuildError> {
        let trouble = |path: &Path| {
            let path = path.to_owned();
            move |problem: std::io::Error| BuildError::Folder {
                path,
                problem: problem.to_string(),
            }
        };
        let finished = self.folder.join(name);
        let unfinished = self.unfinished(name);
        std::fs::create_dir_all(&self.folder).map_err(trouble(&self.folder))?;

        // The recipe is the command, the source's time and that of the newest header; as long as it
        // is the same, so is the guest.
        let line = format!("{command:?}").replace(&unfinished.display().to_string(), name);
        let changed = |path: &Path| {
            std::fs::metadata(path)
                .and_then(|file| file.modified())
                .ok()
        };
        let headers = catalog::headers();
        let header = headers.iter().filter_map(|header| changed(header)).max();
        let recipe = format!("{line}\n{:?}\n{header:?}\n", changed(source));
        let recipe_file = self.folder.join(format!("{name}.recipe"));
        if finished.exists() && std::fs::read_to_string(&recipe_file).is_ok_and(|old| old == recipe)
        {
            return Ok(finished);
        }

        let output = command.output().map_err(trouble(source))?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(BuildError::Refused {
                command: line,
                output,
            });
        }
        std::fs::rename(&unfinished, &finished).map_err(trouble(&finished))?;
        std::fs::write(&recipe_file, recipe).map_err(trouble(&recipe_file))?;
        Ok(finished)
    }
}

/// The compiler and what every guest of its language is given.
fn compiler(language: Language, variant: &str) -> Result<Command, BuildError> {
    let name = match (language, variant) {
        (Language::C, "clang") => "clang",
        (Language::Cpp, "clang") => "clang++",
        (Language::C, _) => "gcc",
        (Language::Cpp, _) => "g++",
        (Language::Fortran, _) => "gfortran",
        (Language::Rust, _) => "rustc",
    };
    let path = find_program(name).ok_or_else(|| BuildError::NoCompiler(name.to_owned()))?;
    let mut command = Command::new(path);
    let programs = catalog::programs_folder();
    let annotations = programs.join("../../annotate/include");
    match language {
        Language::C | Language::Cpp => {
            command.args(["-g", "-Wall", "-Wextra", "-Werror", "-I"]);
            command.arg(programs).arg("-I").arg(annotations);
        }
        Language::Fortran => {
            command.args(["-g", "-Wall"]);
        }
        Language::Rust => {
            command.args(["--edition", "2024", "-g"]);
        }
    }
    // The cache of a pinned toolchain or of cargo's flags must not reach a guest.
    command
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(command)
}

fn needs_runtime(flag: &str) -> bool {
    flag == "-fopenmp" || flag.starts_with("-fsanitize=")
}

/// Debian packages LLVM's OpenMP and sanitizers apart from clang, so that only linking tells.
fn require_runtime(clang: &mut Command, flag: &str) -> Result<(), BuildError> {
    let empty = catalog::programs_folder().join("openmp/parts/nothing.c");
    clang.args([flag, "-o", "/dev/null"]).arg(empty);
    match clang.output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(BuildError::NoCompiler(format!(
            "clang's runtime for {flag}"
        ))),
    }
}

fn variant_flags(variant: &str) -> &'static [&'static str] {
    match variant {
        "static" => &["-static"],
        "static-pie" => &["-static-pie"],
        "non-pie" => &["-no-pie"],
        "stripped" => &["-s"],
        "unoptimised" => &["-O0"],
        "threaded" => &["-DGUEST_HAS_A_SECOND_THREAD", "-pthread"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_built_once_and_a_wrong_one_is_refused() {
        let folder = std::env::temp_dir().join(format!("workshop-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let workshop = Workshop::new(&folder.join("built"));
        let guest = |name: &str, text: &str| {
            let source = folder.join(format!("{name}.c"));
            std::fs::write(&source, text).unwrap();
            Guest::parse(name, &source, text).unwrap()
        };

        let right = guest("right", "// Does nothing.\nint main(void) { return 0; }\n");
        let Ok(path) = workshop.build(&right, "") else {
            // Without a C compiler there is nothing to test here; the guests' own tests say so.
            assert!(find_program("gcc").is_none());
            return;
        };
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        let again = Workshop::new(&folder.join("built"))
            .build(&right, "")
            .unwrap();
        assert_eq!(std::fs::metadata(again).unwrap().modified().unwrap(), time);

        let wrong = guest("wrong", "// Does not compile.\nint main(void) { return }\n");
        let error = workshop.build(&wrong, "").unwrap_err();
        assert!(matches!(error, BuildError::Refused { .. }), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
