//! What a statement is, by its words. Statements are in lower case, without labels.

/// What a statement means to the instrumenter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    /// The main program.
    Program,
    /// A module or block data, which execute nothing.
    Holder,
    /// A subroutine or function, and whether it is pure.
    Procedure {
        /// Its name.
        name: String,
        /// Whether nothing may be called in it that is not pure.
        is_pure: bool,
    },
}

/// The letters of a name at the start.
pub(super) fn name_at(text: &str) -> &str {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    &text[..text.find(|letter| !is_name(letter)).unwrap_or(text.len())]
}

/// What is after `word`, if the statement starts with it and it ends there.
pub(super) fn after_word<'text>(text: &'text str, word: &str) -> Option<&'text str> {
    (name_at(text) == word).then(|| text[word.len()..].trim_start())
}

/// The unit that starts here.
pub(super) fn started_unit(statement: &str) -> Option<Unit> {
    if statement.contains('=') && !statement.contains('(') {
        return None;
    }
    if after_word(statement, "program").is_some_and(|name| name_at(name) == name) {
        return Some(Unit::Program);
    }
    for word in ["module", "submodule", "block data", "blockdata"] {
        let Some(rest) = statement.strip_prefix(word) else {
            continue;
        };
        let rest = rest.trim_start();
        if word == "submodule" && rest.starts_with('(') || word.starts_with("block") {
            return Some(Unit::Holder);
        }
        if word == "module" {
            if let Some(name) = after_word(rest, "procedure").filter(|name| !name.is_empty()) {
                return Some(Unit::Procedure {
                    name: name.to_owned(),
                    is_pure: false,
                });
            }
            if !rest.is_empty() && name_at(rest) == rest && statement.starts_with("module ") {
                return Some(Unit::Holder);
            }
        }
    }
    procedure(statement)
}

/// `pure integer(8) function f(x)`, after any prefixes.
fn procedure(statement: &str) -> Option<Unit> {
    const PREFIXES: &[&str] = &[
        "pure",
        "elemental",
        "impure",
        "recursive",
        "non_recursive",
        "module",
        "integer",
        "real",
        "double",
        "doubleprecision",
        "precision",
        "complex",
        "logical",
        "character",
        "type",
        "class",
    ];
    let mut rest = statement;
    let mut is_pure = false;
    let mut is_impure = false;
    loop {
        let word = name_at(rest);
        if word == "subroutine" || word == "function" {
            let name = name_at(rest[word.len()..].trim_start());
            let starts = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
            return starts.then(|| Unit::Procedure {
                name: name.to_owned(),
                is_pure: is_pure && !is_impure,
            });
        }
        if !PREFIXES.contains(&word) {
            return None;
        }
        is_pure |= word == "pure" || word == "elemental";
        is_impure |= word == "impure";
        rest = rest[word.len()..].trim_start();
        // A type's kind: `(8)`, `*8`, `*(*)`.
        if let Some(size) = rest.strip_prefix('*') {
            rest = size
                .trim_start()
                .trim_start_matches(|letter: char| letter.is_ascii_digit());
            rest = rest.trim_start();
        }
        if rest.starts_with('(') {
            rest = crate::directive::parentheses(rest).1.trim_start();
        }
    }
}

/// Whether the unit ends here.
pub(super) fn ends_unit(statement: &str) -> bool {
    let compact: String = statement.split_whitespace().collect();
    let Some(rest) = compact.strip_prefix("end") else {
        return false;
    };
    let of_units = [
        "program",
        "subroutine",
        "function",
        "module",
        "submodule",
        "procedure",
        "blockdata",
    ];
    !rest.contains('=')
        && !rest.contains('(')
        && (rest.is_empty() || of_units.iter().any(|word| rest.starts_with(word)))
}

/// Whether the statement assigns to something, whatever word it starts with.
fn assigns(statement: &str) -> bool {
    let rest = statement[name_at(statement).len()..].trim_start();
    let rest = match rest.starts_with('(') {
        true => crate::directive::parentheses(rest).1.trim_start(),
        false => rest,
    };
    rest.starts_with('=') && !rest.starts_with("==") && !rest.starts_with("=>")
        || rest.starts_with('%')
}

/// Whether an executable statement of scalars may take long, as far as its words tell: those that
/// repeat, call, or read and write. It may seem so for a name's sake.
pub(super) fn may_take_long(statement: &str) -> bool {
    const WORDS: &[&str] = &[
        "call", "go to", "goto", "where", "forall", "read", "write", "print", "open",
    ];
    WORDS.iter().any(|word| statement.contains(word))
}

/// Whether the lines that specify are of scalars alone, so that assignments are no loops: types,
/// constants, and what says nothing of shapes.
pub(super) fn is_of_scalars(specification: &str) -> bool {
    specification.lines().all(|line| {
        let has = |word| after_word(line, word).is_some();
        if ["implicit", "parameter", "save", "external", "intrinsic"]
            .into_iter()
            .any(has)
        {
            return true;
        }
        let types = [
            "integer",
            "real",
            "double precision",
            "doubleprecision",
            "complex",
            "logical",
        ];
        let Some(rest) = types.iter().find_map(|name| line.strip_prefix(name)) else {
            return false;
        };
        // The kind.
        let rest = match rest.trim_start().strip_prefix('(') {
            Some(kind) => kind.split_once(')').map_or("(", |(_, rest)| rest),
            None => rest,
        };
        let rest = rest.replacen("intent(", "", 1);
        let is_shape = ["(", "dimension", "allocatable", "pointer"];
        !is_shape.iter().any(|word| rest.contains(word))
    })
}

/// Whether a statement belongs to the part of a unit that specifies and does not execute.
/// `before` is what stands in that part so far.
pub(super) fn specifies(statement: &str, before: &str) -> bool {
    const WORDS: &[&str] = &[
        "use",
        "import",
        "implicit",
        "parameter",
        "format",
        "entry",
        "include",
        "integer",
        "real",
        "double",
        "doubleprecision",
        "complex",
        "character",
        "logical",
        "type",
        "class",
        "dimension",
        "allocatable",
        "pointer",
        "target",
        "save",
        "external",
        "intrinsic",
        "optional",
        "intent",
        "common",
        "equivalence",
        "data",
        "namelist",
        "interface",
        "abstract",
        "procedure",
        "enum",
        "enumerator",
        "contiguous",
        "volatile",
        "asynchronous",
        "bind",
        "value",
        "protected",
        "public",
        "private",
        "generic",
        "end",
        "endtype",
        "endenum",
        "endinterface",
        "codimension",
        "sequence",
    ];
    let word = name_at(statement);
    if WORDS.contains(&word) {
        return !assigns(statement);
    }
    // `real*8 x` has no blank after its word; `implicit` types neither.
    if word.is_empty() {
        return false;
    }
    is_statement_function(statement, word, before)
}

/// `f(x) = x * x`: looks like an assignment to an element, but nothing says that the name is
/// an array.
fn is_statement_function(statement: &str, name: &str, before: &str) -> bool {
    let rest = statement[name.len()..].trim_start();
    if !rest.starts_with('(') {
        return false;
    }
    let (arguments, after) = crate::directive::parentheses(rest);
    let after = after.trim_start();
    let defines = after.starts_with('=') && !after.starts_with("==");
    let plain = arguments.split(',').map(str::trim).all(|one| {
        name_at(one) == one && one.starts_with(|letter: char| letter.is_ascii_alphabetic())
    });
    // An array is declared with its bounds, or comes from somewhere else.
    let from_elsewhere = [
        "use ",
        "include",
        "dimension",
        "allocatable",
        "pointer",
        "import",
    ];
    let may_be_array = before.contains(&format!("{name}("))
        || before.contains(&format!("{name} ("))
        || from_elsewhere.iter().any(|word| before.contains(word));
    defines && plain && !may_be_array
}

/// The label of the loop that starts here (empty where it ends in `end do`), or nothing.
pub(super) fn started_loop(statement: &str) -> Option<String> {
    // A loop may have a name.
    let head = match statement.split_once(':') {
        Some((name, rest)) if !name.is_empty() && name_at(name.trim_end()) == name.trim_end() => {
            rest.trim_start()
        }
        _ => statement,
    };
    let rest = head.strip_prefix("do")?;
    let rest_trimmed = rest.trim_start();
    let digits = rest_trimmed.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 && !rest.is_empty() && !rest.starts_with([' ', '\t', ',']) {
        return None;
    }
    let (label, control) = rest_trimmed.split_at(digits);
    let control = control.trim_start().trim_start_matches(',').trim_start();
    let counts = || {
        let variable = name_at(control);
        let after = control[variable.len()..].trim_start();
        !variable.is_empty()
            && after.starts_with('=')
            && !after.starts_with("==")
            && has_comma(&after[1..])
    };
    let is_loop = control.is_empty()
        || after_word(control, "while").is_some_and(|rest| rest.starts_with('('))
        || after_word(control, "concurrent").is_some_and(|rest| rest.starts_with('('))
        || counts();
    is_loop.then(|| label.to_owned())
}

fn has_comma(text: &str) -> bool {
    let mut depth = 0;
    for letter in text.chars() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Whether a loop ends here by `end do`.
pub(super) fn ends_loop(statement: &str) -> bool {
    let rest = statement
        .strip_prefix("end")
        .map(|rest| rest.trim_start())
        .and_then(|rest| after_word(rest, "do"));
    rest.is_some_and(|rest| !rest.starts_with('='))
}

/// Where the condition of `if (condition) action` ends, if an action follows.
pub(super) fn condition_end(statement: &str) -> Option<usize> {
    let rest = after_word(statement, "if").filter(|rest| rest.starts_with('('))?;
    let (_, action) = crate::directive::parentheses(rest);
    let action = action.trim_start();
    let starts = action.starts_with(|letter: char| letter.is_ascii_alphabetic());
    (starts && name_at(action) != "then").then(|| statement.len() - action.len())
}
