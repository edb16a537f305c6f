//! The console in a real browser: keyboard, phone, both schemes and languages, the policy, and
//! what axe-core finds.

use std::process::Command;

use super::{address, all_pages, fill, served};
use crate::{
    process::{Ended, Start, project},
    support::certificates,
};

/// Visits pages in Chromium.
fn browse(origin: &str, pages: &[String]) {
    drive("browser.mjs", origin, pages);
}

/// Runs a program for Chromium. The pictures that it makes are in target/console.
pub(super) fn drive(program: &str, origin: &str, arguments: &[String]) {
    drive_as("", program, origin, arguments);
}

/// Runs a program that signs in by this name or token. Its pictures have a directory of their own,
/// as it may visit the same pages as another one.
pub(super) fn drive_as(who: &str, program: &str, origin: &str, arguments: &[String]) {
    let screenshots = match who {
        "" => project("target/console"),
        who => project("target/console").join(who),
    };
    std::fs::create_dir_all(&screenshots).unwrap();
    let library = project("tests/clients/node_modules/playwright-core/package.json");
    assert!(
        library.exists(),
        "playwright-core is missing: tests/prepare installs it"
    );
    let mut node = Command::new("node");
    node.arg(project("tests/clients").join(program)).arg(origin);
    node.arg(screenshots).args(arguments).env("WHO", who);
    assert_eq!(Ended::of(&mut node).well(), "good\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_use_the_console_in_a_browser() {
    let data = tempfile::tempdir().unwrap();
    let (server, browser) = served(data.path());
    fill(&server).await;
    browse(&format!("http://{}", browser.address), &all_pages());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_that_does_not_arrive_is_said() {
    let data = tempfile::tempdir().unwrap();
    let (server, browser) = served(data.path());
    fill(&server).await;
    drive("brake.mjs", &format!("http://{}", browser.address), &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_use_the_console_over_tls() {
    let files = tempfile::tempdir().unwrap();
    let authority = certificates::make(files.path(), "server");
    let file = |name: &str| files.path().join(name).display().to_string();
    let line = format!(
        "--console 127.0.0.1:0 --tls-cert {} --tls-key {}",
        file("server.crt"),
        file("server.key")
    );
    let server = Start::on(&files.path().join("data")).with(&line).serve();
    let server = server.over_tls(&authority.pem);
    fill(&server).await;
    browse(&format!("https://{}", address(&server)), &["/".into()]);
    speaks_http_1(&format!("https://{}/sign-in", address(&server)));
}

/// Asks for a page by a client that knows no HTTP/2, as proxies do.
fn speaks_http_1(url: &str) {
    const ASK: &str = "
        require('https').get(process.argv[1], {rejectUnauthorized: false}, (answer) => {
            console.log(answer.httpVersion, answer.statusCode);
            answer.resume();
        });";
    let mut node = Command::new("node");
    node.args(["-e", ASK, url]);
    assert_eq!(Ended::of(&mut node).well(), "1.1 200\n");
}
