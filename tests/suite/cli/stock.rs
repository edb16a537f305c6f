//! The stock of a campaign that has begun: used units count as they were used, and only the rest
//! follows a new plan.

use super::Desk;
use crate::{process::Start, support::redis_server::until};

/// A campaign of ten days that releases missed hours at once.
fn ten_days(stock: u64, plan: &str) -> String {
    format!(
        "
id: days
timeZone: UTC
startTime: 2026-12-01T00:00:00Z
endTime: 2026-12-11T00:00:00Z
prizes: [{{id: coupon, stock: {stock}}}]
pools: [{{id: hours, schedule: {{missed: RELEASE, {plan}}}}}]
"
    )
}

/// A running campaign with this plan, at the moment `now`, with `used` units used.
fn begun(stock: u64, plan: &str, (now, used): (&str, u64)) -> Desk {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Start::on(&data).at("2026-11-30T12:00:00Z".into()).serve();
    let mut desk = Desk { server, directory };
    let file = desk.file("days.yaml", &ten_days(stock, plan));
    desk.run("apply -f", &[&file]).well();
    desk.server.kill();
    desk.server = Start::on(&data).at(now.into()).serve();
    let left = (stock - used).to_string();
    until(&format!("{left} units are left"), || {
        desk.json("stats days")["prizes"][0]["left"] == left.as_str()
    });
    desk
}

#[test]
fn a_plan_beyond_what_is_left_is_refused() {
    let now = ("2026-12-09T00:30:00Z", 386);
    let desk = begun(480, "perHour: {coupon: 2}", now);
    let special =
        "special: [{from: '2026-12-09T00:00', to: '2026-12-11T00:00', perHour: {coupon: 9}}]";
    let plan = format!("perHour: {{coupon: 0}}, {special}");
    let file = desk.file("days.yaml", &ten_days(480, &plan));
    let words = ["stock 816 needed, 480 given (386 used already)"];
    desk.run("apply --dry-run --base-version 1 -f", &[&file])
        .badly(1, &words);
    desk.run("apply --base-version 1 -f", &[&file])
        .badly(1, &words);
    let file = desk.file("days.yaml", &ten_days(816, &plan));
    desk.run("apply --base-version 1 -f", &[&file]).well();
}

#[test]
fn a_plan_that_needs_exactly_what_is_left_is_accepted() {
    let now = ("2026-12-06T00:30:00Z", 121);
    let desk = begun(360, "perHour: {coupon: 1}", now);
    let plan = desk.file("plan.yaml", "{missed: RELEASE, perHour: {coupon: 3}}");
    let refused = desk.run("plan days hours --base-version 1 -f", &[&plan]);
    refused.badly(1, &["stock 480 needed"]);
    let file = desk.file("days.yaml", &ten_days(360, "perHour: {coupon: 2}"));
    desk.run("apply --dry-run --base-version 1 -f", &[&file])
        .well();
    let applied = "apply --base-version 1 --request-id double -f";
    desk.run(applied, &[&file]).well();
    desk.run(applied, &[&file]).well(); // a retry gets the same response
}

#[test]
fn a_campaign_that_comes_late_needs_the_hours_to_come_only() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Start::on(&data).at("2026-12-06T00:30:00Z".into()).serve();
    let desk = Desk { server, directory };
    let plan = "perHour: {coupon: 1}";
    let file = desk.file("days.yaml", &ten_days(119, plan));
    desk.run("apply -f", &[&file])
        .badly(1, &["stock 120 needed, 119 given"]);
    let file = desk.file("days.yaml", &ten_days(120, plan));
    desk.run("apply -f", &[&file]).well();
}

#[test]
fn nothing_is_applied_if_a_later_campaign_of_the_file_is_short_of_stock() {
    let desk = Desk::new();
    let short = super::WHEEL
        .replace("id: wheel", "id: short")
        .replace("stock: 300000", "stock: 10");
    let file = desk.file("two.yaml", &format!("{}\n---\n{short}", super::WHEEL));
    desk.run("apply -f", &[&file]).badly(1, &["10 given"]);
    let list = desk.run("campaigns", &[]).well();
    assert!(list.contains("no campaigns yet"), "{list}");
}
