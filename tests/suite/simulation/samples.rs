//! Samples do what they are for. [`World::audit`] checks all that holds for every campaign.

use std::{collections::BTreeMap, fs, num::NonZeroU64, sync::Arc};

use tombola::{
    model::{Campaign, Moment, limits::LimitKind},
    simulation::{
        crowd::{Arrivals, Crowd},
        simulate,
    },
    store::{DrawAnswer, Refusal, StoreError},
};

use crate::{
    process::project,
    support::{
        Answer as _, DrawWords as _, World, campaign, draw, hours, in_memory::InMemory, seconds,
    },
};

/// The text of a sample.
fn sample(id: &str) -> String {
    fs::read_to_string(project(&format!("deploy/campaigns/{id}.yaml"))).unwrap()
}

/// Who draws: three members, two of the staff, and somebody in no segment.
const USERS: [(&str, &[&str]); 6] = [
    ("ann", &["member"]),
    ("ben", &["member"]),
    ("cleo", &["member"]),
    ("dan", &["staff"]),
    ("eve", &["member", "staff"]),
    ("fay", &[]),
];

/// The hours of a day in which users draw.
const OPEN_HOURS: std::ops::Range<u64> = 10..16;

/// What a user got so far.
#[derive(Default)]
struct Visitor {
    phones: usize,
    vouchers: usize,
    coupons: usize,
    draws: usize,
}

impl Visitor {
    fn note(&mut self, answer: &DrawAnswer) {
        self.draws += 1;
        self.phones += answer.count("phone");
        self.vouchers += answer.count("voucher");
        self.coupons += answer.count("coupon");
    }
}

/// Draws until a limit refuses it; the answers and the limit.
async fn visit(world: &World, user: &str, segments: &[&str]) -> (Vec<DrawAnswer>, LimitKind) {
    let mut answers = Vec::new();
    loop {
        let command = draw(user).of("mall-wheel").with(segments);
        match world.try_draw(command).await {
            Ok(answer) => answers.push(answer),
            Err(StoreError::Refused(Refusal::Limit { reached, .. })) => {
                return (answers, reached.limit);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A day of the mall: each user draws until the day's limit is reached, at the end of each hour,
/// when all of its vouchers can be won.
async fn day(world: &World, start: Moment, all: &mut BTreeMap<&str, Visitor>) {
    let mut today: BTreeMap<&str, Vec<DrawAnswer>> = BTreeMap::new();
    for hour in OPEN_HOURS {
        world.set_time(start + hours(hour)).await;
        world.tick().await;
        world.pass(hours(1) - seconds(1)).await;
        for (user, segments) in USERS {
            let (answers, limit) = visit(world, user, segments).await;
            let of_today = today.entry(user).or_default();
            of_today.extend(answers.iter().cloned());
            let allowed = if segments.contains(&"member") { 5 } else { 3 };
            match of_today.len() == allowed {
                true => assert_eq!(limit, LimitKind::DrawsPerDay, "{user}"),
                false => assert_eq!(
                    (limit, answers.len()),
                    (LimitKind::DrawsPerHour, 2),
                    "{user}"
                ),
            }
        }
    }
    for (user, segments) in USERS {
        let answers = &today[user];
        let allowed = if segments.contains(&"member") { 5 } else { 3 };
        assert_eq!(answers.len(), allowed, "{user}");
        assert_eq!(
            answers[0].count("voucher"),
            0,
            "{user}: the first draw of a day"
        );
        let vouchers: usize = answers.iter().map(|answer| answer.count("voucher")).sum();
        let visitor = all.entry(user).or_default();
        let expected = usize::from(visitor.vouchers < 5);
        assert_eq!(vouchers, expected, "{user}: one a day, five in all");
        answers.iter().for_each(|answer| visitor.note(answer));
    }
}

#[tokio::test]
async fn the_wheel_of_the_mall_gives_members_more_draws_and_staff_no_phone() {
    let world = World::new(InMemory::new()).await;
    let mall: Arc<Campaign> = world.begin(&sample("mall-wheel")).await;
    let mut visitors = BTreeMap::new();
    for number in 0..20 {
        day(&world, mall.start + hours(24 * number), &mut visitors).await;
    }
    for (user, segments) in USERS {
        let visitor = &visitors[user];
        let draws = if segments.contains(&"member") {
            100
        } else {
            60
        };
        let phones = usize::from(!segments.contains(&"staff"));
        // About 20 phones were released to four users who may have one each.
        assert_eq!((visitor.draws, visitor.phones), (draws, phones), "{user}");
        assert_eq!(visitor.vouchers, 5, "{user}");
        assert!(visitor.coupons > draws / 5, "{user}: {}", visitor.coupons);
    }
    world.audit().await;
}

/// On nine days vouchers of 2,000 yuan are won, which is the whole budget: nothing is left of it on
/// the tenth.
#[test]
fn the_budget_of_its_sample_is_reached_on_each_day_and_never_passed() {
    let crowd = Crowd {
        users: NonZeroU64::new(200).unwrap(),
        free_per_day: 5.0,
        paid_per_day: 0.0,
        arrivals: Arrivals::peak(),
        segments: Vec::new(),
    };
    let forecast = simulate(&campaign(&sample("budget")), &crowd, 2).unwrap();
    assert_eq!(forecast.budget_days.unwrap().low, 10.0);
    let [cost] = forecast.costs.as_slice() else {
        panic!("one currency: {:?}", forecast.costs);
    };
    assert_eq!((cost.total.low, cost.total.high), (18_000.0, 18_000.0));
    let days = forecast.days.iter().map(|day| day.cost["CNY"]);
    let expected = [[2_000.0; 9].as_slice(), &[0.0]].concat();
    assert_eq!(days.collect::<Vec<_>>(), expected);
    let stickers = &forecast.prizes[2];
    assert!(stickers.won.low > 0.0, "stickers are never held");
}
