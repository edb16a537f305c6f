//! Compares the clients' records with the store once the fault is over.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};
use tombola::{
    model::{Campaign, CampaignId},
    proto::{
        DrawRequest, DrawResponse, GetDrawRequest, GetStatsRequest, LedgerId,
        lottery_service_client::LotteryServiceClient,
    },
    store::{DrawResult, Entry, Store, entry::Body},
};
use tonic::{Code, transport::Channel};

use super::{
    clients::{End, Outcomes, Record},
    report::Counts,
};
use crate::{process::Server, support::audit};

/// Connections that ask in parallel.
const CONNECTIONS: usize = 16;
/// How long the replicas of `strict` may take to come back.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of lost draws to print.
const SHOWN: u64 = 5;

/// A draw as a client or the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Draw {
    partition: u32,
    sequence: u64,
    /// The unit of each result, or the empty text.
    units: Vec<String>,
}

/// Every draw in the ledger by its request id, and the owner of each sequence number.
struct Ledger {
    draws: HashMap<String, (String, Draw)>,
    owners: HashMap<(u32, u64), String>,
}

/// Counts the differences between the clients, the service that answers now, and the ledger.
pub async fn count(outcomes: &Outcomes, server: &Server, store: &dyn Store) -> Counts {
    let ledger = read(store).await;
    let mut counts = Counts {
        attempts: outcomes.records.len() as u64,
        other_outcomes: outcomes.other_outcomes,
        pause: outcomes.pause,
        ..Counts::default()
    };
    let mut owners = Owners::of(&ledger);
    let mut acknowledged = Vec::new();
    for Record { request, end } in &outcomes.records {
        let made = ledger.draws.get(&request.request_id);
        match end {
            End::Unknown => counts.unknown += 1,
            End::No => {
                counts.refused += 1;
                counts.falsely_no += u64::from(made.is_some());
            }
            End::Acknowledged(response) => {
                counts.acknowledged += 1;
                let draw = drawn(response);
                owners.add(request, &draw);
                acknowledged.push((request.clone(), draw, made.map(|(_, draw)| draw.clone())));
            }
        }
    }
    let halted: BTreeSet<_> = partitions_of(&outcomes.halted, &acknowledged);
    for (request, draw, kept) in found(server, acknowledged).await {
        if kept.as_ref() != Some(&draw) {
            counts.lost += 1;
            counts.unnoticed += u64::from(!halted.contains(&draw.partition));
            if counts.lost <= SHOWN {
                eprintln!("lost: {request:?} {draw:?}, kept: {kept:?}");
            }
        }
    }
    counts.halted = halted.len() as u64;
    counts.sequence_twice = owners
        .sequences
        .values()
        .filter(|who| who.len() > 1)
        .count() as u64;
    counts.doubled = owners.units.values().filter(|who| who.len() > 1).count() as u64;
    counts.unbalanced = unbalanced(server, &ledger).await;
    counts
}

/// The draws that got each sequence number and each unit, from clients and ledger together.
struct Owners {
    sequences: HashMap<(u32, u64), BTreeSet<String>>,
    units: HashMap<(String, String), BTreeSet<String>>,
}

impl Owners {
    fn of(ledger: &Ledger) -> Self {
        let owner = |(id, owner): (&(u32, u64), &String)| (*id, [owner.clone()].into());
        let mut owners = Self {
            sequences: ledger.owners.iter().map(owner).collect(),
            units: HashMap::new(),
        };
        for (request, (campaign, draw)) in &ledger.draws {
            owners.give_units(campaign, request, draw);
        }
        owners
    }

    fn add(&mut self, request: &DrawRequest, draw: &Draw) {
        let id = (draw.partition, draw.sequence);
        let sequence = self.sequences.entry(id).or_default();
        sequence.insert(request.request_id.clone());
        self.give_units(&request.campaign_id, &request.request_id, draw);
    }

    fn give_units(&mut self, campaign: &str, request: &str, draw: &Draw) {
        for unit in draw.units.iter().filter(|unit| !unit.is_empty()) {
            let unit = (campaign.to_owned(), unit.clone());
            self.units
                .entry(unit)
                .or_default()
                .insert(request.to_owned());
        }
    }
}

fn drawn(response: &DrawResponse) -> Draw {
    let LedgerId {
        partition,
        sequence,
    } = response.results[0].ledger_id.unwrap();
    let units = response.results.iter();
    Draw {
        partition,
        sequence,
        units: units.map(|result| result.unit_id.clone()).collect(),
    }
}

async fn read(store: &dyn Store) -> Ledger {
    let mut ledger = Ledger {
        draws: HashMap::new(),
        owners: HashMap::new(),
    };
    let mut versions = BTreeMap::new();
    for entry in audit::ledger(store).await {
        let id = (entry.id.partition, entry.id.sequence);
        let owner = match (&entry.body, entry.subject.campaign()) {
            (Body::Draw(draw), Some(campaign)) => {
                let version = version(store, &mut versions, campaign, draw.version).await;
                let request = draw.request.to_string();
                let drawn = draw_of(&entry, &draw.results, &version);
                let earlier = ledger
                    .draws
                    .insert(request.clone(), (campaign.to_string(), drawn));
                assert!(earlier.is_none(), "{request} is twice in the ledger");
                request
            }
            _ => format!("entry {id:?}"),
        };
        let earlier = ledger.owners.insert(id, owner);
        assert!(earlier.is_none(), "{id:?} is twice in the ledger");
    }
    ledger
}

async fn version(
    store: &dyn Store,
    versions: &mut BTreeMap<(CampaignId, u32), Arc<Campaign>>,
    campaign: &CampaignId,
    version: u32,
) -> Arc<Campaign> {
    let key = (campaign.clone(), version);
    if !versions.contains_key(&key) {
        let read = store.version(campaign, version).await.unwrap();
        versions.insert(key.clone(), read);
    }
    versions[&key].clone()
}

fn draw_of(entry: &Entry, results: &[DrawResult], campaign: &Campaign) -> Draw {
    let unit = |result: &DrawResult| match result {
        DrawResult::Won { pool, unit, .. } => unit.id(campaign.pool(*pool).id.as_str()),
        _ => String::new(),
    };
    Draw {
        partition: entry.id.partition,
        sequence: entry.id.sequence,
        units: results.iter().map(unit).collect(),
    }
}

type Acknowledged = (DrawRequest, Draw, Option<Draw>);

/// Asks for every acknowledged draw with GetDraw, which must agree with the ledger, unless its
/// partition is halted.
async fn found(server: &Server, acknowledged: Vec<Acknowledged>) -> Vec<Acknowledged> {
    let mut hands = JoinSet::new();
    for share in acknowledged.chunks(acknowledged.len().div_ceil(CONNECTIONS).max(1)) {
        let (mut lottery, share) = (server.lottery().await, share.to_vec());
        hands.spawn(async move {
            for (request, _, kept) in &share {
                let names = GetDrawRequest {
                    campaign_id: request.campaign_id.clone(),
                    user_id: request.user_id.clone(),
                    request_id: request.request_id.clone(),
                };
                if let Some(got) = get_draw(&mut lottery, names).await {
                    let got = got.as_ref().map(drawn);
                    assert_eq!(&got, kept, "GetDraw and the ledger: {request:?}");
                }
            }
            share
        });
    }
    hands.join_all().await.concat()
}

/// The response of GetDraw, retried while the replicas of `strict` come back; none if the partition
/// is halted.
async fn get_draw(
    lottery: &mut LotteryServiceClient<Channel>,
    names: GetDrawRequest,
) -> Option<Option<DrawResponse>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lottery.get_draw(names.clone()).await {
            Ok(response) => return Some(response.into_inner().draw),
            Err(status) if status.code() == Code::NotFound => return Some(None),
            Err(status) if status.message().contains("is halted") => return None,
            Err(status) if status.code() == Code::Unavailable && Instant::now() < deadline => {
                sleep(Duration::from_millis(100)).await;
            }
            Err(status) => panic!("{status:?}"),
        }
    }
}

/// The partitions of these campaigns that have acknowledged draws.
fn partitions_of(campaigns: &[String], acknowledged: &[Acknowledged]) -> BTreeSet<u32> {
    let is_one = |(request, ..): &&Acknowledged| campaigns.contains(&request.campaign_id);
    let ones = acknowledged.iter().filter(is_one);
    ones.map(|(_, draw, _)| draw.partition).collect()
}

/// Campaigns whose sums do not hold, or differ from the sums of the ledger.
async fn unbalanced(server: &Server, ledger: &Ledger) -> u64 {
    let mut of_campaign: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (campaign, draw) in ledger.draws.values() {
        let (draws, wins) = of_campaign.entry(campaign).or_default();
        *draws += draw.units.len() as u64;
        *wins += draw.units.iter().filter(|unit| !unit.is_empty()).count() as u64;
    }
    let mut campaigns = server.campaigns().await;
    let mut unbalanced = 0;
    for (id, sums) in of_campaign {
        let request = GetStatsRequest {
            campaign_id: id.to_owned(),
        };
        let stats = campaigns.get_stats(request).await.unwrap().into_inner();
        let holds = stats.balanced && (stats.draws, stats.wins) == sums;
        unbalanced += u64::from(!holds);
    }
    unbalanced
}
