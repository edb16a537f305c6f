//! Wrong input: it is reported at once, with what would be right, and nothing is sent.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use super::{Desk, WHEEL};
use crate::process::{Ended, tombola};

/// An address at which nothing listens: its port was free a moment ago.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_server_that_is_not_there_is_reported() {
    let url = nowhere();
    for line in [
        "campaigns",
        "draw wheel u-1",
        "check wheel u-1",
        "stats wheel",
    ] {
        let mut command = tombola(line.split_whitespace());
        Ended::of(command.args(["--server", &url])).badly(69, &[&url, "tombola serve", "--server"]);
    }
}

#[test]
fn wrong_usage_has_a_code_of_its_own() {
    for (line, word) in [
        ("", "usage"),
        ("fly", "fly"),
        ("draw wheel", "user"),
        ("draw a{b} u-1", "a{b}"),
        ("draw wheel u-1 --count 101", "101"),
        ("draw wheel u-1 --count ten", "ten"),
        ("draw wheel u-1 --cuont 10", "--count"),
        ("grant wheel u-1 --draws 0", "0"),
        ("grant wheel --draws 1", "user"),
        ("schedule wheel --from tomorrow", "tomorrow"),
        ("campaigns --server ftp://host", "http://"),
        ("apply", "FILE"),
        ("apply a.yaml -f b.yaml", "named twice"),
    ] {
        Ended::of(&mut tombola(line.split_whitespace())).badly(64, &[word]);
    }
}

#[test]
fn the_bench_says_where_it_went_whatever_its_arguments() {
    for line in [
        "bench",
        "bench cost --users 1000",
        "bench --scenario draw --help",
        "bench --server http://127.0.0.1:1 --json",
    ] {
        Ended::of(&mut tombola(line.split_whitespace())).badly(64, &["tombola-bench"]);
    }
}

#[test]
fn help_and_version_are_no_failure() {
    let version = Ended::of(&mut tombola(["--version"])).well();
    let expected = format!("tombola 0.1.0\nbuild {}\n", tombola::BUILD_ID);
    assert_eq!(version, expected);
    assert!(
        Ended::of(&mut tombola(["draw", "--help"]))
            .well()
            .contains("Example:")
    );
}

#[test]
fn completions_are_written_for_each_shell() {
    for (shell, word) in [
        ("bash", "complete -F _tombola"),
        ("zsh", "#compdef tombola"),
        ("fish", "complete -c tombola"),
    ] {
        let script = Ended::of(&mut tombola(["completions", shell])).well();
        for part in [word, "envelope", "base-version"] {
            assert!(script.contains(part), "{shell} has no {part}");
        }
    }
    Ended::of(&mut tombola(["completions", "cmd"])).badly(64, &["bash, zsh, fish"]);
}

#[test]
fn every_problem_of_a_file_is_reported_at_once() {
    let desk = Desk::new();
    let bad = WHEEL
        .replace("drawsPerDay: 3", "drawsPerDy: 3")
        .replace("Asia/Shanghai", "Asia/Shanghigh")
        .replace("stock: 300000", "stock: 10");
    let file = desk.file("bad.yaml", &bad);
    let output = desk
        .run("apply -f", &[&file])
        .badly(1, &["drawsPerDy", "nothing was sent"]);
    assert!(output.contains("drawsPerDay"), "no suggestion: {output}");
    for problem in [
        "timeZone: ",
        "Asia/Shanghigh",
        "prizes[1].stock: ",
        "10 given",
    ] {
        assert!(output.contains(problem), "no {problem}: {output}");
    }
    let file = desk.file("bad.yaml", &bad.replace("drawsPerDy", "drawsPerDay"));
    let dry = desk.run("apply --dry-run -f", &[&file]);
    dry.badly(1, &["Asia/Shanghigh", "timeZone"]);
    let file = desk.file("bad.yaml", &WHEEL.replace("stock: 300000", "stock: 10"));
    desk.run("apply -f", &[&file])
        .badly(1, &["stock", "needed", "10 given"]);
    let list = desk.run("campaigns", &[]).well();
    assert!(list.contains("no campaigns yet"), "{list}");
}

#[test]
fn files_that_are_no_campaigns_are_reported() {
    let desk = Desk::new();
    let huge = format!("{WHEEL}# {}\n", "x".repeat(5 << 20));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &('b'..='j')
            .map(|c| {
                let before = char::from(c as u8 - 1);
                format!("{c}: &{c} [*{before},*{before},*{before},*{before},*{before},*{before}]\n")
            })
            .collect::<String>();
    for (text, word) in [
        (huge.as_str(), "at most"),
        (&bomb, "bad.yaml"),
        ("", "is empty"),
        ("just text", "bad.yaml"),
        ("[1, 2]", "bad.yaml"),
        ("id: [unclosed", "bad.yaml"),
        ("id: wheel\nid: wheel\n", "id"),
        ("\0\u{1}\u{2}", "bad.yaml"),
    ] {
        let file = desk.file("bad.yaml", text);
        let shown: String = text.chars().take(40).collect();
        println!("{shown:?}");
        desk.run("apply -f", &[&file])
            .badly(1, &[word, "nothing was sent"]);
    }
    desk.run("apply -f", &["/nowhere/wheel.yaml"])
        .badly(1, &["/nowhere/wheel.yaml"]);
    std::fs::write(desk.directory.path().join("bad.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    let file = desk.directory.path().join("bad.yaml");
    desk.run("apply -f", &[file.to_str().unwrap()])
        .badly(1, &["bad.yaml"]);
}

#[test]
fn a_file_of_two_campaigns_of_one_id_is_refused_whole() {
    let desk = Desk::new();
    let other = WHEEL.replace("id: wheel", "id: other");
    let file = desk.file("both.yaml", &format!("{WHEEL}---{other}---{WHEEL}"));
    desk.run("apply -f", &[&file])
        .badly(1, &["wheel", "document 1 too"]);
    let list = desk.run("campaigns", &[]).well();
    assert!(list.contains("no campaigns yet"), "{list}");
    let file = desk.file("both.yaml", &format!("{WHEEL}---{other}"));
    desk.run("apply -f", &[&file]).well();
    assert_eq!(
        desk.json("campaigns")["campaigns"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn an_error_is_json_if_json_is_asked_for() {
    let desk = Desk::new();
    let ended = desk.run("draw none u-1 --request-id r-1 --json", &[]);
    let output = ended.badly(1, &[]);
    let error: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(error["reason"], "CAMPAIGN_NOT_FOUND", "{error:#}");
    assert_eq!(error["executed"], "no", "{error:#}");
    assert_eq!(error["request_id"], "r-1", "{error:#}");
}

#[test]
fn the_name_of_a_file_need_not_be_utf_8() {
    let desk = Desk::with_wheel();
    let name = OsStr::from_bytes(b"wheel-\xff.yaml");
    let file = desk.directory.path().join(name);
    std::fs::write(&file, format!("name: Changed{WHEEL}")).unwrap();
    let mut command = tombola([OsStr::new("apply"), file.as_os_str()]);
    let ended = Ended::of(command.args(["--server", &desk.server.url()]));
    let words = ["to apply: ", r"wheel-\377.yaml'", "--base-version 1"];
    ended.badly(1, &words);
}
