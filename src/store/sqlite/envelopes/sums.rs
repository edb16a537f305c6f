//! The sums of all envelopes by currency. They may pass 2^63, so they are kept as text and added up
//! here.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use crate::store::{EnvelopeSums, Result, StoreError, rules::envelope::SumsChange};

/// Sums that have changed since the last commit.
#[derive(Default)]
pub(super) struct Sums {
    changed: BTreeMap<String, SumsChange>,
}

/// A change is written once it exceeds this, so that adding further ones stays within 2^63.
const HALF: i64 = i64::MAX / 4;

impl Sums {
    /// After a rollback.
    pub(super) fn forget(&mut self) {
        self.changed.clear();
    }

    /// Notes a change.
    pub(super) fn add(
        &mut self,
        db: &Connection,
        currency: &str,
        change: SumsChange,
    ) -> Result<()> {
        if let Some(sums) = self.changed.get_mut(currency) {
            *sums += change;
            let is_large = |minor: i64| minor.abs() > HALF;
            if is_large(sums.created_minor)
                || is_large(sums.grabbed_minor)
                || is_large(sums.waiting_minor)
                || is_large(sums.refunded_minor)
            {
                self.flush(db)?;
            }
        } else if change != SumsChange::default() {
            self.changed.insert(currency.to_owned(), change);
        }
        Ok(())
    }

    /// Writes all changes.
    pub(super) fn flush(&mut self, db: &Connection) -> Result<()> {
        for (currency, change) in std::mem::take(&mut self.changed) {
            let mut sums = load(db, &currency)?;
            sums.change(change)?;
            save(db, &sums)?;
        }
        Ok(())
    }
}

const COLUMNS: &str =
    "currency, envelopes, open, created_minor, grabbed_minor, waiting_minor, refunded_minor";

fn load(db: &Connection, currency: &str) -> Result<EnvelopeSums> {
    let sql = format!("SELECT {COLUMNS} FROM envelope_sums WHERE currency = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query_and_then([currency], sums)?;
    rows.next().unwrap_or_else(|| {
        Ok(EnvelopeSums {
            currency: currency.to_owned(),
            ..EnvelopeSums::default()
        })
    })
}

fn save(db: &Connection, sums: &EnvelopeSums) -> Result<()> {
    let sql = format!(
        "INSERT OR REPLACE INTO envelope_sums ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    );
    db.prepare_cached(&sql)?.execute(params![
        sums.currency,
        sums.envelopes,
        sums.open,
        sums.created_minor.to_string(),
        sums.grabbed_minor.to_string(),
        sums.waiting_minor.to_string(),
        sums.refunded_minor.to_string(),
    ])?;
    Ok(())
}

/// All sums, checked against what the open envelopes hold.
pub(super) fn read(db: &Connection) -> Result<Vec<EnvelopeSums>> {
    let mut waiting = BTreeMap::<String, u128>::new();
    let mut statement = db.prepare_cached(
        "SELECT currency, total_minor - grabbed_minor FROM envelopes WHERE refund_due IS NOT NULL",
    )?;
    let mut open = statement.query([])?;
    while let Some(row) = open.next()? {
        *waiting.entry(row.get(0)?).or_default() += u128::from(row.get::<_, u64>(1)?);
    }
    let sql = format!("SELECT {COLUMNS} FROM envelope_sums ORDER BY currency");
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_and_then([], sums)?;
    rows.map(|row| {
        let mut sums = row?;
        let waiting = waiting.get(&sums.currency).copied().unwrap_or(0);
        sums.envelopes_agree = waiting == sums.waiting_minor;
        Ok(sums)
    })
    .collect()
}

/// Makes sums of a row of [`COLUMNS`].
fn sums(row: &Row<'_>) -> Result<EnvelopeSums> {
    let minor = |column: usize| -> Result<u128> {
        let text: String = row.get(column)?;
        text.parse::<u128>()
            .map_err(|_| StoreError::corrupt(format!("`{text}` is no sum of envelopes")))
    };
    Ok(EnvelopeSums {
        currency: row.get(0)?,
        envelopes: row.get(1)?,
        open: row.get(2)?,
        created_minor: minor(3)?,
        grabbed_minor: minor(4)?,
        waiting_minor: minor(5)?,
        refunded_minor: minor(6)?,
        envelopes_agree: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMOUNT: u64 = (1 << 53) - 1;

    fn database() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(include_str!("../schema.sql")).unwrap();
        db.execute_batch(include_str!("../schema_envelopes.sql"))
            .unwrap();
        db
    }

    /// Five thousand of the largest envelopes are more than 2^65 minor units; between writes and
    /// without any.
    #[test]
    fn sums_beyond_all_integers_are_exact() {
        for batch in [1, 7, 5_000] {
            let (db, mut sums) = (database(), Sums::default());
            let amount = i64::try_from(AMOUNT).unwrap();
            for n in 1..=5_000 {
                let created = SumsChange {
                    envelopes: 1,
                    open: 1,
                    created_minor: amount,
                    waiting_minor: amount,
                    ..SumsChange::default()
                };
                sums.add(&db, "CNY", created).unwrap();
                sums.add(&db, "CNY", SumsChange::of_grab(AMOUNT, true))
                    .unwrap();
                if n % batch == 0 {
                    sums.flush(&db).unwrap();
                }
            }
            sums.flush(&db).unwrap();
            let sums = read(&db).unwrap();
            let expected = EnvelopeSums {
                currency: "CNY".into(),
                envelopes: 5_000,
                created_minor: u128::from(AMOUNT) * 5_000,
                grabbed_minor: u128::from(AMOUNT) * 5_000,
                envelopes_agree: true,
                ..EnvelopeSums::default()
            };
            assert_eq!(sums, [expected]);
            assert!(sums[0].balanced());
        }
    }

    #[test]
    fn a_rollback_forgets_what_was_not_written() {
        let (db, mut sums) = (database(), Sums::default());
        sums.add(&db, "EUR", SumsChange::of_grab(5, false)).unwrap();
        sums.forget();
        sums.flush(&db).unwrap();
        assert_eq!(read(&db).unwrap(), []);
    }
}
