//! `tombola codes import`: sends a file of codes in calls of bounded size. Codes that are there
//! already are skipped, so the same command goes on after a failure.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{
    client::{Campaigns, Change, ChangeArgs, Client, Outcome, campaign_id, prize_id, whole},
    code_file::CodeFile,
    failure::Failure,
    output::counted,
};
use crate::{
    model::{
        code::{self, CALL_BYTES_MAX, CODES_MAX, IMPORTED_CODES_MAX},
        text::grouped,
    },
    proto::{GetStatsRequest, ImportCodesRequest, ImportCodesResponse},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The file has one code in each line. The first one becomes the first code of the
prize; if the prize has codes of another file already, --first says how many.

Example:
  tombola codes import coupon-codes coupon -f codes.txt
  tombola codes import coupon-codes coupon -f more.txt --first 5000000"
)]
pub(super) struct ImportArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The prize
    #[arg(value_name = "PRIZE", value_parser = prize_id)]
    prize: String,
    /// The codes, one in each line
    #[arg(short, long, env = "TOMBOLA_CODES_FILE", value_name = "FILE")]
    file: PathBuf,
    /// Codes that the prize has before the first line of the file
    #[arg(long, env = "TOMBOLA_CODES_FIRST", value_name = "N", default_value_t = 0,
          value_parser = whole::<u64>(0..=CODES_MAX))]
    first: u64,
    #[command(flatten)]
    change: ChangeArgs,
}

impl ImportArgs {
    /// The path of the file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

/// Sends what is not there yet.
pub(super) async fn run(client: &Client, args: &ImportArgs, file: &CodeFile) -> Outcome {
    let mut server = client.campaigns().await?;
    let there = codes_there(&mut server, args).await?;
    if args.first > there {
        let there = grouped(there);
        return Err(Failure::usage(format!(
            "--first {}: the prize {} has {there} codes, so write at most {there}",
            args.first, args.prize
        )));
    }
    let skipped = (there - args.first).min(file.codes);
    let import = Import {
        args,
        file,
        change: args.change.resolve(client),
    };
    import
        .compare(&mut server, skipped)
        .await
        .map_err(|failure| import.of_another_file(failure, there))?;
    let sent = import.send_from(&mut server, skipped, there).await?;
    let response = ImportCodesResponse {
        codes: sent.max(there),
        replayed: skipped == file.codes,
    };
    client.show("ImportCodesResponse", &response, |response| {
        let imported = counted(file.codes - skipped, "code");
        let before = match skipped {
            0 => String::new(),
            skipped => format!(" ({} of the file were there and skipped)", grouped(skipped)),
        };
        let all = grouped(response.codes);
        format!("{imported} imported{before}: {} has {all}", args.prize)
    });
    Ok(())
}

/// How many codes the prize has.
async fn codes_there(server: &mut Campaigns, args: &ImportArgs) -> Outcome<u64> {
    let request = GetStatsRequest {
        campaign_id: args.campaign.clone(),
    };
    let stats = server.get_stats(request).await.map_err(Failure::read)?;
    let prizes = stats.into_inner().prizes;
    let prize = prizes.iter().find(|prize| prize.prize_id == args.prize);
    let prize = prize.ok_or_else(|| {
        let (prize, campaign) = (&args.prize, &args.campaign);
        let text = format!("the campaign {campaign} has no prize {prize}");
        Failure::refused("PRIZE_NOT_FOUND", text)
    })?;
    Ok(prize.stock)
}

/// An import that goes on.
struct Import<'a> {
    args: &'a ImportArgs,
    file: &'a CodeFile,
    change: Change,
}

impl Import<'_> {
    /// Compares the last codes that are skipped with those that are there.
    async fn compare(&self, server: &mut Campaigns, skipped: u64) -> Outcome {
        let from = skipped.saturating_sub(IMPORTED_CODES_MAX as u64);
        let mut codes = self.file.codes_after(from)?;
        let mut from = from;
        while from < skipped {
            let most = usize::try_from(skipped - from).unwrap_or(usize::MAX);
            let part = codes.next_part(most, CALL_BYTES_MAX)?;
            let sent = part.len() as u64;
            self.call(server, from, part).await?;
            from += sent.max(1);
        }
        Ok(())
    }

    /// Sends all codes of the file but the first ones; returns how many the prize has then.
    async fn send_from(&self, server: &mut Campaigns, skipped: u64, there: u64) -> Outcome<u64> {
        let mut codes = self.file.codes_after(skipped)?;
        let (mut from, mut there) = (skipped, there);
        loop {
            let part = codes.next_part(IMPORTED_CODES_MAX, CALL_BYTES_MAX)?;
            if part.is_empty() {
                return Ok(there);
            }
            let sent = part.len() as u64;
            let called = self.call(server, from, part).await;
            there = called.map_err(|failure| self.stopped(failure, from))?;
            from += sent;
        }
    }

    /// Sends codes that come after the first `from` ones of the file; returns how many the prize
    /// has.
    async fn call(&self, server: &mut Campaigns, from: u64, codes: Vec<String>) -> Outcome<u64> {
        let first = self.args.first + from;
        let number = usize::try_from(first).unwrap_or(usize::MAX);
        let Change {
            operator,
            reason,
            request_id,
        } = self.change.numbered(number)?;
        let request = ImportCodesRequest {
            campaign_id: self.args.campaign.clone(),
            prize_id: self.args.prize.clone(),
            first,
            codes,
            request_id: request_id.clone(),
            operator,
            reason,
        };
        let response = server.import_codes(request).await;
        let response = response.map_err(|status| {
            let failure = Failure::change(status, &request_id);
            in_lines(failure, &self.file.shown(), from)
        });
        Ok(response?.into_inner().codes)
    }

    /// The failure of a call after others: says how far the import got, and how it goes on.
    fn stopped(&self, failure: Box<Failure>, from: u64) -> Box<Failure> {
        let done = counted(from, "code");
        let advice = match failure.violations.is_empty() {
            true => "the same command goes on from there",
            false => {
                "correct the lines, and leave those before them as they are: then the same \
                      command goes on from there"
            }
        };
        failure.advise(format!("{done} of the file are imported; {advice}"))
    }

    /// The failure of a comparison: the prize has other codes than the file.
    fn of_another_file(&self, failure: Box<Failure>, there: u64) -> Box<Failure> {
        if failure.violations.is_empty() {
            return failure;
        }
        let all = grouped(there);
        failure.advise(format!(
            "the prize has {all} codes, and those of this file are others: to add them, name \
             --first {there}"
        ))
    }
}

/// The same failure, with the lines of the file in place of the codes of a call, which has `from`
/// codes of the file before it.
fn in_lines(mut failure: Box<Failure>, file: &str, from: u64) -> Box<Failure> {
    if failure.violations.is_empty() {
        return failure;
    }
    for problem in &mut failure.violations.0 {
        problem.path = lines_in(&problem.path, from);
        problem.message = lines_in(&problem.message, from);
    }
    failure.message = format!("{file}: {}", lines_in(&failure.message, from));
    failure
}

/// A text with `line 18` in place of `codes[17]`.
fn lines_in(text: &str, from: u64) -> String {
    code::with_places(text, |index| {
        format!("line {}", grouped(from + index as u64 + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_a_call_are_named_by_the_lines_of_the_file() {
        let text = "codes[17]: is the same code as codes[3]: each code is there once";
        let lines = "line 10,018: is the same code as line 10,004: each code is there once";
        assert_eq!(lines_in(text, 10_000), lines);
        for other in ["first: is 3", "codes: has 0", "codes[x]"] {
            assert_eq!(lines_in(other, 5), other);
        }
    }
}
