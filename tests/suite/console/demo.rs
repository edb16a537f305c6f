//! `tombola demo` with its console: a newcomer opens the link and sees prizes fall.

use std::process::{Child, Stdio};

use super::{Browser, browser::drive};
use crate::{
    process::{Output, tombola},
    support::redis_server::RedisServer,
};

/// A demo that ends with the test.
struct Demo {
    child: Child,
    output: Output,
}

impl Demo {
    fn begin(options: &[&str]) -> Self {
        let mut command = tombola(["demo", "--listen", "127.0.0.1:0"]);
        command.args(["--console", "127.0.0.1:0"]).args(options);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let output = Output::of(&mut child);
        Self { child, output }
    }

    /// The address of the console, and the path of the link that signs in there.
    fn link(&self) -> (String, String) {
        let output = &self.output;
        let link = output.wait_for(|line| {
            let line = line.trim();
            line.strip_prefix("http://").map(str::to_owned)
        });
        let link = link.unwrap_or_else(|| panic!("{}", output.text()));
        let (address, path) = link.split_at(link.find('/').unwrap());
        (address.to_owned(), path.to_owned())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_newcomer_opens_the_link_of_the_demo_and_sees_prizes_fall() {
    let demo = Demo::begin(&["--users", "120"]);
    let (address, path) = demo.link();
    drive("demo.mjs", &format!("http://{address}"), &[path]);
}

#[test]
fn the_console_of_a_demo_on_redis_says_where_its_store_is() {
    let redis = RedisServer::start(&[]);
    let demo = Demo::begin(&["--users", "1", "--redis-url", &redis.url()]);
    let (address, path) = demo.link();
    let mut browser = Browser::at(address.parse().unwrap());
    browser.get(&path);
    let page = browser.get("/system").good();
    assert!(page.contains("one Redis server"), "{page}");
}
