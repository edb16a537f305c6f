//! Erasing a user, once the id is typed.

use std::time::Instant;

use super::{HOSTILE, encoded, fill, served};
use crate::process::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_erased_once_the_id_is_typed() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let user = encoded(HOSTILE);
    let address = format!("/users/forget?user={user}");
    // The page of the user leads to it.
    let record = browser.get(&format!("/campaigns/wheel/users?user={user}"));
    assert!(record.good().contains("/users/forget?user="));
    let begun = Instant::now();
    let page = loop {
        let page = browser.get(&address).good();
        if !page.contains("does not name this user") {
            break page;
        }
        assert!(begun.elapsed() < PATIENCE, "{page}");
    };
    assert!(
        page.contains("wheel") && page.contains("It cannot be undone"),
        "{page}"
    );
    let wrong = browser.post("/users/forget", &format!("user={user}&typed=olga"));
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert!(browser.get(&address).good().contains("It cannot be undone"));

    let form = format!("user={user}&typed={user}&reason=asked");
    // Entries that are settled meanwhile are erased by the next try.
    loop {
        let done = browser.post("/users/forget", &form);
        assert_eq!(done.status, 303, "{}", done.body);
        let target = done.header("location").unwrap().to_owned();
        let page = browser.get(&target).good();
        assert!(page.contains("The user is erased"), "{page}");
        if page.contains("does not name this user") {
            break;
        }
    }
    let draws = browser.get("/campaigns/wheel/draws").good();
    assert!(!draws.contains("order-1"), "{draws}");
}
