//! `--arrivals`: how draws are spread over time.

use std::{collections::BTreeMap, path::Path};

use jiff::civil::DateTime;

use super::super::{client::Outcome, failure::Failure, input};
use crate::{model::Problems, simulation::crowd::Arrivals};

/// Reads the option: one of two words, or the path of a CSV file.
pub(super) fn read(named: &Path) -> Outcome<Arrivals> {
    match named.to_str() {
        Some("flat") => Ok(Arrivals::Flat),
        Some("peak") => Ok(Arrivals::peak()),
        _ => {
            let text = input::read(named)?;
            let file = input::shown(named);
            parse(&text).map_err(|problems| Failure::problems(&file, problems))
        }
    }
}

/// The hour that a row names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hour {
    OfDay(usize),
    Dated(DateTime),
}

fn hour(text: &str) -> Option<Hour> {
    if let Ok(hour) = text.parse::<usize>() {
        return (hour < 24).then_some(Hour::OfDay(hour));
    }
    let at: DateTime = text.parse().ok()?;
    let is_full = at.minute() == 0 && at.second() == 0 && at.subsec_nanosecond() == 0;
    is_full.then_some(Hour::Dated(at))
}

fn parse(text: &str) -> Result<Arrivals, Problems> {
    let mut problems = Problems::default();
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.trim(csv::Trim::All).from_reader(text.as_bytes());
    let header: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(str::to_lowercase).collect(),
        Err(error) => vec![error.to_string()],
    };
    if header != ["hour", "weight"] {
        problems.add("line 1", "must be the header hour,weight");
        return Err(problems);
    }
    let mut weights: BTreeMap<Hour, f64> = BTreeMap::new();
    // The reader passes over empty lines. The first other one is the header.
    let lines = (1..).zip(text.lines());
    let mut lines = lines.filter(|(_, line)| !line.is_empty()).skip(1);
    for row in reader.records() {
        let line: usize = lines.next().map_or(0, |(number, _)| number);
        let at = format!("line {line}");
        let Ok(row) = row else {
            problems.add(at, "must have two columns, the hour and its weight");
            continue;
        };
        let weight = row.get(1).and_then(|text| text.parse::<f64>().ok());
        let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        match (row.get(0).and_then(hour), weight) {
            (None, _) => problems.add(
                at,
                "the hour must be 0 to 23, or a full local hour like 2026-12-01T20:00",
            ),
            (_, None) => problems.add(at, "the weight must be a number, 0 or more"),
            (Some(hour), Some(weight)) => {
                if weights.insert(hour, weight).is_some() {
                    problems.add(at, "names an hour that an earlier line has");
                }
            }
        }
    }
    let mut of_day = [0.0; 24];
    let mut dated = BTreeMap::new();
    for (hour, weight) in weights {
        match hour {
            Hour::OfDay(hour) => of_day[hour] = weight,
            Hour::Dated(at) => {
                dated.insert(at, weight);
            }
        }
    }
    let of_day_sum: f64 = of_day.iter().sum();
    let sum = of_day_sum + dated.values().sum::<f64>();
    if sum <= 0.0 && problems.is_empty() {
        problems.add("file", "gives no hour a weight: nobody would draw");
    }
    if of_day_sum > 0.0 && !dated.is_empty() {
        problems.add(
            "file",
            "must have hours of the day or hours of the campaign, not both",
        );
    }
    problems.or(match dated.is_empty() {
        true => Arrivals::Daily(of_day),
        false => Arrivals::Dated(dated),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_the_day_and_hours_of_the_campaign_are_read() {
        let Ok(Arrivals::Daily(hours)) = parse("hour,weight\n20,3\n9, 1.5\n") else {
            panic!("hours of the day");
        };
        assert_eq!((hours[20], hours[9], hours[0]), (3.0, 1.5, 0.0));
        let Ok(Arrivals::Dated(hours)) = parse("Hour,Weight\n2026-12-01T20:00,3\n") else {
            panic!("hours of the campaign");
        };
        assert_eq!(hours.into_values().collect::<Vec<_>>(), [3.0]);
    }

    #[test]
    fn every_wrong_line_is_named() {
        let paths = |text: &str| -> Vec<String> {
            let problems = parse(text).unwrap_err();
            problems.0.into_iter().map(|problem| problem.path).collect()
        };
        assert_eq!(paths("time,draws\n1,2\n"), ["line 1"]);
        assert_eq!(paths(""), ["line 1"]);
        assert_eq!(
            paths("hour,weight\n24,1\n1,-1\n2\n3,x\n4,1\n4,2\n2026-12-01T20:30,1\n"),
            ["line 2", "line 3", "line 4", "line 5", "line 7", "line 8"]
        );
        let with_empty = "\nhour,weight\r\n\r\n24,1\r\n\n3,-1";
        assert_eq!(paths(with_empty), ["line 4", "line 6"]);
        assert_eq!(paths("hour,weight\n3,0\n"), ["file"]);
        assert_eq!(paths("hour,weight\n3,1\n2026-12-01T20:00,1\n"), ["file"]);
    }
}
