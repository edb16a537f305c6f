//! `--codes`: how many codes of a prize are imported.

use std::collections::BTreeSet;

use crate::model::{Campaign, PrizeId};

/// Parses one prize with its codes, e.g. `coupon=5000`.
pub(super) fn import(text: &str) -> Result<(PrizeId, u64), String> {
    let advice = || "write a prize and how many codes it has, e.g. coupon=5000".to_owned();
    let (id, number) = text.split_once('=').ok_or_else(advice)?;
    let prize = PrizeId::parse("the prize", id.trim()).map_err(|it| it.message)?;
    let number = number.trim().parse().map_err(|_| advice())?;
    Ok((prize, number))
}

/// The campaign, with as much stock of these prizes as codes are imported.
pub(super) fn with(mut campaign: Campaign, imports: &[(PrizeId, u64)]) -> Result<Campaign, String> {
    let mut named = BTreeSet::new();
    for (id, number) in imports {
        if !named.insert(id) {
            return Err(format!("the codes of {id} are there twice"));
        }
        let prize = campaign.prizes.iter_mut().find(|prize| prize.id == *id);
        let prize = prize.filter(|prize| prize.codes).ok_or_else(|| {
            format!("the campaign has no prize {id} with codes: see `codes` in the file")
        })?;
        (prize.codes, prize.stock) = (false, *number);
    }
    Ok(campaign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{convert::campaign_from_proto, file};

    #[test]
    fn a_prize_has_a_number_of_codes() {
        let read = |text| import(text).map(|(prize, number)| (prize.to_string(), number));
        assert_eq!(read("coupon=5000"), Ok(("coupon".into(), 5000)));
        assert_eq!(read(" coupon = 0 "), Ok(("coupon".into(), 0)));
        for wrong in ["coupon", "coupon=", "coupon=many", "=5", "coupon=-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_prizes_with_codes_get_codes() {
        let text = "{id: w, timeZone: UTC, startTime: '2026-12-01T00:00:00Z', \
                    endTime: '2026-12-02T00:00:00Z', \
                    prizes: [{id: a, codes: true}, {id: b, stock: 1}], \
                    pools: [{id: p, deck: {size: 2, cards: {a: 1, b: 1}}}]}";
        let campaign = || campaign_from_proto(&file::parse(text).unwrap()[0]).unwrap();
        let codes = |text: &str| -> Vec<_> { text.split(',').flat_map(import).collect() };
        let prizes = with(campaign(), &codes("a=7")).unwrap().prizes;
        assert_eq!((prizes[0].stock, prizes[0].codes), (7, false));
        for wrong in ["b=7", "c=7", "a=7,a=8"] {
            assert!(with(campaign(), &codes(wrong)).is_err(), "{wrong}");
        }
    }
}
