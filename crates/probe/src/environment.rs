//! What the command tells the library by the environment, which the program does not see.
//!
//! `LD_PRELOAD` names the library, before what the user has preloaded. `UNSPOOL_PROBE` holds,
//! separated by [`SEPARATOR`]: `follow` or `leave` for children, `verbose` or `quiet`, which of
//! several probes it is to be, and the probe's arguments.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

/// The variable that holds the settings.
pub const VARIABLE: &str = "UNSPOOL_PROBE";
/// What stands between them.
pub const SEPARATOR: u8 = 0x1f;

const SETTINGS: &[u8] = b"UNSPOOL_PROBE=";
pub(crate) const PRELOAD: &[u8] = b"LD_PRELOAD=";

static GIVEN: OnceLock<Given> = OnceLock::new();

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) follows_children: bool,
    pub(crate) is_verbose: bool,
    name: String,
    arguments: Vec<OsString>,
    /// `LD_PRELOAD=LIBRARY`, if the program does not have one itself.
    pub(crate) preload: CString,
    /// `UNSPOOL_PROBE=…`, for the next program.
    pub(crate) settings: CString,
}

/// Which of several probes of a library is wanted; empty if there is one.
#[must_use]
pub fn name() -> &'static str {
    GIVEN.get().map_or("", |given| &given.name)
}

/// The arguments of the probe itself, which `unspool tool run -a` gives.
#[must_use]
pub fn arguments() -> &'static [OsString] {
    GIVEN.get().map_or(&[], |given| &given.arguments)
}

/// Takes what is for this library out of the environment.
///
/// # Safety
/// It must be the process's environment, which nobody else uses.
pub(crate) unsafe fn take(environment: *mut *mut c_char) -> &'static Given {
    // SAFETY: the caller's.
    GIVEN.get_or_init(|| unsafe { take_once(environment) })
}

/// # Safety
/// As [`take`].
unsafe fn take_once(environment: *mut *mut c_char) -> Given {
    let mut given = Given::default();
    // SAFETY: the caller's: an array of strings that end in zero bytes, which a null ends.
    unsafe {
        let Some(settings) = find(environment, SETTINGS) else {
            return given;
        };
        let text = CStr::from_ptr(*settings).to_owned();
        remove(settings);
        let mut fields = text.as_bytes()[SETTINGS.len()..].split(|&byte| byte == SEPARATOR);
        given.follows_children = fields.next() == Some(b"follow");
        given.is_verbose = fields.next() == Some(b"verbose");
        let name = fields.next().unwrap_or_default();
        given.name = String::from_utf8_lossy(name).into_owned();
        given.arguments = fields
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        given.settings = text;
        if let Some(preload) = find(environment, PRELOAD) {
            let text = CStr::from_ptr(*preload).to_bytes();
            let own = text.iter().position(|&byte| byte == b':');
            given.preload = CString::new(&text[..own.unwrap_or(text.len())]).unwrap_or_default();
            match own {
                None => remove(preload),
                // The user's own, after the sign of equality.
                Some(own) => {
                    let rest = text.len() - own - 1;
                    let start = (*preload).add(PRELOAD.len());
                    std::ptr::copy(start.add(own + 1 - PRELOAD.len()), start, rest + 1);
                }
            }
        }
    }
    given
}

/// The place of the first variable that begins so.
///
/// # Safety
/// A null must end the array, and zero bytes its strings.
pub(crate) unsafe fn find(environment: *mut *mut c_char, start: &[u8]) -> Option<*mut *mut c_char> {
    if environment.is_null() {
        return None;
    }
    let mut place = environment;
    // SAFETY: the caller's.
    unsafe {
        while !(*place).is_null() {
            if libc::strncmp(*place, start.as_ptr().cast(), start.len()) == 0 {
                return Some(place);
            }
            place = place.add(1);
        }
    }
    None
}

/// Moves what follows to an entry's place.
///
/// # Safety
/// As [`find`]; the array can be written.
unsafe fn remove(place: *mut *mut c_char) {
    let mut place = place;
    // SAFETY: the caller's.
    unsafe {
        while !(*place).is_null() {
            *place = *place.add(1);
            place = place.add(1);
        }
    }
}

/// What the command is to set: the settings as a variable's value. None if an argument holds what
/// separates them.
#[must_use]
pub fn settings(
    follows_children: bool,
    is_verbose: bool,
    name: &str,
    arguments: &[OsString],
) -> Option<OsString> {
    let mut text = OsString::from(if follows_children { "follow" } else { "leave" });
    let words = [if is_verbose { "verbose" } else { "quiet" }, name];
    let words = words.iter().map(OsStr::new);
    for word in words.chain(arguments.iter().map(OsString::as_os_str)) {
        if word.as_bytes().contains(&SEPARATOR) {
            return None;
        }
        text.push(OsStr::from_bytes(&[SEPARATOR]));
        text.push(word);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(variables: &[&str]) -> (Given, Vec<String>) {
        let strings = variables.iter().map(|text| CString::new(*text).unwrap());
        let mut array: Vec<*mut c_char> = strings.map(CString::into_raw).collect();
        array.push(std::ptr::null_mut());
        // SAFETY: an environment of our own.
        unsafe {
            let given = take_once(array.as_mut_ptr());
            let left = array.iter().take_while(|text| !text.is_null());
            let text = |text: &*mut c_char| CStr::from_ptr(*text).to_str().unwrap().to_owned();
            (given, left.map(text).collect())
        }
    }

    #[test]
    fn what_is_for_the_library_is_taken_and_nothing_else() {
        let arguments = ["one".into(), "two words".into()];
        let settings = settings(true, false, "malloc-count", &arguments).unwrap();
        let settings = format!("{VARIABLE}={}", settings.display());
        let (given, left) = taken(&["A=1", &settings, "LD_PRELOAD=/p.so", "B=2"]);
        assert_eq!(left, ["A=1", "B=2"]);
        assert!(given.follows_children && !given.is_verbose);
        assert_eq!(
            (given.name.as_str(), &given.arguments[..]),
            ("malloc-count", &arguments[..])
        );
        assert_eq!(given.preload.to_bytes(), b"LD_PRELOAD=/p.so");
        assert_eq!(given.settings.to_bytes(), settings.as_bytes());

        // The user's own libraries stay.
        let (given, left) = taken(&["LD_PRELOAD=/p.so:/q.so:/r.so", &settings]);
        assert_eq!(left, ["LD_PRELOAD=/q.so:/r.so"]);
        assert_eq!(given.preload.to_bytes(), b"LD_PRELOAD=/p.so");
        let (_, left) = taken(&["LD_PRELOAD=/p.so:", &settings]);
        assert_eq!(left, ["LD_PRELOAD="]);

        // The control: without settings nothing is this library's.
        let (given, left) = taken(&["LD_PRELOAD=/p.so", "UNSPOOL_PROBES=x"]);
        assert_eq!(left, ["LD_PRELOAD=/p.so", "UNSPOOL_PROBES=x"]);
        assert!(given.preload.is_empty());
    }

    #[test]
    fn what_separates_settings_is_in_none_of_them() {
        assert_eq!(settings(true, true, "", &["a\x1fb".into()]), None);
    }
}
