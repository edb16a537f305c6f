//! Whether changes have the approvals that they need.

use super::findings::Check;
use crate::{
    model::Campaign,
    store::{Author, Operation, entry::Body},
};

/// What an entry lacks under the version that was in force before it.
pub(super) fn lacking(body: &Body, before: Option<&Campaign>) -> Option<(Check, String)> {
    let (author, what) = match body {
        Body::Applied(applied) => (&applied.author, "the change"),
        Body::Operated {
            operation: Operation::Close,
            author,
            ..
        } => (author, "the close"),
        Body::Operated {
            operation: Operation::Recall { .. },
            author,
            ..
        } => (author, "the recall"),
        _ => return None,
    };
    let text = match &author.approved {
        Some(approved) if approved.operator == author.operator => {
            let by = &author.operator;
            format!("{by} proposed {what} and approved it as well")
        }
        None if before.is_some_and(|before| before.approval_required) => lone(author, what),
        _ => return None,
    };
    Some((Check::Approval, text))
}

fn lone(author: &Author, what: &str) -> String {
    let by = &author.operator;
    format!("{by} made {what} without the approval that the campaign requires")
}
