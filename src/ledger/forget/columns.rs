//! Which clear values beside an entry belong to a user, and the columns without them.

use crate::{
    chance::Kind,
    ledger::{
        entry::{Clear, Unreadable, decode},
        people::{Column, user_of, walk},
        read::EntryRow,
    },
    model::Moment,
    store::{LedgerId, entry::Body},
};

/// The columns of an entry without the clear values of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The entry.
    pub id: LedgerId,
    /// When it was written.
    pub at: Moment,
    /// The campaign that it is about.
    pub campaign: Option<String>,
    /// The envelope that it is about.
    pub envelope: Option<String>,
    /// The pseudonym of the user in the bytes.
    pub pseudonym: String,
    /// `user_id`, `request_id` and `people` as they were read. Another erasure may have changed
    /// them since.
    pub was: [Option<String>; 3],
    /// The new `user_id`.
    pub user: Option<String>,
    /// The new `request_id`.
    pub request: Option<String>,
    /// The new `people`.
    pub people: Option<String>,
    /// How the rows of wins change.
    pub win: Option<WinChange>,
}

/// The wins of an entry of the user: pseudonyms replace clear ids, and the references of their
/// deliveries are erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WinChange {
    /// The user's pseudonym in the rows of wins.
    pub user: String,
    /// The pseudonym of the request, if the entry is the draw that won.
    pub request: Option<String>,
}

/// A clear value beside an entry.
struct Value {
    column: Column,
    kind: Kind,
    pseudonym: String,
    clear: Option<String>,
}

/// The columns of an entry without what belongs to a user; none if nothing does:
///
/// - the id, wherever it is
/// - the request id and the payment reference of the user's draws
/// - the request id of bonus draws that callers granted the user
/// - the attributes of envelopes that the user sent
/// - the reference of deliveries to the user
/// - the reason of an act that is about this user alone
///
/// # Errors
/// The bytes or the columns are damaged.
pub(in crate::ledger) fn change(row: &EntryRow, user: &str) -> Result<Option<Change>, Unreadable> {
    let mut body = decode(row.format, &row.body, &Clear::default())?;
    let is_draw = matches!(body, Body::Draw(_));
    let has_own_request = is_draw || matches!(body, Body::Bonus(_));
    let owner = user_of(&body).map(|user| user.as_str().to_owned());
    let mut values = values(&mut body, row)?;
    let is_user = |value: &&Value| value.kind == Kind::User;
    let found = values
        .iter()
        .filter(is_user)
        .find(|value| value.clear.as_deref() == Some(user));
    let Some(pseudonym) = found.map(|value| value.pseudonym.clone()) else {
        return Ok(None);
    };
    let is_own = owner.as_ref() == Some(&pseudonym);
    let is_about_user = is_own || values.iter().filter(is_user).count() == 1;
    for value in &mut values {
        let is_erased = match value.kind {
            Kind::User => value.pseudonym == pseudonym,
            Kind::Request => is_own && has_own_request,
            Kind::Payment | Kind::Text => is_about_user,
            Kind::Operator => false,
        };
        if is_erased {
            value.clear = None;
        }
    }
    let of = |column| {
        let mut of_column = values.iter().filter(move |value| value.column == column);
        of_column.next().and_then(|value| value.clear.clone())
    };
    let request = values.iter().find(|value| value.kind == Kind::Request);
    let win = WinChange {
        user: pseudonym.clone(),
        request: request
            .filter(|_| is_draw)
            .map(|request| request.pseudonym.clone()),
    };
    let people = values.iter().filter(|value| value.column == Column::People);
    let people: Vec<_> = people.map(|value| value.clear.as_deref()).collect();
    Ok(Some(Change {
        id: row.id,
        at: row.at,
        campaign: row.campaign.clone(),
        envelope: row.envelope.clone(),
        pseudonym,
        was: [row.user.clone(), row.request.clone(), row.people.clone()],
        user: of(Column::User),
        request: of(Column::Request),
        people: match people.is_empty() {
            true => None,
            false => Some(serde_json::to_string(&people)?),
        },
        win: (is_own && row.campaign.is_some()).then_some(win),
    }))
}

/// The columns of a delivery or a revocation that came after its user was erased, without what
/// belongs to the user; none if nothing does. Its `user_id` is the pseudonym that the row of the
/// win has, and its bytes have the pseudonym of this pseudonym.
///
/// # Errors
/// The bytes or the columns are damaged.
pub(super) fn change_later(row: &EntryRow) -> Result<Option<Change>, Unreadable> {
    let Some(user) = &row.user else {
        return Ok(None);
    };
    let mut later = change(row, user)?;
    if let Some(win) = later.as_mut().and_then(|change| change.win.as_mut()) {
        win.user.clone_from(user);
    }
    Ok(later)
}

/// The pseudonyms in a body with the clear values beside them, in the order of the walk.
fn values(body: &mut Body, row: &EntryRow) -> Result<Vec<Value>, Unreadable> {
    let people: Vec<Option<String>> = match &row.people {
        Some(people) => serde_json::from_str(people)?,
        None => Vec::new(),
    };
    let mut people = people.into_iter();
    let mut values = Vec::new();
    walk(body, &mut |column, kind, pseudonym| {
        let clear = match column {
            Column::User => row.user.clone(),
            Column::Request => row.request.clone(),
            Column::People => people.next().flatten(),
        };
        values.push(Value {
            column,
            kind,
            pseudonym: pseudonym.clone(),
            clear,
        });
        Ok(())
    })
    .map_err(Unreadable::People)?;
    Ok(values)
}
