//! `tombola audit`: recomputes the promises from the settled ledger, and compares the sums with
//! what the running service says.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    client::{Campaigns, Client, Outcome},
    failure::Failure,
    output::{self, Side, Table, counted},
    sink_args::{SinkArgs, failed},
};
use crate::{
    ledger::{
        SinkError,
        audit::{
            Audit, Books, Check, Outcome as Report, PoolSums, PrizeSums, StoreEnvelopes, StoreSums,
            run::run as audit_all,
            source::{PostgresSource, Source, SqliteSource},
        },
    },
    model::{CampaignId, PoolNo, PrizeNo, text::grouped},
    proto::{GetStatsRequest, GetStatsResponse, LedgerId, ListCampaignsRequest},
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
row is found. It needs no more than the right to read. Draws may go on: the service says up to
which entry it counts. It ends with 1 if anything does not add up.")]
pub(super) struct AuditArgs {
    /// The campaigns to show [default: all, up to 20]; every campaign is audited
    #[arg(value_name = "CAMPAIGN", value_parser = super::client::campaign_id)]
    campaigns: Vec<String>,
    #[command(flatten)]
    sink: SinkArgs,
    /// The data directory of an embedded store that settles into its own file
    #[arg(
        long,
        env = "TOMBOLA_DATA",
        value_name = "DIR",
        conflicts_with = "postgres_url"
    )]
    data: Option<PathBuf>,
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

/// The most campaigns that are shown without being named.
const SHOWN_MAX: usize = 20;

pub(super) async fn run(client: &Client, args: AuditArgs) -> Outcome {
    let mut source = open(&args).await?;
    let failed = |error: SinkError| source_failed(&args, &error);
    let (stores, envelopes) = if args.without_service {
        (HashMap::new(), None)
    } else {
        let (stores, envelopes) = ask(client).await?;
        let heads = heads(&stores, &envelopes);
        wait(&mut *source, &heads, Duration::from_secs(args.wait_s))
            .await
            .map_err(failed)?;
        (stores, Some(envelopes))
    };
    let is_compared = envelopes.is_some();
    let audit = Audit::new(stores, envelopes);
    let report = audit_all(&mut *source, audit, |_| ())
        .await
        .map_err(failed)?;
    if client.json {
        output::say(&format!("{:#}", to_json(&report)));
    } else {
        output::say(&text(&report, &args.campaigns, is_compared));
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

async fn open(args: &AuditArgs) -> Outcome<Box<dyn Source>> {
    if let Some(data) = &args.data {
        let source = SqliteSource::open(data).map_err(|error| source_failed(args, &error))?;
        return Ok(Box::new(source));
    }
    let url = args.sink.needed_url().map_err(|failure| {
        failure.advise("for an embedded store, name its directory with --data")
    })?;
    let source = PostgresSource::open(&url).await;
    Ok(Box::new(source.map_err(|error| failed(&url, &error))?))
}

fn source_failed(args: &AuditArgs, error: &SinkError) -> Box<Failure> {
    match (&args.data, args.sink.needed_url()) {
        (None, Ok(url)) => failed(&url, error),
        (data, _) => {
            let data = data.clone().unwrap_or_default();
            Failure::refused("SINK", format!("{}: {error}", data.display()))
        }
    }
}

/// What the service says of every campaign and of envelopes.
async fn ask(client: &Client) -> Outcome<(HashMap<CampaignId, StoreSums>, StoreEnvelopes)> {
    let mut server = client.campaigns().await?;
    let mut stores = HashMap::new();
    for id in campaigns(&mut server).await? {
        let stats = stats(&mut server, &id).await?;
        let Ok(id) = CampaignId::parse("campaign", &id) else {
            continue;
        };
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
    Ok((stores, envelopes))
}

async fn campaigns(server: &mut Campaigns) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListCampaignsRequest {
            page_size: 1_000,
            page_token,
        };
        let page = server.list_campaigns(request).await;
        let page = page.map_err(Failure::read)?.into_inner();
        let campaigns = page.campaigns.into_iter();
        ids.extend(campaigns.filter_map(|status| Some(status.campaign?.id)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(ids);
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
    let end = Instant::now() + most;
    loop {
        let cursors = source.cursors().await?;
        let is_settled = heads.iter().all(|(partition, head)| {
            let cursor = cursors.get(partition);
            cursor.map_or(0, |cursor| cursor.up_to.sequence) >= *head
        });
        if is_settled || Instant::now() >= end {
            return Ok(());
        }
        sleep(LOOK_INTERVAL).await;
    }
}

fn text(report: &Report, named: &[String], is_compared: bool) -> String {
    let mut parts = Vec::new();
    let all = report.campaigns.iter();
    let shown: Vec<_> = all
        .filter(|(id, _)| named.is_empty() || named.iter().any(|name| name == id.as_str()))
        .take(if named.is_empty() {
            SHOWN_MAX
        } else {
            usize::MAX
        })
        .collect();
    let rest = report.campaigns.len() - shown.len();
    for (id, books) in shown {
        parts.push(campaign(id, books));
    }
    if rest > 0 {
        parts.push(format!(
            "{} audited beside these: name them to show them",
            counted(rest as u64, "campaign")
        ));
    }
    if !report.envelopes.is_empty() {
        parts.push(envelopes(&report.envelopes));
    }
    let mut said = format!("{} entries read", grouped(report.entries));
    if report.orphaned > 0 {
        said = format!(
            "{said}, and {} that the store lost in a failover and that are not counted",
            grouped(report.orphaned)
        );
    }
    let compared = if is_compared {
        format!(
            "{} compared with the service",
            counted(report.compared, "campaign")
        )
    } else {
        "nothing was compared with the service".into()
    };
    let checks = Check::ALL.map(|check| match report.findings.count(check) {
        0 => format!("  yes  {}", check.promise()),
        found => format!("  NO   {}: {}", check.promise(), counted(found, "finding")),
    });
    parts.push(format!("{said}; {compared}\n{}", checks.join("\n")));
    let unknown: u64 = report.campaigns.values().map(Books::unknown_limits).sum();
    if unknown > 0 {
        parts.push(format!(
            "the limits of {} are not checked: an earlier version wrote no definitions into the \
             ledger",
            counted(unknown, "draw")
        ));
    }
    let findings: Vec<String> = report
        .findings
        .shown()
        .map(|finding| match (finding.partition, finding.sequence) {
            (Some(partition), Some(sequence)) => {
                format!(
                    "entry {sequence} of partition {partition}: {}",
                    finding.text
                )
            }
            _ => finding.text.clone(),
        })
        .collect();
    if !findings.is_empty() {
        parts.push(findings.join("\n"));
    }
    parts.join("\n\n")
}

fn campaign(id: &CampaignId, books: &Books) -> String {
    use Side::{Left, Right};
    let mut prizes = Table::new([
        ("prize", Left),
        ("given", Right),
        ("in stock", Right),
        ("in pools", Right),
        ("won", Right),
        ("withdrawn", Right),
    ]);
    for (no, sums) in books.prizes() {
        let units = [
            sums.stock,
            sums.left,
            sums.waiting,
            sums.won,
            sums.withdrawn,
        ];
        prizes.row(
            [prize_name(books, *no)]
                .into_iter()
                .chain(units.map(grouped)),
        );
    }
    let mut pools = Table::new([
        ("pool", Left),
        ("prize", Left),
        ("put in", Right),
        ("won", Right),
        ("taken back", Right),
        ("in it", Right),
    ]);
    for ((pool, prize), sums) in books.pools() {
        let PoolSums {
            put,
            won,
            taken_back,
            waiting,
        } = *sums;
        let cells = [pool_name(books, *pool), prize_name(books, *prize)];
        pools.row(
            cells
                .into_iter()
                .chain([put, won, taken_back, waiting].map(grouped)),
        );
    }
    let draws = books.draws();
    format!(
        "{id}: {}, {} won, {}, {} gave nothing; {}\n{}\n\n{}",
        counted(draws.wins + draws.consolations + draws.nothings, "draw"),
        grouped(draws.wins),
        counted(draws.consolations, "consolation"),
        grouped(draws.nothings),
        counted(books.users(), "user"),
        prizes.render(),
        pools.render()
    )
}

fn prize_name(books: &Books, no: PrizeNo) -> String {
    let prizes = books.campaign().map(|campaign| &campaign.prizes);
    let prize = prizes.and_then(|prizes| prizes.get(usize::from(no.0)));
    prize.map_or_else(|| no.0.to_string(), |prize| prize.id.to_string())
}

fn pool_name(books: &Books, no: PoolNo) -> String {
    let pools = books.campaign().map(|campaign| &campaign.pools);
    let pool = pools.and_then(|pools| pools.get(usize::from(no.0)));
    pool.map_or_else(|| no.0.to_string(), |pool| pool.id.to_string())
}

fn envelopes(sums: &BTreeMap<String, EnvelopeSums>) -> String {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("envelopes in", Left),
        ("created", Right),
        ("open", Right),
        ("amount", Right),
        ("grabbed", Right),
        ("waiting", Right),
        ("refunded", Right),
    ]);
    for sums in sums.values() {
        table.row([
            sums.currency.clone(),
            grouped(sums.envelopes),
            grouped(sums.open),
            sums.created_minor.to_string(),
            sums.grabbed_minor.to_string(),
            sums.waiting_minor.to_string(),
            sums.refunded_minor.to_string(),
        ]);
    }
    table.render()
}

fn to_json(report: &Report) -> Value {
    let checks: BTreeMap<&str, u64> = Check::ALL
        .iter()
        .map(|&check| (check.name(), report.findings.count(check)))
        .collect();
    let campaigns: BTreeMap<&str, Value> = report
        .campaigns
        .iter()
        .map(|(id, books)| (id.as_str(), campaign_json(books)))
        .collect();
    let envelopes: BTreeMap<&str, Value> = report
        .envelopes
        .iter()
        .map(|(currency, sums)| {
            let sums = json!({
                "envelopes": sums.envelopes,
                "open": sums.open,
                "createdMinor": sums.created_minor.to_string(),
                "grabbedMinor": sums.grabbed_minor.to_string(),
                "waitingMinor": sums.waiting_minor.to_string(),
                "refundedMinor": sums.refunded_minor.to_string(),
            });
            (currency.as_str(), sums)
        })
        .collect();
    json!({
        "entries": report.entries,
        "orphanedEntries": report.orphaned,
        "campaignsCompared": report.compared,
        "campaigns": campaigns,
        "envelopes": envelopes,
        "findingsByCheck": checks,
        "findings": report.findings.shown().collect::<Vec<_>>(),
    })
}

fn campaign_json(books: &Books) -> Value {
    let prizes: BTreeMap<String, PrizeSums> = books
        .prizes()
        .iter()
        .map(|(no, sums)| (prize_name(books, *no), *sums))
        .collect();
    let pools: Vec<Value> = books
        .pools()
        .iter()
        .map(|((pool, prize), sums)| {
            json!({
                "pool": pool_name(books, *pool),
                "prize": prize_name(books, *prize),
                "put": sums.put,
                "won": sums.won,
                "takenBack": sums.taken_back,
                "waiting": sums.waiting,
            })
        })
        .collect();
    let draws = books.draws();
    json!({
        "wins": draws.wins,
        "consolations": draws.consolations,
        "nothings": draws.nothings,
        "users": books.users(),
        "prizes": prizes,
        "pools": pools,
    })
}
