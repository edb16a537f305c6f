//! Requests, parsed: every problem of a request is reported at once, each with the name of its
//! field.

use std::collections::HashSet;

use prost_types::Timestamp;

use crate::{
    model::{
        CampaignId, EnvelopeId, Moment, OperatorId, PoolId, PrizeId, Problem, Problems, RequestId,
        SegmentId, UserId,
        convert::{moment_from_proto, segments_from_proto},
        limits::Funding,
    },
    proto,
    store::{Author, BonusCommand, DrawCommand, StoreError, command::DRAW_COUNT_MAX},
};

/// The longest reference of a payment.
const PAYMENT_REF_BYTES_MAX: usize = 256;
/// The longest reason of a change.
const REASON_BYTES_MAX: usize = 1_024;
/// The most users of one request.
const USERS_MAX: usize = 1_000;
/// The most bonus draws of one grant.
const GRANT_DRAWS_MAX: u32 = 10_000;
/// The most elements of a page.
const PAGE_SIZE_MAX: u32 = 1_000;
/// The elements of a page if the request does not say.
const PAGE_SIZE_DEFAULT: u32 = 100;

/// A request id that was checked, or made if the caller gave none.
pub(super) type ParsedRequestId = Result<RequestId, Problem>;

/// Checks the caller's request id or makes one: `auto-` and 32 hex digits.
pub(super) fn request_id(given: &str) -> ParsedRequestId {
    if given.is_empty() {
        let made = format!("auto-{:032x}", rand::random::<u128>());
        RequestId::parse("request_id", &made)
    } else {
        RequestId::parse("request_id", given)
    }
}

/// Collects the problems of a request's fields.
#[derive(Default)]
pub(super) struct Fields(Problems);

impl Fields {
    /// A field that was parsed, or its problem.
    pub(super) fn take<T>(&mut self, parsed: Result<T, Problem>) -> Option<T> {
        parsed.map_err(|problem| self.0.0.push(problem)).ok()
    }

    /// A required campaign id.
    pub(super) fn campaign(&mut self, id: &str) -> Option<CampaignId> {
        self.take(CampaignId::parse("campaign_id", id))
    }

    /// A required envelope id.
    pub(super) fn envelope(&mut self, id: &str) -> Option<EnvelopeId> {
        self.take(EnvelopeId::parse("envelope_id", id))
    }

    /// A required prize id; whether the campaign has it is looked up later.
    pub(super) fn prize(&mut self, id: &str) -> String {
        self.take(PrizeId::parse("prize_id", id));
        id.into()
    }

    /// A required pool id; whether the campaign has it is looked up later.
    pub(super) fn pool(&mut self, id: &str) -> String {
        self.take(PoolId::parse("pool_id", id));
        id.into()
    }

    /// An optional time.
    pub(super) fn moment(&mut self, path: &str, time: Option<&Timestamp>) -> Option<Moment> {
        time.and_then(|time| self.take(moment_from_proto(path, time)))
    }

    /// Text for people.
    pub(super) fn text(&mut self, path: &str, text: &str, bytes_max: usize) {
        if text.len() > bytes_max {
            let bytes = text.len();
            self.add(path, format!("is {bytes} bytes long: at most {bytes_max}"));
        }
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            self.add(
                path,
                format!("has the control character {control:?}: write plain text"),
            );
        }
    }

    /// Who changes something, and why. An identity is the author itself, and may act on behalf of
    /// the operator whom it names.
    pub(super) fn author(
        &mut self,
        identity: Option<&OperatorId>,
        request: ParsedRequestId,
        (operator, reason): (&str, &str),
    ) -> Option<Author> {
        let request = self.take(request);
        let operator = self.operator(identity, (operator, reason));
        let (request, (operator, on_behalf_of)) = (request?, operator?);
        Some(Author {
            on_behalf_of,
            authenticated: identity.is_some(),
            ..Author::named(request, operator, reason)
        })
    }

    /// Who does something, and on whose behalf if that is another one. The reason is only checked.
    pub(super) fn operator(
        &mut self,
        identity: Option<&OperatorId>,
        (operator, reason): (&str, &str),
    ) -> Option<(OperatorId, Option<OperatorId>)> {
        let is_named = identity.is_none() || !operator.is_empty();
        let operator = is_named.then(|| self.take(OperatorId::parse("operator", operator)));
        self.text("reason", reason, REASON_BYTES_MAX);
        let operator = operator.map_or(Some(None), |it| it.map(Some))?;
        let Some(identity) = identity else {
            return Some((operator?, None));
        };
        let other = operator.filter(|operator| operator != identity);
        Some((identity.clone(), other))
    }

    /// Users, each once.
    pub(super) fn users(&mut self, ids: &[String]) -> Vec<UserId> {
        if ids.is_empty() || ids.len() > USERS_MAX {
            let given = ids.len();
            self.add(
                "user_ids",
                format!("names {given} users: name 1 to {USERS_MAX}"),
            );
            return Vec::new();
        }
        let mut seen = HashSet::new();
        let mut users = Vec::with_capacity(ids.len());
        for (i, id) in ids.iter().enumerate() {
            let path = format!("user_ids[{i}]");
            if !seen.insert(id) {
                self.add(&path, format!("names {id:?} again: name each user once"));
            } else if let Some(user) = self.take(UserId::parse(&path, id)) {
                users.push(user);
            }
        }
        users
    }

    /// The segments that a user is in.
    pub(super) fn segments(&mut self, stated: &[String]) -> Vec<SegmentId> {
        let segments = segments_from_proto(stated);
        segments.unwrap_or_else(|problems| {
            self.extend(problems);
            Vec::new()
        })
    }

    /// The draws of a grant.
    pub(super) fn grant_draws(&mut self, draws: u32) {
        if !(1..=GRANT_DRAWS_MAX).contains(&draws) {
            self.add(
                "draws",
                format!("is {draws}: grant 1 to {GRANT_DRAWS_MAX} draws"),
            );
        }
    }

    /// The elements of a page.
    pub(super) fn page_size(&mut self, size: u32) -> usize {
        if size > PAGE_SIZE_MAX {
            self.add(
                "page_size",
                format!("is {size}: at most {PAGE_SIZE_MAX}, 0 means {PAGE_SIZE_DEFAULT}"),
            );
        }
        let size = if size == 0 { PAGE_SIZE_DEFAULT } else { size };
        usize::try_from(size.min(PAGE_SIZE_MAX)).unwrap_or(1)
    }

    /// Notes a problem.
    pub(super) fn add(&mut self, path: &str, message: impl Into<String>) {
        self.0.add(path, message);
    }

    /// Takes over other problems.
    pub(super) fn extend(&mut self, problems: Problems) {
        self.0.0.extend(problems.0);
    }

    /// What was parsed, or all problems.
    pub(super) fn finish<T>(self, parsed: Option<T>) -> Result<T, Problems> {
        match parsed {
            Some(parsed) if self.0.is_empty() => Ok(parsed),
            _ => Err(self.0),
        }
    }
}

/// A draw; the store must not begin it after `not_after`.
pub(super) fn draw(
    message: proto::DrawRequest,
    request: ParsedRequestId,
    not_after: Moment,
) -> Result<DrawCommand, Problems> {
    let mut fields = Fields::default();
    let campaign = fields.campaign(&message.campaign_id);
    let user = fields.take(UserId::parse("user_id", &message.user_id));
    let request = fields.take(request);
    if message.count > DRAW_COUNT_MAX {
        let count = message.count;
        fields.add("count", format!("is {count}: at most {DRAW_COUNT_MAX}"));
    }
    let funding = funding(&mut fields, message.funding);
    fields.text("payment_ref", &message.payment_ref, PAYMENT_REF_BYTES_MAX);
    let expire = fields.moment("expire_time", message.expire_time.as_ref());
    let segments = fields.segments(&message.segments);
    let ids = campaign.zip(user).zip(request);
    let ((campaign, user), request) = fields.finish(ids)?;
    Ok(DrawCommand {
        campaign,
        user,
        request,
        count: message.count.max(1),
        funding,
        payment_ref: message.payment_ref,
        consolation_only: message.consolation_only,
        segments,
        expire,
        not_after,
        chance: None,
    })
}

fn funding(fields: &mut Fields, number: i32) -> Funding {
    match proto::Funding::try_from(number) {
        Ok(proto::Funding::Unspecified | proto::Funding::Free) => Funding::Free,
        Ok(proto::Funding::Paid) => Funding::Paid,
        Err(_) => {
            fields.add(
                "funding",
                format!("is {number}: FUNDING_FREE (1) or FUNDING_PAID (2)"),
            );
            Funding::Free
        }
    }
}

/// A grant of bonus draws; the store must not begin it after `not_after`.
pub(super) fn grant_bonus(
    message: &proto::GrantBonusRequest,
    request: ParsedRequestId,
    not_after: Moment,
) -> Result<BonusCommand, Problems> {
    let mut fields = Fields::default();
    let campaign = fields.campaign(&message.campaign_id);
    let user = fields.take(UserId::parse("user_id", &message.user_id));
    let request = fields.take(request);
    fields.grant_draws(message.draws);
    // No time means "with the campaign", whose end may still move.
    let expires = fields.moment("expire_time", message.expire_time.as_ref());
    let ids = campaign.zip(user).zip(request);
    let ((campaign, user), request) = fields.finish(ids)?;
    Ok(BonusCommand {
        campaign,
        user,
        request,
        draws: message.draws,
        expires: expires.unwrap_or(Moment::FAR_FUTURE),
        not_after,
    })
}

/// Whom a call about a user's draw is about: campaign, user, request.
pub(super) fn find_draw(
    message: &proto::GetDrawRequest,
) -> Result<(CampaignId, UserId, RequestId), Problems> {
    let mut fields = Fields::default();
    let campaign = fields.campaign(&message.campaign_id);
    let user = fields.take(UserId::parse("user_id", &message.user_id));
    let request = fields.take(RequestId::parse("request_id", &message.request_id));
    let ids = campaign.zip(user).zip(request);
    let ((campaign, user), request) = fields.finish(ids)?;
    Ok((campaign, user, request))
}

/// Whose limits are asked for: campaign, user, and the segments that the user is in.
pub(super) fn check_limit(
    message: &proto::CheckLimitRequest,
) -> Result<(CampaignId, UserId, Vec<SegmentId>), Problems> {
    let mut fields = Fields::default();
    let campaign = fields.campaign(&message.campaign_id);
    let user = fields.take(UserId::parse("user_id", &message.user_id));
    let segments = fields.segments(&message.segments);
    let (campaign, user) = fields.finish(campaign.zip(user))?;
    Ok((campaign, user, segments))
}

/// The campaign and the user of a call that names nothing else.
pub(super) fn user(campaign_id: &str, user_id: &str) -> Result<(CampaignId, UserId), Problems> {
    let mut fields = Fields::default();
    let campaign = fields.campaign(campaign_id);
    let user = fields.take(UserId::parse("user_id", user_id));
    fields.finish(campaign.zip(user))
}

/// The campaign of a call that names nothing else.
pub(super) fn campaign(id: &str) -> Result<CampaignId, Problem> {
    CampaignId::parse("campaign_id", id)
}

/// Whether an error says that there is no such campaign.
pub(super) fn is_no_campaign(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Refused(crate::store::Refusal::CampaignNotFound)
    )
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
