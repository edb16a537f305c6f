//! Wins and entries as messages.

use crate::{
    grpc::{
        envelope_views::{refund_cause, split},
        views::{draw_result, lapse_time, ledger_id},
    },
    ledger::{
        activity::Hour,
        read::{DeliveryState, SettledWin},
    },
    model::{Campaign, PoolNo, PrizeNo, UserId, convert::moment_to_proto, limits::Funding},
    proto::{self, DrawCause, EnvelopeEventKind, OperationKind},
    store::{
        Author, Cause, DrawResult, Entry, LedgerId, Operation, WonUnit,
        entry::{Body, DrawEntry, EnvelopeCreated},
    },
};

/// A win without the index of its code. `campaign` is the version under which it was won, if it is
/// known.
pub(super) fn win(settled: &SettledWin, campaign: Option<&Campaign>) -> proto::Win {
    let win = &settled.win;
    let prizes = campaign.into_iter().flat_map(|campaign| &campaign.prizes);
    let prize = prizes
        .into_iter()
        .find(|prize| prize.id.as_str() == win.prize);
    let id = LedgerId {
        partition: win.partition,
        sequence: win.sequence,
    };
    proto::Win {
        campaign_id: win.campaign.clone(),
        user_id: win.user.clone(),
        prize_id: win.prize.clone(),
        prize_name: prize.map(|prize| prize.name.clone()).unwrap_or_default(),
        attributes: prize
            .map(|prize| prize.attributes.clone())
            .unwrap_or_default(),
        unit_id: win.unit.clone(),
        request_id: win.request.clone(),
        draw_time: Some(moment_to_proto(win.at)),
        ledger_id: Some(ledger_id(id)),
        delivery: Some(delivery(settled)),
        pool_id: win.pool.clone(),
        release_time: win.release.map(moment_to_proto),
        version: win.version,
        code_index: None,
    }
}

/// How far the delivery of a win is.
pub(super) fn delivery_state(settled: &SettledWin) -> proto::DeliveryState {
    match settled.delivery.state {
        DeliveryState::Pending => proto::DeliveryState::Pending,
        DeliveryState::Delivered => proto::DeliveryState::Delivered,
        DeliveryState::Revoked => proto::DeliveryState::Revoked,
    }
}

/// The delivery of a win, and when it changed.
pub(super) fn delivery(settled: &SettledWin) -> proto::Delivery {
    let delivery = &settled.delivery;
    proto::Delivery {
        state: delivery_state(settled).into(),
        reference: delivery.reference.clone(),
        update_time: delivery.at.map(moment_to_proto),
    }
}

/// What came of the draws of an hour.
pub(super) fn activity(hour: &Hour) -> proto::ActivityHour {
    proto::ActivityHour {
        start_time: Some(moment_to_proto(hour.start)),
        draws: hour.counts.draws,
        wins: hour.counts.wins,
        consolations: hour.counts.consolations,
    }
}

/// A draw. `campaign` is the version under which it was made, if it is known.
pub(super) fn draw(
    entry: &Entry,
    draw: &DrawEntry,
    campaign: Option<&Campaign>,
) -> proto::RecordedDraw {
    let campaign = campaign.filter(|campaign| draw.check(campaign).is_ok());
    let results = draw.results.iter();
    proto::RecordedDraw {
        campaign_id: subject_campaign(entry),
        user_id: draw.user.as_str().into(),
        request_id: draw.request.as_str().into(),
        results: results
            .map(|result| recorded_result(*result, entry.id, campaign))
            .collect(),
        draw_time: Some(moment_to_proto(entry.at)),
        funding: match draw.funding {
            Funding::Free => proto::Funding::Free,
            Funding::Paid => proto::Funding::Paid,
        }
        .into(),
        payment_ref: draw.payment_ref.clone(),
        consolation_only: draw.consolation_only,
        version: draw.version,
        ledger_id: Some(ledger_id(entry.id)),
        number: entry.number.unwrap_or(0),
        segments: draw.segments.iter().map(ToString::to_string).collect(),
    }
}

/// The bonus draws that a caller granted; none if the entry is something else.
pub(super) fn bonus(entry: &Entry) -> Option<proto::RecordedBonus> {
    let Body::Bonus(bonus) = &entry.body else {
        return None;
    };
    Some(proto::RecordedBonus {
        user_id: bonus.user.as_str().into(),
        request_id: bonus.request.as_str().into(),
        draws: bonus.draws,
        expire_time: lapse_time(bonus.expires),
    })
}

fn subject_campaign(entry: &Entry) -> String {
    let campaign = entry.subject.campaign();
    campaign.map(ToString::to_string).unwrap_or_default()
}

/// How a result came out.
pub(super) fn outcome(result: &DrawResult) -> proto::Outcome {
    match result {
        DrawResult::Won { .. } => proto::Outcome::Won,
        DrawResult::NotWon { consolation, .. } => match consolation {
            true => proto::Outcome::Consolation,
            false => proto::Outcome::Nothing,
        },
    }
}

fn recorded_result(
    result: DrawResult,
    id: LedgerId,
    campaign: Option<&Campaign>,
) -> proto::RecordedResult {
    let Some(campaign) = campaign else {
        // Without the definition, only how it came out is known.
        let known = proto::DrawResult {
            outcome: outcome(&result).into(),
            ledger_id: Some(ledger_id(id)),
            ..proto::DrawResult::default()
        };
        return proto::RecordedResult {
            result: Some(known),
            ..proto::RecordedResult::default()
        };
    };
    let mut recorded = proto::RecordedResult {
        result: Some(draw_result(result, campaign, id)),
        ..proto::RecordedResult::default()
    };
    // What is stored names known pools only.
    let pool = |pool: PoolNo| campaign.pool_name(pool).unwrap_or_default().to_owned();
    match result {
        DrawResult::Won {
            pool: from, code, ..
        } => {
            recorded.pool_id = pool(from);
            recorded.code_index = code;
        }
        DrawResult::NotWon { cause, .. } => {
            recorded.cause = draw_cause(cause).into();
            if let Cause::Blank { pool: from, unit }
            | Cause::Forfeited {
                pool: from, unit, ..
            } = cause
            {
                recorded.pool_id = pool(from);
                recorded.card_id = unit.id(&recorded.pool_id);
            }
            if let Cause::Forfeited { prize, .. } = cause {
                recorded.forfeited_prize_id = campaign.prize(prize).id.to_string();
            }
        }
    }
    recorded
}

fn draw_cause(cause: Cause) -> DrawCause {
    match cause {
        Cause::Unknown => DrawCause::Unspecified,
        Cause::NothingDue => DrawCause::NothingDue,
        Cause::WinsLimit => DrawCause::WinsLimit,
        Cause::Blocked => DrawCause::Blocked,
        Cause::ConsolationOnly => DrawCause::ConsolationOnly,
        Cause::Blank { .. } => DrawCause::Blank,
        Cause::Forfeited { .. } => DrawCause::Forfeited,
        Cause::PrizeCap => DrawCause::PrizeCap,
        Cause::Budget => DrawCause::Budget,
    }
}

/// An entry about an envelope; none if it is about something else.
pub(super) fn envelope_event(entry: &Entry) -> Option<proto::EnvelopeEvent> {
    let mut event = proto::EnvelopeEvent {
        envelope_id: entry.subject.envelope()?.to_string(),
        event_time: Some(moment_to_proto(entry.at)),
        ledger_id: Some(ledger_id(entry.id)),
        number: entry.number.unwrap_or(0),
        ..proto::EnvelopeEvent::default()
    };
    match &entry.body {
        Body::EnvelopeCreated(created) => add_creation(&mut event, created),
        Body::Grab {
            user,
            packet,
            amount_minor,
        } => {
            event.kind = EnvelopeEventKind::Grabbed.into();
            event.user_id = user.as_str().into();
            event.packet = *packet;
            event.amount_minor = *amount_minor;
        }
        Body::Refund {
            packets,
            amount_minor,
            cause,
            author,
        } => {
            event.kind = EnvelopeEventKind::Refunded.into();
            event.packets = *packets;
            event.amount_minor = *amount_minor;
            event.refund_cause = refund_cause(*cause).into();
            let author = author.as_ref();
            event.operator = author.map_or_else(String::new, |by| by.operator.as_str().into());
        }
        _ => return None,
    }
    Some(event)
}

fn add_creation(event: &mut proto::EnvelopeEvent, created: &EnvelopeCreated) {
    let envelope = &created.envelope;
    event.kind = EnvelopeEventKind::Created.into();
    event.user_id = envelope.sender.as_str().into();
    event.amount_minor = envelope.total_minor;
    event.packets = envelope.packets;
    event.currency = envelope.currency.clone();
    event.split = split(envelope.split).into();
    event.start_time = Some(moment_to_proto(created.start));
    event.expire_time = Some(moment_to_proto(created.expiry));
    event.attributes = envelope.attributes.clone();
    let created_by = created.created_by.as_ref();
    event.operator = created_by.map_or_else(String::new, |by| by.as_str().into());
}

/// Whether an entry is an operator's act on something named by numbers of a campaign.
pub(super) fn needs_definition(entry: &Entry) -> bool {
    matches!(
        entry.body,
        Body::Operated {
            operation: Operation::PausePrize { .. }
                | Operation::ResumePrize { .. }
                | Operation::ImportCodes { .. }
                | Operation::Recall { .. },
            ..
        } | Body::Delivered { .. }
            | Body::Revoked { .. }
    )
}

/// An operator's act; none if the entry is something else. `campaign` is the version that was in
/// force, if it is known.
pub(super) fn operation(
    entry: &Entry,
    campaign: Option<&Campaign>,
) -> Option<proto::RecordedOperation> {
    let envelope = entry.subject.envelope();
    let mut act = proto::RecordedOperation {
        campaign_id: subject_campaign(entry),
        envelope_id: envelope.map(ToString::to_string).unwrap_or_default(),
        operation_time: Some(moment_to_proto(entry.at)),
        ledger_id: Some(ledger_id(entry.id)),
        number: entry.number.unwrap_or(0),
        ..proto::RecordedOperation::default()
    };
    let (kind, author): (OperationKind, &Author) = match &entry.body {
        Body::Applied(applied) => {
            act.version = applied.version;
            (OperationKind::Apply, &applied.author)
        }
        Body::Operated {
            operation, author, ..
        } => (add_operation(&mut act, operation, campaign), author),
        Body::Delivered {
            win,
            reference,
            author,
            ..
        } => {
            add_win(&mut act, win, campaign);
            act.reference.clone_from(reference);
            (OperationKind::Deliver, author)
        }
        Body::Revoked {
            win,
            withdrawn,
            author,
            ..
        } => {
            add_win(&mut act, win, campaign);
            act.withdraw = *withdrawn;
            (OperationKind::Revoke, author)
        }
        Body::Recovered { author, .. } => (OperationKind::Recover, author),
        Body::Refund {
            author: Some(author),
            ..
        } => (OperationKind::CancelEnvelope, author),
        _ => return None,
    };
    act.kind = kind.into();
    act.request_id = author.request.as_str().into();
    act.operator = author.operator.as_str().into();
    act.reason = author.reason.clone();
    let on_behalf_of = author.on_behalf_of.as_ref();
    act.on_behalf_of = on_behalf_of.map_or_else(String::new, |by| by.as_str().into());
    act.authenticated = author.authenticated;
    if let Some(approved) = &author.approved {
        act.proposal_id = approved.id.as_str().into();
        act.proposed_by = approved.operator.as_str().into();
        act.propose_time = Some(moment_to_proto(approved.at));
        act.proposal_reason = approved.reason.clone();
    }
    Some(act)
}

fn add_win(act: &mut proto::RecordedOperation, win: &WonUnit, campaign: Option<&Campaign>) {
    act.user_ids = vec![win.user.as_str().into()];
    let Some(campaign) = campaign else { return };
    if let Some(prize) = campaign.prizes.get(usize::from(win.prize.0)) {
        act.prize_id = prize.id.to_string();
    }
    if let Some(pool) = campaign.pool_name(win.pool) {
        act.pool_id = pool.into();
        act.unit_id = win.unit.id(pool);
    }
}

fn add_operation(
    act: &mut proto::RecordedOperation,
    operation: &Operation,
    campaign: Option<&Campaign>,
) -> OperationKind {
    let prize_id = |no: PrizeNo| {
        let prize = campaign.and_then(|campaign| campaign.prizes.get(usize::from(no.0)));
        prize.map(|prize| prize.id.to_string()).unwrap_or_default()
    };
    let pool_id = |no: PoolNo| {
        let pool = campaign.and_then(|campaign| campaign.pools.get(usize::from(no.0)));
        pool.map(|pool| pool.id.to_string()).unwrap_or_default()
    };
    let names = |users: &[UserId]| users.iter().map(|user| user.as_str().into()).collect();
    match operation {
        Operation::Pause => OperationKind::Pause,
        Operation::Resume => OperationKind::Resume,
        Operation::Close => OperationKind::Close,
        Operation::PausePrize { prize } => {
            act.prize_id = prize_id(*prize);
            OperationKind::PausePrize
        }
        Operation::ResumePrize { prize } => {
            act.prize_id = prize_id(*prize);
            OperationKind::ResumePrize
        }
        Operation::Recall {
            pool,
            window,
            prize,
            withdraw,
        } => {
            act.pool_id = pool_id(*pool);
            act.window_time = window.map(moment_to_proto);
            act.prize_id = prize.map(prize_id).unwrap_or_default();
            act.withdraw = *withdraw;
            OperationKind::Recall
        }
        Operation::Grant {
            users,
            draws,
            expires,
        } => {
            act.user_ids = names(users);
            act.draws = *draws;
            act.expire_time = lapse_time(*expires);
            OperationKind::Grant
        }
        Operation::Block { users } => {
            act.user_ids = names(users);
            OperationKind::Block
        }
        Operation::Unblock { users } => {
            act.user_ids = names(users);
            OperationKind::Unblock
        }
        Operation::ImportCodes {
            prize,
            first,
            codes,
            ..
        } => {
            act.prize_id = prize_id(*prize);
            act.first_code = *first;
            act.codes = *codes;
            OperationKind::ImportCodes
        }
    }
}
