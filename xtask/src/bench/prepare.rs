//! Makes a program ready to be measured: compiles it or finds it, and makes its inputs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::catalogue::{Argument, Origin, Program};
use super::inputs;

/// Where things are.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// `bench/programs`.
    pub(crate) sources: PathBuf,
    /// Generated inputs, compiled programs, traces.
    pub(crate) data: PathBuf,
}

/// A program with nothing left to do but run it.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// Its entry in the catalogue.
    pub(crate) program: &'static Program,
    /// Executable and arguments.
    pub(crate) command: Vec<OsString>,
}

/// Prepares a program. An error is the reason why it must be skipped.
///
/// # Errors
/// If the program or its compiler is not installed, the processor lacks what it needs, or
/// files cannot be written.
pub(crate) fn prepare(
    program: &'static Program,
    small: bool,
    places: &Places,
) -> anyhow::Result<Prepared> {
    let executable = match program.origin {
        Origin::Compiled { source, flags } => compile(program.name, source, flags, places)?,
        Origin::Installed {
            command,
            ask_real_path,
        } => find(command, ask_real_path)?,
    };
    let mut command = vec![executable.into_os_string()];
    for argument in program.arguments {
        command.push(word(argument, small, places)?);
    }
    Ok(Prepared { program, command })
}

fn word(argument: &Argument, small: bool, places: &Places) -> anyhow::Result<OsString> {
    let generated = |input, full, quick| {
        inputs::generated(input, if small { quick } else { full }, &places.data)
    };
    Ok(match *argument {
        Argument::Fixed(word) => word.into(),
        Argument::Size(full, quick) => if small { quick } else { full }.into(),
        Argument::Script(name) => places.sources.join(name).into(),
        Argument::Generated(input, full, quick) => generated(input, full, quick)?.into(),
        Argument::GeneratedAfter(before, input, full, quick) => {
            let mut word = OsString::from(before);
            word.push(generated(input, full, quick)?);
            word
        }
        Argument::Installed(command) => find(command, None)?.into(),
        Argument::FolderOf(files) => folder_of(files)?.into(),
        Argument::Program(source) => {
            let name = source.split('.').next().unwrap_or(source);
            compile(name, source, &["-O2"], places)?.into()
        }
        Argument::Classes(source) => classes(source, places)?.into(),
        Argument::Folder(name) => places.data.join(name).into(),
    })
}

/// Compiles one of our sources, unless that was done already.
///
/// # Errors
/// If that is not possible here, with the way out.
pub(crate) fn compile(
    name: &str,
    source: &str,
    flags: &[&str],
    places: &Places,
) -> anyhow::Result<PathBuf> {
    let source = places.sources.join(source);
    let compiler = match source.extension().and_then(|extension| extension.to_str()) {
        Some("cpp") => "g++",
        Some("f90") => "gfortran",
        _ => "gcc",
    };
    let compiler = search_path(compiler)
        .with_context(|| format!("{compiler} is not installed: apt-get install {compiler}"))?;
    if flags.contains(&"-mavx2") {
        require_processor_flag("avx2")?;
    }
    let executable = places.data.join(name);
    let mut command = Command::new(&compiler);
    command
        .args(flags)
        .arg("-g")
        .arg("-o")
        .arg(&executable)
        .arg(&source)
        .arg("-lm");

    // Compiled anew where the command or the source changed.
    let stamp = places.data.join(format!("{name}.compiled"));
    let state = format!("{command:?}\n{}", std::fs::read_to_string(&source)?);
    if executable.exists() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == state) {
        return Ok(executable);
    }
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    std::fs::write(&stamp, state)?;
    Ok(executable)
}

/// Compiles Java and returns the folder of its classes.
fn classes(source: &str, places: &Places) -> anyhow::Result<PathBuf> {
    let compiler = find("javac", None)?;
    let folder = places.data.join(format!("{source}.classes"));
    let mut command = Command::new(compiler);
    command
        .arg("-d")
        .arg(&folder)
        .arg(places.sources.join(source));
    let output = command.output()?;
    if !output.status.success() {
        bail!(
            "{command:?} failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(folder)
}

fn folder_of(files: &[&str]) -> anyhow::Result<PathBuf> {
    let mut paths = files.iter().map(Path::new);
    let folder = paths
        .find(|path| is_executable(path))
        .and_then(Path::parent);
    folder
        .map(Path::to_path_buf)
        .with_context(|| format!("none of these is installed: {}", files.join(", ")))
}

fn require_processor_flag(flag: &str) -> anyhow::Result<()> {
    let processor = std::fs::read_to_string("/proc/cpuinfo")?;
    if !processor.split_whitespace().any(|word| word == flag) {
        bail!("the processor has no {flag}");
    }
    Ok(())
}

fn find(command: &str, ask_real_path: Option<&[&str]>) -> anyhow::Result<PathBuf> {
    let found = search_path(command).with_context(|| format!("{command} is not installed"))?;
    let Some(question) = ask_real_path else {
        return Ok(found);
    };
    let answer = Command::new(&found).args(question).output()?;
    let path = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    if !path.is_file() {
        bail!("{} does not tell where its executable is", found.display());
    }
    Ok(path)
}

/// The first executable of this name on PATH.
pub(crate) fn search_path(command: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(command))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::catalogue;

    #[test]
    fn programs_have_different_names_and_existing_sources() {
        let sources = crate::step::workspace().join("bench/programs");
        let mut names: Vec<&str> = catalogue::all().map(|program| program.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), catalogue::all().count());
        for program in catalogue::all() {
            if let Origin::Compiled { source, .. } = program.origin {
                assert!(sources.join(source).is_file(), "{source}");
            }
            for argument in program.arguments {
                if let Argument::Script(name) | Argument::Program(name) | Argument::Classes(name) =
                    argument
                {
                    assert!(sources.join(name).is_file(), "{name}");
                }
            }
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = find("no-such-program-anywhere", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no-such-program-anywhere is not installed"
        );
    }
}
