//! `unspool tool new`: a crate that is a tool, to start from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::arguments::ToolNewArguments;
use crate::commands::print_result;
use crate::exit_status;
use crate::failure::Failure;

/// The crate that tools are written with, in the checkout that this command was built from.
const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tool");

/// Carries out `unspool tool new …`.
pub(super) fn new(typed: &ToolNewArguments) -> Result<u8, Failure> {
    let name = crate_name(&typed.path)?;
    let library = library(typed.library.as_deref())?;
    let manifest = include_str!("new/Cargo.toml.in")
        .replace("NAME", &quoted(name))
        .replace("LIBRARY", &quoted(&library));
    match fs::create_dir(&typed.path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(format!(
                "{} is there already",
                typed.path.display()
            )));
        }
        Err(error) => return Err(cannot_write(&typed.path, error)),
    }
    for (file, text) in [
        ("Cargo.toml", manifest.as_str()),
        (".cargo/config.toml", include_str!("new/config.toml.in")),
        (".gitignore", "/target\n"),
        ("src/main.rs", include_str!("new/main.rs.in")),
    ] {
        let path = typed.path.join(file);
        let folder = path.parent().unwrap_or(&typed.path);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| cannot_write(&path, error))?;
    }
    let path = typed.path.display();
    print_result(
        format!(
            "{path} is a tool that counts instructions. To build and run it:\n\
             \n    cd {path}\n    cargo build --release\n    \
             target/x86_64-unknown-linux-gnu/release/{name} -- ls /\n"
        )
        .as_bytes(),
    )?;
    Ok(exit_status::SUCCESS)
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    Failure::from(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
}

/// The last component of the path, if a crate can be called so.
fn crate_name(path: &Path) -> Result<&str, Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    let fits = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    name.filter(fits).ok_or_else(|| {
        Failure::new(format!("no crate can be called `{}`", path.display()))
            .with_help("letters, digits, - and _ make a name, and a letter begins it")
    })
}

/// The folder of the crate `unspool-tool`.
fn library(named: Option<&Path>) -> Result<String, Failure> {
    let folder = named.unwrap_or(Path::new(LIBRARY));
    let manifest = folder.join("Cargo.toml");
    let is_it = fs::read_to_string(&manifest)
        .is_ok_and(|text| text.lines().any(|line| line == r#"name = "unspool-tool""#));
    let folder: PathBuf = match folder.canonicalize() {
        Ok(folder) if is_it => folder,
        _ => {
            let missing = format!("the crate unspool-tool is not in {}", folder.display());
            return Err(Failure::new(missing)
                .with_help("--library DIRECTORY names crates/tool of a checkout of unspool"));
        }
    };
    folder
        .into_os_string()
        .into_string()
        .map_err(|folder| Failure::new(format!("{folder:?} is not UTF-8, as Cargo wants it")))
}

/// A string as TOML has it, which knows all escapes of JSON's strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
