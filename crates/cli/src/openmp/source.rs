//! `unspool openmp instrument` and `unspool openmp runtime`: programs that are recompiled.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool_collector_library::DBG_RUNTIME;
use unspool_openmp_sources::{Language, LeftOut, instrument};

use crate::arguments::{LeftOutChoice, OpenmpArguments};
use crate::exit_status;
use crate::failure::{Failure, warn};

/// Carries out one of the two, if the words are meant for it.
pub(super) fn carry_out(typed: &OpenmpArguments) -> Option<Result<u8, Failure>> {
    let output = typed.output.as_deref();
    let leaves_out = !typed.leave_out.is_empty() || !typed.leave_out_procedures.is_empty();
    match typed.words.first().and_then(|word| word.to_str()) {
        Some("instrument") => Some(instrument_files(
            &typed.words[1..],
            output,
            &left_out(typed),
        )),
        _ if leaves_out => Some(Err(Failure::new(
            "what is left out is left out of instrumented sources alone",
        )
        .with_help("unspool openmp --leave-out loops instrument program.f90"))),
        Some("runtime") => Some(write_runtime(output)),
        _ => None,
    }
}

fn left_out(typed: &OpenmpArguments) -> LeftOut {
    let has = |kind| typed.leave_out.contains(&kind);
    LeftOut {
        calls: has(LeftOutChoice::Calls),
        functions: has(LeftOutChoice::Functions),
        loops: has(LeftOutChoice::Loops),
        names: typed.leave_out_procedures.iter().cloned().collect(),
    }
}

fn instrument_files(
    files: &[OsString],
    output: Option<&Path>,
    left_out: &LeftOut,
) -> Result<u8, Failure> {
    const HELP: &str = "unspool openmp instrument program.f90";
    if files.is_empty() || (files.len() > 1 && output.is_some()) {
        return Err(Failure::new(
            "instrument takes source files, and --output only for one of them",
        )
        .with_help(HELP));
    }
    let is_option = |file: &&OsString| file.as_encoded_bytes().starts_with(b"-");
    if let Some(option) = files.iter().find(is_option) {
        return Err(Failure::new(format!(
            "{} stands where a source should: options come before instrument",
            option.display()
        ))
        .with_help("unspool openmp --help; ./-name.c for a file of such a name"));
    }
    for file in files {
        let path = Path::new(file);
        let language = Language::of(path).ok_or_else(|| {
            Failure::new(format!(
                "{} is neither Fortran nor C or C++ by its name",
                path.display()
            ))
        })?;
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = instrument(&String::from_utf8_lossy(&bytes), &name, language, left_out)
            .with_context(|| format!("cannot instrument {}", path.display()))?;
        let target = output.map_or_else(|| beside(path), Path::to_owned);
        std::fs::write(&target, text)
            .with_context(|| format!("cannot write {}", target.display()))?;
        warn_of_runtime(&target);
    }
    Ok(exit_status::SUCCESS)
}

/// `dbg_program.f90` beside `program.f90`, as the original tool calls it.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("dbg_{name}"))
}

fn warn_of_runtime(target: &Path) {
    warn(format_args!(
        "{} must be linked with the runtime: unspool openmp --output libunspool_dbg.so runtime",
        target.display()
    ));
}

fn write_runtime(output: Option<&Path>) -> Result<u8, Failure> {
    let path = output.unwrap_or(Path::new("libunspool_dbg.so"));
    std::fs::write(path, DBG_RUNTIME)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(exit_status::SUCCESS)
}
