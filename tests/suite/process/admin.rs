//! The admin port of a server.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::Instant,
};

use super::PATIENCE;
use crate::support::redis_server::look_pause;

/// An admin port.
pub struct Admin(SocketAddr);

impl Admin {
    /// At this address.
    pub fn at(address: SocketAddr) -> Self {
        Self(address)
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.0
    }

    /// Status, headers and body of a path.
    pub fn get(&self, path: &str) -> (u16, String, String) {
        self.try_get(path).unwrap()
    }

    /// The same; none if nothing listens there.
    pub fn try_get(&self, path: &str) -> Option<(u16, String, String)> {
        let mut stream = TcpStream::connect(self.0).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, head.to_ascii_lowercase(), body.to_owned()))
    }

    /// Asserts a probe's status; returns its line.
    #[track_caller]
    pub fn says(&self, path: &str, wanted: u16) -> String {
        let (status, _, body) = self.get(path);
        assert_eq!(status, wanted, "{path}: {body}");
        assert_eq!(body.lines().count(), 1, "{path}: {body:?}");
        body
    }

    /// Waits until a probe has this status; returns its line.
    #[track_caller]
    pub fn becomes(&self, path: &str, wanted: u16) -> String {
        let begun = Instant::now();
        loop {
            let (status, _, body) = self.get(path);
            if status == wanted {
                return body;
            }
            let waited = begun.elapsed();
            assert!(waited < PATIENCE, "{path} is still {status}: {body}");
            thread::sleep(look_pause(waited));
        }
    }
}
