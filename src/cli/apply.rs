//! `tombola apply`: sends campaign files to the server. It sends nothing unless every document is
//! valid. It changes an existing campaign only if the operator has named its version, or says with
//! `--if-changed` that the file is right whatever the version.

use clap::Args;
use tonic::Code;

use super::{
    change_view,
    client::{Campaigns, Change, ChangeArgs, Client, Outcome, campaign_id, get_campaign, whole},
    failure::Failure,
    input::{self, FileArgs},
    plan_view,
    proposals::{self, Proposed},
    shell::this_command_with,
};
use crate::{
    model::{change::differences, convert::unstocked_from_proto},
    proto::{ApplyCampaignRequest, ApplyCampaignResponse, Campaign, CampaignStatus},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola apply spring-wheel.yaml --dry-run
  tombola apply spring-wheel.yaml --base-version 3 --reason \"double the coupons\"
  tombola apply spring-wheel.yaml --if-changed
  tombola apply spring-wheel.yaml --base-version 3 --propose --reason \"double the coupons\"")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Check and show everything, change nothing
    #[arg(long, env = "TOMBOLA_DRY_RUN")]
    dry_run: bool,
    /// The version that this one changes: N, or for a file of several campaigns ID=N, once for each
    #[arg(long, env = "TOMBOLA_BASE_VERSION", value_name = "[ID=]N", value_parser = base_version)]
    base_version: Vec<(Option<String>, u32)>,
    /// For jobs: change the version in force, whatever its number, if the file differs from it;
    /// otherwise do nothing
    #[arg(long, env = "TOMBOLA_IF_CHANGED", conflicts_with = "base_version")]
    if_changed: bool,
    /// Propose the changes, which another identity then approves
    #[arg(long, env = "TOMBOLA_PROPOSE")]
    propose: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

fn base_version(text: &str) -> Result<(Option<String>, u32), String> {
    let (id, version) = match text.split_once('=') {
        Some((id, version)) => (Some(campaign_id(id)?), version),
        None => (None, text),
    };
    Ok((id, whole(1..=u32::MAX.into())(version)?))
}

/// How documents are surveyed.
#[derive(Clone, Copy)]
struct Manner {
    /// What would be applied is tried with a dry run first: nothing is applied unless everything
    /// can be.
    tried: bool,
    /// A campaign that differs is changed, whatever its version.
    if_changed: bool,
}

/// What to do with one document.
enum Step {
    /// Nothing: the server's version is the same.
    Unchanged(ApplyCampaignResponse, u32),
    /// Refuse: the campaign differs from this version, which the operator has not named.
    Unnamed(ApplyCampaignResponse, u32),
    /// Apply it: the campaign is new, or its base version is named.
    Ready(Campaign, u32),
}

pub(super) async fn run(client: &Client, args: ApplyArgs) -> Outcome {
    let campaigns = input::campaigns(args.file.path())?;
    let bases = bases(&args.base_version, &campaigns)?;
    let change = args.change.resolve(client);
    let mut server = client.campaigns().await?;
    let mut steps = Vec::new();
    let several = campaigns.len() > 1;
    let manner = Manner {
        tried: several,
        if_changed: args.if_changed,
    };
    let file = input::shown(args.file.path());
    for (campaign, base) in campaigns.into_iter().zip(bases) {
        let name = if several {
            format!("{file}, campaign {}", campaign.id)
        } else {
            file.clone()
        };
        let step = survey(&mut server, &change, campaign, base, manner).await;
        steps.push(step.map_err(|failure| failure.in_file(&name, ""))?);
    }
    if several {
        change.numbered(steps.len())?; // fails early if the longest id is too long
    }
    let unnamed = unnamed(&steps, several);
    let dry_run = args.dry_run || !unnamed.is_empty();
    for (index, step) in steps.into_iter().enumerate() {
        match step {
            Step::Unchanged(response, version) => {
                client.show("ApplyCampaignResponse", &response, |response| {
                    unchanged(response, version)
                });
            }
            Step::Unnamed(response, version) => {
                let base = Some(version);
                client.show("ApplyCampaignResponse", &response, |response| {
                    view(response, base, true)
                });
            }
            Step::Ready(campaign, base) => {
                let change = if several {
                    change.numbered(index + 1)?
                } else {
                    change.clone()
                };
                if args.propose && !dry_run {
                    let proposed = Proposed::Campaign(Box::new(campaign));
                    let sent = proposals::propose(client, &mut server, (proposed, base), change);
                    sent.await.map_err(|failure| failure.in_file(&file, ""))?;
                    continue;
                }
                let response = send(&mut server, &change, campaign, base, dry_run).await;
                let response = response.map_err(|failure| failure.in_file(&file, ""))?;
                let base = (base > 0).then_some(base);
                client.show("ApplyCampaignResponse", &response, |response| {
                    view(response, base, dry_run)
                });
            }
        }
    }
    if args.dry_run || unnamed.is_empty() {
        return Ok(());
    }
    let failure = Failure::refused(
        "BASE_VERSION_NEEDED",
        "nothing was applied: a campaign exists already and differs, see above",
    );
    let flags: Vec<String> = unnamed
        .iter()
        .map(|base| format!("--base-version {base}"))
        .collect();
    Err(failure.advise(format!("to apply: {}", this_command_with(&flags.join(" ")))))
}

/// The base version that is named for each campaign.
fn bases(named: &[(Option<String>, u32)], campaigns: &[Campaign]) -> Outcome<Vec<Option<u32>>> {
    let position = |id: &str| campaigns.iter().position(|campaign| campaign.id == id);
    let mut bases = vec![None; campaigns.len()];
    for (id, version) in named {
        let index = match id {
            Some(id) => position(id).ok_or_else(|| {
                Failure::usage(format!(
                    "--base-version {id}={version}: no campaign {id} in the file"
                ))
            })?,
            None if campaigns.len() == 1 => 0,
            None => {
                return Err(Failure::usage(format!(
                    "--base-version {version}: of which campaign? The file has several: write \
                     ID={version}"
                )));
            }
        };
        bases[index] = Some(*version);
    }
    Ok(bases)
}

/// Finds out what applying a document would do; changes nothing.
async fn survey(
    server: &mut Campaigns,
    change: &Change,
    campaign: Campaign,
    base: Option<u32>,
    manner: Manner,
) -> Outcome<Step> {
    if let Some(base) = base {
        return Ok(Step::Ready(campaign, base));
    }
    let status = match get_campaign(server, &campaign.id, 0).await {
        Ok(status) => Some(status),
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => return Err(Failure::read(status)),
    };
    let version = status.as_ref().map_or(0, |status| status.version);
    match status {
        Some(status) if manner.if_changed && is_same(&status, &campaign) => {
            let response = ApplyCampaignResponse {
                status: Some(status),
                ..ApplyCampaignResponse::default()
            };
            Ok(Step::Unchanged(response, version))
        }
        Some(_) if !manner.if_changed => {
            let response = send(server, change, campaign, version, true).await?;
            if response.changes.is_empty() && response.window_changes.is_empty() {
                Ok(Step::Unchanged(response, version))
            } else {
                Ok(Step::Unnamed(response, version))
            }
        }
        _ => {
            if manner.tried {
                send(server, change, campaign.clone(), version, true).await?;
            }
            Ok(Step::Ready(campaign, version))
        }
    }
}

/// Whether the definition in force is the same. The server refuses to compare with a campaign that
/// is closed or over, so this is decided here.
fn is_same(status: &CampaignStatus, campaign: &Campaign) -> bool {
    let Some(in_force) = &status.campaign else {
        return false;
    };
    match (
        unstocked_from_proto(in_force),
        unstocked_from_proto(campaign),
    ) {
        (Ok(in_force), Ok(campaign)) => differences(&in_force, &campaign).is_empty(),
        _ => false,
    }
}

/// The options that the operator has to add before anything is applied.
fn unnamed(steps: &[Step], several: bool) -> Vec<String> {
    let mut bases = Vec::new();
    for step in steps {
        if let Step::Unnamed(response, version) = step {
            bases.push(if several {
                format!("{}={version}", id(response))
            } else {
                version.to_string()
            });
        }
    }
    bases
}

async fn send(
    server: &mut Campaigns,
    change: &Change,
    campaign: Campaign,
    base_version: u32,
    dry_run: bool,
) -> Outcome<ApplyCampaignResponse> {
    // A dry run has a request id of its own. Under the id of the change, the server could take one
    // for a retry of the other.
    let request_id = if dry_run {
        super::client::new_request_id()
    } else {
        change.request_id.clone()
    };
    let request = ApplyCampaignRequest {
        campaign: Some(campaign),
        base_version,
        dry_run,
        request_id: request_id.clone(),
        operator: change.operator.clone(),
        reason: change.reason.clone(),
    };
    match server.apply_campaign(request).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) if dry_run => Err(Failure::read(status)),
        Err(status) => Err(Failure::change(status, &request_id)),
    }
}

fn id(response: &ApplyCampaignResponse) -> &str {
    let campaign = response
        .status
        .as_ref()
        .and_then(|status| status.campaign.as_ref());
    campaign.map_or("", |campaign| &campaign.id)
}

fn unchanged(response: &ApplyCampaignResponse, version: u32) -> String {
    format!("{}: unchanged, version {version} is the same", id(response))
}

fn view(response: &ApplyCampaignResponse, base: Option<u32>, dry_run: bool) -> String {
    let status = response.status.clone().unwrap_or_default();
    let mut parts = vec![change_view::headline(&status)];
    match (dry_run, response.replayed) {
        (true, _) => parts[0].push_str(" (dry run: nothing was changed)"),
        (false, true) => parts[0].push_str(" (applied by an earlier call)"),
        (false, false) => {}
    }
    parts.extend(response.plan.as_ref().map(plan_view::plan));
    if let Some(base) = base {
        let count = change_view::count(response.changes.len());
        let changes = change_view::changes(&response.changes);
        parts.push(format!("{count} from version {base}\n{changes}"));
        parts.push(change_view::new_caps(&status, &response.changes));
    }
    if !response.window_changes.is_empty() {
        let windows = change_view::windows(&response.window_changes, change_view::zone(&status));
        parts.push(format!("hours that are injected already\n{windows}"));
    }
    parts.retain(|part| !part.is_empty());
    format!("{}\n", parts.join("\n\n"))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
