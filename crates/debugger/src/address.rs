//! Where a debugger can connect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where to wait for a debugger: never beyond this machine, because whoever connects can do
/// whatever the program may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A port of the loopback interface; 0 for any that is free.
    Loopback(SocketAddr),
    /// A Unix socket, which is made there.
    Socket(PathBuf),
}

/// What is not an [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// It names another interface.
    #[error("gdb can only connect from this machine: write :{0}, or the path of a Unix socket")]
    NotLoopback(u16),
    /// It is neither a port nor a path.
    #[error(
        "not an address for gdb: write :PORT (:0 picks one), or the path of a Unix socket, with a slash"
    )]
    Neither,
}

impl FromStr for Address {
    type Err = InvalidAddress;

    /// `:PORT`, `HOST:PORT` with a host that is this machine's loopback interface, or a path that
    /// contains a slash.
    fn from_str(text: &str) -> Result<Address, InvalidAddress> {
        if text.contains('/') {
            return Ok(Address::Socket(PathBuf::from(text)));
        }
        let (host, port) = text.rsplit_once(':').ok_or(InvalidAddress::Neither)?;
        let port: u16 = port.parse().map_err(|_| InvalidAddress::Neither)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = match host {
            "" | "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            "ip6-localhost" => IpAddr::V6(Ipv6Addr::LOCALHOST),
            host => host
                .parse()
                .map_err(|_| InvalidAddress::NotLoopback(port))?,
        };
        if !host.is_loopback() {
            return Err(InvalidAddress::NotLoopback(port));
        }
        Ok(Address::Loopback(SocketAddr::new(host, port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: &str| {
            let parsed = text.parse::<Address>();
            let shown = match parsed {
                Ok(Address::Loopback(address)) => address.to_string(),
                Ok(Address::Socket(path)) => path.display().to_string(),
                Err(InvalidAddress::NotLoopback(port)) => format!("not loopback: {port}"),
                Err(InvalidAddress::Neither) => "neither".to_owned(),
            };
            assert_eq!(shown, expected, "{text}");
        };
        check(":1234", "127.0.0.1:1234");
        check(":0", "127.0.0.1:0");
        check("localhost:7", "127.0.0.1:7");
        check("127.0.0.2:7", "127.0.0.2:7");
        check("[::1]:7", "[::1]:7");
        check("0.0.0.0:7", "not loopback: 7");
        check("10.0.0.1:7", "not loopback: 7");
        check("example.org:7", "not loopback: 7");
        check("1234", "neither");
        check(":65536", "neither");
        check("", "neither");
        check("./socket", "./socket");
    }
}
