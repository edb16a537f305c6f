//! What the editor works on: the schedule of one pool as it is in force, and a draft of another
//! one. Forms carry the draft; the service keeps nothing of it.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};
use prost::Message as _;

use super::super::fields::Fields;
use crate::{
    model::{
        Campaign, Moment, PoolKind, PoolNo, PrizeNo, Problems, Quantities,
        convert::{
            campaign_to_proto,
            times::{from_wire, zone_named},
            unstocked_from_proto, with_schedule,
        },
        paint::{self, Painted},
        schedule::Schedule,
    },
    proto::{self, CampaignStatus, pool::Kind},
};

/// What a form has for the schedule in force.
pub(super) const IN_FORCE: &str = "0";

/// What the grid shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// The days of a month, of which this is the first.
    Month(Date),
    /// The hours of a day.
    Day(Date),
}

impl View {
    /// As a form has it: `2026-11` or `2026-11-29`.
    pub(super) fn text(self) -> String {
        match self {
            Self::Month(first) => first.strftime("%Y-%m").to_string(),
            Self::Day(day) => day.to_string(),
        }
    }
}

/// Rows of the grid: an hour of a day, or a day of a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The hour of the day, or the day of the month.
    pub(super) number: i8,
    /// Its hours that can be painted; none if it has passed.
    pub(super) hours: Vec<DateTime>,
    /// Its day.
    pub(super) day: Date,
}

/// The schedule of a pool, and a draft of another one.
pub(super) struct Canvas {
    pub(super) status: CampaignStatus,
    pub(super) campaign: Campaign,
    pub(super) pool: PoolNo,
    pub(super) in_force: Schedule,
    pub(super) draft: Schedule,
    /// The draft before the last change; none if there was no change.
    pub(super) last: Option<Schedule>,
    pub(super) view: View,
    /// Prizes that are shown although nothing is planned of them.
    pub(super) with: BTreeSet<PrizeNo>,
    /// The store's clock.
    pub(super) now: Moment,
    zone: TimeZone,
}

/// The pools of a campaign that have a schedule.
pub(super) fn pools(campaign: &proto::Campaign) -> impl Iterator<Item = &proto::Pool> {
    let pools = campaign.pools.iter();
    pools.filter(|pool| matches!(pool.kind, Some(Kind::Schedule(_))))
}

/// Whether the schedule of a pool has hours: totals alone have none.
fn has_hours(pool: &proto::Pool) -> bool {
    match &pool.kind {
        Some(Kind::Schedule(it)) => {
            !it.per_hour.is_empty() || !it.daily.is_empty() || !it.special.is_empty()
        }
        _ => false,
    }
}

impl Canvas {
    /// What a form or an address asks for; none if the campaign has no schedule.
    ///
    /// # Errors
    /// What is wrong with the campaign or with the draft.
    pub(super) fn of(status: CampaignStatus, fields: &Fields) -> Result<Option<Self>, Problems> {
        let definition = status.campaign.clone().unwrap_or_default();
        let campaign = unstocked_from_proto(&definition)?;
        let pool = fields.get("pool");
        let is_asked = |known: &&proto::Pool| match pool {
            "" => has_hours(known),
            pool => known.id == pool,
        };
        let pool = pools(&definition).find(is_asked);
        let Some(pool) = pool.or_else(|| pools(&definition).next()) else {
            return Ok(None);
        };
        let pool = campaign.pool_no(&pool.id).unwrap_or(PoolNo(0));
        let Some(in_force) = campaign.schedule(pool).cloned() else {
            return Ok(None);
        };
        let known = |text| decoded(&campaign, pool, text);
        let draft = known(fields.get("draft"))?.unwrap_or_else(|| in_force.clone());
        let last = match fields.get("last") {
            IN_FORCE => Some(in_force.clone()),
            text => known(text)?,
        };
        let now = from_wire(status.read_time.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH);
        let with = fields.all("with").filter_map(|id| campaign.prize_no(id));
        let mut canvas = Self {
            with: with.collect(),
            zone: zone_named(&definition.time_zone),
            view: View::Day(Date::ZERO),
            now: Moment::from_timestamp(now),
            status,
            campaign,
            pool,
            in_force,
            draft,
            last,
        };
        canvas.look(fields.get("at"));
        canvas.look(fields.get("go"));
        Ok(Some(canvas))
    }

    /// Shows a month or a day of the campaign; the month of today unless it says anything else.
    fn look(&mut self, at: &str) {
        let (first, last) = self.days();
        let within = |day: Date| day.clamp(first, last);
        self.view = if let Ok(day) = at.parse() {
            View::Day(within(day))
        } else if let Ok(day) = format!("{at}-01").parse::<Date>() {
            View::Month(within(day.last_of_month()).first_of_month())
        } else if self.view == View::Day(Date::ZERO) {
            View::Month(within(self.date(self.now)).first_of_month())
        } else {
            self.view
        };
    }

    fn date(&self, at: Moment) -> Date {
        at.to_timestamp().to_zoned(self.zone.clone()).date()
    }

    /// The first and the last day of the campaign.
    pub(super) fn days(&self) -> (Date, Date) {
        let hours = paint::hours(&self.campaign);
        (hours.start().date(), hours.end().date())
    }

    /// The id of the pool.
    pub(super) fn pool_id(&self) -> &str {
        self.campaign.pool(self.pool).id.as_str()
    }

    /// The moment at which a day begins.
    pub(super) fn begin(&self, day: Date) -> Moment {
        let zoned = day.to_zoned(self.zone.clone());
        Moment::from_timestamp(zoned.map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp()))
    }

    /// The local hours of a day of the campaign, and whether each has passed. An hour that comes
    /// twice is one.
    pub(super) fn hours(&self, day: Date) -> Vec<(DateTime, bool)> {
        let (start, end) = (self.campaign.start, self.campaign.end);
        let windows = self.campaign.zone.windows(self.begin(day), start, end);
        let of_day = windows.take_while(|window| window.local_hour.date() <= day);
        let mut hours: Vec<(DateTime, bool)> = Vec::new();
        for window in of_day.filter(|window| window.local_hour.date() == day) {
            let is_over = window.end <= self.now;
            match hours.last_mut() {
                Some(last) if last.0 == window.local_hour => last.1 = is_over,
                _ => hours.push((window.local_hour, is_over)),
            }
        }
        hours
    }

    /// The hours of a day that have not passed.
    pub(super) fn open_hours(&self, day: Date) -> Vec<DateTime> {
        let hours = self.hours(day).into_iter();
        hours
            .filter(|(_, is_over)| !is_over)
            .map(|(hour, _)| hour)
            .collect()
    }

    /// The rows of the grid.
    pub(super) fn rows(&self) -> Vec<Row> {
        match self.view {
            View::Day(day) => {
                let row = |(hour, is_over): (DateTime, bool)| Row {
                    number: hour.hour(),
                    hours: if is_over { Vec::new() } else { vec![hour] },
                    day,
                };
                self.hours(day).into_iter().map(row).collect()
            }
            View::Month(month) => {
                let (first, last) = self.days();
                let days = month.series(jiff::Span::new().days(1));
                let days = days.take_while(|day| *day <= last && day.month() == month.month());
                let row = |day: Date| Row {
                    number: day.day(),
                    hours: self.open_hours(day),
                    day,
                };
                days.skip_while(|day| *day < first).map(row).collect()
            }
        }
    }

    /// The prizes that are columns of the grid. Those that are planned by `total` have no hours.
    pub(super) fn columns(&self) -> Vec<PrizeNo> {
        let prizes = self.campaign.numbered_prizes().map(|(no, _)| no);
        let is_shown = |no: &PrizeNo| {
            self.with.contains(no) || self.in_force.plans(*no) || self.draft.plans(*no)
        };
        let is_hourly = |no: &PrizeNo| !self.in_force.total.contains_key(no);
        prizes.filter(is_hourly).filter(is_shown).collect()
    }

    /// Whether the draft differs from what is in force.
    pub(super) fn is_changed(&self) -> bool {
        self.draft != self.in_force
    }

    /// Paints hours of the draft.
    ///
    /// # Errors
    /// Why no campaign may have such a schedule; the draft is as it was then.
    pub(super) fn paint(&mut self, painted: &Painted) -> Result<(), Problems> {
        let draft = paint::repaint(&self.draft, &paint::hours(&self.campaign), painted);
        with_schedule(&self.campaign, self.pool, &self.message(&draft))?;
        self.last = Some(std::mem::replace(&mut self.draft, draft));
        Ok(())
    }

    /// Takes the last change of the draft back.
    pub(super) fn undo(&mut self) {
        if let Some(last) = self.last.take() {
            self.draft = last;
        }
    }

    /// The hours that have not passed in which a draft of this campaign differs from it.
    pub(super) fn strokes(&self) -> Painted {
        let (first, last) = self.days();
        let from = first.max(self.date(self.now));
        let days = from.series(jiff::Span::new().days(1));
        let hours = days
            .take_while(|day| *day <= last)
            .flat_map(|day| self.open_hours(day));
        let stroke = |hour: DateTime| {
            let (before, after) = (self.in_force.of_hour(hour), self.draft.of_hour(hour));
            let units = |of: &Quantities, no: PrizeNo| of.get(&no).copied().unwrap_or(0);
            let prizes: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
            let differs = prizes.into_iter().filter_map(|no| {
                let units = (units(&before, no), units(&after, no));
                (units.0 != units.1).then_some((no, units.1))
            });
            let cells: Quantities = differs.collect();
            (!cells.is_empty()).then_some((hour, cells))
        };
        hours.filter_map(stroke).collect()
    }

    /// Paints what a draft of another version of the campaign has painted. Prizes and pool are
    /// found by their ids.
    ///
    /// # Errors
    /// As [`Self::paint`].
    pub(super) fn repeat(&mut self, other: &Self) -> Result<(), Problems> {
        let no = |no: PrizeNo| self.campaign.prize_no(other.campaign.prize(no).id.as_str());
        let here = |(hour, cells): (DateTime, Quantities)| {
            let cells = cells.into_iter();
            let cells = cells.filter_map(|(prize, units)| Some((no(prize)?, units)));
            (hour, cells.collect())
        };
        let strokes: Painted = other.strokes().into_iter().map(here).collect();
        self.paint(&strokes)
    }

    /// A schedule of this pool as a message.
    pub(super) fn message(&self, schedule: &Schedule) -> proto::Schedule {
        let index = usize::from(self.pool.0);
        let mut campaign = self.campaign.clone();
        if let Some(pool) = campaign.pools.get_mut(index) {
            pool.kind = PoolKind::Schedule(schedule.clone());
        }
        let pools = campaign_to_proto(&campaign).pools;
        match pools.into_iter().nth(index).and_then(|pool| pool.kind) {
            Some(Kind::Schedule(schedule)) => schedule,
            _ => proto::Schedule::default(),
        }
    }

    /// The campaign with the draft.
    pub(super) fn drafted(&self) -> Campaign {
        let mut campaign = self.campaign.clone();
        if let Some(pool) = campaign.pools.get_mut(usize::from(self.pool.0)) {
            pool.kind = PoolKind::Schedule(self.draft.clone());
        }
        campaign
    }

    /// A schedule as a field of a form.
    pub(super) fn encoded(&self, schedule: &Schedule) -> String {
        if *schedule == self.in_force {
            return IN_FORCE.into();
        }
        URL_SAFE_NO_PAD.encode(self.message(schedule).encode_to_vec())
    }
}

/// The schedule of a field of a form, unless it is that in force.
pub(super) fn message(text: &str) -> Option<proto::Schedule> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let is_any = !text.is_empty() && text != IN_FORCE;
    proto::Schedule::decode(bytes.as_slice())
        .ok()
        .filter(|_| is_any)
}

/// The schedule of a field of a form; none if there is none, or if it is that in force.
fn decoded(campaign: &Campaign, pool: PoolNo, text: &str) -> Result<Option<Schedule>, Problems> {
    if text.is_empty() || text == IN_FORCE {
        return Ok(None);
    }
    let Some(message) = message(text) else {
        let mut problems = Problems::default();
        problems.add("draft", "is not one of this console: open the editor again");
        return Err(problems);
    };
    let campaign = with_schedule(campaign, pool, &message)?;
    Ok(campaign.schedule(pool).cloned())
}
