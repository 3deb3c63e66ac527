//! `unspool tool new`: a crate that is a tool, or a probe, to start from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::arguments::ToolNewArguments;
use crate::commands::print_result;
use crate::exit_status;
use crate::failure::Failure;

/// What a new crate consists of.
struct Template {
    /// The crate that it is written with.
    library_name: &'static str,
    /// Where that lies in the checkout that this command was built from.
    library: &'static str,
    manifest: &'static str,
    configuration: &'static str,
    source: (&'static str, &'static str),
}

const TOOL: Template = Template {
    library_name: "unspool-tool",
    library: concat!(env!("CARGO_MANIFEST_DIR"), "/../tool"),
    manifest: include_str!("new/Cargo.toml.in"),
    configuration: include_str!("new/config.toml.in"),
    source: ("src/main.rs", include_str!("new/main.rs.in")),
};

const PROBE: Template = Template {
    library_name: "unspool-probe",
    library: concat!(env!("CARGO_MANIFEST_DIR"), "/../probe"),
    manifest: include_str!("new/probe/Cargo.toml.in"),
    configuration: include_str!("new/probe/config.toml.in"),
    source: ("src/lib.rs", include_str!("new/probe/lib.rs.in")),
};

/// Carries out `unspool tool new …`.
pub(super) fn new(typed: &ToolNewArguments) -> Result<u8, Failure> {
    let name = crate_name(&typed.path)?;
    let template = if typed.probe { &PROBE } else { &TOOL };
    let library = library(template, typed.library.as_deref())?;
    let manifest = template
        .manifest
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
        (".cargo/config.toml", template.configuration),
        (".gitignore", "/target\n"),
        template.source,
    ] {
        let path = typed.path.join(file);
        let folder = path.parent().unwrap_or(&typed.path);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| cannot_write(&path, error))?;
    }
    let path = typed.path.display();
    let built = "target/x86_64-unknown-linux-gnu/release";
    let (what, command) = match typed.probe {
        true => (
            "a probe that counts allocations",
            format!(
                "unspool tool run --probe {built}/lib{}.so",
                name.replace('-', "_")
            ),
        ),
        false => ("a tool that counts instructions", format!("{built}/{name}")),
    };
    print_result(
        format!(
            "{path} is {what}. To build and run it:\n\
             \n    cd {path}\n    cargo build --release\n    {command} -- ls /\n"
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

/// The folder of the crate that a new one is written with.
fn library(template: &Template, named: Option<&Path>) -> Result<String, Failure> {
    let folder = named.unwrap_or(Path::new(template.library));
    let manifest = folder.join("Cargo.toml");
    let name = template.library_name;
    let wanted = format!("name = \"{name}\"");
    let is_it =
        fs::read_to_string(&manifest).is_ok_and(|text| text.lines().any(|line| line == wanted));
    let folder: PathBuf = match folder.canonicalize() {
        Ok(folder) if is_it => folder,
        _ => {
            let missing = format!("the crate {name} is not in {}", folder.display());
            let folder = name.trim_start_matches("unspool-");
            return Err(Failure::new(missing).with_help(format!(
                "--library DIRECTORY names crates/{folder} of a checkout of unspool"
            )));
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
