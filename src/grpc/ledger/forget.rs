//! `ForgetUser`: erases what names a user from the settled ledger.

use tokio::{runtime::Handle, task::spawn_blocking};
use tonic::Request;

use super::Ledger;
use crate::{
    grpc::{
        access::Caller,
        desk::{Deadline, OPERATOR_TIME_MAX, Reply, see_through},
        request::Fields,
        status::CallError,
    },
    ledger::forget::{Erasable, Erased, ForgetError, Reason, forget, look},
    model::{OperatorId, Problems, UserId},
    proto,
    store::{Executed, StoreError},
};

/// What to do if the server has no role that may erase.
const MISSING: &str = "this server may not erase from the settled ledger: start it with \
    --postgres-eraser-url, or run `tombola user forget` where the ledger is";

/// A request, parsed.
struct Asked {
    user: UserId,
    dry_run: bool,
    reason: Reason,
}

impl Asked {
    fn parse(
        message: &proto::ForgetUserRequest,
        identity: Option<&OperatorId>,
    ) -> Result<Self, Problems> {
        let mut fields = Fields::default();
        let user = fields.take(UserId::parse("user_id", &message.user_id));
        let operator = fields.operator(identity, (&message.operator, &message.reason));
        let (user, (operator, on_behalf_of)) = fields.finish(user.zip(operator))?;
        // To the byte, as in entries: people see ids with escapes.
        let operator = operator.as_str();
        let operator = match on_behalf_of {
            Some(other) => format!("{operator} on behalf of {}", other.as_str()),
            None => operator.to_owned(),
        };
        Ok(Self {
            user,
            dry_run: message.dry_run,
            reason: Reason {
                operator,
                text: message.reason.clone(),
            },
        })
    }
}

impl From<ForgetError> for CallError {
    fn from(error: ForgetError) -> Self {
        match error {
            ForgetError::Sink(error) if error.is_permanent() => Self::EraserMissing(format!(
                "the role of --postgres-eraser-url does not suffice: {error}"
            )),
            ForgetError::Sink(error) => Self::LedgerUnavailable(error.to_string()),
            ForgetError::Unreadable { .. } => StoreError::corrupt_after(error.to_string()).into(),
            ForgetError::Unfinished => StoreError::Unavailable {
                executed: Executed::Unknown,
                detail: error.to_string(),
            }
            .into(),
        }
    }
}

impl Ledger {
    pub(super) async fn forget_user(
        &self,
        request: Request<proto::ForgetUserRequest>,
    ) -> Reply<proto::ForgetUserResponse> {
        let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
        let caller = Caller::of(&request)?;
        let message = request.into_inner();
        let work = Box::pin(async {
            let asked = Asked::parse(&message, caller.identity())?;
            let erasable = self.settled()?.erasable.clone();
            let erasable = erasable.ok_or_else(|| CallError::EraserMissing(MISSING.into()))?;
            let erased = see_through(erase(erasable, asked)).await?;
            Ok(proto::ForgetUserResponse {
                entries: erased.entries,
                wins: erased.wins,
                envelopes: erased.envelopes.len() as u64,
                campaign_ids: erased.campaigns.into_iter().collect(),
                entries_of_format_1: erased.in_bytes,
            })
        });
        let late = match message.dry_run {
            true => Executed::No,
            false => Executed::Unknown,
        };
        self.desk.answer(None, deadline, late, work).await
    }
}

/// Erases, or only looks, on a thread of its own: a file is searched without a pause.
async fn erase(erasable: Erasable, asked: Asked) -> Result<Erased, CallError> {
    let runtime = Handle::current();
    let work = async move {
        let mut sink = erasable.open().await.map_err(ForgetError::Sink)?;
        let user = asked.user.as_str();
        if asked.dry_run {
            return Ok(look(&mut *sink, user).await?);
        }
        let erased = forget(&mut *sink, user, &asked.reason).await;
        erased.map_err(|error| match error {
            // Some parts may be erased already, for good.
            ForgetError::Sink(error) if !error.is_permanent() => StoreError::Unavailable {
                executed: Executed::Unknown,
                detail: error.to_string(),
            }
            .into(),
            error => error.into(),
        })
    };
    let done = spawn_blocking(move || runtime.block_on(work)).await;
    done.map_err(|_| CallError::Broken(Executed::Unknown))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_erases_is_noted_to_the_byte() {
        let identity = OperatorId::parse("identity", r"CORP\ann").unwrap();
        for (identity, named, noted) in [
            (None, r"CORP\olga", r"CORP\olga"),
            (Some(&identity), "", r"CORP\ann"),
            (
                Some(&identity),
                r"CORP\olga",
                r"CORP\ann on behalf of CORP\olga",
            ),
        ] {
            let message = proto::ForgetUserRequest {
                user_id: "u".into(),
                operator: named.into(),
                ..proto::ForgetUserRequest::default()
            };
            let asked = Asked::parse(&message, identity).unwrap();
            assert_eq!(asked.reason.operator, noted);
        }
    }
}
