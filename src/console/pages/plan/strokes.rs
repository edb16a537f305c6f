//! From a form to painted cells: which hours and prizes, and what becomes of them.

use std::collections::BTreeMap;

use jiff::{
    Span,
    civil::{Date, DateTime},
};

use super::{super::fields::Fields, canvas::Canvas};
use crate::model::{Factor, PrizeNo, paint::Painted};

/// Why a form paints nothing, as the key of a message.
pub(super) type Reason = &'static str;

/// What becomes of the units of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Set(u64),
    Add(i64),
    Multiply(Factor),
}

impl Act {
    fn of(fields: &Fields) -> Result<Self, Reason> {
        let value = fields.get("value");
        match fields.get("op") {
            "add" => value.parse().map(Self::Add).map_err(|_| "plan.wrong-add"),
            "multiply" => match Factor::parse(value) {
                Ok(factor) => Ok(Self::Multiply(factor)),
                Err(_) => Err("plan.wrong-factor"),
            },
            _ => value.parse().map(Self::Set).map_err(|_| "plan.wrong-units"),
        }
    }

    fn on(self, units: u64) -> u64 {
        match self {
            Self::Set(units) => units,
            Self::Add(more) => units.saturating_add_signed(more),
            Self::Multiply(factor) => factor.times(units),
        }
    }
}

/// What a form paints.
///
/// # Errors
/// Why it paints nothing.
pub(super) fn of(canvas: &Canvas, fields: &Fields) -> Result<Painted, Reason> {
    match fields.get("do") {
        "copy" => copied(canvas, fields),
        "range" => {
            let act = Act::of(fields)?;
            painted(canvas, act, range(canvas, fields)?)
        }
        _ => {
            let act = Act::of(fields)?;
            painted(canvas, act, cells(canvas, fields)?)
        }
    }
}

fn painted(canvas: &Canvas, act: Act, cells: Vec<(DateTime, PrizeNo)>) -> Result<Painted, Reason> {
    let mut painted = Painted::new();
    let mut plans = BTreeMap::new();
    for (hour, prize) in cells {
        let plan = plans
            .entry(hour)
            .or_insert_with(|| canvas.draft.of_hour(hour));
        let units = plan.get(&prize).copied();
        let hour = painted.entry(hour).or_default();
        hour.insert(prize, act.on(units.unwrap_or(0)));
    }
    if painted.is_empty() {
        return Err("plan.all-over");
    }
    Ok(painted)
}

/// The cells of the grid that are selected: `20.1` is row 20 of prize 1.
fn cells(canvas: &Canvas, fields: &Fields) -> Result<Vec<(DateTime, PrizeNo)>, Reason> {
    let (rows, columns) = (canvas.rows(), canvas.columns());
    let mut cells = Vec::new();
    let mut is_any = false;
    for cell in fields.all("cell") {
        let Some((row, prize)) = cell.split_once('.') else {
            continue;
        };
        let (Ok(row), Ok(prize)) = (row.parse::<i8>(), prize.parse().map(PrizeNo)) else {
            continue;
        };
        let row = rows.iter().find(|known| known.number == row);
        let Some(row) = row.filter(|_| columns.contains(&prize)) else {
            continue;
        };
        is_any = true;
        cells.extend(row.hours.iter().map(|hour| (*hour, prize)));
    }
    if is_any {
        Ok(cells)
    } else {
        Err("plan.no-cells")
    }
}

/// Days of the campaign from one date to another, both included.
fn days(canvas: &Canvas, fields: &Fields) -> Result<impl Iterator<Item = Date>, Reason> {
    let (first, last) = canvas.days();
    let date = |name| fields.parsed::<Date>(name).ok_or("plan.wrong-days");
    let (from, until) = (date("from")?, date("until")?);
    if until < from || until < first || from > last {
        return Err("plan.wrong-days");
    }
    let days = from.max(first).series(Span::new().days(1));
    let until = until.min(last);
    Ok(days.take_while(move |day| *day <= until))
}

/// Hours of several days, such as 20:00 to 22:00 of each.
fn range(canvas: &Canvas, fields: &Fields) -> Result<Vec<(DateTime, PrizeNo)>, Reason> {
    let hour = |name| fields.parsed::<i8>(name).ok_or("plan.wrong-hours");
    let (begin, end) = (hour("begin")?, hour("end")?);
    if end <= begin {
        return Err("plan.wrong-hours");
    }
    let mut prizes = canvas.columns();
    if let Some(prize) = fields.parsed("prize").map(PrizeNo) {
        prizes.retain(|known| *known == prize);
    }
    if prizes.is_empty() {
        return Err("plan.no-prize");
    }
    let mut cells = Vec::new();
    for day in days(canvas, fields)? {
        let hours = canvas.open_hours(day).into_iter();
        for hour in hours.filter(|hour| (begin..end).contains(&hour.hour())) {
            cells.extend(prizes.iter().map(|prize| (hour, *prize)));
        }
    }
    Ok(cells)
}

/// Other days become like one day: each hour like the same hour of that day, if that has it.
fn copied(canvas: &Canvas, fields: &Fields) -> Result<Painted, Reason> {
    let day = fields.parsed::<Date>("day").ok_or("plan.wrong-days")?;
    let source: Vec<DateTime> = canvas
        .hours(day)
        .into_iter()
        .map(|(hour, _)| hour)
        .collect();
    let prizes = canvas.columns();
    let weekdays: Vec<i8> = fields
        .all("weekday")
        .filter_map(|on| on.parse().ok())
        .collect();
    let mut painted = Painted::new();
    let days = days(canvas, fields)?.filter(|target| {
        let number = target.weekday().to_monday_one_offset();
        *target != day && weekdays.contains(&number)
    });
    for hour in days.flat_map(|day| canvas.open_hours(day)) {
        let Some(like) = source.iter().find(|like| like.hour() == hour.hour()) else {
            continue;
        };
        let units = canvas.draft.of_hour(*like);
        let cells = prizes.iter();
        let cells = cells.map(|prize| (*prize, units.get(prize).copied().unwrap_or(0)));
        painted.insert(hour, cells.collect());
    }
    if painted.is_empty() {
        return Err("plan.no-days");
    }
    Ok(painted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Quantities, convert::times::to_wire, file},
        proto::CampaignStatus,
    };

    fn canvas(at: &str) -> Canvas {
        let text = "
id: w
timeZone: Europe/Berlin
startTime: 2026-10-20T10:30:00+02:00
endTime: 2026-11-20T00:00:00+01:00
prizes: [{id: car, stock: 1}, {id: mug, stock: 100000}, {id: pen, stock: 100}]
pools:
  - {id: grand, schedule: {total: {car: 1}}}
  - {id: hourly, schedule: {perHour: {mug: 10}}}
";
        let status = CampaignStatus {
            campaign: file::parse(text).unwrap().pop(),
            version: 1,
            read_time: Some(to_wire("2026-10-24T12:15:00+02:00".parse().unwrap())),
            ..CampaignStatus::default()
        };
        let fields = Fields::of(&[("pool", "hourly"), ("at", at), ("with", "pen")]);
        Canvas::of(status, &fields).unwrap().unwrap()
    }

    fn form(canvas: &Canvas, fields: &[(&str, &str)]) -> Result<Painted, Reason> {
        of(canvas, &Fields::of(fields))
    }

    fn hours(painted: &Painted) -> Vec<String> {
        let hours = painted.keys();
        hours
            .map(|hour| hour.strftime("%m-%d %H").to_string())
            .collect()
    }

    fn q(units: &[(u16, u64)]) -> Quantities {
        units
            .iter()
            .map(|(no, units)| (PrizeNo(*no), *units))
            .collect()
    }

    #[test]
    fn cells_of_a_day_are_hours_that_have_not_passed() {
        let canvas = canvas("2026-10-24");
        let chosen =
            |op, value, cell| form(&canvas, &[("op", op), ("value", value), ("cell", cell)]);
        let painted = chosen("set", "7", "20.1").unwrap();
        assert_eq!(
            (hours(&painted), painted.values().next().unwrap()),
            (vec!["10-24 20".into()], &q(&[(1, 7)]))
        );
        for (op, value, units) in [("add", "-4", 6), ("add", "-40", 0), ("multiply", "1.5", 15)] {
            let painted = chosen(op, value, "12.1").unwrap();
            assert_eq!(painted.into_values().next().unwrap(), q(&[(1, units)]));
        }
        for (op, value, cell, reason) in [
            ("set", "7", "11.1", "plan.all-over"),
            ("set", "7", "20.9", "plan.no-cells"),
            ("set", "7", "x", "plan.no-cells"),
            ("set", "-7", "20.1", "plan.wrong-units"),
            ("add", "much", "20.1", "plan.wrong-add"),
            ("multiply", "0", "20.1", "plan.wrong-factor"),
        ] {
            assert_eq!(chosen(op, value, cell), Err(reason), "{op} {value} {cell}");
        }
    }

    #[test]
    fn a_cell_of_a_month_is_every_hour_of_a_day() {
        let canvas = canvas("2026-10");
        // The clock goes back on this day: 25 hours, of which one has the same name twice.
        let fields = [
            ("op", "set"),
            ("value", "1"),
            ("cell", "25.1"),
            ("cell", "25.2"),
        ];
        let painted = form(&canvas, &fields).unwrap();
        assert_eq!(painted.len(), 24);
        assert!(painted.values().all(|cells| *cells == q(&[(1, 1), (2, 1)])));
    }

    #[test]
    fn hours_of_several_days_are_painted_by_from_and_to() {
        let canvas = canvas("2026-10");
        let with = |from, until, begin, end, prize| {
            let fields = [
                ("do", "range"),
                ("op", "set"),
                ("value", "3"),
                ("from", from),
                ("until", until),
                ("begin", begin),
                ("end", end),
                ("prize", prize),
            ];
            form(&canvas, &fields)
        };
        let painted = with("2026-10-23", "2026-10-25", "11", "13", "1").unwrap();
        assert_eq!(hours(&painted), ["10-24 12", "10-25 11", "10-25 12"]);
        let all = with("2026-10-26", "2026-10-26", "23", "24", "all").unwrap();
        assert_eq!(all.into_values().next().unwrap(), q(&[(1, 3), (2, 3)]));
        for (from, until, begin, end, prize, reason) in [
            ("2026-10-26", "2026-10-25", "1", "2", "1", "plan.wrong-days"),
            ("2027-10-26", "2027-10-27", "1", "2", "1", "plan.wrong-days"),
            ("", "", "1", "2", "1", "plan.wrong-days"),
            (
                "2026-10-26",
                "2026-10-26",
                "2",
                "2",
                "1",
                "plan.wrong-hours",
            ),
            ("2026-10-26", "2026-10-26", "1", "2", "0", "plan.no-prize"),
            ("2026-10-21", "2026-10-22", "1", "2", "1", "plan.all-over"),
        ] {
            assert_eq!(
                with(from, until, begin, end, prize),
                Err(reason),
                "{from} {begin}"
            );
        }
    }

    #[test]
    fn a_day_is_copied_to_certain_weekdays() {
        let mut canvas = canvas("2026-10");
        let evening = "2026-10-30T20:00".parse().unwrap();
        canvas.paint(&[(evening, q(&[(1, 99)]))].into()).unwrap();
        let fields = [
            ("do", "copy"),
            ("day", "2026-10-30"),
            ("from", "2026-10-24"),
            ("until", "2026-11-08"),
            ("weekday", "6"),
            ("weekday", "7"),
        ];
        let painted = form(&canvas, &fields).unwrap();
        let evenings = painted
            .iter()
            .filter(|(_, cells)| **cells == q(&[(1, 99), (2, 0)]));
        let evenings: Vec<_> = evenings.collect();
        // Three Saturdays and Sundays; of today the rest.
        assert_eq!((painted.len(), evenings.len()), (12 + 5 * 24, 6));
        assert_eq!(form(&canvas, &fields[..4]), Err("plan.no-days"));
    }
}
