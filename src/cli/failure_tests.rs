//! Failures as their readers see them.

use std::{collections::HashMap, time::Duration};

use tonic_types::ErrorDetails;

use super::*;

fn details(reason: &str, executed: &str) -> ErrorDetails {
    let metadata = HashMap::from([
        ("request_id".to_owned(), "r-1".to_owned()),
        ("executed".to_owned(), executed.to_owned()),
    ]);
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "tombola.v1", metadata);
    details
}

#[test]
fn each_violation_has_its_own_line() {
    let mut details = details("INVALID_REQUEST", "no");
    details.add_bad_request_violation("prizes[0].stock", "70,400 needed, 50,000 given");
    details.add_bad_request_violation("operator", "is empty");
    let status = Status::with_error_details(Code::InvalidArgument, "2 problems", details);
    let failure = Failure::change(status, "mine");
    assert_eq!(failure.exit, Exit::Failed);
    assert_eq!(
        failure.to_string(),
        "error: 2 problems\n  prizes[0].stock: 70,400 needed, 50,000 given\n  operator: is empty\n  \
         nothing happened; reason INVALID_REQUEST, request id r-1"
    );
    let json = failure.to_json();
    assert_eq!(json["reason"], "INVALID_REQUEST");
    assert_eq!(json["executed"], "no");
    assert_eq!(json["request_id"], "r-1");
    assert_eq!(json["violations"][0]["field"], "prizes[0].stock");
}

#[test]
fn a_violation_that_the_message_tells_is_not_told_again() {
    let told = |message: &str, violations: &[(&str, &str)]| {
        let mut details = details("CHANGE_REFUSED", "no");
        for (field, description) in violations {
            details.add_bad_request_violation(*field, *description);
        }
        let status = Status::with_error_details(Code::FailedPrecondition, message, details);
        Failure::change(status, "mine").to_string()
    };
    let refused = told(
        "the change is refused: id: is fixed (and 1 more)",
        &[("id", "is fixed"), ("d", "is fixed")],
    );
    assert!(
        refused.starts_with(
            "error: the change is refused: id: is fixed (and 1 more)\n  d: is fixed\n"
        ),
        "{refused}"
    );
    let deck = told("the pool is a deck", &[("pool_id", "the pool is a deck")]);
    assert_eq!(deck.matches("is a deck").count(), 1, "{deck}");
}

#[test]
fn a_spent_limit_says_when_to_come_back() {
    let mut details = details("DRAWS_PER_DAY", "no");
    details.set_retry_info(Some(Duration::from_millis(5_399_500)));
    let status = Status::with_error_details(Code::ResourceExhausted, "3 of 3 used", details);
    let text = Failure::change(status, "mine").to_string();
    assert!(text.contains("in 1h 30m"), "{text}");
    assert!(text.contains("tombola grant"), "{text}");
}

#[test]
fn a_lost_connection_may_have_executed_a_change_and_names_the_request_id() {
    let failure = Failure::change(Status::unavailable("gone"), "mine");
    assert_eq!(failure.exit, Exit::Unavailable);
    assert_eq!(failure.executed, "unknown");
    let text = failure.to_string();
    assert!(text.contains("it may have happened"), "{text}");
    assert!(text.contains("--request-id mine"), "{text}");
}

#[test]
fn a_read_that_fails_does_not_speak_of_having_happened() {
    let failure = Failure::read(Status::unavailable("gone"));
    assert_eq!(failure.to_string(), "error: gone");
    assert!(failure.to_json()["executed"].is_null());
}

#[test]
fn a_draw_that_is_not_remembered_may_yet_come() {
    let details = details("DRAW_NOT_FOUND", "no");
    let status = Status::with_error_details(Code::NotFound, "no draw is remembered", details);
    let text = Failure::read(status).to_string();
    assert!(!text.contains("nothing happened"), "{text}");
    assert!(text.contains("DRAW_NOT_FOUND, request id r-1"), "{text}");
    assert!(text.contains("may yet draw"), "{text}");
}

#[test]
fn exit_codes_are_those_of_the_readme() {
    let refused = Failure::refused("CONFIRMATION_NEEDED", "no");
    assert_eq!((refused.exit as u8, Exit::Usage as u8), (1, 64));
    let store_away = details("STORE_UNAVAILABLE", "unknown");
    let status = Status::with_error_details(Code::Unavailable, "store away", store_away);
    assert_eq!(Failure::change(status, "mine").exit as u8, 69);
}
