//! `tombola access`: checks a policy file, and makes tokens.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    client::{Client, Outcome, campaign_id, user_id},
    failure::Failure,
    output::{note, say},
};
use crate::grpc::access::{Permission, Policy, TokenHash, new_token, policy::Identity};

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AccessCommand {
    /// Check an access file, and show what it allows
    Check(CheckArgs),
    /// Make a token and the line of the access file that knows it
    Token(TokenArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola access check access.yaml
  tombola access check access.yaml --identity shop --permission draw --campaign spring-wheel")]
pub(super) struct CheckArgs {
    /// The access file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this identity
    #[arg(long, env = "TOMBOLA_IDENTITY", value_name = "NAME")]
    identity: Option<String>,
    /// Say whether the identity has this permission; if it has not, end with code 1
    #[arg(
        long,
        env = "TOMBOLA_PERMISSION",
        value_name = "NAME",
        value_parser = permission,
        requires = "identity"
    )]
    permission: Option<Permission>,
    /// The permission on this campaign
    #[arg(
        long,
        env = "TOMBOLA_CAMPAIGN",
        value_name = "ID",
        value_parser = campaign_id
    )]
    campaign: Option<String>,
    /// The permission on envelopes of this sender
    #[arg(
        long,
        env = "TOMBOLA_SENDER",
        value_name = "ID",
        value_parser = user_id,
        conflicts_with = "campaign"
    )]
    sender: Option<String>,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The token goes to standard output, and is stored nowhere else. The line \
for the access file goes to standard error.

Example:
  tombola access token > shop.token"
)]
pub(super) struct TokenArgs {}

fn permission(text: &str) -> Result<Permission, String> {
    Permission::of_name(text).ok_or_else(|| format!("write one of {}", Permission::names()))
}

pub(super) fn run(client: &Client, command: AccessCommand) -> Outcome {
    match command {
        AccessCommand::Check(args) => check(client, &args),
        AccessCommand::Token(TokenArgs {}) => {
            token(client.json);
            Ok(())
        }
    }
}

fn token(json: bool) {
    let token = new_token();
    let hash = TokenHash::of(token.expose());
    if json {
        let line = json!({"token": token.expose(), "sha256": hash.to_string()});
        return say(&format!("{line:#}"));
    }
    say(token.expose());
    note(&format!(
        "in the access file, below `tokens:` of its identity:\n  - sha256: {hash}"
    ));
}

fn check(client: &Client, args: &CheckArgs) -> Outcome {
    let policy = read(&args.file)?;
    let identities: Vec<_> = match &args.identity {
        None => policy.identities().collect(),
        Some(name) => {
            let known = policy.identity(name).ok_or_else(|| {
                let file = args.file.display();
                Failure::usage(format!("{file} has no identity {name:?}"))
            })?;
            vec![known]
        }
    };
    if let (Some(permission), [identity]) = (args.permission, &identities[..]) {
        return answer(client.json, args, (identity, permission));
    }
    if client.json {
        let all: Vec<_> = identities
            .iter()
            .map(|identity| as_json(identity))
            .collect();
        say(&format!("{:#}", json!({ "identities": all })));
        return Ok(());
    }
    for identity in identities {
        say(&shown(identity));
    }
    Ok(())
}

fn read(file: &Path) -> Outcome<Policy> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{}: cannot be read: {error}", file.display())))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let policy = Policy::parse(&text, directory);
    policy.map_err(|problems| Failure::problems(&file.display().to_string(), problems))
}

/// Says whether an identity has a permission.
fn answer(
    json: bool,
    args: &CheckArgs,
    (identity, permission): (&Identity, Permission),
) -> Outcome {
    let (is_allowed, on) = match (&args.campaign, &args.sender) {
        (Some(id), _) => (
            identity.may_on_campaign(permission, id),
            format!("campaign {id}"),
        ),
        (None, Some(id)) => (
            identity.may_on_sender(permission, id),
            format!("envelopes of {id}"),
        ),
        (None, None) => (
            identity.may_on_store(permission),
            "all campaigns and all senders".into(),
        ),
    };
    let name = &identity.name;
    if json {
        say(&format!("{:#}", json!({ "allowed": is_allowed })));
    }
    if !is_allowed {
        let message = format!("{name} may not: it lacks {permission} on {on}");
        return Err(Failure::refused("PERMISSION_DENIED", message));
    }
    if !json {
        say(&format!("{name} may: it has {permission} on {on}"));
    }
    Ok(())
}

/// `shop`, then a line for each permission.
fn shown(identity: &Identity) -> String {
    let mut lines = vec![identity.name.to_string()];
    for permission in Permission::ALL {
        if let Some(grant) = identity.grant(permission) {
            let list = |patterns: &crate::model::Patterns| {
                let all: Vec<_> = patterns.iter().map(ToString::to_string).collect();
                all.join(" ")
            };
            let mut on = Vec::new();
            if !grant.campaigns.is_empty() {
                on.push(format!("campaigns {}", list(&grant.campaigns)));
            }
            if !grant.senders.is_empty() {
                on.push(format!("senders {}", list(&grant.senders)));
            }
            lines.push(format!("  {:<10} {}", permission.name(), on.join(", ")));
        }
    }
    lines.join("\n")
}

fn as_json(identity: &Identity) -> serde_json::Value {
    let list = |patterns: &crate::model::Patterns| -> Vec<String> {
        patterns.iter().map(ToString::to_string).collect()
    };
    let grants = Permission::ALL.into_iter().filter_map(|permission| {
        let grant = identity.grant(permission)?;
        let on = json!({"campaigns": list(&grant.campaigns), "senders": list(&grant.senders)});
        Some((permission.name().to_owned(), on))
    });
    json!({
        "name": identity.name.as_str(),
        "permissions": grants.collect::<serde_json::Map<_, _>>(),
    })
}
