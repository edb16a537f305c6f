//! Lists of the ledger as rows of spreadsheets, the same for the command line and the console.

pub(crate) mod csv;
pub(crate) mod draws;
pub(crate) mod events;
pub(crate) mod operations;
pub(crate) mod wins;

/// `partition/sequence`
pub(crate) fn ledger(id: Option<crate::proto::LedgerId>) -> String {
    let id = id.unwrap_or_default();
    format!("{}/{}", id.partition, id.sequence)
}
