//! The budget of a campaign in a form: a currency, and amounts as people write them.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::{
    console::i18n::Language,
    proto::{Budget, Campaign, Money},
};

/// Digits of a fraction: billionths of a unit.
const FRACTION_DIGITS: usize = 9;

/// The fields of the form.
pub(super) fn fields(lang: Language, campaign: &Campaign) -> Markup {
    let budget = campaign.budget.clone().unwrap_or_default();
    let bounds = [
        ("budget_per_day", lang.t("edit.budget-day"), &budget.per_day),
        ("budget_total", lang.t("edit.budget-total"), &budget.total),
    ];
    let values = campaign.prizes.iter().map(|prize| &prize.value);
    let known = [&budget.per_day, &budget.total].into_iter().chain(values);
    let currency = known.flatten().next().map(|money| &money.currency_code);
    html! {
        label { (lang.t("envelope.currency"))
            input name="budget_currency" value=[currency] maxlength="3" size="4"
                autocomplete="off";
        }
        @for (name, text, bound) in bounds {
            label { (text)
                input name=(name) inputmode="decimal" autocomplete="off"
                    value=[bound.as_ref().map(written)];
            }
        }
    }
}

/// Writes the fields of a form into a campaign. Two empty amounts are no budget.
///
/// # Errors
/// An amount is none.
pub(super) fn change(
    campaign: &mut Campaign,
    form: &BTreeMap<String, String>,
    lang: Language,
) -> Result<(), String> {
    let field = |name: &str| form.get(name).map_or("", |value| value.trim());
    if !form.contains_key("budget_currency") {
        return Ok(());
    }
    let bound = |name| match field(name) {
        "" => Ok(None),
        text => match read(text, field("budget_currency")) {
            Some(money) => Ok(Some(money)),
            None => Err(lang.with("edit.bad-amount", text)),
        },
    };
    let (per_day, total) = (bound("budget_per_day")?, bound("budget_total")?);
    let is_none = per_day.is_none() && total.is_none();
    campaign.budget = (!is_none).then_some(Budget { per_day, total });
    Ok(())
}

/// An amount as a form has it: `1250.5`.
fn written(money: &Money) -> String {
    let fraction = format!("{:09}", money.nanos.unsigned_abs());
    match fraction.trim_end_matches('0') {
        "" => money.units.to_string(),
        digits => format!("{}.{digits}", money.units),
    }
}

/// Reads such an amount, with or without separators of thousands.
fn read(text: &str, currency: &str) -> Option<Money> {
    let (units, fraction) = text.split_once('.').unwrap_or((text, ""));
    if units.contains(',') && !are_thousands(units) {
        return None;
    }
    let units = units.replace(',', "");
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(&units) || !are_digits(fraction) || fraction.len() > FRACTION_DIGITS {
        return None;
    }
    Some(Money {
        currency_code: currency.to_ascii_uppercase(),
        units: units.parse().ok()?,
        nanos: format!("{fraction:0<FRACTION_DIGITS$}").parse().ok()?,
    })
}

/// Whether the commas of a number separate thousands, as in `1,250` and `12,50,000`. In many
/// countries those of `12,50` and `0,125` begin a fraction.
fn are_thousands(units: &str) -> bool {
    let mut groups = units.rsplit(',').map(str::len);
    let is_last_full = groups.next() == Some(3);
    is_last_full && !units.starts_with('0') && groups.all(|digits| (1..=3).contains(&digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(fields: [&str; 3]) -> Result<Option<Budget>, String> {
        let names = ["budget_currency", "budget_per_day", "budget_total"];
        let form = names.into_iter().map(str::to_owned);
        let form = form.zip(fields.map(str::to_owned)).collect();
        let mut campaign = Campaign {
            budget: Some(Budget::default()),
            ..Campaign::default()
        };
        change(&mut campaign, &form, Language::of_tag("en").unwrap())?;
        Ok(campaign.budget)
    }

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for text in ["0", "1250", "1250.5", "0.000000001"] {
            assert_eq!(written(&read(text, "cny").unwrap()), text);
        }
        assert_eq!(read("1,250.50", "cny"), read("1250.5", "CNY"));
        assert_eq!(read("1,234,567", "CNY"), read("1234567", "CNY"));
        assert_eq!(read("12,34,567", "CNY"), read("1234567", "CNY"));
        for bad in [
            "-1",
            "1.2.3",
            "ten",
            ".",
            "1.0000000001",
            "99999999999999999999",
            "12,50",
            "1250,5",
            "0,125",
            "1250,000",
            ",250",
            "1,,250",
        ] {
            assert_eq!(read(bad, "CNY"), None, "{bad}");
        }
    }

    #[test]
    fn two_empty_amounts_are_no_budget() {
        assert_eq!(changed(["CNY", "", " "]), Ok(None));
        let budget = changed(["cny", "", "10"]).unwrap().unwrap();
        assert_eq!((budget.per_day, budget.total), (None, read("10", "CNY")));
        assert!(changed(["CNY", "ten", ""]).unwrap_err().starts_with("ten"));
        let mut campaign = Campaign {
            budget: Some(Budget::default()),
            ..Campaign::default()
        };
        let lang = Language::of_tag("en").unwrap();
        assert_eq!(change(&mut campaign, &BTreeMap::new(), lang), Ok(()));
        assert!(campaign.budget.is_some());
    }
}
