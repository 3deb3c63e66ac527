//! Functions of the C library that copy, fill or look through memory for whoever calls them.
//!
//! Some read beyond what they were given: they look for the end of a string in whole vectors or words,
//! or compare less than a vector as if it were one, and what lies behind the end is no matter to them.

use unspool_report::CodePlace;

/// How the names begin of functions that stop where they find something.
const SCANNING: [&str; 9] = [
    "str",
    "stpcpy",
    "stpncpy",
    "memchr",
    "memrchr",
    "rawmemchr",
    "wcs",
    "wmemchr",
    "wcpcpy",
];

/// How the names begin of functions that compare as many bytes as they are told. Their versions for
/// vectors read a whole one of less, where that does not lead to another page.
const COMPARING: [&str; 3] = ["memcmp", "bcmp", "wmemcmp"];

/// The least that a vector has, in bytes.
const VECTOR_BYTES: u16 = 16;

/// How the names begin of those that are told how much memory there is.
const BOUNDED: [&str; 10] = [
    "memcpy", "memmove", "mempcpy", "memccpy", "memset", "memcmp", "memmem", "bcopy", "bcmp",
    "bzero",
];

/// The vectors for which glibc has versions of a function, behind whose name they stand.
const VERSIONS: [&str; 6] = ["sse", "ssse", "avx", "evex", "erms", "generic"];

/// Whether what this instruction reads, so many bytes, may lie behind a string's end.
pub(super) fn may_read_beyond(place: &CodePlace, bytes: u16) -> bool {
    is_one_of(&SCANNING, place) || bytes >= VECTOR_BYTES && is_one_of(&COMPARING, place)
}

/// Whether this instruction accesses memory for whoever called its function.
pub(super) fn is_string_function(place: &CodePlace) -> bool {
    // Their versions have no names in libraries from which local symbols were stripped.
    let is_nameless = place.function.is_none() && is_in_c_library(place);
    is_nameless || is_one_of(&SCANNING, place) || is_one_of(&BOUNDED, place)
}

fn is_one_of(beginnings: &[&str], place: &CodePlace) -> bool {
    let Some(name) = &place.function else {
        return false;
    };
    let (name, version) = match name.trim_start_matches('_').split_once('_') {
        Some((name, rest)) => (name, rest),
        None => (name.trim_start_matches('_'), ""),
    };
    let has_name = beginnings.iter().any(|start| name.starts_with(start));
    let is_version = VERSIONS.iter().any(|start| version.starts_with(start));
    has_name && (is_version || is_in_c_library(place))
}

/// Whether an instruction is in the C library or the loader.
pub(super) fn is_in_c_library(place: &CodePlace) -> bool {
    let file = place
        .module
        .as_deref()
        .and_then(|path| path.rsplit('/').next());
    file.is_some_and(|file| {
        ["libc.so", "libc-", "ld-linux", "ld-musl"]
            .iter()
            .any(|start| file.starts_with(start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: u16, function: &str, module: &str) -> bool {
        let place = CodePlace {
            function: Some(function.to_owned()),
            module: Some(module.to_owned()),
            ..CodePlace::default()
        };
        may_read_beyond(&place, bytes)
    }

    fn at(function: &str, module: &str) -> bool {
        of_bytes(8, function, module)
    }

    #[test]
    fn functions_that_compare_vectors() {
        let library = "/usr/lib/libc.so.6";
        for bytes in [16, 32, 64] {
            assert!(of_bytes(bytes, "__memcmp_avx2_movbe", library));
            assert!(of_bytes(bytes, "__memcmp_sse4_1", "/home/someone/static"));
            assert!(!of_bytes(bytes, "__memmove_avx_unaligned_erms", library));
            assert!(!of_bytes(bytes, "memcmp_of_mine", "/home/someone/static"));
        }
        assert!(!of_bytes(8, "__memcmp_avx2_movbe", library));
    }

    #[test]
    fn functions_that_look_for_an_end() {
        assert!(at("__strcmp_evex", "/usr/lib/libc.so.6"));
        assert!(at("__strlen_avx2", "/home/someone/static"));
        assert!(at("__memchr_sse2", "/home/someone/static"));
        assert!(at("strlen", "/lib/ld-musl-x86_64.so.1"));
    }

    #[test]
    fn functions_that_act_for_their_callers() {
        let at = |function: Option<&str>, module: &str| {
            is_string_function(&CodePlace {
                function: function.map(str::to_owned),
                module: Some(module.to_owned()),
                ..CodePlace::default()
            })
        };
        assert!(at(
            Some("__memmove_avx_unaligned_erms"),
            "/usr/lib/libc.so.6"
        ));
        assert!(at(Some("__memset_evex_unaligned"), "/home/someone/static"));
        assert!(at(Some("__strlen_avx2"), "/home/someone/static"));
        assert!(at(None, "/usr/lib/libc.so.6"));
        assert!(!at(None, "/home/someone/static"));
        assert!(!at(Some("memcpy_of_mine"), "/home/someone/static"));
        assert!(!at(Some("malloc"), "/usr/lib/libc.so.6"));
    }

    #[test]
    fn functions_that_read_what_they_are_given() {
        assert!(!at("__memcmp_evex_movbe", "/usr/lib/libc.so.6"));
        assert!(!at("__memmove_avx_unaligned_erms", "/usr/lib/libc.so.6"));
        assert!(!at("strange", "/home/someone/static"));
        assert!(!at("stream_of_avx", "/home/someone/static"));
        assert!(!may_read_beyond(&CodePlace::default(), 32));
    }
}
