//! `--vary PATH=A..B`: the same campaign with several values of one number.

use std::str::FromStr;

use serde_json::{Number, Value};

use crate::{
    model::{Problems, file},
    proto,
};

/// How many values are simulated.
const VALUES: u64 = 5;
/// The most decimals of an end of the range.
const DECIMALS_MAX: usize = 6;
/// Decimals that values between the ends have in addition, so that a quarter of a step is exact.
const DECIMALS_BETWEEN: usize = 2;

/// A number of a campaign file, and the range of its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Vary {
    /// As in messages about a file: `prizes[0].stock`, or `prizes[coupon].stock` by id. A key with
    /// a dot is in brackets too: `perHour[coupon.10]`.
    pub(super) path: String,
    /// The ends of the range, as whole numbers of the last decimal.
    first: u64,
    last: u64,
    decimals: usize,
    /// The file has a percentage here, such as odds.
    is_percent: bool,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(path, range)| {
            let (first, last) = range.split_once("..")?;
            let (first, last) = (Decimal::parse(first)?, Decimal::parse(last)?);
            let decimals = match first.decimals.max(last.decimals) {
                0 if !first.is_percent => 0,
                most => most + DECIMALS_BETWEEN,
            };
            Some(Self {
                path: path.trim().to_owned(),
                first: first.scaled(decimals)?,
                last: last.scaled(decimals)?,
                decimals,
                is_percent: first.is_percent,
            })
            .filter(|_| first.is_percent == last.is_percent)
        });
        parsed
            .filter(|vary| !vary.path.is_empty() && vary.first < vary.last)
            .ok_or_else(|| {
                "write a path of the file and two numbers of one kind, the smaller one first, \
                 e.g. limits.drawsPerDay=1..5 or pools[banner].personal.odds.star=0.3%..0.9%"
                    .to_owned()
            })
    }
}

/// A number as it is written, e.g. `200`, `1.5` or `0.3%`.
#[derive(Clone, Copy)]
struct Decimal {
    /// In units of the last decimal.
    digits: u64,
    decimals: usize,
    is_percent: bool,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_written = !whole.is_empty() && number.ends_with(|last: char| last.is_ascii_digit());
        let digits = format!("{whole}{fraction}");
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            digits: digits.parse().ok()?,
            decimals: fraction.len(),
            is_percent: number.len() < text.len(),
        })
        .filter(|_| is_written && is_number && fraction.len() <= DECIMALS_MAX)
    }

    /// In units of this decimal; none if that is too large a number.
    fn scaled(self, decimals: usize) -> Option<u64> {
        let more = u32::try_from(decimals - self.decimals).ok()?;
        self.digits.checked_mul(10_u64.checked_pow(more)?)
    }
}

impl Vary {
    /// The values as the file writes them, spread evenly.
    fn values(&self) -> Vec<String> {
        let span = self.last - self.first;
        let steps = span.min(VALUES - 1);
        let at =
            |step| self.first + (u128::from(span) * u128::from(step) / u128::from(steps)) as u64;
        (0..=steps).map(|step| self.written(at(step))).collect()
    }

    fn written(&self, value: u64) -> String {
        let mut text = format!("{value:0width$}", width = self.decimals + 1);
        if self.decimals > 0 {
            text.insert(text.len() - self.decimals, '.');
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        text + if self.is_percent { "%" } else { "" }
    }

    /// The campaign with each of the values.
    ///
    /// # Errors
    /// If the path names nothing in the campaign, or no number.
    pub(super) fn variants(
        &self,
        campaign: &proto::Campaign,
    ) -> Result<Vec<(String, proto::Campaign)>, Problems> {
        let json = file::to_json("tombola.v1.Campaign", campaign);
        let mut variants = Vec::new();
        for value in self.values() {
            let mut json = json.clone();
            let place = find(&mut json, &self.path).map_err(|message| self.problem(message))?;
            *place = match value.parse::<u64>() {
                Ok(whole) if !place.is_string() => Value::Number(Number::from(whole)),
                _ => Value::String(value.clone()),
            };
            let parsed = file::parse(&json.to_string())?.pop();
            let parsed = parsed.ok_or_else(|| self.problem("names no campaign".into()))?;
            variants.push((value, parsed));
        }
        Ok(variants)
    }

    fn problem(&self, message: String) -> Problems {
        let mut problems = Problems::default();
        problems.add(format!("--vary {}", self.path), message);
        problems
    }
}

/// The steps of a path: a key, and what is in the brackets after it. Dots separate steps, but not
/// within brackets, since ids may have dots. Messages write quotes within brackets.
fn steps(path: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut is_in_brackets = false;
    let steps = path.split(move |c: char| {
        match c {
            '[' => is_in_brackets = true,
            ']' => is_in_brackets = false,
            _ => {}
        }
        c == '.' && !is_in_brackets
    });
    steps.map(|step| match step.split_once('[') {
        Some((key, index)) => (key, Some(index.trim_end_matches(']').trim_matches('"'))),
        None => (step, None),
    })
}

/// The place in a document that a path names. A key that a message may have and does not have yet
/// is made: whether it is known shows when the document is read.
fn find<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let mut place = document;
    for (key, index) in steps(path) {
        let Value::Object(fields) = place else {
            return Err(format!("`{key}` is in something that has no keys"));
        };
        place = fields.entry(key).or_insert(match index {
            Some(_) => Value::Array(Vec::new()),
            None => Value::Null,
        });
        if let Some(index) = index {
            place = element(place, index)
                .ok_or_else(|| format!("`{key}` has no element `{index}`: name one by its id"))?;
        }
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
    }
    match place {
        Value::Object(fields) if !fields.is_empty() => Err("is no number".into()),
        Value::Array(_) | Value::Bool(_) => Err("is no number".into()),
        Value::String(text) if Decimal::parse(text).is_none() => Err("is no number".into()),
        _ => Ok(place),
    }
}

/// An element of a list, by its index or by its id, or the value of a key of a map.
fn element<'a>(place: &'a mut Value, index: &str) -> Option<&'a mut Value> {
    match place {
        Value::Array(list) => {
            let by_id = list.iter().position(|element| element["id"] == index);
            let position = by_id.or_else(|| index.parse().ok())?;
            list.get_mut(position)
        }
        Value::Object(fields) => Some(fields.entry(index).or_insert(Value::Null)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: &str = "{id: w, prizes: [{id: car, stock: 1}, {id: coupon, stock: 100}], \
                         pools: [{id: day, schedule: {perHour: {coupon: 5}}}]}";

    fn vary(text: &str) -> Result<Vec<(String, proto::Campaign)>, String> {
        let campaign = file::parse(WHEEL).unwrap().remove(0);
        let vary: Vary = text.parse()?;
        vary.variants(&campaign)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_number_of_the_file_gets_five_values() {
        let variants = vary("prizes[coupon].stock=100..500").unwrap();
        let stocks: Vec<_> = variants.iter().map(|(_, it)| it.prizes[1].stock).collect();
        assert_eq!(stocks, [100, 200, 300, 400, 500]);
        assert!(variants.iter().all(|(_, it)| it.prizes[0].stock == 1));
        let variants = vary("pools[0].schedule.perHour.coupon=1..2").unwrap();
        let units: Vec<_> = variants
            .iter()
            .map(|(value, it)| match &it.pools[0].kind {
                Some(proto::pool::Kind::Schedule(plan)) => (&value[..], plan.per_hour["coupon"]),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(units, [("1", 1), ("2", 2)]);
        // What the file leaves out can be varied too.
        let variants = vary("limits.drawsPerDay=1..3").unwrap();
        assert_eq!(variants[2].1.limits.unwrap().draws_per_day, Some(3));
    }

    #[test]
    fn odds_and_factors_have_values_with_decimals() {
        let text = "{id: w, prizes: [{id: star, unlimited: true}], pools: [{id: banner, \
                    personal: {odds: {star: 0.6%}}}, {id: day, schedule: {perHour: {star: 5}, \
                    special: [{from: '2026-12-01T20:00', to: '2026-12-01T21:00', factor: '2'}]}}]}";
        let campaign = file::parse(text).unwrap().remove(0);
        let values = |text: &str| -> Vec<String> {
            let vary: Vary = text.parse().unwrap();
            let variants = vary.variants(&campaign).unwrap();
            variants.into_iter().map(|(value, _)| value).collect()
        };
        let odds = "pools[banner].personal.odds.star";
        let percents = ["0.3%", "0.45%", "0.6%", "0.75%", "0.9%"];
        assert_eq!(values(&format!("{odds}=0.3%..0.9%")), percents);
        let whole = ["1%", "1.25%", "1.5%", "1.75%", "2%"];
        assert_eq!(values(&format!("{odds}=1%..2%")), whole);
        let factor = "pools[day].schedule.special[0].factor";
        let factors = ["1", "1.5", "2", "2.5", "3"];
        assert_eq!(values(&format!("{factor}=1.0..3.0")), factors);
        let vary: Vary = format!("{odds}=0.3%..0.9%").parse().unwrap();
        let variants = vary.variants(&campaign).unwrap();
        match &variants[1].1.pools[0].kind {
            Some(proto::pool::Kind::Personal(pool)) => assert_eq!(pool.odds["star"], "0.45%"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_id_in_brackets_may_have_dots() {
        let text = "{id: w, prizes: [{id: car, stock: 1}, {id: coupon.10, stock: 100}], \
                    pools: [{id: day.1, schedule: {perHour: {coupon.10: 5, car: 1}}}]}";
        let campaign = file::parse(text).unwrap().remove(0);
        let last = |path: &str| {
            let vary: Vary = format!("{path}=1..7").parse().unwrap();
            vary.variants(&campaign).unwrap().pop().unwrap().1
        };
        assert_eq!(last("prizes[coupon.10].stock").prizes[1].stock, 7);
        for (entry, units, cars) in [
            ("perHour[coupon.10]", 7, 1),
            ("perHour[\"coupon.10\"]", 7, 1),
            ("perHour[car]", 5, 7),
        ] {
            let varied = last(&format!("pools[day.1].schedule.{entry}"));
            let Some(proto::pool::Kind::Schedule(plan)) = &varied.pools[0].kind else {
                panic!("{varied:?}");
            };
            assert_eq!(plan.per_hour["coupon.10"], units, "{entry}");
            assert_eq!(plan.per_hour["car"], cars, "{entry}");
            assert_eq!(plan.per_hour.len(), 2, "{entry}");
        }
    }

    #[test]
    fn a_path_that_names_no_number_is_refused() {
        for (text, why) in [
            ("prizes[coupon].stock=5..5", "the smaller one first"),
            ("prizes[coupon].stock", "the smaller one first"),
            ("prizes[coupon].stock=a..b", "the smaller one first"),
            ("prizes[phone].stock=1..5", "no element `phone`"),
            ("prizes[coupon.stock=1..5", "no element `coupon.stock`"),
            ("prizes[car].stokc=1..5", "did you mean stock?"),
            ("prizes[car].stock[a]=1..5", "no element `a`"),
            ("prizes=1..5", "is no number"),
            ("prizes[car]=1..5", "is no number"),
            ("id=1..5", "is no number"),
            ("prizes[car].stock=1%..5", "of one kind"),
            ("prizes[car].stock=1.5..", "of one kind"),
            ("prizes[car].stock=.5..1", "of one kind"),
            ("prizes[car].stock=0.1234567..1", "of one kind"),
            ("prizes[car].stock=0.5..1.5", "stock"),
            ("id.a=1..5", "has no keys"),
        ] {
            let error = vary(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
