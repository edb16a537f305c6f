//! The console in a real browser: keyboard, phone, both schemes and languages, the policy, and
//! what axe-core finds.

use std::process::Command;

use super::{all_pages, fill, served};
use crate::process::{Ended, project};

#[tokio::test(flavor = "multi_thread")]
async fn people_use_the_console_in_a_browser() {
    let data = tempfile::tempdir().unwrap();
    let (server, browser) = served(data.path());
    fill(&server).await;
    let screenshots = project("target/console");
    std::fs::create_dir_all(&screenshots).unwrap();
    let script = project("tests/clients/browser.mjs");
    let library = project("tests/clients/node_modules/playwright-core/package.json");
    assert!(
        library.exists(),
        "playwright-core is missing: tests/prepare installs it"
    );
    let mut node = Command::new("node");
    node.arg(script).arg(format!("http://{}", browser.address));
    node.arg(screenshots).args(all_pages());
    assert_eq!(Ended::of(&mut node).well(), "good\n");
}
