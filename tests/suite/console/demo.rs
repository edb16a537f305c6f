//! `tombola demo` with its console: a newcomer opens the link and sees prizes fall.

use std::process::{Child, Stdio};

use super::browser::drive;
use crate::process::{Output, tombola};

/// A demo that ends with the test.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_newcomer_opens_the_link_of_the_demo_and_sees_prizes_fall() {
    let mut command = tombola(["demo", "--users", "120"]);
    command.args(["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut demo = Demo(child.unwrap());
    let output = Output::of(&mut demo.0);
    let link = output.wait_for(|line| {
        let line = line.trim();
        line.starts_with("http://").then(|| line.to_owned())
    });
    let link = link.unwrap_or_else(|| panic!("{}", output.text()));
    let path = link.find("/sign-in/").unwrap();
    drive("demo.mjs", &link[..path], &[link[path..].to_owned()]);
}
