//! What the user asked the engine to do, in a form that survives `execve`.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// How a program is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Whether children are let go: a process that the program starts runs natively.
    pub leave_children: bool,
    /// When the process is let go, to run natively from there on.
    pub let_go: When,
    /// Bytes that translated code may take.
    pub code_cache: u64,
    /// Where translations without instrumentation are kept between runs, if they are.
    pub persistent_cache: Option<Keeping>,
    /// Whether the user has been told that the program wishes for memory that it does not get.
    pub told_of_wish: bool,
    /// The arguments of this executable that precede the program's: what they mean is its own
    /// business.
    pub own_arguments: Vec<OsString>,
}

/// When a process is let go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct When {
    /// At this time of the monotonic clock; 0 for never.
    pub deadline_ns: u64,
    /// When a thread comes to the end of a region of interest.
    pub at_region_end: bool,
}

/// What the monotonic clock shows after a time.
#[must_use]
pub fn deadline_after(time: Duration) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    u64::try_from((now + time).as_nanos()).unwrap_or(u64::MAX)
}

/// Where translations are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// The directory; not empty.
    pub directory: PathBuf,
    /// Whether the user has asked for it, and is to be told why it does not work.
    pub asked: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            leave_children: false,
            let_go: When::default(),
            code_cache: unspool_kernel::layout::CACHE_SIZE,
            persistent_cache: None,
            told_of_wish: false,
            own_arguments: Vec::new(),
        }
    }
}

/// The least number of bytes for translated code: there must be room for a large fragment
/// in both halves.
pub const SMALLEST_CODE_CACHE: u64 = 1 << 20;

/// The first argument of an engine that was started by an observed process's `execve`.
pub(crate) const CONTINUE: &str = "--unspool-continue";
/// The same where the program's file is an open descriptor, whose number follows.
pub(crate) const CONTINUE_OPEN: &str = "--unspool-continue-open";

/// What the program's next image inherits of signals. The kernel's own record of it is the
/// engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InheritedSignals {
    /// The mask.
    pub(crate) mask: u64,
    /// Those that are ignored.
    pub(crate) ignored: u64,
}

impl InheritedSignals {
    fn encode(self) -> String {
        format!("{:x},{:x}", self.mask, self.ignored)
    }

    /// The inverse.
    #[must_use]
    pub(crate) fn decode(text: &str) -> Option<InheritedSignals> {
        let (mask, ignored) = text.split_once(',')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(InheritedSignals {
            mask: number(mask)?,
            ignored: number(ignored)?,
        })
    }
}

/// The arguments that come before a plan for another process.
pub(crate) fn continuation(open: Option<i32>, inherited: InheritedSignals) -> Vec<CString> {
    let mut words = match open {
        None => vec![CONTINUE.to_owned()],
        Some(number) => vec![CONTINUE_OPEN.to_owned(), number.to_string()],
    };
    words.push(inherited.encode());
    let plain = |word| CString::new(word).expect("no NUL");
    words.into_iter().map(plain).collect()
}

/// A program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments; the first is its name.
    pub arguments: Vec<CString>,
    /// Its environment, as `NAME=value`.
    pub environment: Vec<CString>,
}

/// What a client of the program's next image is told by that of this one. What the words mean is
/// the client's own business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPlan {
    /// Which client.
    pub client: String,
    /// What it is told.
    pub words: Vec<Vec<u8>>,
}

/// The fields of an encoded plan.
struct Fields<'a>(std::slice::Split<'a, u8, fn(&u8) -> bool>);

impl Fields<'_> {
    fn of(text: &[u8]) -> Fields<'_> {
        Fields(text.split(|&byte| byte == b','))
    }

    /// The next one, if there is one and it is well formed.
    fn bytes(&mut self) -> Option<Vec<u8>> {
        unescape(self.0.next()?)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn number<N: std::str::FromStr>(&mut self) -> Option<N> {
        self.text()?.parse().ok()
    }

    /// A number, and so many fields behind it.
    fn list(&mut self) -> Option<Vec<Vec<u8>>> {
        let count: usize = self.number()?;
        (0..count).map(|_| self.bytes()).collect()
    }

    fn is_at_end(&self) -> bool {
        self.0.clone().next().is_none()
    }
}

impl Plan {
    fn flags(&self) -> u8 {
        let asked = self.persistent_cache.as_ref().is_some_and(|it| it.asked);
        u8::from(self.leave_children) | u8::from(self.told_of_wish) << 1 | u8::from(asked) << 2
    }

    /// The plan as one argument, with what clients are told.
    #[must_use]
    pub(crate) fn encode(&self, clients: &[ClientPlan]) -> CString {
        let number = |number: usize| number.to_string().into_bytes();
        let mut fields: Vec<Vec<u8>> = vec![
            vec![b'0' + self.flags()],
            self.let_go.deadline_ns.to_string().into_bytes(),
            vec![b'0' + u8::from(self.let_go.at_region_end)],
            self.code_cache.to_string().into_bytes(),
            self.persistent_cache
                .as_ref()
                .map_or_else(Vec::new, |it| it.directory.as_os_str().as_bytes().to_vec()),
            number(self.own_arguments.len()),
        ];
        let own = self.own_arguments.iter();
        fields.extend(own.map(|argument| argument.as_bytes().to_vec()));
        for client in clients {
            fields.push(client.client.clone().into_bytes());
            fields.push(number(client.words.len()));
            fields.extend(client.words.iter().cloned());
        }
        let text = fields
            .iter()
            .map(|field| escape(field))
            .collect::<Vec<_>>()
            .join(&b',');
        CString::new(text).expect("escaping leaves no NUL")
    }

    /// The inverse of `encode`.
    #[must_use]
    pub(crate) fn decode(text: &[u8]) -> Option<(Plan, Vec<ClientPlan>)> {
        let mut fields = Fields::of(text);
        let flags = *fields.bytes()?.first()?;
        let [leave_children, told_of_wish, asked] = [1, 2, 4].map(|flag| flags & flag != 0);
        let let_go = When {
            deadline_ns: fields.number()?,
            at_region_end: fields.bytes()? == b"1",
        };
        let code_cache = fields.number()?;
        let directory = PathBuf::from(OsString::from_vec(fields.bytes()?));
        let persistent_cache = Some(Keeping { directory, asked })
            .filter(|keeping| !keeping.directory.as_os_str().is_empty());
        let own_arguments = fields.list()?;
        let plan = Plan {
            leave_children,
            let_go,
            code_cache,
            persistent_cache,
            told_of_wish,
            own_arguments: own_arguments.into_iter().map(OsString::from_vec).collect(),
        };
        let mut clients = Vec::new();
        while !fields.is_at_end() {
            let (client, words) = (fields.text()?, fields.list()?);
            clients.push(ClientPlan { client, words });
        }
        Some((plan, clients))
    }
}

fn escape(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in field {
        match byte {
            b',' | b'%' => text.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            _ => text.push(byte),
        }
    }
    text
}

fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inherited_survives_encoding() {
        let inherited = InheritedSignals {
            mask: u64::MAX,
            ignored: 1 << 63 | 5,
        };
        assert_eq!(
            InheritedSignals::decode(&inherited.encode()),
            Some(inherited)
        );
        assert_eq!(InheritedSignals::decode("5"), None);
    }

    #[test]
    fn plans_survive_encoding() {
        let client = |client: &str, words: &[&[u8]]| ClientPlan {
            client: client.to_owned(),
            words: words.iter().map(|word| word.to_vec()).collect(),
        };
        let all_told = Plan {
            leave_children: true,
            let_go: When {
                deadline_ns: 17,
                at_region_end: true,
            },
            code_cache: 1 << 21,
            persistent_cache: Some(Keeping {
                directory: "/var/cache,/%".into(),
                asked: true,
            }),
            told_of_wish: true,
            own_arguments: vec!["tool".into(), "a,b%".into(), "".into()],
        };
        for plan in [
            (Plan::default(), vec![]),
            (all_told.clone(), vec![]),
            (Plan::default(), vec![client("none", &[])]),
            (
                all_told,
                vec![client("a", &[b"x,y%", b"", b"\xff"]), client("b", &[b""])],
            ),
        ] {
            let encoded = plan.0.encode(&plan.1);
            assert_eq!(Plan::decode(encoded.as_bytes()), Some(plan));
        }
        assert_eq!(Plan::decode(b"0,0,0,1,,0,client,x"), None);
        assert_eq!(Plan::decode(b"0,0,0,1,,0,client,1"), None);
        assert_eq!(Plan::decode(b"0,0,0,1,,2,x"), None);
    }
}
