//! What looks like a call and is none, or is one that compilers have instructions for.

use std::collections::HashSet;

use super::Writer;
use super::tokens::is_directive;

/// Called names that are no functions, or whose callers may not be moved.
const NO_FUNCTIONS: &[&str] = &[
    "sizeof",
    "alignof",
    "_Alignof",
    "assert",
    "static_assert",
    "_Static_assert",
    "va_start",
    "va_end",
    "va_copy",
    "setjmp",
    "_setjmp",
    "sigsetjmp",
    "asm",
    "__asm__",
    "return",
    "throw",
    "delete",
    "decltype",
];

/// What C's mathematical headers declare, which compilers know, as Fortran's intrinsic functions: an
/// event would cost a multiple of them. Each also with `f` and `l` for other types.
const INTRINSIC: &[&str] = &[
    "abs",
    "labs",
    "llabs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "cos",
    "sin",
    "tan",
    "acosh",
    "asinh",
    "atanh",
    "cosh",
    "sinh",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "frexp",
    "ilogb",
    "ldexp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "modf",
    "scalbn",
    "scalbln",
    "cbrt",
    "fabs",
    "hypot",
    "pow",
    "sqrt",
    "erf",
    "erfc",
    "lgamma",
    "tgamma",
    "ceil",
    "floor",
    "nearbyint",
    "rint",
    "lrint",
    "llrint",
    "round",
    "lround",
    "llround",
    "trunc",
    "fmod",
    "remainder",
    "remquo",
    "copysign",
    "nan",
    "nextafter",
    "nexttoward",
    "fdim",
    "fmax",
    "fmin",
    "fma",
    "isnan",
    "isinf",
    "isfinite",
    "isnormal",
    "signbit",
    "cabs",
    "carg",
    "cexp",
    "cimag",
    "clog",
    "conj",
    "cpow",
    "creal",
    "csqrt",
];

/// What C++'s library has besides.
const INTRINSIC_OF_STD: &[&str] = &["min", "max", "swap", "move", "forward"];

/// Words that stand before parentheses and call nothing.
const NO_NAMES: &[&str] = &[
    "if", "switch", "int", "unsigned", "long", "short", "char", "float", "double", "bool",
    "size_t", "catch", "alignas",
];

/// Words of statements that may be carried out many times.
const REPEATS: &[&str] = &["for", "while", "do", "goto"];

impl Writer<'_> {
    /// Whether nothing here takes long: it only computes, and has no loop.
    pub(super) fn is_short(&self, start: usize, end: usize) -> bool {
        self.is_plain(start, end)
            && !self.any_token(start, end, |token, _| REPEATS.contains(&token))
    }

    /// Whether this only computes: it has no directive, and no call by name, unless of what is known
    /// to be short.
    pub(super) fn is_plain(&self, start: usize, end: usize) -> bool {
        !self.any_token(start, end, |token, next| {
            let is_named = token.starts_with(|first: char| first.is_alphabetic() || first == '_');
            let calls = is_named
                && next == Some(b'(')
                && is_call(token, token)
                && !NO_NAMES.contains(&token)
                && !REPEATS.contains(&token)
                && !self.macros.contains(token)
                && !self.procedures.is_short(token);
            let directs =
                is_directive(token) && token.contains("pragma") || token.starts_with("_Pragma");
            calls || directs
        })
    }

    /// Whether any token here is so; what it is asked of is the token, and what the next one begins
    /// with.
    fn any_token(
        &self,
        start: usize,
        end: usize,
        is_so: impl Fn(&str, Option<u8>) -> bool,
    ) -> bool {
        let mut at = self.next_token(start);
        while at < end {
            let length = self.token_length(at);
            let token = &self.source[at..at + length];
            let next = self.next_token(at + length);
            if is_so(token, self.source.as_bytes().get(next).copied()) {
                return true;
            }
            at = next;
        }
        false
    }
}

/// Whether what is called is a function that is worth an event: `name` is the last part of what
/// stands before the arguments.
pub(super) fn is_call(callee: &str, name: &str) -> bool {
    let scope = callee.strip_suffix(name).unwrap_or_default();
    let is_intrinsic = match scope {
        "" | "::" => is_mathematical(name),
        "std::" | "::std::" => is_mathematical(name) || INTRINSIC_OF_STD.contains(&name),
        _ => false,
    };
    !is_intrinsic && !NO_FUNCTIONS.contains(&name)
}

fn is_mathematical(name: &str) -> bool {
    let has = |name: &str| INTRINSIC.contains(&name);
    has(name) || name.strip_suffix(['f', 'l']).is_some_and(has)
}

/// The macros with arguments that a source defines. Those of headers are not seen.
pub(super) fn macros(source: &str) -> HashSet<&str> {
    let defined = source.lines().filter_map(|line| {
        let directive = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = directive.strip_prefix("define")?;
        let (name, _) = rest.split_once('(')?;
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let name = name.trim_start();
        (rest.starts_with([' ', '\t']) && !name.is_empty() && name.chars().all(is_name))
            .then_some(name)
    });
    defined.collect()
}
