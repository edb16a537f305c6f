//! `tombola campaigns` lists the campaigns; `tombola campaign` shows one in full.

use clap::{Args, ValueEnum};

use super::{
    change_view::{headline, state},
    client::{Client, Outcome, campaign_id, get_campaign, whole},
    failure::Failure,
    output::{Side, Table, counted, say},
    phrases,
    time::shown_in_zone,
};
use crate::{
    model::{convert::shown_money, file, text::grouped},
    proto::{
        Campaign, CampaignStatus, DrawLimits, GetCampaignResponse, ListCampaignsRequest,
        ListCampaignsResponse, Pool, pool::Kind,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola campaigns")]
pub(super) struct ListArgs {}

pub(super) async fn list(client: &Client, ListArgs {}: ListArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let mut all = ListCampaignsResponse::default();
    loop {
        let page_token = std::mem::take(&mut all.next_page_token);
        let request = ListCampaignsRequest {
            page_size: 1_000,
            page_token,
            ..ListCampaignsRequest::default()
        };
        let page = server
            .list_campaigns(request)
            .await
            .map_err(Failure::read)?
            .into_inner();
        all.campaigns.extend(page.campaigns);
        all.halted = page.halted;
        for unread in page.unread {
            if !all.unread.contains(&unread) {
                all.unread.push(unread);
            }
        }
        all.next_page_token = page.next_page_token;
        if all.next_page_token.is_empty() {
            break;
        }
    }
    client.show("ListCampaignsResponse", &all, table);
    Ok(())
}

fn table(response: &ListCampaignsResponse) -> String {
    use Side::{Left, Right};
    if response.campaigns.is_empty() && response.unread.is_empty() {
        return "no campaigns yet: \"tombola apply -f FILE\" creates one".into();
    }
    let columns = [
        ("campaign", Left),
        ("state", Left),
        ("version", Right),
        ("start", Left),
        ("end", Left),
        ("name", Left),
    ];
    let mut table = Table::new(columns);
    for status in &response.campaigns {
        let campaign = status.campaign.clone().unwrap_or_default();
        table.row([
            campaign.id.clone(),
            state(status.state()).into(),
            status.version.to_string(),
            shown_in_zone(campaign.start_time.as_ref(), &campaign.time_zone),
            shown_in_zone(campaign.end_time.as_ref(), &campaign.time_zone),
            campaign.name,
        ]);
    }
    let halted = response.halted.iter().map(|part| part.message.clone());
    let unread = response
        .unread
        .iter()
        .map(|unread| match unread.campaign_id.as_str() {
            "" => format!(
                "campaigns of partition {} are missing: {}",
                unread.partition, unread.message
            ),
            id => format!("campaign {id} is missing: {}", unread.message),
        });
    let notes: String = halted
        .chain(unread)
        .map(|note| format!("\n{note}"))
        .collect();
    table.render().trim_end().to_owned() + &notes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// The campaign file, as apply takes it
    Yaml,
    /// The server's response
    Json,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola campaign spring-wheel
  tombola campaign spring-wheel -o yaml > spring-wheel.yaml")]
pub(super) struct GetArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The output format
    #[arg(short, long, env = "TOMBOLA_OUTPUT", value_enum, default_value_t = Form::Text)]
    output: Form,
    /// The version to show [default: the current one]
    #[arg(
        long,
        env = "TOMBOLA_CAMPAIGN_VERSION",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    version: u32,
}

pub(super) async fn get(client: &Client, args: GetArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let status = get_campaign(&mut server, &args.campaign, args.version)
        .await
        .map_err(Failure::read)?;
    if args.output == Form::Yaml {
        say(&file::to_yaml(&status.campaign.unwrap_or_default()));
        return Ok(());
    }
    let json = client.json || args.output == Form::Json;
    let client = Client {
        json,
        ..client.clone()
    };
    let response = GetCampaignResponse {
        status: Some(status),
    };
    client.show("GetCampaignResponse", &response, |response| {
        response.status.as_ref().map(full).unwrap_or_default()
    });
    Ok(())
}

fn full(status: &CampaignStatus) -> String {
    let campaign = status.campaign.clone().unwrap_or_default();
    let zone = campaign.time_zone.as_str();
    let moment = |moment: &Option<_>| shown_in_zone(Option::as_ref(moment), zone);
    let mut lines = vec![
        headline(status),
        format!("name         {}", campaign.name),
        format!(
            "time         {} … {} ({zone})",
            moment(&campaign.start_time),
            moment(&campaign.end_time)
        ),
        format!("limits       {}", limits(campaign.limits.as_ref())),
    ];
    lines.extend(
        campaign
            .segment_limits
            .iter()
            .map(|entry| format!("  {:10} {}", entry.segment, limits(entry.limits.as_ref()))),
    );
    if let Some(budget) = &campaign.budget {
        let bounds = [(&budget.per_day, "a day"), (&budget.total, "in all")];
        let bounds = bounds.iter().filter(|(bound, _)| bound.is_some());
        let bounds = bounds.map(|(most, when)| format!("{} {when}", shown_money(most.as_ref())));
        let bounds = bounds.collect::<Vec<_>>().join(", ");
        lines.push(format!("budget       {bounds}"));
    }
    let promises = campaign.guarantees.iter().map(phrases::promise);
    lines.extend(promises.map(|promise| format!("guarantee    {promise}")));
    if let Some(consolation) = &campaign.consolation {
        lines.push(format!(
            "consolation  {} ({})",
            consolation.id, consolation.name
        ));
    }
    if status.blocked_users > 0 {
        lines.push(format!(
            "blocked      {}",
            counted(status.blocked_users, "user")
        ));
    }
    lines.push(format!("commitment   {}", status.seed_commitment));
    lines.push(format!("clock        {}", moment(&status.read_time)));
    let tables = [
        holds(status),
        prizes(&campaign, &status.paused_prize_ids),
        pools(&campaign.pools),
        versions(status),
    ];
    let tables = tables
        .iter()
        .filter(|table| !table.is_empty())
        .map(Table::render);
    let parts: Vec<String> = [lines.join("\n")].into_iter().chain(tables).collect();
    parts.join("\n\n")
}

fn limits(limits: Option<&DrawLimits>) -> String {
    let limits = limits.copied().unwrap_or_default();
    let named = [
        (limits.draws_per_hour, "free draws an hour"),
        (limits.draws_per_day, "free draws a day"),
        (limits.paid_draws_per_day, "paid draws a day"),
        (limits.draws_per_user, "draws in all"),
        (limits.granted_per_day, "bonus draws granted a day"),
        (limits.wins_per_user, "wins in all"),
    ];
    let parts: Vec<String> = named
        .iter()
        .filter_map(|(limit, what)| Some(format!("{} {what}", grouped(u64::from((*limit)?)))))
        .collect();
    if parts.is_empty() {
        "none".into()
    } else {
        parts.join(", ")
    }
}

fn prizes(campaign: &Campaign, paused: &[String]) -> Table {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("prize", Left),
        ("stock", Right),
        ("name", Left),
        ("", Left),
    ]);
    for prize in &campaign.prizes {
        let cap = prize.per_user.as_ref();
        let cap = cap.map(|cap| format!("{} for a user", phrases::cap(cap)));
        let marks = [
            prize.grand.then(|| "grand".to_owned()),
            (prize.counts_as_win == Some(false)).then(|| "not a win".into()),
            cap,
            paused.contains(&prize.id).then(|| "PAUSED".into()),
        ];
        let marks: Vec<String> = marks.into_iter().flatten().collect();
        let stock = if prize.unlimited {
            "unlimited".into()
        } else if prize.codes {
            "codes".into()
        } else {
            grouped(prize.stock)
        };
        table.row([
            prize.id.clone(),
            stock,
            prize.name.clone(),
            marks.join(", "),
        ]);
    }
    table
}

/// What is paused, and who paused it.
fn holds(status: &CampaignStatus) -> Table {
    use Side::Left;
    let zone = super::change_view::zone(status);
    let columns = [
        ("paused", Left),
        ("since", Left),
        ("by", Left),
        ("why", Left),
    ];
    let mut table = Table::new(columns);
    for hold in &status.holds {
        let held = match hold.prize_id.as_str() {
            "" => "the campaign".to_owned(),
            prize => format!("prize {prize}"),
        };
        table.row([
            held,
            shown_in_zone(hold.hold_time.as_ref(), zone),
            hold.operator.clone(),
            hold.reason.clone(),
        ]);
    }
    table
}

fn pools(pools: &[Pool]) -> Table {
    let mut table = Table::new([("pool", Side::Left), ("kind", Side::Left), ("", Side::Left)]);
    for pool in pools {
        let kind = match &pool.kind {
            Some(Kind::Schedule(_)) => "schedule",
            Some(Kind::Deck(_)) => "deck",
            Some(Kind::Personal(_)) => "personal",
            None => "",
        };
        let (draws, today) = (pool.unlock_after_draws, pool.unlock_after_draws_today);
        let mut rules = phrases::open_when(draws, today, pool.lock_after_wins);
        rules.extend(pool.segments.as_ref().map(phrases::for_whom));
        table.row([pool.id.clone(), kind.into(), rules.join(", ")]);
    }
    table
}

fn versions(status: &CampaignStatus) -> Table {
    use Side::{Left, Right};
    let zone = super::change_view::zone(status);
    let columns = [
        ("version", Right),
        ("applied", Left),
        ("by", Left),
        ("why", Left),
    ];
    let mut table = Table::new(columns);
    for version in &status.versions {
        table.row([
            version.version.to_string(),
            shown_in_zone(version.apply_time.as_ref(), zone),
            version.operator.clone(),
            version.reason.clone(),
        ]);
    }
    table
}
