//! The events of a source, each with its handle and context string.

use unspool_openmp_record::original::ContextString;

/// All events of a source. A handle is an index from 1.
#[derive(Debug)]
pub(super) struct Events {
    file: String,
    all: Vec<Event>,
}

#[derive(Debug)]
struct Event {
    kind: &'static str,
    name: Option<String>,
    first_line: usize,
    last_line: usize,
    clauses: Vec<(String, String)>,
}

impl Events {
    pub(super) fn new(file: &str) -> Events {
        Events {
            file: file.to_owned(),
            all: Vec::new(),
        }
    }

    /// A new event that starts at this line.
    pub(super) fn add(&mut self, kind: &'static str, name: Option<String>, line: usize) -> usize {
        self.all.push(Event {
            kind,
            name,
            first_line: line,
            last_line: line,
            clauses: Vec::new(),
        });
        self.all.len()
    }

    /// Keeps a directive's clauses with its event.
    pub(super) fn set_clauses(&mut self, handle: usize, clauses: &[(String, String)]) {
        self.all[handle - 1].clauses = clauses.to_vec();
    }

    /// The event ends at this line.
    pub(super) fn end(&mut self, handle: usize, line: usize) {
        self.all[handle - 1].last_line = line;
    }

    /// The context strings, in order of handles.
    pub(super) fn strings(&self) -> Vec<String> {
        let string = |event: &Event| {
            let lines = (event.first_line.to_string(), event.last_line.to_string());
            let mut attributes = vec![
                ("type", event.kind),
                ("file", self.file.as_str()),
                ("line1", &lines.0),
                ("line2", &lines.1),
            ];
            if let Some(name) = &event.name {
                attributes.push(("name1", name));
            }
            let clauses = event.clauses.iter().filter(|(_, value)| !value.is_empty());
            attributes.extend(clauses.map(|(name, value)| (name.as_str(), value.as_str())));
            ContextString::new(&attributes).to_string()
        };
        self.all.iter().map(string).collect()
    }
}
