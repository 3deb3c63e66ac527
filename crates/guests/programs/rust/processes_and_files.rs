//! Child processes, pipes, sockets and timeouts of Rust's standard library.
// flags: -O
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn main() {
    let mut child = Command::new("tr")
        .args(["a-z", "A-Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tr is everywhere");
    child.stdin.take().unwrap().write_all(b"shouted\n").unwrap();
    print!("{}", String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap());
    let failure = Command::new("/no/such/program").spawn().unwrap_err();
    println!("{:?}", failure.kind());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let mut stream = TcpStream::connect(address).unwrap();
    for line in 0..100 {
        writeln!(stream, "line {line}").unwrap();
    }
    drop(stream);
    println!("{}", server.join().unwrap().lines().count());
    let (_sender, receiver) = mpsc::channel::<()>();
    println!("{:?}", receiver.recv_timeout(Duration::from_millis(20)));
}
