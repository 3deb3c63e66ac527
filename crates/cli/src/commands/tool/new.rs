//! `unspool tool new`: a crate that is a tool, or a probe, to start from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::sources;
use crate::arguments::ToolNewArguments;
use crate::commands::print_result;
use crate::exit_status;
use crate::failure::Failure;

/// What a new crate consists of.
struct Template {
    /// The crate that it is written with.
    library_name: &'static str,
    /// Where that lies in the workspace.
    library: &'static str,
    manifest: &'static str,
    configuration: &'static str,
    source: (&'static str, &'static str),
}

const TOOL: Template = Template {
    library_name: "unspool-tool",
    library: "crates/tool",
    manifest: include_str!("new/Cargo.toml.in"),
    configuration: include_str!("new/config.toml.in"),
    source: ("src/main.rs", include_str!("new/main.rs.in")),
};

const PROBE: Template = Template {
    library_name: "unspool-probe",
    library: "crates/probe",
    manifest: include_str!("new/probe/Cargo.toml.in"),
    configuration: include_str!("new/probe/config.toml.in"),
    source: ("src/lib.rs", include_str!("new/probe/lib.rs.in")),
};

/// Carries out `unspool tool new …`.
pub(super) fn new(typed: &ToolNewArguments) -> Result<u8, Failure> {
    let name = crate_name(&typed.path)?;
    let template = if typed.probe { &PROBE } else { &TOOL };
    let ground = match &typed.library {
        Some(folder) => Ground::checkout(template, folder)?,
        None => Ground::carried(template)?,
    };
    let manifest = template
        .manifest
        .replace("NAME", &quoted(name))
        .replace("LIBRARY", &quoted(&ground.library));
    let configuration = template
        .configuration
        .replace("# BUILD\n", &ground.build_setting());
    match fs::create_dir(&typed.path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(format!(
                "{} is there already",
                typed.path.display()
            )));
        }
        Err(error) => return Err(Failure::cannot_write(&typed.path, error)),
    }
    let (source, text) = template.source;
    let mut files = vec![
        ("Cargo.toml", manifest.as_bytes()),
        (".cargo/config.toml", configuration.as_bytes()),
        (".gitignore", b"/target\n"),
        (source, text.as_bytes()),
    ];
    files.extend(ground.lock.map(|lock| ("Cargo.lock", lock)));
    for (file, text) in files {
        let path = typed.path.join(file);
        let folder = path.parent().unwrap_or(&typed.path);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::cannot_write(&path, error))?;
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

/// What a new crate is built with.
struct Ground {
    /// The folder of the crate that it is written with.
    library: String,
    /// Versions of what that depends on.
    lock: Option<&'static [u8]>,
    /// Where builds leave what they have in common.
    build: Option<String>,
}

impl Ground {
    /// The sources that this command carries.
    fn carried(template: &Template) -> Result<Ground, Failure> {
        let unpacked = sources::unpack()?;
        Ok(Ground {
            library: as_text(unpacked.workspace.join(template.library))?,
            lock: Some(sources::lock()),
            build: Some(as_text(unpacked.build)?),
        })
    }

    /// A folder of a checkout.
    fn checkout(template: &Template, folder: &Path) -> Result<Ground, Failure> {
        let manifest = folder.join("Cargo.toml");
        let name = template.library_name;
        let wanted = format!("name = \"{name}\"");
        let is_it =
            fs::read_to_string(&manifest).is_ok_and(|text| text.lines().any(|line| line == wanted));
        match folder.canonicalize() {
            Ok(folder) if is_it => Ok(Ground {
                library: as_text(folder)?,
                lock: None,
                build: None,
            }),
            _ => {
                let missing = format!("the crate {name} is not in {}", folder.display());
                let folder = template.library;
                Err(Failure::new(missing).with_help(format!(
                    "--library DIRECTORY names {folder} of a checkout of unspool; without it the \
                     sources are used that this command carries"
                )))
            }
        }
    }

    /// Lines of Cargo's configuration.
    fn build_setting(&self) -> String {
        let Some(folder) = &self.build else {
            return String::new();
        };
        let folder = quoted(folder);
        format!(
            "# What this crate is built with is compiled once for all crates that have this setting.\n\
             build-dir = {folder}\n"
        )
    }
}

fn as_text(folder: PathBuf) -> Result<String, Failure> {
    folder.into_os_string().into_string().map_err(|folder| {
        Failure::new(format!(
            "{} is not UTF-8, as Cargo wants it",
            folder.display()
        ))
    })
}

/// A string as TOML has it, which knows all escapes of JSON's strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
