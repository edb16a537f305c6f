//! Requests of lists, parsed.

use super::token::{Binding, Token};
use crate::{
    grpc::{access::Visible, request::Fields},
    ledger::read::{EntryQuery, Kinds, Range, Seen, WinQuery},
    model::{
        CampaignId, EnvelopeId, Moment, OperatorId, PrizeId, Problems, RequestId, UserId,
        limits::Funding,
    },
    proto::{self, DeliveryState, EnvelopeEventKind, OperationKind, Outcome},
};

/// Entries that a page looks at if a filter is not one of the index: few of them may be of the
/// list.
const SCAN_MAX: usize = 1_000;

/// The longest time whose hours are asked for at once: 100 days, in microseconds.
const ACTIVITY_MAX_US: i64 = 100 * 24 * 3_600_000_000;

/// A page that is asked for.
pub(super) struct Asked<Q> {
    /// What is read.
    pub(super) query: Q,
    /// The most elements.
    pub(super) size: usize,
    /// What the page's token belongs to.
    pub(super) binding: Binding,
    /// Where the page begins; none for the first.
    pub(super) token: Option<Token>,
    /// The campaign or envelope whose partition alone can have elements.
    pub(super) of: Option<String>,
}

/// The page of a request.
struct Page<'a> {
    size: u32,
    token: &'a str,
    start: Option<&'a prost_types::Timestamp>,
    end: Option<&'a prost_types::Timestamp>,
}

/// Reads the page of a request. `has_residue`: it also filters by what no index has.
fn page(
    fields: &mut Fields,
    page: &Page<'_>,
    binding: Binding,
    has_residue: bool,
) -> (usize, Option<Token>, Range) {
    let size = fields.page_size(page.size);
    let token = match page.token {
        "" => None,
        text => Token::decode(text, binding)
            .map_err(|problem| fields.add("page_token", problem))
            .ok(),
    };
    let from = fields.moment("start_time", page.start);
    let to = fields.moment("end_time", page.end);
    if let (Some(from), Some(to)) = (from, to)
        && to <= from
    {
        fields.add("end_time", "is not after start_time");
    }
    let range = Range {
        from,
        to,
        after: token.map(|token| token.after),
        // One more shows whether there is a next page.
        limit: if has_residue { SCAN_MAX } else { size + 1 },
    };
    (size, token, range)
}

/// An id that may be left out.
fn optional<T>(
    fields: &mut Fields,
    id: &str,
    parse: impl FnOnce(&str) -> Result<T, crate::model::Problem>,
) -> Option<T> {
    match id {
        "" => None,
        id => fields.take(parse(id)),
    }
}

fn campaign(fields: &mut Fields, id: &str) -> Option<CampaignId> {
    optional(fields, id, |id| CampaignId::parse("campaign_id", id))
}

fn user(fields: &mut Fields, id: &str) -> Option<UserId> {
    optional(fields, id, |id| UserId::parse("user_id", id))
}

/// The id of a unit that may be left out. No unit has a longer one than this.
fn unit(fields: &mut Fields, id: &str) -> Option<String> {
    const BYTES_MAX: usize = 256;
    if id.len() > BYTES_MAX || id.contains('\0') {
        fields.add(
            "unit_id",
            format!("is no text of at most {BYTES_MAX} bytes"),
        );
    }
    (!id.is_empty()).then(|| id.to_owned())
}

/// Hours whose sums are asked for.
pub(super) struct Hours {
    pub(super) campaign: CampaignId,
    pub(super) between: (Moment, Moment),
}

pub(super) fn activity(message: &proto::GetActivityRequest) -> Result<Hours, Problems> {
    let mut fields = Fields::default();
    let campaign = fields.take(CampaignId::parse("campaign_id", &message.campaign_id));
    let start = fields.moment("start_time", message.start_time.as_ref());
    let end = fields.moment("end_time", message.end_time.as_ref());
    for (name, value) in [
        ("start_time", &message.start_time),
        ("end_time", &message.end_time),
    ] {
        if value.is_none() {
            fields.add(name, "is absent");
        }
    }
    if let (Some(start), Some(end)) = (start, end) {
        if end <= start {
            fields.add("end_time", "is not after start_time");
        } else if end.as_micros() - start.as_micros() > ACTIVITY_MAX_US {
            fields.add("end_time", "is more than 100 days after start_time");
        }
    }
    let between = start.zip(end);
    fields.finish(
        campaign
            .zip(between)
            .map(|(campaign, between)| Hours { campaign, between }),
    )
}

/// A value of an enum in a filter; `None` for its value 0, which stands for all.
fn filter<E: TryFrom<i32> + Default + PartialEq>(
    fields: &mut Fields,
    path: &str,
    number: i32,
) -> Option<E> {
    match E::try_from(number) {
        Ok(value) => (value != E::default()).then_some(value),
        Err(_) => {
            fields.add(
                path,
                format!("is {number}, which this version does not know"),
            );
            None
        }
    }
}

/// What the list may have. A campaign or an envelope that is named was admitted already.
fn seen(visible: Visible, named: &str) -> Seen {
    match named {
        "" => Seen {
            campaigns: visible.campaigns,
            senders: visible.senders,
        },
        _ => Seen::default(),
    }
}

pub(super) fn wins(
    store_id: &str,
    message: &proto::ListWinsRequest,
    visible: Visible,
) -> Result<(Asked<WinQuery>, Option<DeliveryState>), Problems> {
    let mut fields = Fields::default();
    let filters = proto::ListWinsRequest {
        page_size: 0,
        page_token: String::new(),
        ..message.clone()
    };
    let binding = Binding::new(store_id, "wins", &filters);
    let asked = Page {
        size: message.page_size,
        token: &message.page_token,
        start: message.start_time.as_ref(),
        end: message.end_time.as_ref(),
    };
    let delivery = filter(&mut fields, "delivery_state", message.delivery_state);
    let (size, token, range) = page(&mut fields, &asked, binding, delivery.is_some());
    let campaign = campaign(&mut fields, &message.campaign_id);
    let prize = optional(&mut fields, &message.prize_id, |id| {
        PrizeId::parse("prize_id", id)
    });
    if prize.is_some() && message.campaign_id.is_empty() {
        fields.add("campaign_id", "is empty: name the campaign of the prize");
    }
    let query = WinQuery {
        campaign,
        prize: prize.map(|prize| prize.to_string()),
        user: user(&mut fields, &message.user_id),
        unit: unit(&mut fields, &message.unit_id),
        // A campaign that is named was admitted already.
        campaigns: visible.campaigns.filter(|_| message.campaign_id.is_empty()),
        range,
    };
    let of = query.campaign.as_ref().map(ToString::to_string);
    let asked = Asked {
        query,
        size,
        binding,
        token,
        of,
    };
    fields.finish(Some((asked, delivery)))
}

/// What a draw must be like, besides what an index finds.
pub(super) struct DrawFilter {
    pub(super) funding: Option<Funding>,
    pub(super) outcome: Option<Outcome>,
}

pub(super) fn draws(
    store_id: &str,
    message: &proto::ListDrawsRequest,
    visible: Visible,
) -> Result<(Asked<EntryQuery>, DrawFilter), Problems> {
    let mut fields = Fields::default();
    let filters = proto::ListDrawsRequest {
        page_size: 0,
        page_token: String::new(),
        ..message.clone()
    };
    let binding = Binding::new(store_id, "draws", &filters);
    let funding = filter(&mut fields, "funding", message.funding);
    let filter = DrawFilter {
        funding: funding.map(|funding| match funding {
            proto::Funding::Paid => Funding::Paid,
            proto::Funding::Free | proto::Funding::Unspecified => Funding::Free,
        }),
        outcome: filter(&mut fields, "outcome", message.outcome),
    };
    let has_residue = filter.funding.is_some() || filter.outcome.is_some();
    let asked = Page {
        size: message.page_size,
        token: &message.page_token,
        start: message.start_time.as_ref(),
        end: message.end_time.as_ref(),
    };
    let (size, token, range) = page(&mut fields, &asked, binding, has_residue);
    let query = EntryQuery {
        kinds: Kinds::Draws,
        campaign: campaign(&mut fields, &message.campaign_id),
        envelope: None,
        user: user(&mut fields, &message.user_id),
        request: optional(&mut fields, &message.request_id, |id| {
            RequestId::parse("request_id", id)
        }),
        seen: seen(visible, &message.campaign_id),
        range,
    };
    let of = query.campaign.as_ref().map(ToString::to_string);
    let asked = Asked {
        query,
        size,
        binding,
        token,
        of,
    };
    fields.finish(Some((asked, filter)))
}

pub(super) fn envelopes(
    store_id: &str,
    message: &proto::ListEnvelopesRequest,
    visible: Visible,
) -> Result<Asked<EntryQuery>, Problems> {
    let mut fields = Fields::default();
    let filters = proto::ListEnvelopesRequest {
        page_size: 0,
        page_token: String::new(),
        ..message.clone()
    };
    let binding = Binding::new(store_id, "envelopes", &filters);
    let asked = Page {
        size: message.page_size,
        token: &message.page_token,
        start: message.start_time.as_ref(),
        end: message.end_time.as_ref(),
    };
    let (size, token, range) = page(&mut fields, &asked, binding, false);
    let kinds = match filter(&mut fields, "kind", message.kind) {
        None | Some(EnvelopeEventKind::Unspecified) => Kinds::Envelopes,
        Some(EnvelopeEventKind::Created) => Kinds::EnvelopesCreated,
        Some(EnvelopeEventKind::Grabbed) => Kinds::Grabs,
        Some(EnvelopeEventKind::Refunded) => Kinds::Refunds,
    };
    let query = EntryQuery {
        kinds,
        campaign: None,
        envelope: optional(&mut fields, &message.envelope_id, |id| {
            EnvelopeId::parse("envelope_id", id)
        }),
        user: user(&mut fields, &message.user_id),
        request: None,
        seen: seen(visible, &message.envelope_id),
        range,
    };
    let of = query.envelope.as_ref().map(ToString::to_string);
    fields.finish(Some(Asked {
        query,
        size,
        binding,
        token,
        of,
    }))
}

/// What an act must be like, besides what an index finds.
pub(super) struct OperationFilter {
    pub(super) kind: Option<OperationKind>,
    pub(super) operator: Option<OperatorId>,
    pub(super) user: Option<UserId>,
}

pub(super) fn operations(
    store_id: &str,
    message: &proto::ListOperationsRequest,
    visible: Visible,
) -> Result<(Asked<EntryQuery>, OperationFilter), Problems> {
    let mut fields = Fields::default();
    let filters = proto::ListOperationsRequest {
        page_size: 0,
        page_token: String::new(),
        ..message.clone()
    };
    let binding = Binding::new(store_id, "operations", &filters);
    let filter = OperationFilter {
        kind: filter(&mut fields, "kind", message.kind),
        operator: optional(&mut fields, &message.operator, |id| {
            OperatorId::parse("operator", id)
        }),
        user: user(&mut fields, &message.user_id),
    };
    let is_delivery = filter.kind == Some(OperationKind::Deliver);
    let has_residue = filter.operator.is_some()
        || !is_delivery && (filter.kind.is_some() || filter.user.is_some());
    let asked = Page {
        size: message.page_size,
        token: &message.page_token,
        start: message.start_time.as_ref(),
        end: message.end_time.as_ref(),
    };
    let (size, token, range) = page(&mut fields, &asked, binding, has_residue);
    let query = EntryQuery {
        kinds: if is_delivery {
            Kinds::Deliveries
        } else {
            Kinds::Operations
        },
        campaign: campaign(&mut fields, &message.campaign_id),
        envelope: None,
        // An index finds the winner; users whom other acts name are in no index.
        user: filter.user.clone().filter(|_| is_delivery),
        request: None,
        seen: seen(visible, &message.campaign_id),
        range,
    };
    let of = query.campaign.as_ref().map(ToString::to_string);
    let asked = Asked {
        query,
        size,
        binding,
        token,
        of,
    };
    fields.finish(Some((asked, filter)))
}
