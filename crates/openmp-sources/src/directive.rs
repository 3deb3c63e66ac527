//! A directive's words: what it is, and its clauses.

/// A directive without its sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    /// The construct, in lower case: `parallel do`, `end single`.
    pub(super) name: String,
    /// What stands in parentheses right after the name, for critical and flush.
    pub(super) argument: Option<String>,
    /// Each clause's name and what it has in parentheses.
    pub(super) clauses: Vec<(String, String)>,
}

/// Words that names of constructs consist of.
const NAME_WORDS: &[&str] = &[
    "end",
    "parallel",
    "do",
    "for",
    "simd",
    "sections",
    "section",
    "single",
    "workshare",
    "master",
    "masked",
    "critical",
    "barrier",
    "flush",
    "ordered",
    "atomic",
    "task",
    "taskwait",
    "taskyield",
    "taskgroup",
    "taskloop",
    "threadprivate",
    "target",
    "teams",
    "distribute",
    "declare",
    "cancel",
    "cancellation",
    "interval",
    "data",
    "update",
    "scope",
    "loop",
];

/// Constructs without a block and without a loop.
const ALONE: &[&str] = &[
    "barrier",
    "taskwait",
    "taskyield",
    "flush",
    "cancel",
    "cancellation",
    "target update",
    "section",
    "ordered",
    "critical",
    "error",
    "nothing",
    "scan",
];

/// Clauses of a combined construct that belong to the region.
const REGION_CLAUSES: &[&str] = &[
    "if",
    "num_threads",
    "default",
    "shared",
    "copyin",
    "proc_bind",
];

impl Directive {
    /// Reads a directive.
    pub(super) fn parse(text: &str) -> Directive {
        let mut rest = text.trim();
        let mut name: Vec<String> = Vec::new();
        loop {
            let length = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let word = rest[..length.unwrap_or(rest.len())].to_ascii_lowercase();
            let word = match word.as_str() {
                "enddo" => "end do",
                "endparallel" => "end parallel",
                "paralleldo" => "parallel do",
                "endparalleldo" => "end parallel do",
                "endsingle" => "end single",
                "endsections" => "end sections",
                "endcritical" => "end critical",
                "endmaster" => "end master",
                "endordered" => "end ordered",
                "endworkshare" => "end workshare",
                word if NAME_WORDS.contains(&word) => word,
                _ => break,
            };
            // `ordered(1)` and `if(…)` after the name are clauses.
            let is_clause = word == "ordered" && !name.is_empty() && name != ["end"];
            if is_clause {
                break;
            }
            name.push(word.to_owned());
            rest = rest[length.unwrap_or(rest.len())..].trim_start();
        }
        let name = name.join(" ");
        let mut argument = None;
        let takes_argument =
            ["critical", "flush", "end critical", "threadprivate"].contains(&name.as_str());
        if takes_argument && rest.starts_with('(') {
            let (inside, after) = parentheses(rest);
            argument = Some(inside.to_owned());
            rest = after.trim_start();
        }
        Directive {
            name,
            argument,
            clauses: clauses(rest),
        }
    }

    /// Whether it says something about names and types, and executes nothing.
    pub(super) fn specifies(&self) -> bool {
        let first = self.name.split(' ').next().unwrap_or("");
        // What is not known here (`requires`, `allocate`) has no name.
        ["threadprivate", "declare", ""].contains(&first) || self.name.starts_with("end declare")
    }

    /// Whether neither a block nor a loop follows.
    pub(super) fn stands_alone(&self) -> bool {
        let moves_data = self.name == "target" && (self.has("enter") || self.has("exit"));
        moves_data || ALONE.contains(&self.name.as_str())
    }

    /// Whether a loop follows.
    pub(super) fn has_loop(&self) -> bool {
        let words = ["do", "for", "simd", "taskloop", "distribute", "loop"];
        self.name.split(' ').any(|word| words.contains(&word))
    }

    /// Whether no calls may stand in it: vector code, and code of devices.
    pub(super) fn is_quiet(&self) -> bool {
        let is_device = self.name.starts_with("target") && self.name != "target data";
        is_device || self.name.split(' ').any(|word| word == "simd")
    }

    /// How many loops must directly follow each other.
    pub(super) fn loops(&self) -> usize {
        let count = |clause: &(String, String)| match clause.0.to_ascii_lowercase().as_str() {
            "collapse" | "ordered" | "tile" => clause.1.trim().parse().ok(),
            _ => None,
        };
        self.clauses
            .iter()
            .filter_map(count)
            .max()
            .unwrap_or(1)
            .max(1)
    }

    /// What a cancel directive cancels.
    pub(super) fn cancelled(&self) -> &str {
        let named = self.name.strip_prefix("cancel").unwrap_or("").trim();
        match named.is_empty() {
            false => named,
            true => self.clauses.first().map_or("", |(name, _)| name.as_str()),
        }
    }

    /// Whether it has a clause of this name.
    pub(super) fn has(&self, clause: &str) -> bool {
        self.clauses
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(clause))
    }

    /// Its clauses as text, without `nowait`: all, or of a combined construct only those of
    /// the region or of what it consists of.
    pub(super) fn clauses_text(&self, part: ClausePart) -> String {
        let wanted = |name: &str| {
            let of_region = REGION_CLAUSES
                .iter()
                .any(|one| name.eq_ignore_ascii_case(one));
            match part {
                ClausePart::All => true,
                ClausePart::Region => of_region,
                ClausePart::Work => !of_region,
            }
        };
        let shown = self
            .clauses
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("nowait") && wanted(name));
        let text: Vec<String> = shown
            .map(|(name, value)| match value.is_empty() {
                true => name.clone(),
                false => format!("{name}({value})"),
            })
            .collect();
        text.join(" ")
    }

    /// What must be named as shared where nothing is by itself: what calls need, and what
    /// a combined construct combines.
    pub(super) fn shared_for_calls(&self, variables: &str, is_combined: bool) -> String {
        let nothing_is = self.clauses.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("default") && value.trim().eq_ignore_ascii_case("none")
        });
        if !nothing_is {
            return String::new();
        }
        let mut names = vec![variables.to_owned()];
        for (name, value) in self.clauses.iter().filter(|_| is_combined) {
            let list = match name.to_ascii_lowercase().as_str() {
                "reduction" => value.split_once(':').map(|(_, list)| list),
                "lastprivate" | "firstprivate" => Some(value.as_str()),
                _ => None,
            };
            names.extend(list.map(|list| list.trim().to_owned()));
        }
        format!(" shared({})", names.join(", "))
    }
}

/// Which clauses of a combined construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClausePart {
    /// All clauses.
    All,
    /// Clauses of the region.
    Region,
    /// Clauses of the construct within the region.
    Work,
}

/// What is in the parentheses at the start, and what follows them.
pub(super) fn parentheses(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..index], &text[index + 1..]);
        }
    }
    (&text[1..], "")
}

fn clauses(text: &str) -> Vec<(String, String)> {
    let mut clauses = Vec::new();
    let mut rest = text.trim_start_matches([',', ' ', '\t']);
    while !rest.is_empty() {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let length = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
        if length == 0 {
            break;
        }
        let name = rest[..length].to_owned();
        rest = rest[length..].trim_start();
        let mut value = String::new();
        if rest.starts_with('(') {
            let (inside, after) = parentheses(rest);
            value = inside.to_owned();
            rest = after;
        }
        clauses.push((name, value));
        rest = rest.trim_start_matches([',', ' ', '\t']);
    }
    clauses
}
