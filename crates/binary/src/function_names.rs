//! The functions that a user names, found in modules.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem::Finder;
use rustc_hash::FxHashMap;

use crate::demangle::spellings;
use crate::function::{Function, FunctionTable};

/// Names of functions, as users write them.
///
/// A name is a symbol (`_ZN2ns1fEi`, `malloc`), a name as the source has it
/// (`ns::f(int)`), or that without the argument list (`ns::f`), which stands for all
/// overloads. Without template arguments it stands for all instances. Copies that
/// compilers specialise (`f.constprop.0`) are found by the name of the original. A `*` at the end
/// stands for any rest of a symbol (`GOMP_*`).
#[derive(Debug, Clone, Default)]
pub struct FunctionNames {
    names: Vec<String>,
    by_name: FxHashMap<String, usize>,
    /// What the names begin with that end with `*`, and their numbers.
    beginnings: Vec<(String, usize)>,
    /// What the symbol of each name must contain; none if any symbol may do.
    required: Option<Vec<Finder<'static>>>,
}

/// A function that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct FoundFunction<'names, 'module> {
    /// The name as it was asked for.
    pub asked: &'names str,
    /// The function.
    pub function: Function<'module>,
}

impl FoundFunction<'_, '_> {
    /// The name as it was asked for, or the symbol where that stands for several.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match beginning(self.asked) {
            Some(_) => String::from_utf8_lossy(self.function.symbol()),
            None => Cow::Borrowed(self.asked),
        }
    }
}

impl FunctionNames {
    /// Reads a list: one name on a line; blank lines and those that start with `#` are left
    /// out.
    #[must_use]
    pub fn parse(list: &str) -> FunctionNames {
        let lines = list.lines().map(str::trim);
        FunctionNames::new(lines.filter(|line| !line.is_empty() && !line.starts_with('#')))
    }

    /// Takes single names.
    pub fn new<'name>(names: impl IntoIterator<Item = &'name str>) -> FunctionNames {
        let mut result = FunctionNames {
            required: Some(Vec::new()),
            ..FunctionNames::default()
        };
        for name in names {
            let number = result.names.len();
            if result.by_name.insert(name.to_owned(), number).is_some() {
                continue;
            }
            result.names.push(name.to_owned());
            result.required = result
                .required
                .zip(required_part(name))
                .map(|(mut all, part)| {
                    all.push(Finder::new(part).into_owned());
                    all
                });
        }
        // The names keep their first number where one is repeated.
        result.by_name = result
            .names
            .iter()
            .enumerate()
            .map(|(number, name)| (name.clone(), number))
            .collect();
        let beginnings = result.names.iter().zip(0..);
        result.beginnings = beginnings
            .filter_map(|(name, number)| Some((beginning(name)?.to_owned(), number)))
            .collect();
        result
    }

    /// The names, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All functions of a table that have one of the names, by address.
    pub(crate) fn find_in<'names, 'module>(
        &'names self,
        table: &'module FunctionTable,
    ) -> Vec<FoundFunction<'names, 'module>> {
        let may_fit = self.places(table.all_names());
        table
            .iter()
            .filter(|function| match &may_fit {
                Some(places) => holds_one(places, &function.name_range()),
                None => !self.is_empty(),
            })
            .filter_map(|function| {
                let asked = self.matching(function.symbol())?;
                Some(FoundFunction { asked, function })
            })
            .collect()
    }

    /// Whether symbols can be told to have none of the names before they are demangled.
    pub(crate) fn can_be_searched(&self) -> bool {
        self.required.is_some()
    }

    /// Whether a symbol has one of the names.
    pub(crate) fn contain(&self, symbol: &[u8]) -> bool {
        self.matching(symbol).is_some()
    }

    /// Where in a string table symbols begin that may have one of the names, as a bit for each
    /// byte; none if any may. A string may be the end of another.
    pub(crate) fn beginnings(&self, strings: &[u8]) -> Option<Vec<u64>> {
        let mut beginnings = vec![0; strings.len() / 64 + 1];
        let mut done = 0;
        for place in self.places(strings)? {
            let zero = memchr::memrchr(0, &strings[done..place.start]);
            let first = zero.map_or(done, |zero| done + zero + 1);
            for begin in first..=place.start {
                beginnings[begin / 64] |= 1 << (begin % 64);
            }
            done = place.start;
        }
        Some(beginnings)
    }

    /// Where in a text the parts are that symbols must contain, in order; none if any symbol may
    /// do. To demangle is dear, and hardly any symbol of a large module is asked for.
    fn places(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        let mut places = Vec::new();
        for part in self.required.as_ref()? {
            // One may begin within another.
            let mut from = 0;
            while let Some(at) = part.find(&text[from..]) {
                from += at + 1;
                places.push(from - 1..from - 1 + part.needle().len());
            }
        }
        places.sort_unstable_by_key(|place: &Range<usize>| place.start);
        Some(places)
    }

    fn matching(&self, symbol: &[u8]) -> Option<&str> {
        let number = spellings(symbol)
            .iter()
            .find_map(|spelling| self.by_name.get(spelling).copied())
            .or_else(|| self.beginning_of(symbol))?;
        Some(&self.names[number])
    }

    fn beginning_of(&self, symbol: &[u8]) -> Option<usize> {
        let is_it = |(beginning, _): &&(String, usize)| symbol.starts_with(beginning.as_bytes());
        self.beginnings
            .iter()
            .find(is_it)
            .map(|(_, number)| *number)
    }
}

/// Whether one of some places, which are in order, lies within a range.
fn holds_one(places: &[Range<usize>], range: &Range<usize>) -> bool {
    let first = places.partition_point(|place| place.start < range.start);
    let mut starting = places[first..]
        .iter()
        .take_while(|place| place.start < range.end);
    starting.any(|place| place.end <= range.end)
}

/// What the symbols begin with for which a name stands that ends with `*`. (The operator of C++ ends
/// so, too.)
fn beginning(name: &str) -> Option<&str> {
    let beginning = name.strip_suffix('*')?;
    let of_symbol = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    let is_one = !beginning.is_empty() && beginning.bytes().all(of_symbol);
    (is_one && !beginning.ends_with("operator")).then_some(beginning)
}

/// A part of the name that occurs in every symbol that stands for it: the identifier at its
/// end, which mangling keeps as it is. None where that is not certain: for operators,
/// destructors, and what C++ abbreviates in `std`.
fn required_part(name: &str) -> Option<&str> {
    if let Some(beginning) = beginning(name) {
        return Some(beginning);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    if !name.bytes().all(plain) || name.starts_with("std::") {
        return None;
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let abbreviated = last.is_empty() || last.starts_with("operator");
    (!abbreviated).then_some(last)
}
