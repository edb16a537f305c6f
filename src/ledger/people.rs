//! Where people stand in an entry: users, request ids, payment references, operators and the text
//! that they write. The order of the walk is part of the canonical form.

use crate::{
    chance::Kind,
    model::{OperatorId, Problem, RequestId, UserId},
    store::{
        Author, Operation,
        entry::{Body, EnvelopeCreated},
    },
};

/// The column in which a clear value stands beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    User,
    Request,
    /// The list of all others, in the order of the walk.
    People,
}

/// What is done with each value. Empty values are left out.
type Visit<'a> = &'a mut dyn FnMut(Column, Kind, &mut String) -> Result<(), Problem>;

/// Visits every value of an entry that stands for a person.
///
/// # Errors
/// Those of `visit`, and a value that it has changed into one that cannot stand there.
pub(super) fn walk(body: &mut Body, visit: Visit<'_>) -> Result<(), Problem> {
    match body {
        Body::Draw(draw) => {
            user(Column::User, &mut draw.user, visit)?;
            request(&mut draw.request, visit)?;
            text(Kind::Payment, &mut draw.payment_ref, visit)
        }
        Body::Bonus(bonus) => {
            user(Column::User, &mut bonus.user, visit)?;
            request(&mut bonus.request, visit)
        }
        Body::Grab { user: id, .. } => user(Column::User, id, visit),
        Body::EnvelopeCreated(created) => envelope(created, visit),
        Body::Applied(applied) => author(&mut applied.author, visit),
        Body::Operated {
            operation,
            author: by,
            ..
        } => {
            author(by, visit)?;
            users(users_of(operation), visit)
        }
        Body::Delivered {
            win,
            reference,
            author: by,
            ..
        } => {
            user(Column::User, &mut win.user, visit)?;
            text(Kind::Text, reference, visit)?;
            author(by, visit)
        }
        Body::Revoked {
            win, author: by, ..
        } => {
            user(Column::User, &mut win.user, visit)?;
            author(by, visit)
        }
        Body::Recovered { author: by, .. }
        | Body::Refund {
            author: Some(by), ..
        } => author(by, visit),
        Body::Refund { author: None, .. }
        | Body::Injected(_)
        | Body::Missed { .. }
        | Body::Dealt { .. }
        | Body::TakenBack { .. }
        | Body::Closed {}
        | Body::Forked { .. } => Ok(()),
    }
}

/// The user of an entry: the value of the column `user_id`.
pub(super) fn user_of(body: &Body) -> Option<&UserId> {
    match body {
        Body::Draw(draw) => Some(&draw.user),
        Body::Bonus(bonus) => Some(&bonus.user),
        Body::Grab { user, .. } => Some(user),
        Body::EnvelopeCreated(created) => Some(&created.envelope.sender),
        Body::Delivered { win, .. } | Body::Revoked { win, .. } => Some(&win.user),
        _ => None,
    }
}

fn envelope(created: &mut EnvelopeCreated, visit: Visit<'_>) -> Result<(), Problem> {
    user(Column::User, &mut created.envelope.sender, visit)?;
    for value in created.envelope.attributes.values_mut() {
        text(Kind::Text, value, visit)?;
    }
    users(&mut created.allowed_users, visit)?;
    optional_operator(&mut created.created_by, visit)
}

fn author(author: &mut Author, visit: Visit<'_>) -> Result<(), Problem> {
    request(&mut author.request, visit)?;
    operator(&mut author.operator, visit)?;
    text(Kind::Text, &mut author.reason, visit)?;
    optional_operator(&mut author.on_behalf_of, visit)?;
    let Some(approved) = &mut author.approved else {
        return Ok(());
    };
    operator(&mut approved.operator, visit)?;
    text(Kind::Text, &mut approved.reason, visit)?;
    optional_operator(&mut approved.on_behalf_of, visit)
}

fn optional_operator(id: &mut Option<OperatorId>, visit: Visit<'_>) -> Result<(), Problem> {
    match id {
        Some(id) => operator(id, visit),
        None => Ok(()),
    }
}

fn operator(id: &mut OperatorId, visit: Visit<'_>) -> Result<(), Problem> {
    let mut value = id.as_str().to_owned();
    visit(Column::People, Kind::Operator, &mut value)?;
    *id = OperatorId::parse("operator", &value)?;
    Ok(())
}

/// The users that an operation names.
fn users_of(operation: &mut Operation) -> &mut [UserId] {
    match operation {
        Operation::Grant { users, .. }
        | Operation::Block { users }
        | Operation::Unblock { users } => users,
        Operation::Pause
        | Operation::Resume
        | Operation::Close
        | Operation::PausePrize { .. }
        | Operation::ResumePrize { .. }
        | Operation::ImportCodes { .. }
        | Operation::Recall { .. } => &mut [],
    }
}

fn users(ids: &mut [UserId], visit: Visit<'_>) -> Result<(), Problem> {
    for id in ids {
        user(Column::People, id, visit)?;
    }
    Ok(())
}

fn user(column: Column, id: &mut UserId, visit: Visit<'_>) -> Result<(), Problem> {
    let mut value = id.as_str().to_owned();
    visit(column, Kind::User, &mut value)?;
    *id = UserId::parse("user", &value)?;
    Ok(())
}

fn request(id: &mut RequestId, visit: Visit<'_>) -> Result<(), Problem> {
    let mut value = id.as_str().to_owned();
    visit(Column::Request, Kind::Request, &mut value)?;
    *id = RequestId::parse("request", &value)?;
    Ok(())
}

fn text(kind: Kind, value: &mut String, visit: Visit<'_>) -> Result<(), Problem> {
    if value.is_empty() {
        return Ok(());
    }
    visit(Column::People, kind, value)
}
