//! `tombola audit`: recomputes the promises from the settled ledger, and compares the sums with
//! what the running service says.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use clap::Args;
use tokio::time::{Instant, sleep};
use tonic::Status;

use super::{
    audit_view as view,
    client::{Campaigns, Client, Outcome},
    failure::Failure,
    ledger_args::{LedgerArgs, Place},
    output::{self, counted},
};
use crate::{
    chance::{Seed, unhex},
    ledger::{
        SinkError,
        audit::{
            Audit, Check, PrizeSums, StoreEnvelopes, StoreSums,
            run::run as audit_all,
            source::{PostgresSource, Source, SqliteSource},
        },
    },
    model::CampaignId,
    proto::{
        Campaign, GetOddsRequest, GetStatsRequest, GetStatsResponse, LedgerId,
        ListCampaignsRequest, pool::Kind,
    },
    store::{EnvelopeSums, LedgerId as EntryId, view::DrawCounts},
};

/// How often the audit looks whether the ledger is settled.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola audit --data /var/lib/tombola
  tombola audit --postgres-url postgres://auditor@127.0.0.1/ledger
  tombola audit --postgres-url postgres://auditor@127.0.0.1/ledger --without-service

It reads every settled entry and keeps its own books, so a changed, missing, swapped or repeated
entry is found. It needs no more than the right to read. Draws may go on: the service says up to
which entry it counts. It ends with 1 if anything does not add up.")]
pub(super) struct AuditArgs {
    /// The campaigns to show [default: all, up to 20]; every campaign is audited
    #[arg(value_name = "CAMPAIGN", value_parser = super::client::campaign_id)]
    campaigns: Vec<String>,
    #[command(flatten)]
    ledger: LedgerArgs,
    /// Do not compare the sums with those of the service
    #[arg(long, env = "TOMBOLA_WITHOUT_SERVICE")]
    without_service: bool,
    /// Seconds to wait until what the service counts is settled
    #[arg(
        long,
        env = "TOMBOLA_WAIT_S",
        value_name = "SECONDS",
        default_value_t = 30
    )]
    wait_s: u64,
}

pub(super) async fn run(client: &Client, args: AuditArgs) -> Outcome {
    let mut source = open(&args.ledger).await?;
    let failed = |error: SinkError| args.ledger.failed(&error);
    let audit = if args.without_service {
        Audit::default()
    } else {
        let said = ask(client).await?;
        let heads = heads(&said.stores, &said.envelopes);
        wait(&mut *source, &heads, Duration::from_secs(args.wait_s))
            .await
            .map_err(failed)?;
        Audit::new(said.stores, Some(said.envelopes)).with_seeds(said.seeds)
    };
    let is_compared = !args.without_service;
    let report = audit_all(&mut *source, audit, |_| ())
        .await
        .map_err(failed)?;
    if client.json {
        output::say(&format!("{:#}", view::to_json(&report)));
    } else {
        output::say(&view::text(&report, &args.campaigns, is_compared));
    }
    let found: u64 = Check::ALL
        .iter()
        .map(|&check| report.findings.count(check))
        .sum();
    match found {
        0 => Ok(()),
        found => Err(Failure::refused(
            "AUDIT",
            format!(
                "the ledger does not add up: {}; keep store and ledger as they are and look at \
                 the entries named above",
                counted(found, "finding")
            ),
        )),
    }
}

async fn open(ledger: &LedgerArgs) -> Outcome<Box<dyn Source>> {
    Ok(match ledger.place()? {
        Place::File(data) => {
            let source = SqliteSource::open(&data);
            Box::new(source.map_err(|error| ledger.failed(&error))?)
        }
        Place::Database(url) => {
            let source = PostgresSource::open(&url).await;
            Box::new(source.map_err(|error| ledger.failed(&error))?)
        }
    })
}

/// What the service says.
struct Said {
    stores: HashMap<CampaignId, StoreSums>,
    envelopes: StoreEnvelopes,
    /// The seeds of campaigns with personal pools that have ended.
    seeds: HashMap<CampaignId, Seed>,
}

/// Asks the service about every campaign and about envelopes.
async fn ask(client: &Client) -> Outcome<Said> {
    let mut server = client.campaigns().await?;
    let (mut stores, mut seeds) = (HashMap::new(), HashMap::new());
    for campaign in campaigns(&mut server).await? {
        let stats = stats(&mut server, &campaign.id).await?;
        let Ok(id) = CampaignId::parse("campaign", &campaign.id) else {
            continue;
        };
        if has_personal_pools(&campaign)
            && let Some(seed) = seed(client, &campaign.id).await?
        {
            seeds.insert(id.clone(), seed);
        }
        if let Some(sums) = store_sums(&stats) {
            stores.insert(id, sums);
        }
    }
    let stats = stats(&mut server, "").await?;
    let heads = stats.ledger_heads.iter();
    let sums = stats.envelopes.iter().map(|sums| {
        let sums = EnvelopeSums {
            currency: sums.currency.clone(),
            envelopes: sums.envelopes,
            open: sums.envelopes_open,
            created_minor: sums.created_minor.into(),
            grabbed_minor: sums.grabbed_minor.into(),
            waiting_minor: sums.waiting_minor.into(),
            refunded_minor: sums.refunded_minor.into(),
            envelopes_agree: sums.balanced,
        };
        (sums.currency.clone(), sums)
    });
    let envelopes = StoreEnvelopes {
        heads: heads.map(|head| (head.partition, head.sequence)).collect(),
        sums: sums.collect(),
    };
    Ok(Said {
        stores,
        envelopes,
        seeds,
    })
}

fn has_personal_pools(campaign: &Campaign) -> bool {
    let mut kinds = campaign.pools.iter().map(|pool| &pool.kind);
    kinds.any(|kind| matches!(kind, Some(Kind::Personal(_))))
}

/// The seed of a campaign, if it is revealed.
async fn seed(client: &Client, id: &str) -> Outcome<Option<Seed>> {
    let request = GetOddsRequest {
        campaign_id: id.into(),
        version: 0,
    };
    let odds = client.lottery().await?.get_odds(request).await;
    let bytes = unhex(&odds.map_err(Failure::read)?.into_inner().seed);
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    Ok(bytes.map(Seed::from_bytes))
}

async fn campaigns(server: &mut Campaigns) -> Outcome<Vec<Campaign>> {
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListCampaignsRequest {
            page_size: 1_000,
            page_token,
            ..ListCampaignsRequest::default()
        };
        let page = server.list_campaigns(request).await;
        let page = page.map_err(Failure::read)?.into_inner();
        // An audit of a part would say that all is well.
        if let Some(unread) = page.unread.first() {
            return Err(Failure::read(Status::unavailable(unread.message.clone())));
        }
        let campaigns = page.campaigns.into_iter();
        all.extend(campaigns.filter_map(|status| status.campaign));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(all);
        }
    }
}

async fn stats(server: &mut Campaigns, id: &str) -> Outcome<GetStatsResponse> {
    let request = GetStatsRequest {
        campaign_id: id.into(),
    };
    let stats = server.get_stats(request).await;
    Ok(stats.map_err(Failure::read)?.into_inner())
}

/// None from a service that does not say up to which entry it counts.
fn store_sums(stats: &GetStatsResponse) -> Option<StoreSums> {
    let &LedgerId {
        partition,
        sequence,
    } = stats.ledger_heads.first()?;
    let prizes = stats.prizes.iter().map(|prize| {
        let sums = PrizeSums {
            stock: prize.stock,
            left: prize.left,
            waiting: prize.waiting + prize.held,
            won: prize.won,
            withdrawn: prize.withdrawn,
        };
        (prize.prize_id.clone(), sums)
    });
    Some(StoreSums {
        head: EntryId {
            partition,
            sequence,
        },
        prizes: prizes.collect(),
        draws: DrawCounts {
            wins: stats.wins,
            consolations: stats.consolations,
            nothings: stats.nothings,
        },
    })
}

/// The last entry of each partition that anything counts.
fn heads(
    stores: &HashMap<CampaignId, StoreSums>,
    envelopes: &StoreEnvelopes,
) -> BTreeMap<u32, u64> {
    let mut heads = envelopes.heads.clone();
    for store in stores.values() {
        let head = heads.entry(store.head.partition).or_default();
        *head = store.head.sequence.max(*head);
    }
    heads
}

/// Waits until what the service counts is settled, for a time that is bounded. What is not settled
/// then is reported as missing.
async fn wait(
    source: &mut dyn Source,
    heads: &BTreeMap<u32, u64>,
    most: Duration,
) -> Result<(), SinkError> {
    // None if no clock gets there.
    let end = Instant::now().checked_add(most);
    loop {
        let cursors = source.cursors().await?;
        let is_settled = heads.iter().all(|(partition, head)| {
            let cursor = cursors.get(partition);
            cursor.map_or(0, |cursor| cursor.up_to.sequence) >= *head
        });
        if is_settled || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
        sleep(LOOK_INTERVAL).await;
    }
}
