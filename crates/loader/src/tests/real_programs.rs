//! Real programs, loaded into a forked child and started there without translation: they
//! work only if everything is as the kernel would have left it.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use super::scratch::{Scratch, load};
use crate::LoadRequest;

/// Starts a loaded program in place of this one.
///
/// # Safety
/// Only in a process that needs nothing of its own any more.
unsafe fn start(entry: u64, stack_pointer: u64) -> ! {
    // SAFETY: by the caller's promise; the program finds the registers that a new process
    // has, and never returns.
    unsafe {
        std::arch::asm!(
            "mov rsp, {stack_pointer}",
            "xor edx, edx",
            "xor ebp, ebp",
            "jmp {entry}",
            stack_pointer = in(reg) stack_pointer,
            entry = in(reg) entry,
            options(noreturn)
        )
    }
}

/// Runs the program in a child; gives what it wrote and its wait status.
fn run_loaded(path: &Path, arguments: &[&str], environment: &[&str]) -> (String, i32) {
    let strings = |texts: &[&str]| -> Vec<CString> {
        texts
            .iter()
            .map(|&text| CString::new(text).expect("no zero"))
            .collect()
    };
    let mut argv = vec![CString::new(path.as_os_str().as_bytes()).expect("no zero")];
    argv.extend(strings(arguments));
    let request = LoadRequest::new(path.to_owned(), argv, strings(environment));
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: the child only loads, which needs no lock but the allocator's, and that is
    // safe after fork in the C library that this is linked with.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let writer = OwnedFd::from(writer);
        // SAFETY: both are open files of this process, which has no other thread now.
        unsafe {
            libc::dup2(writer.as_raw_fd(), 1);
            libc::dup2(writer.as_raw_fd(), 2);
        }
        drop(writer);
        match load(&request) {
            // SAFETY: this process has nothing else to do.
            Ok(loaded) => unsafe { start(loaded.entry, loaded.stack_pointer) },
            Err(error) => {
                let message = format!("load failed: {error}");
                // SAFETY: writes what it is given; then ends without running destructors.
                unsafe {
                    libc::write(1, message.as_ptr().cast(), message.len());
                    libc::_exit(99);
                }
            }
        }
    }
    drop(writer);
    let mut output = String::new();
    reader.read_to_string(&mut output).expect("text");
    let mut status = 0;
    // SAFETY: waits for our own child and writes one number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    (output, status)
}

fn run_natively(path: &Path, arguments: &[&str], environment: &[&str]) -> (String, i32) {
    let mut command = Command::new(path);
    command.args(arguments).env_clear();
    for variable in environment {
        let (name, value) = variable.split_once('=').expect("a variable");
        command.env(name, value);
    }
    let output = command.output().expect("a program");
    let text = [output.stdout, output.stderr].concat();
    let status = std::os::unix::process::ExitStatusExt::into_raw(output.status);
    (String::from_utf8(text).expect("text"), status)
}

fn compare(path: &Path, arguments: &[&str]) {
    let environment = ["LC_ALL=C", "PATH=/usr/bin:/bin"];
    assert_eq!(
        run_loaded(path, arguments, &environment),
        run_natively(path, arguments, &environment),
        "{}",
        path.display()
    );
}

#[test]
fn programs_of_the_system() {
    compare(Path::new("/bin/echo"), &["hello", "world"]);
    compare(Path::new("/usr/bin/env"), &[]);
    compare(
        Path::new("/bin/sh"),
        &["-c", "set -- a b; echo $# $0; ls / | sort; exit 7"],
    );
    compare(Path::new("/bin/false"), &[]);
}

#[test]
fn the_dynamic_loader_sees_the_same_auxiliary_vector() {
    let names = |(output, status): (String, i32)| -> Vec<String> {
        assert_eq!(status, 0, "{output}");
        let changing = ["SYSINFO_EHDR", "PHDR:", "BASE:", "ENTRY:", "RANDOM:"];
        output
            .lines()
            .filter(|line| !line.contains("(0x1b)") && !line.contains("(0x1c)"))
            .filter(|line| !line.contains("RSEQ"))
            .map(|line| {
                let (name, value) = line.split_once(':').expect("a known format");
                let hidden = changing
                    .iter()
                    .any(|part| format!("{name}:").contains(part));
                format!("{name}={}", if hidden { "" } else { value.trim() })
            })
            .collect()
    };
    let environment = ["LD_SHOW_AUXV=1"];
    let path = Path::new("/bin/true");
    let native = names(run_natively(path, &[], &environment));
    assert!(
        native.len() > 15,
        "the loader shows no auxiliary vector: {native:?}"
    );
    assert_eq!(names(run_loaded(path, &[], &environment)), native);
}

const PROBE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <pthread.h>
#include <unistd.h>
extern char **environ;
static int zeros[20000];
static int data[3000] = {1, 2, 3};
static __thread int local = 5;
static void *twice(void *number) { local += 1; return (char *)number + local; }
int main(int count, char **arguments) {
    long sum = 0;
    for (int i = 0; i < 20000; i++) sum += zeros[i];
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, twice, (void *)36);
    pthread_join(thread, &result);
    volatile char large[4 << 20];
    for (unsigned i = 0; i < sizeof large; i += 4096) large[i] = 1;
    printf("%d %s %s\n", count, arguments[1], (char *)getauxval(AT_EXECFN));
    printf("%ld %d %d %ld\n", sum, data[2], local, (long)result);
    printf("%s %ld\n", (char *)getauxval(AT_PLATFORM), getauxval(AT_PAGESZ));
    printf("%d\n", getauxval(AT_ENTRY) != 0 && environ[0] != 0);
    char *memory = malloc(50 << 20);
    memset(memory, 1, 50 << 20);
    printf("%d\n", memory[12345]);
    return 3;
}
"#;

#[test]
fn programs_linked_in_every_way() {
    let scratch = Scratch::new();
    let ways: [(&str, &[&str]); 5] = [
        ("pie", &["-pie", "-fPIE"]),
        ("fixed", &["-no-pie"]),
        ("static", &["-static", "-no-pie"]),
        ("static-pie", &["-static-pie", "-fPIE"]),
        (
            "coarse",
            &[
                "-static",
                "-no-pie",
                "-Wl,-z,max-page-size=0x200000,-z,noseparate-code",
            ],
        ),
    ];
    for (name, flags) in ways {
        let Some(program) = scratch.compile(name, PROBE, &[flags, &["-pthread", "-O1"]].concat())
        else {
            return;
        };
        compare(&program, &["argument"]);
    }
}

const FREESTANDING: &str = r#"
static long system_call(long number, long first, const void *second, long third) {
    long result;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
}
static char zeros[9000];
static char text[] = "constant and zero\n";
void begin(void) {
    for (int i = 0; i < 9000; i++) if (zeros[i]) system_call(60, 50, 0, 0);
    zeros[8999] = text[0] = 'C';
    system_call(1, 1, text, sizeof text - 1);
    system_call(60, 5, 0, 0);
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n call begin\n");
"#;

#[test]
fn programs_with_unusual_segments() {
    let scratch = Scratch::new();
    let ways: [(&str, &[&str]); 4] = [
        (
            "one-segment",
            &["-static", "-no-pie", "-Wl,-N,--no-warn-rwx-segments"],
        ),
        ("unaligned", &["-static", "-no-pie", "-Wl,-n"]),
        (
            "high",
            &[
                "-static",
                "-no-pie",
                "-Wl,-Ttext-segment=0x123456780000",
                "-mcmodel=large",
            ],
        ),
        ("without-loader", &["-static-pie", "-fPIE"]),
    ];
    for (name, flags) in ways {
        let all_flags = [flags, &["-nostdlib", "-O1", "-fno-stack-protector"]].concat();
        let Some(program) = scratch.compile(name, FREESTANDING, &all_flags) else {
            return;
        };
        compare(&program, &[]);
    }
}

#[test]
fn scripts_run_their_interpreters() {
    let scratch = Scratch::new();
    let inner = scratch.write("inner", b"#!/bin/sh -u\necho \"$0\" \"$@\"\n", 0o755);
    compare(&inner, &["a", "b"]);
    let outer = format!("#!{} x  y \n", inner.display());
    compare(&scratch.write("outer", outer.as_bytes(), 0o755), &["a"]);
}

#[test]
fn the_dynamic_loader_can_be_the_program() {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !loader.exists() {
        eprintln!("skipped: this system's C library is not glibc");
        return;
    }
    compare(loader, &["/bin/echo", "started by", "hand"]);
}
