//! The initial stack against one that the kernel built.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use crate::auxv::{self, ProgramFacts, Value};
use crate::stack::{InitialStack, StackContents, TooLong};

/// A stack as a program finds it.
#[derive(Debug, PartialEq, Eq)]
struct ParsedStack {
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    auxv: Vec<(u64, u64)>,
    executed_name: Vec<u8>,
    platform: Vec<u8>,
    /// Bytes between the last string and the top.
    above_strings: Vec<u8>,
}

fn parse(bytes: &[u8], pointer: u64) -> ParsedStack {
    assert_eq!(pointer % 16, 0);
    let word = |address: u64| {
        let start = (address - pointer) as usize;
        u64::from_le_bytes(bytes[start..start + 8].try_into().expect("eight bytes"))
    };
    let string = |address: u64| {
        let rest = &bytes[(address - pointer) as usize..];
        CStr::from_bytes_until_nul(rest)
            .expect("a terminated string")
            .to_bytes()
            .to_vec()
    };
    let mut next = pointer + 8;
    let mut end_of_strings = None;
    let mut strings = || {
        let mut list = Vec::new();
        while word(next) != 0 {
            let text = string(word(next));
            let start = *end_of_strings.get_or_insert(word(next));
            assert_eq!(word(next), start, "strings lie one behind the other");
            end_of_strings = Some(start + text.len() as u64 + 1);
            list.push(text);
            next += 8;
        }
        next += 8;
        list
    };
    let arguments = strings();
    let environment = strings();
    assert_eq!(word(pointer), arguments.len() as u64);
    let mut auxv = Vec::new();
    while auxv.last().is_none_or(|&(key, _)| key != 0) {
        auxv.push((word(next), word(next + 8)));
        next += 16;
    }
    let value = |key| {
        auxv.iter()
            .find(|pair| pair.0 == key)
            .expect("a complete vector")
            .1
    };
    let executed_name = string(value(auxv::AT_EXECFN));
    assert_eq!(Some(value(auxv::AT_EXECFN)), end_of_strings);
    let strings_end = value(auxv::AT_EXECFN) + executed_name.len() as u64 + 1;
    let above_strings = bytes[(strings_end - pointer) as usize..].to_vec();
    let platform = string(value(auxv::AT_PLATFORM));
    assert!(
        value(auxv::AT_RANDOM) >= next,
        "the random bytes lie above the vector"
    );
    ParsedStack {
        arguments,
        environment,
        auxv,
        executed_name,
        platform,
        above_strings,
    }
}

fn strings(texts: &[&str]) -> Vec<CString> {
    texts
        .iter()
        .map(|&text| CString::new(text).expect("no zero"))
        .collect()
}

fn build(arguments: &[CString], environment: &[CString], auxv: &[(u64, Value)]) -> InitialStack {
    let contents = StackContents {
        arguments,
        environment,
        executed_name: c"/bin/sh",
        platform: Some(b"x86_64"),
        random: [0xab; 16],
        auxv,
    };
    contents.build(0x7000_0000_1000)
}

/// Tells that it runs, then waits.
const SHELL_COMMAND: &str = "echo; read line";

struct RealProcess(Child);

impl RealProcess {
    fn start() -> RealProcess {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SHELL_COMMAND])
            .env_clear()
            .env("A", "1")
            .env("LONGER", "some value");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("every system has a shell");
        // A spawned process may not have its stack yet, but one that writes has.
        let mut byte = [0];
        child
            .stdout
            .as_mut()
            .expect("a pipe")
            .read_exact(&mut byte)
            .expect("it writes");
        RealProcess(child)
    }

    /// The stack pointer at the start, and the memory from there to the stack's end.
    fn initial_stack(&self) -> (u64, Vec<u8>) {
        let file = |name: &str| format!("/proc/{}/{name}", self.0.id());
        let stat = std::fs::read_to_string(file("stat")).expect("a live process");
        let fields = stat.rsplit_once(')').expect("a known format").1;
        let pointer = fields
            .split_whitespace()
            .nth(25)
            .expect("field 28, startstack");
        let pointer: u64 = pointer.parse().expect("a number");
        let maps = std::fs::read_to_string(file("maps")).expect("a live process");
        let line = maps
            .lines()
            .find(|line| line.ends_with("[stack]"))
            .expect("a stack");
        let end = &line[line.find('-').expect("a range") + 1..line.find(' ').expect("a range")];
        let end = u64::from_str_radix(end, 16).expect("a number");
        let mut bytes = vec![0; (end - pointer) as usize];
        let memory = File::open(file("mem")).expect("our own child");
        memory
            .read_exact_at(&mut bytes, pointer)
            .expect("its stack");
        (pointer, bytes)
    }
}

impl Drop for RealProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_stack_is_laid_out_as_the_kernel_does() {
    let real = RealProcess::start();
    let (pointer, bytes) = real.initial_stack();
    let kernels = parse(&bytes, pointer);
    let value = |key| {
        kernels
            .auxv
            .iter()
            .find(|pair| pair.0 == key)
            .expect("complete")
            .1
    };

    let facts = ProgramFacts {
        program_headers: value(auxv::AT_PHDR),
        program_header_size: value(auxv::AT_PHENT),
        program_header_count: value(auxv::AT_PHNUM),
        interpreter_base: value(auxv::AT_BASE),
        entry: value(auxv::AT_ENTRY),
        vdso: Some(value(auxv::AT_SYSINFO_EHDR)),
    };
    let own = auxv::own_auxv().expect("every process has one");
    let entries = auxv::program_auxv(&own, &facts);
    let arguments = strings(&["/bin/sh", "-c", SHELL_COMMAND]);
    let environment = strings(&["A=1", "LONGER=some value"]);
    let initial = build(&arguments, &environment, &entries);
    let ours = parse(&initial.bytes, initial.pointer);

    assert_eq!(auxv::own_platform(&own).as_ref(), Some(&kernels.platform));
    assert_eq!(ours.auxv, initial.auxv);
    let comparable = |stack: ParsedStack| {
        let points_into_stack = [auxv::AT_RANDOM, auxv::AT_EXECFN, auxv::AT_PLATFORM];
        let rseq = [27, 28];
        let auxv: Vec<_> = stack
            .auxv
            .into_iter()
            .filter(|(key, _)| !rseq.contains(key))
            .map(|(key, value)| {
                (
                    key,
                    if points_into_stack.contains(&key) {
                        0
                    } else {
                        value
                    },
                )
            })
            .collect();
        ParsedStack { auxv, ..stack }
    };
    assert_eq!(comparable(ours), comparable(kernels));
}

#[test]
fn the_stack_is_aligned_for_any_number_of_strings() {
    let entries = [
        (auxv::AT_RANDOM, Value::RandomBytes),
        (auxv::AT_EXECFN, Value::ExecutedName),
        (auxv::AT_PLATFORM, Value::Platform),
    ];
    for count in 1..20 {
        let arguments = strings(&["argument"; 20][..count]);
        let environment = strings(&["", "E=", "VARIABLE=value"][..count % 4]);
        let initial = build(&arguments, &environment, &entries[..]);
        let parsed = parse(&initial.bytes, initial.pointer);
        assert_eq!(parsed.arguments.len(), count);
        assert_eq!(parsed.environment.len(), count % 4);
        let random = initial.auxv[0].1 - initial.pointer;
        assert_eq!(initial.bytes[random as usize..][..16], [0xab; 16]);
        let argument_size: u64 = initial.argument_strings.end - initial.argument_strings.start;
        assert_eq!(argument_size, 9 * count as u64);
    }
}

#[test]
fn without_a_vdso_none_is_announced() {
    let facts = ProgramFacts {
        program_headers: 1,
        program_header_size: 2,
        program_header_count: 3,
        interpreter_base: 4,
        entry: 5,
        vdso: None,
    };
    let own = [(auxv::AT_SYSINFO_EHDR, 77), (27, 28), (28, 32), (12345, 6)];
    let entries = auxv::program_auxv(&own, &facts);
    assert!(
        !entries
            .iter()
            .any(|&(key, _)| [auxv::AT_SYSINFO_EHDR, 27, 28].contains(&key))
    );
    assert_eq!(entries[0], (12345, Value::Number(6)));
    assert!(entries.contains(&(auxv::AT_PHNUM, Value::Number(3))));
}

#[test]
fn what_the_kernel_would_not_pass_is_refused() {
    let check = |sizes: &[usize], stack_limit: u64| {
        let arguments: Vec<CString> = sizes
            .iter()
            .map(|&size| CString::new(vec![b'x'; size]).expect("no zero"))
            .collect();
        let contents = StackContents {
            arguments: &arguments,
            environment: &[],
            executed_name: c"x",
            platform: None,
            random: [0; 16],
            auxv: &[],
        };
        contents.check_size(stack_limit)
    };
    let megabyte = 1 << 20;
    assert_eq!(check(&[131_071], 8 * megabyte), Ok(131_072 + 2 + 8));
    assert_eq!(
        check(&[131_072], 8 * megabyte),
        Err(TooLong {
            size: 131_073,
            limit: 131_072
        })
    );
    assert!(check(&[100_000; 20], 8 * megabyte).is_ok());
    assert_eq!(
        check(&[100_000; 30], 8 * megabyte).map_err(|error| error.limit),
        Err(2 * megabyte)
    );
    assert_eq!(
        check(&[100_000; 70], u64::MAX).map_err(|error| error.limit),
        Err(6 * megabyte)
    );
    assert_eq!(
        check(&[60_000; 3], 4096).map_err(|error| error.limit),
        Err(131_072)
    );
}
