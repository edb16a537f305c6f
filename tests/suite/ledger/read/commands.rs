//! The commands that list the ledger.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;
use tombola::proto::BlockUsersRequest;

use super::rig::Rig;
use crate::process::{Ended, tombola};

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_tables_csv_or_json() {
    let rig = Rig::embedded().await;
    for user in ["anna.smith@example.com", "=HYPERLINK(\"x\")"] {
        rig.draw("spring", user, 10).await;
    }
    let block = BlockUsersRequest {
        campaign_id: "spring".into(),
        user_ids: vec!["=HYPERLINK(\"x\")".into()],
        operator: "olga".into(),
        ..BlockUsersRequest::default()
    };
    rig.server
        .campaigns()
        .await
        .block_users(block)
        .await
        .unwrap();
    let run = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        rig.server.run(&words).well()
    };
    let table = run("wins --campaign spring");
    assert_eq!(table.lines().count(), 11, "{table}");
    assert!(
        table.contains("Gold coin") && table.contains("pending"),
        "{table}"
    );
    let csv = run("wins --format csv");
    assert_eq!(csv.lines().count(), 11, "{csv}");
    assert!(
        csv.starts_with("won,campaign,prize,name,user,unit,"),
        "{csv}"
    );
    assert!(csv.contains(",\"'=HYPERLINK(\"\"x\"\")\","), "{csv}");
    assert!(!csv.contains(",=") && !csv.contains(",\"="), "{csv}");
    for format in ["table", "csv", "json"] {
        let public = run(&format!(
            "wins --campaign spring --prize coin --public --format {format}"
        ));
        assert!(public.contains("ann***com"), "{public}");
        assert!(!public.contains("smith"), "{public}");
        assert!(!public.contains("auto-"), "a request id: {public}");
    }
    let json: Value = serde_json::from_str(&run("draws --limit 1 --json")).unwrap();
    assert_eq!(json["draws"].as_array().unwrap().len(), 1);
    assert_eq!(json["draws"][0]["results"].as_array().unwrap().len(), 10);
    let draws = run("draws --user anna.smith@example.com --outcome won");
    assert!(
        draws.contains("5 x coin") && draws.contains("5 x points (blank)"),
        "{draws}"
    );
    let acts = run("operations --campaign spring --by olga");
    assert!(acts.contains("block =HYPERLINK"), "{acts}");
    assert_eq!(run("envelopes"), "no events\n");
    let history = rig
        .server
        .run(&["user", "history", "=HYPERLINK(\"x\")", "--format", "csv"]);
    let history = history.well();
    assert_eq!(history.lines().count(), 3, "{history}");
    assert!(history.contains("operation,spring,") && history.contains("draw,spring,"));
    rig.server
        .run(&["wins", "--prize", "coin"])
        .badly(64, &["--campaign"]);
    rig.server
        .run(&["wins", "--from", "yesterday"])
        .badly(64, &["2026-11-20T20:00:00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_ends_quietly_when_nobody_reads_it() {
    let rig = Rig::embedded().await;
    for user in 0..30 {
        rig.draw("spring", &format!("user-{user}"), 100).await;
    }
    let url = rig.server.url();
    let mut child = tombola(["wins", "--format", "csv", "--server", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.starts_with("won,"), "{line}");
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let all = rig.server.run(&["wins", "--format", "csv"]).well();
    assert_eq!(all.lines().count(), 1 + 1_500);
}
