//! The running digest of entries, which an audit compares with the rows.

use std::fs;

use tombola::{
    ledger::{
        DirectoryTarget,
        chain::{Chain, Link},
    },
    model::Moment,
};

use super::{Database, place::Place, settle_all, settled};
use crate::{
    process::{Ended, tombola},
    support::{World, embedded::Embedded, on_redis::OnRedis},
};

fn audit(database: &Database) -> Ended {
    let url = database.url_text();
    Ended::of(&mut tombola([
        "audit",
        "--postgres-url",
        &url,
        "--without-service",
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_begins_anew_after_a_version_without_it() {
    let database = Database::new().await;
    let client = database.server.connect(&database.name).await;
    let world = World::new(Embedded::new()).await;
    world.begin(settled::YAML).await;
    let (mut carrier, mut sink) = super::settler(world.store(), &database.url()).await;
    let first = settle_all(&mut carrier, &mut sink).await;
    // The version before moves the cursor, and leaves the digest as it was.
    let kept = "CREATE TABLE public.kept AS SELECT chain, chain_first, chain_last
                FROM tombola.cursors";
    client.batch_execute(kept).await.unwrap();
    settled::draws(&world, 0).await;
    let older = settle_all(&mut carrier, &mut sink).await;
    let back = "UPDATE tombola.cursors SET chain = kept.chain, chain_first = kept.chain_first,
                    chain_last = kept.chain_last FROM public.kept";
    client.batch_execute(back).await.unwrap();
    let said = audit(&database).well();
    let entries = first + older;
    let covered = format!("partition 0: of {entries}, the entries 1 to {first} are covered");
    assert!(said.contains(&covered), "{said}");

    settled::draws(&world, 1).await;
    let (mut carrier, mut sink) = super::settler(world.store(), &database.url()).await;
    let newer = settle_all(&mut carrier, &mut sink).await;
    assert!(newer > 0);
    let said = audit(&database).well();
    let covered = format!(
        "the entries {} to {} are covered",
        entries + 1,
        entries + newer
    );
    assert!(said.contains(&covered), "{said}");
    let change = format!(
        "UPDATE tombola.entries SET body = set_byte(body, 21, 48 + (get_byte(body, 21) - 47) % 10)
         WHERE sequence = {}",
        entries + 1
    );
    client.batch_execute(&change).await.unwrap();
    audit(&database).badly(1, &["does not add up"]);

    let none = "UPDATE tombola.cursors SET chain = NULL, chain_first = NULL, chain_last = NULL";
    client.batch_execute(none).await.unwrap();
    let said = audit(&database).well();
    assert!(said.contains("is covered"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_a_directory_have_the_digest_of_what_stands_before_them() {
    let world = World::new(OnRedis::single()).await;
    world.begin(settled::YAML).await;
    let directory = tempfile::tempdir().unwrap();
    let place = Place::Directory(DirectoryTarget {
        path: directory.path().into(),
        file_bytes_max: 1 << 30,
    });
    for round in 0..2 {
        settled::draws(&world, round).await;
        // Opened anew, it goes on from its last line.
        let (mut carrier, mut sink) = place.settler(world.store()).await;
        settle_all(&mut carrier, &mut *sink).await;
    }
    let text = fs::read_to_string(directory.path().join("ledger-00000001.jsonl")).unwrap();
    let mut chains = std::collections::BTreeMap::<u64, Chain>::new();
    let mut cursors = 0;
    for line in text.lines().skip(1) {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(partition) = json["cursor"].as_u64() {
            let chain: &Chain = &chains[&partition];
            let kept = &json["chain"];
            assert_eq!(kept["first"], chain.first);
            assert_eq!(kept["last"], chain.last);
            let digest: String = chain.digest.map(|byte| format!("{byte:02x}")).concat();
            assert_eq!(kept["digest"], digest);
            cursors += 1;
            continue;
        }
        let (_, body) = line.split_once(",\"body\":").unwrap();
        let link = Link {
            partition: json["partition"].as_u64().unwrap() as u32,
            sequence: json["sequence"].as_u64().unwrap(),
            at: Moment::from_micros(json["at"].as_i64().unwrap()),
            kind: json["kind"].as_str().unwrap(),
            campaign: json["campaign"].as_str(),
            envelope: json["envelope"].as_str(),
            number: json["number"].as_u64(),
            fork: json["fork"].as_u64().unwrap() as u32,
            format: json["format"].as_i64().unwrap() as i16,
            body: body.strip_suffix('}').unwrap().as_bytes(),
        };
        let chain = chains.entry(link.partition.into());
        chain
            .or_insert_with(|| Chain::begin(link.sequence))
            .add(&link);
    }
    assert!(cursors > 1, "{cursors}");
}
