//! A grab as one step: the packet of before, the envelope's state, the packet, the memory of it,
//! ledger. Everything is decided first and written last.

use rusqlite::{Connection, OptionalExtension, params};

use super::row::EnvelopeRow;
use crate::{
    model::{Moment, UserId},
    store::{
        GrabCommand, GrabOutcome, Grabbed, Refusal, Result, StoreError,
        entry::Body,
        envelope::{Packet, WaitingPacket},
        rules::envelope::{self as rules, SumsChange, admit},
        sqlite::{columns::ledger_id, job::Command, step::Step},
    },
};

impl Command for GrabCommand {
    type Reply = Grabbed;

    fn run(&self, step: &mut Step<'_>) -> Result<Grabbed> {
        step.with_envelope(&self.envelope, |step, row| grab(self, step, row))
    }

    fn draws(&self) -> Option<usize> {
        Some(1)
    }

    fn may_be_refused(&self) -> bool {
        true
    }
}

fn grab(command: &GrabCommand, step: &mut Step<'_>, row: &mut EnvelopeRow) -> Result<Grabbed> {
    if let Some(packet) = packet_of(step.db, row.no, &command.user)? {
        return Ok(answer(row, GrabOutcome::AlreadyGrabbed(packet), step.now));
    }
    if step.now > command.not_after {
        return Err(Refusal::DeadlineExceeded.into());
    }
    let is_allowed =
        !row.state.record.envelope.is_restricted() || is_allowed(step.db, row.no, &command.user)?;
    if let Some(outcome) = admit(&row.state, is_allowed, step.now) {
        return Ok(answer(row, outcome, step.now));
    }
    step.admit_backlog()?;
    if row.state.waiting() == 0 {
        return Ok(Grabbed::NeedFill);
    }
    let next = next_packet(step.db, row)?;
    if next.release > step.now {
        return Ok(answer(row, GrabOutcome::NotYet, step.now));
    }
    let packet = take(command, step, row, next)?;
    Ok(answer(row, GrabOutcome::Grabbed(packet), step.now))
}

fn take(
    command: &GrabCommand,
    step: &mut Step<'_>,
    row: &mut EnvelopeRow,
    next: WaitingPacket,
) -> Result<Packet> {
    let body = Body::Grab {
        user: command.user.clone(),
        packet: next.number,
        amount_minor: next.amount_minor,
    };
    let ledger = step.append_of_envelope(&command.envelope, &body)?;
    let taken = step
        .db
        .prepare_cached("DELETE FROM packets WHERE envelope = ?1 AND number = ?2")?
        .execute(params![row.no, next.number])?;
    if taken != 1 {
        let text = format!("packet {} was there {taken} times", next.number);
        return Err(StoreError::corrupt(text));
    }
    step.db
        .prepare_cached(
            "INSERT INTO grabs (envelope, user, packet, amount_minor, at, sequence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            row.no,
            command.user.as_str(),
            next.number,
            next.amount_minor,
            step.now.as_micros(),
            ledger.sequence
        ])?;
    let grabbed = &mut row.state.grabbed;
    grabbed.packets += 1;
    grabbed.amount_minor += next.amount_minor;
    grabbed.last = Some(step.now);
    let sums = SumsChange::of_grab(next.amount_minor, row.state.is_empty());
    step.add_to_sums(&row.state.record.envelope.currency, sums)?;
    row.touch();
    Ok(Packet {
        number: next.number,
        amount_minor: next.amount_minor,
        at: step.now,
        ledger,
    })
}

fn answer(row: &EnvelopeRow, outcome: GrabOutcome, now: Moment) -> Grabbed {
    Grabbed::Done(rules::answer(&row.state, outcome, now))
}

/// The packet that a user has.
fn packet_of(db: &Connection, envelope: i64, user: &UserId) -> Result<Option<Packet>> {
    Ok(db
        .prepare_cached(
            "SELECT packet, amount_minor, at, sequence FROM grabs WHERE envelope = ?1 AND user = \
             ?2",
        )?
        .query_row(params![envelope, user.as_str()], |row| packet(row, 0))
        .optional()?)
}

/// A packet of the columns from this one on: number, amount, moment, ledger entry.
pub(super) fn packet(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Packet> {
    Ok(Packet {
        number: row.get(first)?,
        amount_minor: row.get(first + 1)?,
        at: row.get(first + 2).map(Moment::from_micros)?,
        ledger: row.get(first + 3).map(ledger_id)?,
    })
}

fn is_allowed(db: &Connection, envelope: i64, user: &UserId) -> Result<bool> {
    Ok(db
        .prepare_cached("SELECT 1 FROM envelope_users WHERE envelope = ?1 AND user = ?2")?
        .exists(params![envelope, user.as_str()])?)
}

/// The packet that is grabbed next; the counts say that it waits.
fn next_packet(db: &Connection, row: &EnvelopeRow) -> Result<WaitingPacket> {
    let number = row.state.grabbed.packets + 1;
    let found = db
        .prepare_cached(
            "SELECT amount_minor, release FROM packets WHERE envelope = ?1 AND number = ?2",
        )?
        .query_row(params![row.no, number], |columns| {
            Ok(WaitingPacket {
                number,
                amount_minor: columns.get(0)?,
                release: columns.get(1).map(Moment::from_micros)?,
            })
        })
        .optional()?;
    found.ok_or_else(|| {
        let id = &row.state.record.envelope.id;
        StoreError::corrupt(format!("packet {number} of envelope {id} is missing"))
    })
}
