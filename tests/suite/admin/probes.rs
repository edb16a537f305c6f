//! Probes at the start, while the store is away, and at the end.

use std::{fs, net::TcpListener};

use crate::{
    faults::{load, redis::House},
    process::{Start, tombola},
};

/// An address at which nobody listens.
fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

#[test]
fn probes_follow_the_store_and_the_process_lives_meanwhile() {
    let mut house = House::new();
    house.redis.kill();
    let listen = free_address();
    let start = Start {
        listen: &listen,
        ..house.start().with("--admin 127.0.0.1:0")
    };
    let server = start.wait();
    let admin = server.admin();
    for probe in ["/readyz", "/startupz"] {
        let cause = admin.says(probe, 503);
        assert!(cause.contains("not open yet"), "{cause}");
        assert!(cause.contains("cannot be reached"), "{cause}");
    }
    admin.says("/livez", 200);

    house.redis.restart();
    server.says("serving on");
    admin.becomes("/readyz", 200);
    admin.says("/startupz", 200);

    house.redis.kill();
    let cause = admin.becomes("/readyz", 503);
    assert!(cause.contains("the store is not serving"), "{cause}");
    assert!(!cause.contains("Unavailable {"), "{cause}");
    admin.says("/startupz", 200);
    admin.says("/livez", 200);

    house.redis.restart();
    admin.becomes("/readyz", 200);
    let (status, ..) = admin.get("/elsewhere");
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drains_is_not_ready_and_still_answers() {
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with("--admin 127.0.0.1:0 --drain-delay 5m");
    let mut server = start.serve();
    load::apply(&server).await;
    let admin = server.admin();
    admin.becomes("/readyz", 200);
    server.signal("TERM");
    server.says("not ready any more");
    assert!(admin.says("/readyz", 503).contains("stopping"));
    admin.says("/startupz", 200);
    admin.says("/livez", 200);
    // Also on a new connection.
    server.run(&["campaigns"]).well();
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(1));
}

#[test]
fn a_server_ends_after_its_drain_delay() {
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with("--admin 127.0.0.1:0 --drain-delay 1s");
    let mut server = start.serve();
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let drained = said.find("not ready any more").unwrap();
    assert!(drained < said.find("no new connections").unwrap(), "{said}");
}

#[test]
fn an_admin_port_that_cannot_be_used_is_reported_before_anything_is_opened() {
    let data = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let fail = |more: &str| Start::on(data.path()).with(more).fail();
    fail(&format!("--admin {taken}")).badly(1, &[&taken, "another program", "--admin"]);
    fail("--admin nowhere").badly(64, &["--admin", "127.0.0.1:50051"]);
    fail("--drain-delay 6m").badly(64, &["--drain-delay", "0s to 5m"]);
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
    let help = crate::process::Ended::of(&mut tombola(["serve", "--help"])).well();
    assert!(help.contains("TOMBOLA_ADMIN"), "{help}");
}
