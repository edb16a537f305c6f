//! Budgets of a campaign file.

use super::report::at;
use crate::{
    model::{
        budget::{Budget, MINOR_MAX},
        campaign::Prize,
        money::Money,
        problem::Problems,
        text::grouped,
    },
    proto,
};

/// Reads a budget, and the values that prizes have in it; those that could not be read are none.
pub(super) fn read_budget(
    message: &proto::Budget,
    prizes: &[Option<Prize>],
    problems: &mut Problems,
) -> Option<Budget> {
    let before = problems.0.len();
    let per_day = read_bound("budget.perDay", message.per_day.as_ref(), problems);
    let total = read_bound("budget.total", message.total.as_ref(), problems);
    if message.per_day.is_none() && message.total.is_none() {
        problems.add("budget", "names no bound: add perDay, total or both");
    }
    let currency = &per_day.as_ref().or(total.as_ref())?.0;
    if let Some((other, _)) = total.as_ref().filter(|(other, _)| other != currency) {
        problems.add(
            "budget.total.currencyCode",
            format!("is {other}, and budget.perDay is in {currency}: a budget has one currency"),
        );
        return None;
    }
    let bounds = [("perDay", per_day.as_ref()), ("total", total.as_ref())];
    let mut values = Vec::new();
    for (i, prize) in prizes.iter().enumerate() {
        let Some(prize) = prize else { continue };
        let path = format!("prizes[{i}].value");
        if let Some(value) = read_value(&path, prize, currency, problems) {
            check_fits(&path, value, &bounds, problems);
            values.push(value);
        }
    }
    (problems.0.len() == before).then(|| Budget {
        currency: currency.clone(),
        per_day: per_day.as_ref().map(|bound| bound.1),
        total: total.as_ref().map(|bound| bound.1),
        values,
    })
}

/// A bound's currency, and its amount in minor units.
fn read_bound(
    path: &str,
    message: Option<&proto::Money>,
    problems: &mut Problems,
) -> Option<(String, u64)> {
    let message = message?;
    let money = Money::parse(path, &message.currency_code, message.units, message.nanos);
    let money = money.map_err(|flaws| problems.0.extend(flaws.0)).ok()?;
    if money.nanos == 0 {
        problems.add(
            path,
            "is 0, so nothing of value could be won: write more, or pause the campaign",
        );
        return None;
    }
    let minor = minor_units(path, &money, problems)?;
    Some((money.currency, minor))
}

/// The value of a prize in the budget's currency, in minor units.
fn read_value(path: &str, prize: &Prize, currency: &str, problems: &mut Problems) -> Option<u64> {
    let Some(value) = &prize.value else {
        problems.add(
            path,
            format!("is missing: a campaign with a budget needs each prize's value, in {currency}"),
        );
        return None;
    };
    if value.currency != currency {
        problems.add(
            at(path, "currencyCode"),
            format!("is {}, and the budget is in {currency}", value.currency),
        );
        return None;
    }
    minor_units(path, value, problems)
}

fn minor_units(path: &str, money: &Money, problems: &mut Problems) -> Option<u64> {
    let Some(minor) = money.minor() else {
        problems.add(
            path,
            format!("{money} is no whole number of minor units: a budget counts in these"),
        );
        return None;
    };
    let fits = u64::try_from(minor)
        .ok()
        .filter(|minor| *minor <= MINOR_MAX);
    if fits.is_none() {
        let most = Money::of_minor(&money.currency, MINOR_MAX);
        problems.add(
            path,
            format!(
                "{money} is too much: at most {most} ({} minor units)",
                grouped(MINOR_MAX)
            ),
        );
    }
    fits
}

/// A prize that passes the budget by itself can never be won.
fn check_fits(
    path: &str,
    value: u64,
    bounds: &[(&str, Option<&(String, u64)>)],
    problems: &mut Problems,
) {
    for (name, bound) in bounds {
        if let Some((currency, most)) = bound
            && value > *most
        {
            let (value, most) = (
                Money::of_minor(currency, value),
                Money::of_minor(currency, *most),
            );
            problems.add(
                path,
                format!("{value} is more than budget.{name}, {most}: nobody could win it"),
            );
        }
    }
}
