//! The codes of listed wins, by index: the table of wins has none, the entries of the draws have
//! them. No entry has the text of a code.

use std::collections::HashMap;

use crate::{
    grpc::status::CallError,
    ledger::{
        read::LedgerReader,
        wins::{Win, code_of, draw_of},
    },
    model::Campaign,
    proto,
};

/// Whether a win has a code. `campaign` is the version under which it was won, if it is known.
pub(super) fn has_code(win: &Win, campaign: Option<&Campaign>) -> bool {
    let mut prizes = campaign.into_iter().flat_map(|campaign| &campaign.prizes);
    prizes.any(|prize| prize.codes && prize.id.as_str() == win.prize)
}

/// Adds the indexes of their codes to these messages, each of which is named by its index.
pub(super) async fn add(
    reader: &dyn LedgerReader,
    messages: &mut [proto::Win],
    coded: &[(usize, &Win)],
) -> Result<(), CallError> {
    if coded.is_empty() {
        return Ok(());
    }
    let wins: Vec<&Win> = coded.iter().map(|(_, win)| *win).collect();
    let entries = reader.draws_of(&wins).await?;
    let draws: HashMap<_, _> = entries
        .iter()
        .map(|entry| ((entry.id.partition, entry.id.sequence, entry.at), entry))
        .collect();
    for (index, win) in coded {
        let draw = draws.get(&(win.partition, win.sequence, win.at));
        let draw = draw.and_then(|entry| draw_of(entry));
        messages[*index].code_index = draw.and_then(|draw| code_of(draw, win));
    }
    Ok(())
}
