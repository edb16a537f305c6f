use super::*;

fn valid() -> proto::DrawRequest {
    proto::DrawRequest {
        campaign_id: "c".into(),
        user_id: "u".into(),
        request_id: "r".into(),
        ..proto::DrawRequest::default()
    }
}

fn parse(message: proto::DrawRequest) -> Result<DrawCommand, Problems> {
    let request = request_id(&message.request_id);
    draw(message, request, Moment::from_micros(5))
}

#[test]
fn a_draw_s_defaults_are_one_free_draw() {
    let command = parse(valid()).unwrap();
    assert_eq!(command.count, 1);
    assert_eq!(command.funding, Funding::Free);
    assert_eq!(command.expire, None);
    assert_eq!(command.not_after, Moment::from_micros(5));
}

#[test]
fn what_a_draw_may_say_at_most_is_accepted() {
    let command = parse(proto::DrawRequest {
        count: 100,
        funding: proto::Funding::Paid.into(),
        payment_ref: "\u{e9}".repeat(128),
        expire_time: Some(Timestamp {
            seconds: 1,
            nanos: 0,
        }),
        consolation_only: true,
        ..valid()
    })
    .unwrap();
    assert_eq!((command.count, command.funding), (100, Funding::Paid));
    assert_eq!(command.expire, Some(Moment::from_micros(1_000_000)));
    assert!(command.consolation_only);
}

#[test]
fn each_wrong_field_is_named() {
    let with = |change: fn(&mut proto::DrawRequest)| {
        let mut message = valid();
        change(&mut message);
        message
    };
    for (field, message) in [
        ("campaign_id", with(|m| m.campaign_id.clear())),
        ("user_id", with(|m| m.user_id = "a\u{85}b".into())),
        ("request_id", with(|m| m.request_id = "x".repeat(129))),
        ("count", with(|m| m.count = 101)),
        ("funding", with(|m| m.funding = 9)),
        ("payment_ref", with(|m| m.payment_ref = "x".repeat(257))),
        ("payment_ref", with(|m| m.payment_ref = "a\nb".into())),
        (
            "expire_time",
            with(|m| {
                m.expire_time = Some(Timestamp {
                    seconds: -1,
                    nanos: 0,
                });
            }),
        ),
    ] {
        let problems = parse(message).unwrap_err();
        let paths: Vec<_> = problems.0.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, [field]);
    }
}

#[test]
fn all_problems_of_a_request_are_reported_at_once() {
    let problems = parse(proto::DrawRequest {
        request_id: "\u{7f}".into(),
        count: u32::MAX,
        funding: -1,
        ..proto::DrawRequest::default()
    })
    .unwrap_err();
    let paths: Vec<_> = problems.0.iter().map(|p| p.path.as_str()).collect();
    let all = ["campaign_id", "user_id", "request_id", "count", "funding"];
    assert_eq!(paths, all);
}

#[test]
fn a_request_id_is_made_where_none_is_given_and_never_twice() {
    let made = request_id("").unwrap();
    let digits = made.as_str().strip_prefix("auto-").unwrap();
    assert_eq!(digits.len(), 32);
    assert!(digits.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_ne!(made, request_id("").unwrap());
    assert_eq!(request_id("mine").unwrap().as_str(), "mine");
}

#[test]
fn an_author_has_a_name_and_a_plain_reason() {
    let author = |operator: &str, reason: &str| {
        let mut fields = Fields::default();
        let author = fields.author(None, request_id("r"), (operator, reason));
        fields.finish(author)
    };
    assert!(author("ann", "").is_ok());
    assert!(author("ann", &"x".repeat(1_024)).is_ok());
    assert_eq!(author("", "a\tb").unwrap_err().0.len(), 2);
    assert_eq!(author("ann", &"x".repeat(1_025)).unwrap_err().0.len(), 1);
}

#[test]
fn an_identity_is_the_author_and_acts_on_behalf_of_whom_it_names() {
    let identity = OperatorId::parse("identity", "bot").unwrap();
    let author = |operator: &str| {
        let mut fields = Fields::default();
        let author = fields.author(Some(&identity), request_id("r"), (operator, ""));
        fields.finish(author)
    };
    for (named, other) in [("ann", Some("ann")), ("bot", None), ("", None)] {
        let author = author(named).unwrap();
        assert!(author.authenticated && author.operator == identity);
        let on_behalf_of = author.on_behalf_of.as_ref();
        assert_eq!(on_behalf_of.map(OperatorId::as_str), other);
    }
    assert!(author("a\tb").is_err());
}

#[test]
fn users_are_one_to_a_thousand_each_once() {
    let users = |ids: &[String]| {
        let mut fields = Fields::default();
        let users = fields.users(ids);
        fields.finish(Some(users.len()))
    };
    let ids: Vec<String> = (0..1_001).map(|i| format!("u{i}")).collect();
    assert_eq!(users(&ids[..1_000]).unwrap(), 1_000);
    assert_eq!(users(&ids).unwrap_err().0[0].path, "user_ids");
    assert_eq!(users(&[]).unwrap_err().0[0].path, "user_ids");
    let bad = ["a".to_owned(), "a".to_owned(), "b\nc".to_owned()];
    let problems = users(&bad).unwrap_err();
    let paths: Vec<_> = problems.0.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["user_ids[1]", "user_ids[2]"]);
}

#[test]
fn pages_and_grants_are_bounded() {
    let page = |size| {
        let mut fields = Fields::default();
        let size = fields.page_size(size);
        fields.finish(Some(size))
    };
    assert_eq!(page(0).unwrap(), 100);
    assert_eq!(page(1_000).unwrap(), 1_000);
    assert!(page(1_001).is_err());
    for (draws, fine) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
        let mut fields = Fields::default();
        fields.grant_draws(draws);
        assert_eq!(fields.finish(Some(())).is_ok(), fine, "{draws}");
    }
}
