//! Tests of errors as users see them.

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
        "error: 2 problems\n  prizes[0].stock: 70,400 needed, 50,000 given\n  operator: is \
         empty\n  nothing happened; reason INVALID_REQUEST, request id r-1"
    );
    let json = failure.to_json();
    assert_eq!(json["reason"], "INVALID_REQUEST");
    assert_eq!(json["executed"], "no");
    assert_eq!(json["request_id"], "r-1");
    assert_eq!(json["violations"][0]["field"], "prizes[0].stock");
}

#[test]
fn a_violation_that_the_message_contains_is_not_repeated() {
    let rendered = |message: &str, violations: &[(&str, &str)]| {
        let mut details = details("CHANGE_REFUSED", "no");
        for (field, description) in violations {
            details.add_bad_request_violation(*field, *description);
        }
        let status = Status::with_error_details(Code::FailedPrecondition, message, details);
        Failure::change(status, "mine").to_string()
    };
    let refused = rendered(
        "the change is refused: id: is fixed (and 1 more)",
        &[("id", "is fixed"), ("d", "is fixed")],
    );
    assert!(
        refused.starts_with(
            "error: the change is refused: id: is fixed (and 1 more)\n  d: is fixed\n"
        ),
        "{refused}"
    );
    let deck = rendered("the pool is a deck", &[("pool_id", "the pool is a deck")]);
    assert_eq!(deck.matches("is a deck").count(), 1, "{deck}");
}

#[test]
fn a_spent_limit_says_when_to_come_back() {
    let mut details = details("DRAWS_PER_DAY", "no");
    details.set_retry_info(Some(Duration::from_millis(5_399_500)));
    let status = Status::with_error_details(Code::ResourceExhausted, "3 of 3 used", details);
    let text = Failure::change(status, "mine").to_string();
    assert!(text.contains("in 1h 30m"), "{text}");
    assert!(
        text.contains("tombola grant CAMPAIGN --draws N USER"),
        "{text}"
    );
}

#[test]
fn a_call_may_have_been_made_behind_a_proxy_that_says_nothing() {
    let failure = || Failure::change(Status::unavailable("the connection broke"), "mine");
    for stranger in [Stranger::Closes, Stranger::Silent] {
        let failure = failure().of_stranger("http://lb:50051", &stranger);
        assert_eq!(failure.exit, Exit::Unavailable);
        let json = failure.to_json();
        assert_eq!(json["reason"], "NO_TOMBOLA");
        assert_eq!(json["executed"], "unknown");
        assert_eq!(json["request_id"], "mine");
        let text = failure.to_string();
        assert!(
            text.contains("repeat the command with --request-id mine"),
            "{text}"
        );
    }
    let elsewhere = failure().of_stranger("http://lb:50051", &Stranger::Redis);
    assert_eq!(elsewhere.to_json()["executed"], "no");
    assert!(
        !elsewhere.to_string().contains("--request-id"),
        "{elsewhere}"
    );
    let read = Failure::read(Status::unavailable("the connection broke"));
    let read = read.of_stranger("http://lb:50051", &Stranger::Closes);
    assert_eq!(read.to_json()["executed"], "no");
}

#[test]
fn a_stranger_does_not_undo_an_earlier_try_that_may_have_executed_the_call() {
    let executed = |earlier: &[Status], stranger: &Stranger| {
        let mut tries = EarlierTries::default();
        for status in earlier {
            tries.add(status);
        }
        let failure = Failure::change(Status::unavailable("gone"), "mine").after(tries);
        let failure = failure.of_stranger("http://lb:50051", stranger);
        assert_eq!(failure.reason, "NO_TOMBOLA");
        failure.executed
    };
    let details = details("STORE_UNAVAILABLE", "unknown");
    let signed = [Status::with_error_details(
        Code::Unavailable,
        "store away",
        details,
    )];
    for stranger in [Stranger::Redis, Stranger::OtherService, Stranger::Closes] {
        assert_eq!(executed(&signed, &stranger), "unknown");
    }
    // A proxy may have passed the earlier try on to a Tombola. A Redis has not.
    let unsigned = [Status::unavailable("gone")];
    assert_eq!(executed(&unsigned, &Stranger::OtherService), "unknown");
    assert_eq!(executed(&unsigned, &Stranger::Redis), "no");
    assert_eq!(executed(&[], &Stranger::OtherService), "no");

    let mut tries = EarlierTries::default();
    tries.add(&signed[0]);
    let failure = || Failure::change(Status::unavailable("gone"), "mine");
    for (mut failure, executed) in [(failure().after(tries), "unknown"), (failure(), "no")] {
        let fault = TlsFault {
            problem: "TLS failed".into(),
            advice: "the server's log says more",
        };
        failure.is_of_tls("https://lb:50051", fault);
        assert_eq!(failure.executed, executed);
        assert!(failure.to_string().contains("the server's log says more"));
    }
}

#[test]
fn hints_and_messages_name_what_the_command_is_about() {
    let rendered = |line: &str, reason: &str| {
        let matches = super::super::command().get_matches_from(line.split_whitespace());
        let status = Status::with_error_details(
            Code::NotFound,
            "there is no campaign of this id",
            details(reason, "no"),
        );
        let mut failure = Failure::change(status, "mine");
        failure.about(Subject::of(&matches));
        failure.to_string()
    };
    let text = rendered("tombola draw wheel a|b", "CAMPAIGN_NOT_FOUND");
    assert!(
        text.starts_with("error: there is no campaign wheel\n"),
        "{text}"
    );
    let text = rendered("tombola draw wheel a|b", "DRAWS_PER_DAY");
    assert!(
        text.contains("tombola grant wheel --draws N 'a|b'"),
        "{text}"
    );
    let text = rendered("tombola envelope show e", "ENVELOPE_EXISTS");
    assert!(text.contains("tombola envelope show e"), "{text}");
    let text = rendered("tombola prize pause wheel car", "PRIZE_NOT_FOUND");
    assert!(text.contains("tombola campaign wheel -o yaml"), "{text}");
}

#[test]
fn a_problem_of_a_file_has_its_path_in_that_file() {
    let mut invalid = details("INVALID_REQUEST", "no");
    invalid.add_bad_request_violation("schedule.perHour.coupon", "too many");
    invalid.add_bad_request_violation("schedule.daily[0].from", "no hour");
    let message = "schedule.perHour.coupon: too many (and 1 more)";
    let status = Status::with_error_details(Code::InvalidArgument, message, invalid);
    let failure = Failure::read(status).in_file("evening.yaml", "schedule");
    let text = failure.to_string();
    let expected =
        "error: evening.yaml: perHour.coupon: too many (and 1 more)\n  daily[0].from: no hour\n";
    assert!(text.starts_with(expected), "{text}");

    let mut invalid = details("INVALID_REQUEST", "no");
    invalid.add_bad_request_violation("operator", "is empty");
    let message = "operator: is empty";
    let status = Status::with_error_details(Code::InvalidArgument, message, invalid);
    let failure = Failure::read(status).in_file("evening.yaml", "schedule");
    assert!(failure.to_string().starts_with("error: operator: is empty"));
}

#[test]
fn each_wrong_option_is_listed_once() {
    let mut problems = Problems::default();
    problems.add("--listen", "is wrong");
    let one = Failure::options(problems.clone());
    assert_eq!(one.to_string(), "error: --listen: is wrong");
    problems.add("--data", "is wrong too");
    let two = Failure::options(problems);
    assert_eq!(
        two.to_string(),
        "error: 2 options are wrong\n  --listen: is wrong\n  --data: is wrong too"
    );
    assert_eq!(two.to_json()["violations"][1]["field"], "--data");
    assert_eq!(two.exit, Exit::Usage);
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
