//! Functions of the standard libraries of C++ and Rust, which allocate and lock for whoever calls them.

use unspool_report::CodePlace;

/// How the names of such functions begin.
const BEGINNINGS: [&str; 10] = [
    "std::",
    "__gnu_cxx::",
    "__gthread",
    "operator new",
    "operator delete",
    "alloc::",
    "core::",
    "hashbrown::",
    "__rust",
    "__rdl_",
];

/// Whether an instruction is in such a function, by its name.
pub(super) fn is_in_standard_library(place: &CodePlace) -> bool {
    let Some(function) = &place.function else {
        return false;
    };
    // An implementation for a type of Rust stands in brackets, with the trait behind the type. Where
    // the type is of no crate the trait decides.
    let name = function.trim_start_matches(['<', '&']);
    let name = match name.split_once(" as ") {
        Some((of, by)) if !of.contains("::") => by,
        Some((of, _)) => of,
        None => name,
    };
    // The name of an instance of a template in C++ begins with what it returns.
    let end = name.find(['<', '(']).unwrap_or(name.len());
    let without_result = name[..end].rsplit(' ').next().unwrap_or(name);
    let mut beginnings = BEGINNINGS.iter();
    beginnings.any(|start| name.starts_with(start) || without_result.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_standard_libraries() {
        let check = |function: &str, expected: bool| {
            let place = CodePlace {
                function: Some(function.to_owned()),
                ..CodePlace::default()
            };
            assert_eq!(is_in_standard_library(&place), expected, "{function}");
        };
        for function in [
            "operator new(unsigned long)",
            "operator new[](unsigned long)",
            "std::__new_allocator<long>::allocate",
            "std::vector<long, std::allocator<long> >::vector(unsigned long)",
            "int& std::vector<int, std::allocator<int> >::emplace_back<int>(int&&)",
            "alloc::vec::Vec<T,A>::push",
            "<alloc::vec::Vec<T> as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<u64 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "__rust_alloc",
            "__rustc::__rdl_alloc",
            "__gthread_mutex_lock",
        ] {
            check(function, true);
        }
        for function in [
            "main",
            "operator_new",
            "program::main",
            "mine::std::vector",
            "allocate",
            "void work(std::vector<int>&)",
            "<program::List as core::iter::Iterator>::next",
        ] {
            check(function, false);
        }
        assert!(!is_in_standard_library(&CodePlace::default()));
    }
}
