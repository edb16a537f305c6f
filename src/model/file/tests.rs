//! Files of operators, and the problems that are reported.

use std::{collections::BTreeMap, fs};

use prost_types::Timestamp;

use super::*;
use crate::model::{
    convert::campaign_from_proto,
    summary::{plan_summary, planned_units},
};

pub(super) fn samples() -> Vec<(String, String)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/campaigns");
    let mut samples: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    samples.sort();
    assert!(samples.len() >= 5);
    samples
}

fn problems(text: &str) -> String {
    match parse(text) {
        Ok(campaigns) => panic!("{text:?} was read as {campaigns:?}"),
        Err(problems) => problems.to_string(),
    }
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(problems(text), expected, "for {text:?}");
}

#[test]
fn the_shipped_samples_are_read_and_written_back_the_same() {
    for (name, text) in samples() {
        let campaigns = parse(&text).unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(format!("{}.yaml", campaigns[0].id), name);
        if let Err(problems) = campaign_from_proto(&campaigns[0]) {
            panic!("{name}: {problems}");
        }
        let yaml = to_yaml(&campaigns[0]);
        assert_eq!(parse(&yaml).unwrap(), campaigns, "{name}:\n{yaml}");
        let json = to_json("tombola.v1.Campaign", &campaigns[0]);
        assert_eq!(parse(&json.to_string()).unwrap(), campaigns, "{name}");
    }
}

/// The comments of the samples reckon how many units are planned.
#[test]
fn the_shipped_samples_plan_what_their_comments_say() {
    let planned = |name: &str| -> Vec<(u64, u64)> {
        let samples: BTreeMap<_, _> = samples().into_iter().collect();
        let campaign = campaign_from_proto(&parse(&samples[name]).unwrap()[0]).unwrap();
        let needed = planned_units(&campaign, campaign.start);
        let prizes = plan_summary(&campaign, &needed, &BTreeMap::new(), campaign.start, 0).prizes;
        prizes.iter().map(|p| (p.planned, p.per_round)).collect()
    };
    assert_eq!(planned("spring-wheel.yaml"), [(1, 0), (198_500, 100)]);
    assert_eq!(planned("mall-wheel.yaml"), [(30, 0), (3_600, 0), (4, 4)]);
    assert_eq!(planned("coupon-codes.yaml"), [(2, 2)]);
    assert_eq!(planned("budget.yaml"), [(240, 0), (2_400, 0), (3, 3)]);
    let red_packets = [(28_000, 0), (2_800, 0), (70, 0)];
    assert_eq!(planned("red-packets.yaml"), red_packets);
    assert_eq!(planned("tenth-wheel.yaml"), [(1_680, 0), (0, 0)]);
    assert_eq!(planned("gacha.yaml"), [(0, 0); 5], "users' draws decide");
    assert_eq!(planned("grand-wheel.yaml"), [(3, 0), (540, 0), (200, 200)]);
    assert_eq!(
        planned("fourteen-million.yaml")[..2],
        [(3, 3), (3_000_000, 3_000_000)]
    );
    assert!(
        planned("game-cards.yaml")
            .iter()
            .all(|(planned, per_round)| planned == per_round)
    );
}

#[test]
fn a_file_may_use_either_spelling_of_keys_and_enums() {
    let short = "
        id: a
        timeZone: UTC
        startTime: 2026-11-20T00:00:00+08:00
        publishPlan: HOURLY
        pools:
          - {id: p, schedule: {perHour: {x: 3}, missed: RELEASE, returnAfter: 90s}}
          - {id: d, deck: {onExhausted: RESHUFFLE, odds: {x: 1%}}}
    ";
    let long = r#"{
        "id": "a",
        "time_zone": "UTC",
        "start_time": "2026-11-19T16:00:00Z",
        "publish_plan": "PLAN_PUBLICATION_HOURLY",
        "pools": [
            {"id": "p", "schedule": {"per_hour": {"x": "3"}, "missed": 3, "return_after": "90s"}},
            {"id": "d", "deck": {"on_exhausted": "ON_EXHAUSTED_RESHUFFLE", "odds": {"x": "1%"}}}
        ]
    }"#;
    assert_eq!(parse(short).unwrap(), parse(long).unwrap());
    let start = parse(short).unwrap()[0].start_time;
    assert_eq!(
        start,
        Some(Timestamp {
            seconds: 1_795_104_000,
            nanos: 0
        })
    );
}

#[test]
fn every_unknown_key_and_wrong_value_is_reported_at_once() {
    let text = "
id: 5
tmieZone: UTC
colour: red
startTime: 2026-11-20
endTime: 2026-11-20T00:00:00
limits: {drawsPerDay: -1, winsPerUser: many, drawsPerUser: 4294967296}
consolation: [points]
prizes:
  - {id: car, stock: 1.5, grand: yes, countsAsWin: 1}
  - {id: true, stock: '300,000', attributes: {points: 5, deep: {a: b}}}
  - car
pools:
  id: x
publishPlan: hourly
";
    let mut found: Vec<_> = problems(text).lines().map(str::to_owned).collect();
    found.sort();
    let mut expected = vec![
        "id: `5` is a number where text is expected: write \"5\"",
        "tmieZone: is not a known key; did you mean timeZone?",
        "colour: is not a known key; the keys here are id, name, timeZone, startTime, endTime, \
         limits, consolation, prizes, pools, publishPlan, budget, segmentLimits, \
         guarantees, approvalRequired",
        "startTime: `2026-11-20` is not a time with its offset from UTC: write it like \
         2026-11-20T00:00:00+08:00",
        "endTime: `2026-11-20T00:00:00` is not a time with its offset from UTC: write it like \
         2026-11-20T00:00:00+08:00",
        "limits.drawsPerDay: is -1: it must be from 0 to 4294967295",
        "limits.winsPerUser: `many` is text where a whole number is expected: write a whole number \
         like 200",
        "limits.drawsPerUser: is 4294967296: it must be from 0 to 4294967295",
        "consolation: is a list where a map of keys is expected: begin with `key: value`",
        "prizes[0].stock: `1.5` is a number where a whole number is expected: write a whole number \
         like 200",
        "prizes[0].grand: `yes` is text where true or false is expected: write true or false",
        "prizes[0].countsAsWin: `1` is a number where true or false is expected: write true or \
         false",
        "prizes[1].id: `true` is a truth value where text is expected: write \"true\"",
        "prizes[1].stock: `300,000` is text where a whole number is expected: write digits only",
        "prizes[1].attributes.points: `5` is a number where text is expected: write \"5\"",
        "prizes[1].attributes.deep: is a map of keys where text is expected: write text in quotes",
        "prizes[2]: `car` is text where a map of keys is expected: begin with `key: value`",
        "pools: is a map of keys where a list is expected: begin each entry with `- `",
        "publishPlan: `hourly` is text, not one of TOTALS, HOURLY",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn what_contradicts_itself_is_refused() {
    refused(
        "id: a\nlimits:\n",
        "limits: is empty: give it a value or leave the key out",
    );
    refused(
        "timeZone: UTC\ntime_zone: UTC\n",
        "timeZone: is given twice, also as `time_zone`: keep one",
    );
    refused(
        "pools: [{id: p, deck: {size: 1}, schedule: {}}]",
        "pools[0].schedule: stands beside `deck`: keep one of the two",
    );
    refused(
        "pools: [{id: p, schedule: {returnAfter: 2h}}]",
        "pools[0].schedule.returnAfter: `2h` is not in seconds: write 7200s",
    );
    refused(
        "pools: [{id: p, schedule: {returnAfter: 3600}}]",
        "pools[0].schedule.returnAfter: `3600` is a number where a duration is expected: write \
         3600s for seconds",
    );
}

#[test]
fn syntax_errors_name_their_line() {
    let advice =
        "a map of keys like `id: spring-wheel` is expected; several are separated by `---`";
    refused("", "file: is empty: nothing but comments or blank lines");
    refused(
        "# a\n\n# b\n",
        "file: is empty: nothing but comments or blank lines",
    );
    refused("- id: a\n- id: b\n", &format!("file: is a list: {advice}"));
    refused("wheel", &format!("file: is a single value: {advice}"));
    for tabs in [
        "id: a\nlimits:\n\tdrawsPerDay: 3\n",
        "limits: \n  drawsPerDay: 3\n\twinsPerUser: 4\n",
    ] {
        refused(
            tabs,
            "line 3: is indented with a tab: YAML is indented with spaces",
        );
    }
    refused(
        "id: a\nname: b\nid: c\n",
        "line 3, column 1: the key `id` is given twice: keep one of them",
    );
    for (bad, line, advice) in [
        ("id: a\nname b\n", 2, "write `key: value`"),
        ("id: a\nname: \"b\n", 3, "not closed"),
        ("id: [a\n", 1, "add `]`"),
        ("prizes: {id: a\n", 1, "add `}`"),
        ("id: a\n}\n", 2, "bracket"),
        ("id: *b\n", 1, "in quotes"),
        ("name: a: b\n", 1, "in quotes"),
        ("id: a\n  name: b\n", 2, "indent the keys of a map alike"),
        (
            "prizes:\n- id: a\n stock: 1\n",
            3,
            "indent the keys of a map alike",
        ),
        ("name: @b\n", 1, "may not begin with `@`: put it in quotes"),
        ("name: !b c\n", 1, "put the text in quotes"),
        ("name: | a\n b\n", 1, "on the next line"),
        ("{\"id\": \"a\",, }\n", 1, "a comma too many"),
        ("{\"id\": \"a\" \"b\": 1}\n", 1, "add a comma"),
        ("name: \"a\\q\"\n", 1, "single quotes"),
        ("<<: a\n", 1, "remove it"),
        ("name: \0\n", 1, "save the file as UTF-8 text"),
    ] {
        let found = problems(bad);
        assert!(
            found.starts_with(&format!("line {line}, ")),
            "{bad:?}: {found}"
        );
        assert!(found.contains("is not YAML: "), "{bad:?}: {found}");
        assert!(found.contains(advice), "{bad:?}: {found}");
    }
}

#[test]
fn a_file_that_is_too_large_or_unfolds_is_refused() {
    let large = "#".repeat(5 << 20);
    refused(
        &large,
        "file: the file has 5.0 MiB; a campaign file has at most 1 MiB",
    );
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..9 {
        let alias = format!("*a{}", i - 1);
        bomb += &format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 10].join(", "));
    }
    assert!(problems(&bomb).contains("unfolds"), "{}", problems(&bomb));
    problems(&"[".repeat(100_000));
    problems(&"{a: ".repeat(100_000));
    problems(&"- ".repeat(100_000));
    let many: String = (0..50_000).map(|i| format!("k{i}: 1\n")).collect();
    assert_eq!(parse(&many).unwrap_err().0.len(), 101);
}

#[test]
fn documents_are_distinguished() {
    let ids = |text| -> Vec<String> {
        let campaigns = parse(text).unwrap();
        campaigns.into_iter().map(|campaign| campaign.id).collect()
    };
    assert_eq!(ids("---\nid: a\n---\nid: b\n...\n"), ["a", "b"]);
    assert_eq!(ids("id: a\n---\n# nothing here\n"), ["a"]);
    refused(
        "id: a\n---\nid: a\n",
        "document 2: id: \"a\" is the id of document 1 too",
    );
    refused(
        "id: a\n---\nid: b\nprizes: [{idd: x}]\n",
        "document 2: prizes[0].idd: is not a known key; did you mean id?",
    );
    assert!(parse_schedule("total: {car: 1}\n---\ntotal: {}").is_err());
    assert!(parse_schedule("perHuor: {car: 1}").is_err());
}

#[test]
fn json_for_scripts_has_every_scalar() {
    let result = proto::DrawResponse {
        results: vec![proto::DrawResult::default()],
        ..Default::default()
    };
    let json = to_json("tombola.v1.DrawResponse", &result);
    assert_eq!(json["replayed"], false);
    assert_eq!(json["results"][0]["outcome"], "OUTCOME_UNSPECIFIED");
    assert_eq!(json["results"][0]["prizeId"], "");
    assert_eq!(json.get("drawTime"), None);
}

#[test]
fn a_count_out_of_range_names_its_true_limits() {
    let range = "it must be from 0 to 9007199254740991";
    let digits = format!("'{}'", "9".repeat(50));
    for (given, word) in [
        ("-5", "is -5"),
        ("'18446744073709551616'", "is 18446744073709551616"),
        ("99999999999999999999999", "too large"),
        ("1e30", "too large"),
        (&digits, "too large"),
    ] {
        let message = problems(&format!("prizes: [{{id: car, stock: {given}}}]")).to_string();
        assert!(
            message.contains(word) && message.contains(range),
            "{given}: {message}"
        );
    }
}

/// Each character of a good file is left out once, and each of some others put before it.
#[test]
fn no_message_of_the_parser_is_shown_as_it_is() {
    let good =
        "id: a\nprizes:\n  - {id: \"c\\n\", stock: 1}\n  - id: 'm'\n    stock: 2\nname: |\n  x\n";
    assert!(parse(good).is_ok());
    let (mut broken, mut shown) = (0, Vec::new());
    for (index, _) in good.char_indices() {
        let (before, after) = good.split_at(index);
        let inserted = "\"'[]{},:-?&*!|>%@`#\\\t\n \u{1}~".chars();
        let inserted = inserted.map(|c| format!("{before}{c}{after}"));
        let left_out = format!("{before}{}", &after[1..]);
        for text in inserted.chain([left_out]) {
            let Err(problems) = parse(&text) else {
                continue;
            };
            broken += 1;
            let said = problems.to_string();
            let raw = [
                "while ",
                "scalar",
                "mapping",
                "sequence",
                "token",
                "simple",
                "context",
                "EOF",
                "eof",
                "invalid",
                "deserialize",
                "found",
                "disallowed",
                "unexpected",
            ];
            if raw.iter().any(|word| said.contains(word)) {
                shown.push(format!("{text:?}: {said}"));
            }
        }
    }
    assert!(broken > 500, "{broken}");
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn what_yaml_allows_and_a_campaign_does_not_is_said_in_words() {
    for (bad, word) in [
        ("id: a\n? [b]\n: c\n", "line 2"),
        ("prizes: [{id: a, stock: .inf}]", "line 1"),
        ("prizes: [{id: a, stock: .nan}]", "line 1"),
        ("<<: {id: a}\n<<: [1]\n", "line"),
        ("id: a\n--- x: y: z\n", "line 2"),
        ("%YAML 9.9\n---\nid: a\n", "`%YAML`"),
        ("1: a\n", "known key"),
        ("true: a\n", "known key"),
    ] {
        let said = problems(bad);
        println!("{bad:?}: {said}");
        assert!(said.contains(word), "{bad:?}: {said}");
        for raw in ["expected string", "invalid", "deserialize", "f64", "policy"] {
            assert!(!said.contains(raw), "{bad:?}: {said}");
        }
    }
}
