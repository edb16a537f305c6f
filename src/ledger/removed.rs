//! What a sink keeps of a campaign whose data leave the store: all that its reads give afterwards.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    chance::Nonce,
    model::{Campaign, Moment, OperatorId, PrizeNo, budget::SpentDay, convert},
    store::{
        CampaignView, Hold, LedgerId, Lifecycle, Result, Stats, Store, WindowView,
        last_windows::last_windows,
        view::{DeckStats, DrawCounts, PrizeStats, VersionInfo},
    },
};

/// A closed campaign as the store had it last.
#[derive(Clone, Debug)]
pub struct RemovedCampaign {
    /// Where every unit is.
    pub stats: Stats,
    /// The last windows of its schedules, by pool.
    pub windows: Vec<WindowView>,
    /// Versions that were proposed before they came into force, and the identity that proposed
    /// each.
    pub proposers: Vec<(u32, OperatorId)>,
}

/// The row of a removed campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovedRow {
    /// Its id.
    pub campaign: String,
    /// Its partition.
    pub partition: u32,
    /// Its last version.
    pub version: u32,
    /// The number of its last entry.
    pub entries: u64,
    /// When this was read from the store, by the store's clock.
    pub at: Moment,
    /// The nonce of its seed.
    pub nonce: Vec<u8>,
    /// SHA-256 of its seed, hexadecimal.
    pub commitment: String,
    /// Users with a record.
    pub users: u64,
    /// Draws by how they came out.
    pub draws: DrawCounts,
    /// JSON of [`Record`].
    pub record: String,
}

/// The row of a version of a removed campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRow {
    /// The version, who made it, when and why.
    pub info: VersionInfo,
    /// `tombola.v1.Campaign`, encoded.
    pub definition: Vec<u8>,
}

/// What has no column of its own.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The last entry of the partition that is counted.
    head: u64,
    touched: bool,
    paused_prizes: Vec<PrizeNo>,
    holds: Vec<Hold>,
    blocked_users: u64,
    pools_agree: bool,
    /// By prize number.
    prizes: Vec<PrizeStats>,
    decks: Vec<DeckStats>,
    windows: Vec<WindowView>,
    /// See [`RemovedCampaign::proposers`]. Earlier versions kept none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    proposers: Vec<(u32, OperatorId)>,
}

/// What a sink keeps of a closed campaign, and of its versions.
///
/// # Errors
/// Those of the store.
pub async fn read(store: &dyn Store, stats: Stats) -> Result<(RemovedRow, Vec<VersionRow>)> {
    let id = &stats.view.campaign.id;
    let windows = last_windows(store, &stats).await?;
    let mut versions = Vec::new();
    for info in stats.view.versions.iter() {
        let definition = store.version(id, info.version).await?;
        versions.push(VersionRow {
            info: info.clone(),
            definition: convert::encode(&definition),
        });
    }
    let proposers = stats.view.versions.iter();
    let proposers = proposers.filter_map(|info| Some((info.version, info.proposed_by.clone()?)));
    let removed = RemovedCampaign {
        proposers: proposers.collect(),
        stats,
        windows,
    };
    Ok((removed.row(), versions))
}

impl RemovedCampaign {
    /// Its versions, each with the identity that proposed it: the rows of versions do not have
    /// that.
    #[must_use]
    pub fn with_proposers(&self, mut versions: Vec<VersionInfo>) -> Vec<VersionInfo> {
        for info in &mut versions {
            let mut proposers = self.proposers.iter();
            let proposer = proposers.find(|(version, _)| *version == info.version);
            info.proposed_by = proposer.map(|(_, identity)| identity.clone());
        }
        versions
    }

    fn row(self) -> RemovedRow {
        let stats = self.stats;
        let view = &stats.view;
        let record = Record {
            head: stats.head.sequence,
            touched: view.touched,
            paused_prizes: view.paused_prizes.to_vec(),
            holds: view.holds.to_vec(),
            blocked_users: view.blocked_users,
            pools_agree: stats.pools_agree,
            prizes: stats.prizes,
            decks: stats.decks,
            windows: self.windows,
            proposers: self.proposers,
        };
        RemovedRow {
            campaign: view.campaign.id.to_string(),
            partition: stats.head.partition,
            version: view.version,
            entries: stats.entries,
            at: stats.now,
            nonce: view.nonce.0.to_vec(),
            commitment: view.commitment.to_string(),
            users: stats.users,
            draws: stats.draws,
            // Only maps with keys that are not text fail, and there are none.
            record: serde_json::to_string(&record).expect("a record can be written as JSON"),
        }
    }
}

impl RemovedRow {
    /// The campaign of this row, with the definition of its last version. `versions` may be left
    /// out if nobody asks for them.
    ///
    /// # Errors
    /// What does not read back.
    pub fn decode(
        self,
        definition: &[u8],
        versions: Vec<VersionInfo>,
    ) -> std::result::Result<RemovedCampaign, String> {
        let record: Record =
            serde_json::from_str(&self.record).map_err(|error| error.to_string())?;
        let nonce = <[u8; 32]>::try_from(self.nonce).map_err(|_| "its nonce is none".to_owned())?;
        let view = CampaignView {
            campaign: definition_of(definition)?,
            version: self.version,
            lifecycle: Lifecycle::Closed,
            touched: record.touched,
            paused_prizes: record.paused_prizes.into(),
            holds: record.holds.into(),
            versions: versions.into(),
            nonce: Nonce(nonce),
            commitment: self.commitment.into(),
            blocked_users: record.blocked_users,
        };
        if record.prizes.len() != view.campaign.prizes.len() {
            return Err("it has sums of other prizes than its definition".into());
        }
        let stats = Stats {
            view,
            now: self.at,
            head: LedgerId {
                partition: self.partition,
                sequence: record.head,
            },
            entries: self.entries,
            prizes: record.prizes,
            pools_agree: record.pools_agree,
            draws: self.draws,
            spent_day: SpentDay::default(), // its last day is long over
            users: self.users,
            decks: record.decks,
        };
        Ok(RemovedCampaign {
            stats,
            windows: record.windows,
            proposers: record.proposers,
        })
    }
}

/// The definition of a version.
///
/// # Errors
/// What does not read back.
pub fn definition_of(bytes: &[u8]) -> std::result::Result<Arc<Campaign>, String> {
    let campaign = convert::decode(bytes);
    campaign
        .map(Arc::new)
        .map_err(|problems| problems.to_string())
}

/// Who made a version, from the columns of its row. Who proposed it is not in these: see
/// [`RemovedCampaign::with_proposers`].
///
/// # Errors
/// What does not read back.
pub fn version_info(
    (version, at): (u32, Moment),
    operator: &str,
    reason: String,
) -> std::result::Result<VersionInfo, String> {
    let operator = OperatorId::parse("operator", operator);
    Ok(VersionInfo {
        version,
        at,
        operator: operator.map_err(|problem| problem.message)?,
        reason,
        proposed_by: None,
    })
}
