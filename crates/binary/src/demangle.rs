//! From symbols to the names that the source uses.

use std::fmt::{self, Write};

/// Demangled names may be exponentially longer than their symbols; beyond this many bytes
/// they are of no use to anybody.
const LONGEST_NAME: usize = 16 * 1024;

/// The name that the source uses: C++ with its argument list, Rust without its hash, what is in a
/// module of Fortran with the module before it, and any other symbol as it is. Bytes that are not UTF-8 are shown as `\u{fffd}`.
#[must_use]
pub fn demangle(symbol: &[u8]) -> String {
    let text = String::from_utf8_lossy(symbol);
    rust(&text)
        .or_else(|| cpp(&text, CppForm::Full))
        .or_else(|| fortran(&text))
        .unwrap_or_else(|| text.into_owned())
}

/// All spellings under which a user may ask for the function: the symbol, the full name,
/// and the name without argument list, return type, template arguments of the function
/// itself, and marks of compilers. A name may occur twice.
///
/// Parts that compilers split off a function (`.cold`, `.part`) are not it and have none
/// of its names.
pub(crate) fn spellings(symbol: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(symbol);
    let (base, suffix) = match text.find('.') {
        Some(position) if position > 0 => text.split_at(position),
        _ => (text.as_ref(), ""),
    };
    if suffix
        .split('.')
        .any(|part| part == "cold" || part == "part")
    {
        return vec![text.into_owned()];
    }
    let mut all = vec![text.to_string(), base.to_owned()];
    let mut add = |name: String| {
        let untagged = without_tags(&name);
        let short = without_template_arguments(&untagged).to_owned();
        all.extend([name, untagged, short]);
    };
    if let Some(name) = rust(&text) {
        add(name);
    } else if let Some(name) = cpp(base, CppForm::WithoutArguments) {
        add(name);
        all.extend(cpp(base, CppForm::Full));
    } else if let Some(name) = fortran(base) {
        add(name);
    }
    all
}

fn rust(symbol: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(symbol).ok()?;
    bounded(|output| write!(output, "{demangled:#}"))
}

/// What gfortran calls `__MODULE_MOD_NAME`, as gdb writes it: `MODULE::NAME`. Both parts are names of
/// Fortran, which begin with a letter, in small letters; what a compiler has split off keeps its mark.
fn fortran(symbol: &str) -> Option<String> {
    let (module, name) = symbol.strip_prefix("__")?.split_once("_MOD_")?;
    let begins_with_letter =
        |part: &str| part.starts_with(|first: char| first.is_ascii_lowercase());
    (begins_with_letter(module) && begins_with_letter(name)).then(|| format!("{module}::{name}"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CppForm {
    Full,
    WithoutArguments,
}

fn cpp(symbol: &str, form: CppForm) -> Option<String> {
    if !symbol.starts_with("_Z") || symbol.len() > LONGEST_NAME {
        return None;
    }
    let parsed = cpp_demangle::Symbol::new(symbol).ok()?;
    let options = cpp_demangle::DemangleOptions::new();
    let options = match form {
        CppForm::Full => options,
        CppForm::WithoutArguments => options.no_params().no_return_type(),
    };
    bounded(|output| parsed.structured_demangle(output, &options))
}

/// What `write` writes, unless it is too long.
fn bounded(write: impl FnOnce(&mut BoundedText) -> fmt::Result) -> Option<String> {
    let mut text = BoundedText(String::new());
    write(&mut text).ok()?;
    Some(text.0)
}

struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Without ABI tags, such as `[abi:cxx11]`.
fn without_tags(name: &str) -> String {
    let mut rest = name;
    let mut result = String::new();
    while let Some(start) = rest.find("[abi:") {
        let Some(length) = rest[start..].find(']') else {
            break;
        };
        result.push_str(&rest[..start]);
        rest = &rest[start + length + 1..];
    }
    result.push_str(rest);
    result
}

/// Without the template or generic arguments at the very end: those of the function itself,
/// not those of the types that it belongs to. The names of operators are left alone.
fn without_template_arguments(name: &str) -> &str {
    if !name.ends_with('>') {
        return name;
    }
    let mut depth = 0_usize;
    for (position, byte) in name.bytes().enumerate().rev() {
        match byte {
            // The arrow of a function type is no bracket.
            b'>' if position > 0 && name.as_bytes()[position - 1] == b'-' => {}
            b'>' => depth += 1,
            b'<' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            let short = name[..position].trim_end_matches("::");
            let last = short.rsplit("::").next().unwrap_or(short);
            return if last.is_empty() || last.starts_with("operator") {
                name
            } else {
                short
            };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(symbol: &str, shown: &str, asked: &[&str]) {
        assert_eq!(demangle(symbol.as_bytes()), shown);
        let spellings = spellings(symbol.as_bytes());
        for name in asked {
            assert!(
                spellings.iter().any(|known| known == name),
                "{name}: {spellings:?}"
            );
        }
    }

    #[test]
    fn c_names_are_left_alone() {
        check("main", "main", &["main"]);
        check(
            "work.constprop.0",
            "work.constprop.0",
            &["work", "work.constprop.0"],
        );
        check(
            "_Znot_mangled_at_all",
            "_Znot_mangled_at_all",
            &["_Znot_mangled_at_all"],
        );
        check(".hidden", ".hidden", &[".hidden"]);
    }

    #[test]
    fn cpp_names() {
        check(
            "_ZN2ns1fEid",
            "ns::f(int, double)",
            &["ns::f", "ns::f(int, double)", "_ZN2ns1fEid"],
        );
        check(
            "_ZN12atomic_trace9start_roiEv",
            "atomic_trace::start_roi()",
            &["atomic_trace::start_roi"],
        );
        check("_ZN1AC2Ev", "A::A()", &["A::A"]);
        check("_ZN1AD1Ev", "A::~A()", &["A::~A"]);
        check(
            "_Z3mapIiET_S0_",
            "int map<int>(int)",
            &["map", "map<int>", "int map<int>(int)"],
        );
        check("_ZN3BoxIiE3getEv", "Box<int>::get()", &["Box<int>::get"]);
        check("_ZN1AltERKS_", "A::operator<(A const&)", &["A::operator<"]);
        check(
            "_ZN1A4nameB5cxx11Ev",
            "A::name[abi:cxx11]()",
            &["A::name", "A::name[abi:cxx11]"],
        );
        check(
            "_ZN2ns1fEi.constprop.0",
            "ns::f(int) [clone .constprop.0]",
            &["ns::f"],
        );
    }

    #[test]
    fn rust_names() {
        check(
            "_ZN4core3fmt5write17h0123456789abcdefE",
            "core::fmt::write",
            &["core::fmt::write"],
        );
        check(
            "_RNvC7mycrate7example",
            "mycrate::example",
            &["mycrate::example"],
        );
        check(
            "_RINvC7mycrate7exampleyE",
            "mycrate::example::<u64>",
            &["mycrate::example", "mycrate::example::<u64>"],
        );
    }

    #[test]
    fn fortran_names() {
        check("__fields_MOD_old", "fields::old", &["fields::old"]);
        check(
            "__fields_MOD_sweep._omp_fn.0",
            "fields::sweep._omp_fn.0",
            &["fields::sweep", "__fields_MOD_sweep._omp_fn.0"],
        );
        for symbol in ["work_", "__MOD_", "__a_MOD_", "__fields_MOD_9", "a_MOD_b"] {
            check(symbol, symbol, &[symbol]);
        }
    }

    #[test]
    fn parts_of_functions_are_not_the_functions() {
        for symbol in [
            "work.cold",
            "work.part.0",
            "_ZN2ns1fEi.cold",
            "work.isra.0.cold",
        ] {
            assert_eq!(spellings(symbol.as_bytes()), [symbol]);
        }
    }

    /// f(A<int, int>, A<that, that>, …), each argument twice as long as the one before.
    fn doubling_symbol(levels: usize) -> String {
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut symbol = "_Z1f1AIiiE".to_owned();
        for &digit in &digits[..levels] {
            let digit = char::from(digit);
            write!(symbol, "S_IS{digit}_S{digit}_E").expect("text");
        }
        symbol
    }

    #[test]
    fn names_that_explode_are_shown_as_they_are() {
        let short = demangle(doubling_symbol(1).as_bytes());
        assert_eq!(short, "f(A<int, int>, A<A<int, int>, A<int, int> >)");
        let long = doubling_symbol(30);
        assert_eq!(demangle(long.as_bytes()), long);
        assert!(spellings(long.as_bytes()).contains(&"f".to_owned()));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        assert_eq!(demangle(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
