//! Entries as messages of a stream.

use std::sync::Arc;

use super::{definition, views};
use crate::{
    grpc::{status::CallError, views::ledger_id},
    ledger::{
        deliveries::{DeliveryChange, change, changed_win},
        follow::Source,
        read::{Delivery, SettledWin, definitions::Definitions},
        wins::{code_of, wins},
    },
    model::{Campaign, convert::moment_to_proto},
    proto,
    store::{DeliveryState, Entry, WonUnit, entry::Body},
};

/// Makes messages of entries.
pub(super) struct Watched {
    /// The prize whose wins alone are asked for.
    prize: Option<String>,
    definitions: Arc<Definitions>,
}

impl Watched {
    pub(super) fn new(prize: Option<String>, definitions: Arc<Definitions>) -> Self {
        Self { prize, definitions }
    }

    /// An entry as a message; none if it has no win of the prize that is asked for.
    pub(super) async fn message(
        &self,
        source: &Source,
        entry: &Entry,
    ) -> Result<Option<proto::WatchedEntry>, CallError> {
        let campaign = self.definition(source, entry).await?;
        let campaign = campaign.as_deref();
        let mut wins = match &entry.body {
            Body::Draw(_) => won(entry, campaign),
            Body::Revoked { .. } => revoked(source, entry, campaign).await?,
            _ => changed(entry, campaign),
        };
        if let Some(prize) = &self.prize {
            wins.retain(|win| win.prize_id == *prize);
            if wins.is_empty() {
                return Ok(None);
            }
        }
        let text = |id: Option<&str>| id.unwrap_or_default().to_owned();
        Ok(Some(proto::WatchedEntry {
            ledger_id: Some(ledger_id(entry.id)),
            number: entry.number.unwrap_or(0),
            entry_time: Some(moment_to_proto(entry.at)),
            kind: entry.body.kind().to_owned(),
            campaign_id: text(entry.subject.campaign().map(|id| id.as_str())),
            envelope_id: text(entry.subject.envelope().map(|id| id.as_str())),
            wins,
            draw: match &entry.body {
                Body::Draw(draw) => Some(views::draw(entry, draw, campaign)),
                _ => None,
            },
            envelope_event: views::envelope_event(entry),
            operation: views::operation(entry, campaign),
            bonus: views::bonus(entry),
        }))
    }

    async fn definition(
        &self,
        source: &Source,
        entry: &Entry,
    ) -> Result<Option<Arc<Campaign>>, CallError> {
        let Some(id) = entry.subject.campaign() else {
            return Ok(None);
        };
        let version = match &entry.body {
            Body::Draw(draw) => Some(draw.version),
            _ => changed_win(entry).map(|(_, version)| version),
        };
        let (store, reader) = (&*source.store, &*source.reader);
        Ok(match version {
            Some(version) => {
                let version = self.definitions.version(store, reader, id, version);
                version.await?
            }
            None if views::needs_definition(entry) => {
                let definitions = &self.definitions;
                definition::in_force(definitions, (store, reader), id, entry.at).await?
            }
            None => None,
        })
    }
}

/// The units that a draw won.
fn won(entry: &Entry, campaign: Option<&Campaign>) -> Vec<proto::Win> {
    let (Body::Draw(draw), Some(campaign)) = (&entry.body, campaign) else {
        return Vec::new();
    };
    let won = wins(entry, draw, campaign).unwrap_or_default().into_iter();
    let message = |win| {
        let settled = SettledWin {
            win,
            delivery: Delivery::default(),
        };
        proto::Win {
            code_index: code_of(draw, &settled.win),
            ..views::win(&settled, Some(campaign))
        }
    };
    won.map(message).collect()
}

/// The win that was delivered or revoked.
fn changed(entry: &Entry, campaign: Option<&Campaign>) -> Vec<proto::Win> {
    let changed = changed_win(entry)
        .zip(campaign)
        .and_then(|((win, _), campaign)| {
            Some(changed_message(win, change(entry, campaign)?, campaign))
        });
    changed.into_iter().collect()
}

/// The win that was revoked, with the reference of its delivery, which the entry does not have.
async fn revoked(
    source: &Source,
    entry: &Entry,
    campaign: Option<&Campaign>,
) -> Result<Vec<proto::Win>, CallError> {
    let mut wins = changed(entry, campaign);
    let (Some(id), Some(win)) = (entry.subject.campaign(), wins.first_mut()) else {
        return Ok(wins);
    };
    let settled = match source.reader.win(id, &win.unit_id).await {
        // Such a stream goes on while the sink is away.
        Err(_) if source.unsettled => None,
        settled => settled?,
    };
    if let (Some(delivery), Some(settled)) = (&mut win.delivery, settled) {
        delivery.reference = settled.delivery.reference;
    }
    Ok(wins)
}

fn changed_message(win: &WonUnit, change: DeliveryChange, campaign: &Campaign) -> proto::Win {
    let prize = campaign.prizes.get(usize::from(win.prize.0));
    let pool = campaign.pool_name(win.pool);
    proto::Win {
        campaign_id: change.campaign,
        user_id: win.user.as_str().into(),
        prize_id: prize.map(|prize| prize.id.to_string()).unwrap_or_default(),
        prize_name: prize.map(|prize| prize.name.clone()).unwrap_or_default(),
        attributes: prize
            .map(|prize| prize.attributes.clone())
            .unwrap_or_default(),
        unit_id: change.unit,
        pool_id: pool.unwrap_or_default().into(),
        delivery: Some(proto::Delivery {
            state: match change.state {
                DeliveryState::Delivered => proto::DeliveryState::Delivered,
                DeliveryState::Revoked => proto::DeliveryState::Revoked,
            }
            .into(),
            reference: change.reference.unwrap_or_default(),
            update_time: Some(moment_to_proto(change.at)),
        }),
        ..proto::Win::default()
    }
}
