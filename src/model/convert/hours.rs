//! Full hours as operators write them.

use jiff::civil::{Date, DateTime};

/// Reads `HH:00`, 0 to 24.
pub(super) fn of_day(text: &str) -> Result<i8, String> {
    let wrong = || format!("{text:?} is not an hour: write HH:00, 00:00 to 24:00");
    let (hour, minute) = clock(text).ok_or_else(wrong)?;
    let is_in_day = hour < 24 || (hour, minute) == (24, 0);
    if !is_in_day || minute > 59 {
        return Err(wrong());
    }
    if minute != 0 {
        return Err(format!(
            "{text:?} is not a full hour: write {hour:02}:00 or {:02}:00",
            hour + 1
        ));
    }
    Ok(hour)
}

/// Reads `YYYY-MM-DDTHH:00`, 1970 to 9999.
pub(super) fn of_date(text: &str) -> Result<DateTime, String> {
    let wrong = || {
        let shown: String = text.chars().take(40).collect();
        format!(
            "{shown:?} is not an hour of a day: write local time YYYY-MM-DDTHH:00, without an \
             offset"
        )
    };
    let (date, time) = text.split_once('T').ok_or_else(wrong)?;
    let is_dashed = date.len() == 10 && date.bytes().filter(|byte| *byte == b'-').count() == 2;
    let date: Date = date
        .parse()
        .ok()
        .filter(|date: &Date| is_dashed && date.year() >= 1970)
        .ok_or_else(wrong)?;
    let (hour, minute) = clock(time).ok_or_else(wrong)?;
    if hour > 23 || minute > 59 {
        return Err(wrong());
    }
    if minute != 0 {
        return Err(format!(
            "{text:?} is not a full hour: write {date}T{hour:02}:00"
        ));
    }
    Ok(date.at(hour, 0, 0, 0))
}

/// A local hour as [`of_date`] reads it.
pub(super) fn show(hour: DateTime) -> String {
    hour.strftime("%Y-%m-%dT%H:%M").to_string()
}

fn clock(text: &str) -> Option<(i8, i8)> {
    let (hour, minute) = text.split_once(':')?;
    let two_digits = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    Some((two_digits(hour)?, two_digits(minute)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_a_day() {
        for (text, hour) in [("00:00", 0), ("09:00", 9), ("24:00", 24)] {
            assert_eq!(of_day(text), Ok(hour));
        }
        for (text, hint) in [
            ("", "HH:00"),
            ("9:00", "HH:00"),
            ("20", "HH:00"),
            ("25:00", "HH:00"),
            ("24:30", "HH:00"),
            ("20:60", "HH:00"),
            ("20:00:00", "HH:00"),
            ("+9:00", "HH:00"),
            ("20:30", "20:00 or 21:00"),
        ] {
            let message = of_day(text).unwrap_err();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }

    #[test]
    fn hours_of_a_date() {
        let hour = of_date("2026-11-29T20:00").unwrap();
        assert_eq!(show(hour), "2026-11-29T20:00");
        for (text, hint) in [
            ("", "YYYY-MM-DDTHH:00"),
            ("2026-11-29", "YYYY-MM-DDTHH:00"),
            ("2026-11-31T00:00", "YYYY-MM-DDTHH:00"),
            ("20261129T00:00", "YYYY-MM-DDTHH:00"),
            ("2026-11-29 20:00", "YYYY-MM-DDTHH:00"),
            ("2026-11-29T24:00", "YYYY-MM-DDTHH:00"),
            ("2026-11-29T20:00Z", "without an offset"),
            ("2026-11-29T20:00+08:00", "without an offset"),
            ("1969-11-29T20:00", "YYYY-MM-DDTHH:00"),
            ("2026-11-29T20:30", "write 2026-11-29T20:00"),
        ] {
            let message = of_date(text).unwrap_err();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }
}
