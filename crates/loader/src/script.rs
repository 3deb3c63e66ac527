//! The first line of a script, `#!interpreter argument`, read as the kernel reads it.
//!
//! Source: `fs/binfmt_script.c`. Peculiarities kept: there is at most one argument, which
//! may contain blanks; the line may be 255 bytes long, and beyond that the argument is cut
//! off silently but a cut-off interpreter is an error; a zero byte ends either.

use super::executable::HEAD_SIZE;

/// What a script's first line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptLine {
    pub(crate) interpreter: Vec<u8>,
    pub(crate) argument: Option<Vec<u8>>,
}

/// Whether a file with this beginning is a script at all.
pub(crate) fn is_script(head: &[u8; HEAD_SIZE]) -> bool {
    head.starts_with(b"#!")
}

/// Reads the line; none if there is no usable interpreter in it.
pub(crate) fn parse_script_line(head: &[u8; HEAD_SIZE]) -> Option<ScriptLine> {
    if !is_script(head) {
        return None;
    }
    let last = HEAD_SIZE - 1;
    // The search for the line's end does not go past a zero byte.
    let newline = head.iter().position(|&byte| byte == b'\n' || byte == 0);
    let mut end = match newline {
        Some(position) if head[position] == b'\n' => position,
        _ => {
            let start = find(head, 2, last, |byte| !is_blank(byte))?;
            find(head, start, last, is_terminator)?;
            last
        }
    };
    while end > 2 && is_blank(head[end - 1]) {
        end -= 1;
    }
    let name = find(head, 2, end, |byte| !is_blank(byte)).filter(|&name| name < end)?;
    let separator = find(head, name, end, is_terminator);
    let argument = separator
        .filter(|&separator| head[separator] != 0)
        .and_then(|separator| find(head, separator, end, |byte| !is_blank(byte)))
        .filter(|&start| start < end)
        .map(|start| until_zero(&head[start..end]).to_vec());
    let interpreter = until_zero(&head[name..separator.unwrap_or(end).min(end)]).to_vec();
    (!interpreter.is_empty()).then_some(ScriptLine {
        interpreter,
        argument,
    })
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn is_terminator(byte: u8) -> bool {
    is_blank(byte) || byte == 0
}

/// The first position from `first` to `last`, both included, whose byte is `wanted`.
fn find(head: &[u8], first: usize, last: usize, wanted: impl Fn(u8) -> bool) -> Option<usize> {
    (first..=last).find(|&position| wanted(head[position]))
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: Option<(&str, Option<&str>)>) {
        let mut head = [0; HEAD_SIZE];
        let length = text.len().min(HEAD_SIZE);
        head[..length].copy_from_slice(&text[..length]);
        let expected = expected.map(|(interpreter, argument)| ScriptLine {
            interpreter: interpreter.into(),
            argument: argument.map(Into::into),
        });
        assert_eq!(
            parse_script_line(&head),
            expected,
            "{}",
            String::from_utf8_lossy(text)
        );
    }

    #[test]
    fn ordinary_lines() {
        check(b"#!/bin/sh\n", Some(("/bin/sh", None)));
        check(b"#! /bin/sh -e\nset\n", Some(("/bin/sh", Some("-e"))));
        check(
            b"#!\t/usr/bin/env  -S a b \t\n",
            Some(("/usr/bin/env", Some("-S a b"))),
        );
        check(b"#!/bin/sh", Some(("/bin/sh", None)));
        check(b"#!/bin/sh \n", Some(("/bin/sh", None)));
        check(b"#!/bin/sh\r\n", Some(("/bin/sh\r", None)));
    }

    #[test]
    fn lines_without_interpreter() {
        check(b"", None);
        check(b"#", None);
        check(b"# !/bin/sh\n", None);
        check(b"#!\n", None);
        check(b"#!", None);
        check(b"#!  \t \n", None);
        check(b"#!\0/bin/sh\n", None);
    }

    #[test]
    fn zero_bytes_end_names_and_arguments() {
        check(b"#!/bin/sh\0-e\n", Some(("/bin/sh", None)));
        check(b"#!/bin/sh -e\0x\n", Some(("/bin/sh", Some("-e"))));
    }

    #[test]
    fn long_lines() {
        let mut cut_argument = b"#!/bin/sh ".to_vec();
        cut_argument.resize(400, b'x');
        check(
            &cut_argument,
            Some(("/bin/sh", Some(&"x".repeat(HEAD_SIZE - 1 - 10)))),
        );
        let mut cut_name = b"#!/".to_vec();
        cut_name.resize(400, b'x');
        check(&cut_name, None);
        check(&[&b"#!"[..], &[b' '; 300]].concat(), None);
    }
}
