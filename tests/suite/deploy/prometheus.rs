//! Dashboards and alerts: every expression runs in a real Prometheus that reads a real service.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    admin::metrics::served_over_tls,
    faults::{
        load,
        redis::{House, request},
    },
    ledger::Database,
    process::{Ended, Server, admin::Admin, project},
    support::{certificates, redis_server::free_port},
};

/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often metrics are read.
const SCRAPE_MS: u64 = 1000;
const DASHBOARDS: [&str; 3] = ["campaign", "service", "store"];

/// Alerts that compare nothing while a service on the embedded store is well: no call fails, and it
/// has no Redis.
const NOTHING_TO_COMPARE: [&str; 4] = [
    "TombolaCallersRefused",
    "TombolaCallsFail",
    "TombolaRedisMemory",
    "TombolaRevocationListLate",
];

/// A Prometheus that reads the metrics of one service; killed when it is dropped.
struct Prometheus {
    child: Child,
    api: Admin,
}

impl Prometheus {
    fn start(directory: &Path, server: &Server, job: &str) -> Self {
        let configuration = format!(
            "global: {{scrape_interval: {SCRAPE_MS}ms, scrape_timeout: {SCRAPE_MS}ms}}\n\
             scrape_configs:\n\
             - {{job_name: {job}, static_configs: [{{targets: ['{}']}}]}}\n",
            server.admin().address()
        );
        let file = directory.join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new("prometheus")
            .arg("--config.file")
            .arg(&file)
            .arg("--storage.tsdb.path")
            .arg(directory.join("data"))
            .args(["--web.listen-address", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus: run tests/prepare");
        let api = Admin::at(address.parse().unwrap());
        Self { child, api }
    }

    /// The answer to an expression.
    fn ask(&self, expression: &str) -> Option<Value> {
        let encoded: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let (status, _, body) = self
            .api
            .try_get(&format!("/api/v1/query?query={encoded}"))?;
        if status == 503 {
            return None; // it is still starting
        }
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        Some(answer["data"]["result"].clone())
    }

    /// Waits until an expression gives something.
    fn finds(&self, expression: &str) {
        let begun = Instant::now();
        while self
            .ask(expression)
            .is_none_or(|found| found.as_array().is_none_or(Vec::is_empty))
        {
            assert!(begun.elapsed() < PATIENCE, "nothing: {expression}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The expressions of a dashboard, as Grafana would send them.
fn expressions(dashboard: &str) -> Vec<String> {
    let file = format!("deploy/compose/grafana/dashboards/{dashboard}.json");
    let text = fs::read_to_string(project(&file)).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| {
            let expression = target["expr"].as_str().unwrap();
            expression
                .replace("$__rate_interval", "30s")
                .replace("$campaign", "cards")
                .replace("$job", "tombola|lottery")
                .replace("$namespace", ".*")
        })
        .collect()
}

/// The alerts and their expressions.
fn alerts() -> Vec<(String, String)> {
    let text = fs::read_to_string(project("deploy/compose/alerts.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let rules = file["groups"][0]["rules"].as_array().unwrap().iter();
    let word = |rule: &Value, name: &str| rule[name].as_str().unwrap().to_owned();
    rules
        .map(|rule| (word(rule, "alert"), word(rule, "expr")))
        .collect()
}

/// The parts of an expression between its words `and`, `or`, `unless` outside of parentheses.
fn clauses(expression: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut clauses) = (0, 0, Vec::new());
    for (at, byte) in expression.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b' ' if depth == 0 => {
                let rest = &expression[at..];
                let words = [" and ", " or ", " unless "];
                if let Some(word) = words.iter().find(|word| rest.starts_with(**word)) {
                    clauses.push(&expression[begin..at]);
                    begin = at + word.len();
                }
            }
            _ => {}
        }
    }
    clauses.push(&expression[begin..]);
    clauses
}

/// What an alert compares with a bound.
fn compared(expression: &str) -> Vec<&str> {
    let inside = expression
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    if let Some(inside) = inside {
        return compared(inside);
    }
    let clauses = clauses(expression);
    if clauses.len() > 1 {
        return clauses.into_iter().flat_map(compared).collect();
    }
    let clause = match expression.strip_prefix("on (") {
        Some(rest) => rest.split_once(") ").unwrap().1,
        None => expression,
    };
    let comparisons = [" > ", " < ", " == "].into_iter();
    let value = comparisons.filter_map(|word| clause.rsplit_once(word));
    value.map(|(value, _)| value).take(1).collect()
}

#[test]
fn what_an_alert_compares_is_found() {
    assert_eq!(
        compared("max(a) / (max(b) > 0) > 0.8"),
        ["max(a) / (max(b) > 0)"]
    );
    let joined = "(sum(a) > 1 or q(b) > 0.1) and on (job) avg by (job) (c and d) < 0.7";
    assert_eq!(
        compared(joined),
        ["sum(a)", "q(b)", "avg by (job) (c and d)"]
    );
    assert_eq!(compared("sum(a) == 0 or absent(a)"), ["sum(a)"]);
}

/// After a day and a minute the metrics of a new service are read for the first time. Those of a
/// service that is older than a day are not read for a while, and then it counts once more.
#[test]
fn panels_of_rare_events_show_what_a_new_service_has_counted() {
    let directory = tempfile::tempdir().unwrap();
    for (dashboard, metric, labels) in [
        ("service", "tombola_windows_total", r#"{outcome="missed"}"#),
        ("store", "tombola_store_forks_total", "{}"),
    ] {
        let mut all = expressions(dashboard).into_iter();
        let expression = all.find(|it| it.contains(metric)).unwrap();
        let series = |name: &str, instance: &str, values: &str| {
            let labels = format!(r#"job="tombola",outcome="missed",instance="{instance}""#);
            json!({"series": format!("{name}{{{labels}}}"), "values": values})
        };
        let gives = |time: &str, value: f64| {
            let samples = json!([{"labels": labels, "value": value}]);
            json!({"expr": expression, "eval_time": time, "exp_samples": samples})
        };
        let started = "process_start_time_seconds";
        let tests = json!({
            "rule_files": [],
            "evaluation_interval": "10s",
            "tests": [{
                "interval": "10s",
                "input_series": [
                    series(metric, "new", "_x8646 2x20"),
                    series(started, "new", "_x8646 86455x20"),
                    series(metric, "old", "5x8642 stale _x3 5x2 6x17"),
                    series(started, "old", "0x8666"),
                ],
                // Of 30 seconds, the samples of the older service cover 20.
                "promql_expr_test": [gives("86475s", 2.0), gives("86505s", 1.5)],
            }],
        });
        let file = directory.path().join(dashboard);
        fs::write(&file, tests.to_string()).unwrap();
        Ended::of(Command::new("promtool").args(["test", "rules"]).arg(file)).well();
    }
}

/// Draws until it is dropped, from a campaign and from one that does not exist: rates need calls in
/// each time that they are taken over.
async fn draw_meanwhile(server: &Server) -> JoinSet<()> {
    let mut lottery = server.lottery().await;
    let draws = async move {
        for number in 0.. {
            for campaign in ["cards", "none"] {
                let draw = request(campaign, "user", &format!("r-{number}"));
                // A machine that has much else to do refuses some.
                let _ = lottery.draw(draw).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(draws);
    tasks
}

/// The campaigns of the load, with so many jewels that they are not won while a test runs: the
/// alert of a prize that is used up would be true.
fn campaigns() -> String {
    let (few, many) = ("{id: jewel, stock: 3,", "{id: jewel, stock: 1000000,");
    assert!(load::CAMPAIGNS.contains(few));
    load::CAMPAIGNS.replace(few, many)
}

/// Asserts that dashboards find something, and that no alert fires although what it compares is
/// there.
fn all_find_what_they_ask_for(prometheus: &Prometheus, exempt: &[&str]) {
    // The gauges of the store are read again after some seconds.
    prometheus.finds("deriv(tombola_campaign_draws{campaign=\"cards\",outcome=\"win\"}[30s]) > 0");
    for dashboard in DASHBOARDS {
        for expression in expressions(dashboard) {
            prometheus.finds(&expression);
        }
    }
    for (alert, expression) in alerts() {
        let begun = Instant::now();
        loop {
            let found = prometheus.ask(&expression).unwrap();
            if found == json!([]) {
                break;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{alert} fires without a cause: {found}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        // What is compared is there.
        let values = compared(&expression);
        assert!(!values.is_empty(), "{alert}");
        for value in values {
            if !exempt.contains(&&*alert) {
                prometheus.finds(value);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_expression_of_dashboards_and_alerts_finds_what_it_asks_for() {
    let files = tempfile::tempdir().unwrap();
    let server = served_over_tls(&files);
    load::apply_all(&server, &campaigns()).await;
    load::apply_all(&server, load::WITH_BUDGET).await;
    let directory = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(directory.path(), &server, "tombola");
    prometheus.finds("tombola_ready");
    let _draws = draw_meanwhile(&server).await;
    all_find_what_they_ask_for(&prometheus, &NOTHING_TO_COMPARE);
}

/// The job has another name, Redis a bound of its memory, and some calls fail: every alert has
/// something to compare.
#[tokio::test(flavor = "multi_thread")]
async fn every_expression_finds_what_it_asks_for_on_redis_and_postgresql() {
    let (house, database) = (
        House::with(&[("maxmemory", "512mb")]),
        Database::new().await,
    );
    house.start().init().well();
    let files = tempfile::tempdir().unwrap();
    let authority = certificates::make(files.path(), "server");
    let path = files.path().display();
    std::fs::write(files.path().join("ca.crt"), &authority.pem).unwrap();
    std::fs::write(files.path().join("revoked.crl"), authority.revoke(&[])).unwrap();
    let server = house
        .start()
        .with("--admin 127.0.0.1:0")
        .with(&format!("--postgres-url {}", database.url_text()))
        .with(&format!(
            "--tls-cert {path}/server.crt --tls-key {path}/server.key"
        ))
        .with(&format!(
            "--tls-client-ca {path}/ca.crt --tls-client-crl {path}/revoked.crl"
        ))
        .with("--tls-client-auth optional")
        .serve()
        .over_tls(&authority.pem);
    load::apply_all(&server, &load::now_and_about_noon(&campaigns())).await;
    let budget = load::now_and_about_noon(load::WITH_BUDGET);
    load::apply_all(&server, &budget).await;
    let directory = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(directory.path(), &server, "lottery");
    prometheus.finds("tombola_ready");
    let key = "tombola{14}:campaign:cards";
    assert_eq!(house.redis.command(&["RENAME", key, "kept"]), "OK");
    let draw = request("cards", "user", "fails");
    let failed = server.lottery().await.draw(draw).await.unwrap_err();
    assert_eq!(failed.code(), tonic::Code::Internal, "{failed:?}");
    assert_eq!(house.redis.command(&["RENAME", "kept", key]), "OK");
    let _draws = draw_meanwhile(&server).await;
    // It has no access file.
    all_find_what_they_ask_for(&prometheus, &["TombolaCallersRefused"]);
}

#[test]
fn alerts_are_valid_and_the_documents_explain_each() {
    let file = project("deploy/compose/alerts.yaml");
    Ended::of(Command::new("promtool").args(["check", "rules"]).arg(file)).well();
    let rules = project("tests/suite/deploy/alerts.yaml");
    Ended::of(Command::new("promtool").args(["test", "rules"]).arg(rules)).well();
    let page = fs::read_to_string(project("docs/operations.md")).unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `Tombola"));
    let listed: BTreeSet<String> = rows
        .map(|row| format!("Tombola{}", row.split('`').next().unwrap()))
        .collect();
    let named: BTreeSet<String> = alerts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, named);
    let tests = fs::read_to_string(project("tests/suite/deploy/alerts.yaml")).unwrap();
    for name in named {
        assert!(
            tests.contains(&format!("alertname: {name}\n")),
            "{name} has no test"
        );
    }
}
