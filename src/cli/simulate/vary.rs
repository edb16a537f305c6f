//! `--vary PATH=A..B`: the same campaign with several values of one number.

use std::str::FromStr;

use serde_json::{Number, Value};

use crate::{
    model::{Problems, file},
    proto,
};

/// How many values are simulated.
const VALUES: u64 = 5;

/// A number of a campaign file, and the range of its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Vary {
    /// As in messages about a file: `prizes[0].stock`, or `prizes[coupon].stock` by id.
    pub(super) path: String,
    first: u64,
    last: u64,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(path, range)| {
            let (first, last) = range.split_once("..")?;
            Some(Self {
                path: path.trim().to_owned(),
                first: first.trim().parse().ok()?,
                last: last.trim().parse().ok()?,
            })
        });
        parsed
            .filter(|vary| !vary.path.is_empty() && vary.first < vary.last)
            .ok_or_else(|| {
                "write a path of the file and two whole numbers, the smaller one first, e.g. \
                 limits.drawsPerDay=1..5"
                    .to_owned()
            })
    }
}

impl Vary {
    /// The values, spread evenly.
    fn values(&self) -> Vec<u64> {
        let span = self.last - self.first;
        let steps = span.min(VALUES - 1);
        let at =
            |step| self.first + (u128::from(span) * u128::from(step) / u128::from(steps)) as u64;
        (0..=steps).map(at).collect()
    }

    /// The campaign with each of the values.
    ///
    /// # Errors
    /// If the path names nothing in the campaign, or no whole number.
    pub(super) fn variants(
        &self,
        campaign: &proto::Campaign,
    ) -> Result<Vec<(u64, proto::Campaign)>, Problems> {
        let json = file::to_json("tombola.v1.Campaign", campaign);
        let mut variants = Vec::new();
        for value in self.values() {
            let mut json = json.clone();
            let place = find(&mut json, &self.path).map_err(|message| self.problem(message))?;
            *place = Value::Number(Number::from(value));
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

/// The place in a document that a path names. A key that a message may have and does not have yet
/// is made: whether it is known shows when the document is read.
fn find<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let mut place = document;
    for step in path.split('.') {
        let (key, index) = match step.split_once('[') {
            Some((key, index)) => (key, Some(index.trim_end_matches(']'))),
            None => (step, None),
        };
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
        Value::String(text) if text.parse::<u64>().is_err() => Err("is no whole number".into()),
        _ => Ok(place),
    }
}

/// An element of a list, by its index or by its id.
fn element<'a>(list: &'a mut Value, index: &str) -> Option<&'a mut Value> {
    let list = list.as_array_mut()?;
    let by_id = list.iter().position(|element| element["id"] == index);
    let position = by_id.or_else(|| index.parse().ok())?;
    list.get_mut(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: &str = "{id: w, prizes: [{id: car, stock: 1}, {id: coupon, stock: 100}], \
                         pools: [{id: day, schedule: {perHour: {coupon: 5}}}]}";

    fn vary(text: &str) -> Result<Vec<(u64, proto::Campaign)>, String> {
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
                Some(proto::pool::Kind::Schedule(plan)) => (*value, plan.per_hour["coupon"]),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(units, [(1, 1), (2, 2)]);
        // What the file leaves out can be varied too.
        let variants = vary("limits.drawsPerDay=1..3").unwrap();
        assert_eq!(variants[2].1.limits.unwrap().draws_per_day, Some(3));
    }

    #[test]
    fn a_path_that_names_no_number_is_refused() {
        for (text, why) in [
            ("prizes[coupon].stock=5..5", "the smaller one first"),
            ("prizes[coupon].stock", "the smaller one first"),
            ("prizes[coupon].stock=a..b", "the smaller one first"),
            ("prizes[phone].stock=1..5", "no element `phone`"),
            ("prizes[car].stokc=1..5", "did you mean stock?"),
            ("prizes=1..5", "is no number"),
            ("prizes[car]=1..5", "is no number"),
            ("id=1..5", "is no whole number"),
            ("id.a=1..5", "has no keys"),
        ] {
            let error = vary(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
