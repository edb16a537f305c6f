//! Codes of prizes: imports, lists of unused ones, and the texts in the answers to draws.

use tonic::{Extensions, Request};
use tracing::info;

use super::{
    access::{Caller, Denial, Permission, table::Scope},
    desk::{CALLER_TIME_MAX, Deadline, Desk, OPERATOR_TIME_MAX, Reply, see_through},
    request::{self, Fields},
    status::CallError,
};
use crate::{
    injector::ImportCodes,
    model::{
        Problems,
        code::{self, IMPORTED_CODES_MAX},
        text::grouped,
    },
    proto,
    store::{DrawAnswer, DrawResult, Executed, Refusal, Result},
};

/// What the tokens of pages of codes begin with; the index of the first code follows.
const TOKEN_PREFIX: &str = "code-";
/// Wrong codes that an error names.
const SHOWN_MAX: usize = 20;

/// The texts of the codes of a draw, by result, if its caller may read them. The future is small,
/// as it is part of every draw's: what is rare is in a box.
///
/// # Errors
/// Those of the store, and codes that are missing or cannot be decrypted.
pub(super) async fn of(
    desk: &Desk,
    extensions: &Extensions,
    answer: &DrawAnswer,
) -> Result<Vec<Option<String>>> {
    let has_code = |result: &DrawResult| matches!(result, DrawResult::Won { code: Some(_), .. });
    if !answer.entry.results.iter().any(has_code) {
        return Ok(Vec::new());
    }
    let scope = Scope::Campaign(answer.campaign.id.as_str());
    let caller = extensions.get::<Caller>().ok_or(Denial::Missing);
    match caller.and_then(|caller| caller.may(Permission::CodesRead, scope, None)) {
        Ok(()) => Box::pin(desk.injector().codes_of(answer)).await,
        Err(_) => Ok(Vec::new()),
    }
}

/// Adds codes to a prize.
pub(super) async fn import_codes(
    desk: &Desk,
    request: Request<proto::ImportCodesRequest>,
) -> Reply<proto::ImportCodesResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let identity = Caller::of(&request)?.identity().cloned();
    let message = request.into_inner();
    let request_id = request::request_id(&message.request_id);
    let valid_id = request_id.as_ref().ok().cloned();
    let injector = desk.injector().clone();
    let work = async {
        let mut fields = Fields::default();
        let campaign = fields.campaign(&message.campaign_id);
        let prize_id = fields.prize(&message.prize_id);
        fields.extend(wrong_codes(&message.codes));
        let said = (message.operator.as_str(), message.reason.as_str());
        let author = fields.author(identity.as_ref(), request_id, said);
        let (campaign, author) = fields.finish(campaign.zip(author))?;
        let import = ImportCodes {
            campaign,
            prize_id,
            first: message.first,
            codes: message.codes,
            author,
        };
        see_through(async move {
            let (id, operator) = (import.campaign.clone(), import.author.operator.clone());
            let (prize, codes) = (import.prize_id.clone(), import.codes.len());
            let imported = injector.import_codes(import).await?;
            if !imported.replayed {
                info!(
                    campaign = %id,
                    %operator,
                    %prize,
                    codes,
                    "campaign {id}: {codes} codes of {prize} imported by {operator}"
                );
            }
            Ok(proto::ImportCodesResponse {
                codes: imported.codes,
                replayed: imported.replayed,
            })
        })
        .await
    };
    desk.answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
        .await
}

/// What is wrong with the codes of an import, each taken by itself.
fn wrong_codes(codes: &[String]) -> Problems {
    let mut problems = Problems::default();
    if codes.is_empty() || codes.len() > IMPORTED_CODES_MAX {
        problems.add(
            "codes",
            format!(
                "has {}: a call has 1 to {}",
                grouped(codes.len() as u64),
                grouped(IMPORTED_CODES_MAX as u64)
            ),
        );
        return problems;
    }
    let wrong = codes.iter().enumerate();
    let wrong = wrong.filter_map(|(i, code)| Some((i, code::check(code).err()?)));
    for (i, problem) in wrong.take(SHOWN_MAX) {
        problems.add(format!("codes[{i}]"), problem);
    }
    problems
}

/// A page of codes that nobody has won.
pub(super) async fn list_codes(
    desk: &Desk,
    request: Request<proto::ListCodesRequest>,
) -> Reply<proto::ListCodesResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let message = request.into_inner();
    let work = async {
        let mut fields = Fields::default();
        let campaign = fields.campaign(&message.campaign_id);
        let prize_id = fields.prize(&message.prize_id);
        let size = fields.page_size(message.page_size);
        let from = read_token(&message.page_token);
        if from.is_none() {
            fields.add("page_token", "is not a token that this service gave");
        }
        let (campaign, from) = fields.finish(campaign.zip(from))?;
        let view = desk.store().campaign(&campaign).await?;
        let prize = view.campaign.prize_no(&prize_id);
        let prize = prize.ok_or_else(|| Refusal::PrizeNotFound(prize_id.clone()))?;
        if !view.campaign.prize(prize).codes {
            let mut problems = Problems::default();
            problems.add("prize_id", format!("{prize_id} has no codes"));
            return Err(CallError::from(problems));
        }
        let (codes, has_more) = desk
            .injector()
            .unused_codes(&view, prize, from, size)
            .await?;
        let last = codes.last().filter(|_| has_more);
        Ok(proto::ListCodesResponse {
            next_page_token: last.map(|(index, _)| token(index + 1)).unwrap_or_default(),
            codes: codes
                .into_iter()
                .map(|(index, code)| proto::UnusedCode { index, code })
                .collect(),
        })
    };
    desk.read(deadline, work).await
}

/// The token of the page that begins with a code.
fn token(index: u64) -> String {
    format!("{TOKEN_PREFIX}{index}")
}

/// The index at which a page begins; none if the token is none of ours.
fn read_token(text: &str) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let index = text.strip_prefix(TOKEN_PREFIX)?.parse().ok()?;
    (token(index) == text).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_code_and_others_are_refused() {
        for index in [0, 7, u64::MAX] {
            assert_eq!(read_token(&token(index)), Some(index));
        }
        assert_eq!(read_token(""), Some(0));
        for bad in ["code-", "code-07", "code-+7", "code--1", "7", "user-37"] {
            assert_eq!(read_token(bad), None, "{bad}");
        }
    }

    #[test]
    fn wrong_codes_are_named_by_their_places_and_not_repeated() {
        let codes = ["GOOD", "", " SECRET", "A\nB"].map(str::to_owned);
        let problems = wrong_codes(&codes);
        let paths: Vec<&str> = problems.0.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["codes[1]", "codes[2]", "codes[3]"]);
        assert!(!problems.to_string().contains("SECRET"), "{problems}");
        assert_eq!(wrong_codes(&[]).0[0].path, "codes");
        let many = vec![String::from("A"); IMPORTED_CODES_MAX + 1];
        assert!(wrong_codes(&many).0[0].message.contains("10,001"));
    }
}
