//! `tombola codes`: imports the codes of a prize, and writes those that nobody has won.

use clap::{Args, Subcommand};

use super::{
    client::{Client, Outcome, campaign_id, prize_id},
    code_file::CodeFile,
    codes_import::{self, ImportArgs},
    failure::Failure,
    output::{counted, is_open, note, say},
};
use crate::{model::file, proto::ListCodesRequest};

/// Codes in a page.
const PAGE_CODES: u32 = 1_000;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum CodesCommand {
    /// Add the codes of a file to a prize; a repeated import goes on where the one before stopped
    Import(ImportArgs),
    /// Write the codes of a prize that nobody has won, one in a line
    Export(ExportArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola codes export coupon-codes coupon > unused.txt")]
pub(super) struct ExportArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The prize
    #[arg(value_name = "PRIZE", value_parser = prize_id)]
    prize: String,
}

pub(super) async fn run(client: &Client, command: CodesCommand) -> Outcome {
    match command {
        CodesCommand::Import(args) => {
            let file = CodeFile::open(args.file())?;
            codes_import::run(client, &args, &file).await
        }
        CodesCommand::Export(args) => export(client, args).await,
    }
}

async fn export(client: &Client, args: ExportArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let mut request = ListCodesRequest {
        campaign_id: args.campaign,
        prize_id: args.prize,
        page_size: PAGE_CODES,
        page_token: String::new(),
    };
    let mut codes = 0;
    loop {
        let page = server.list_codes(request.clone()).await;
        let page = page.map_err(Failure::read)?.into_inner();
        codes += page.codes.len() as u64;
        let lines = page.codes.iter().map(|unused| match client.json {
            true => file::to_json("tombola.v1.UnusedCode", unused).to_string(),
            false => unused.code.clone(),
        });
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            say(&lines.join("\n"));
        }
        if page.next_page_token.is_empty() || !is_open() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    if !client.json && is_open() {
        note(&counted(codes, "unused code"));
    }
    Ok(())
}
