//! TLS: what expires, whether files can be used, and handshakes that failed.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use prometheus::{IntCounter, IntGaugeVec, core::Collector as _};

use super::{counter, gauges};

/// TLS of the process.
pub(crate) static TLS: LazyLock<Tls> = LazyLock::new(|| Tls {
    expiries_s: gauges(
        "tombola_tls_certificate_expiry_timestamp_seconds",
        "When what is in use expires, in Unix time, by what it is",
        &["certificate"],
    ),
    unusable: gauges(
        "tombola_tls_files_unusable",
        "1 while new files cannot be used and the earlier ones stay in use, else 0",
        &["purpose"],
    ),
    handshakes_failed: counter(
        "tombola_tls_handshakes_failed_total",
        "TLS handshakes of callers that did not succeed",
    ),
    files: Mutex::default(),
});

/// What is measured of TLS.
pub(crate) struct Tls {
    expiries_s: IntGaugeVec,
    unusable: IntGaugeVec,
    /// Handshakes that failed, or took too long.
    pub(crate) handshakes_failed: IntCounter,
    /// All files in use, by number. Some have one purpose: the settler and the eraser both connect
    /// to PostgreSQL, each with a certificate of its own.
    files: Mutex<BTreeMap<u64, Files>>,
}

/// Files that are used together.
struct Files {
    purpose: &'static str,
    /// New ones cannot be used, and these stay in use.
    is_stuck: bool,
    /// What expires, and when, in Unix time.
    expiries: Vec<(&'static str, i64)>,
}

impl Tls {
    /// When what is in use expires, in seconds of Unix time, by what it is.
    pub(crate) fn expiries(&self) -> Vec<(String, i64)> {
        let families = self.expiries_s.collect();
        let metrics = families.iter().flat_map(|family| family.get_metric());
        let mut expiries: Vec<_> = metrics
            .filter_map(|metric| {
                let certificate = metric.get_label().first()?.value().to_owned();
                Some((certificate, metric.get_gauge().get_value() as i64))
            })
            .collect();
        expiries.sort();
        expiries
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Files>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the gauges of a purpose to the worst of its files: one that cannot be replaced, and
    /// what expires first.
    fn show(&self, purpose: &str, all: &BTreeMap<u64, Files>) {
        let of_purpose = all.values().filter(|files| files.purpose == purpose);
        let of_purpose: Vec<&Files> = of_purpose.collect();
        let is_stuck = of_purpose.iter().any(|files| files.is_stuck);
        let gauge = self.unusable.with_label_values(&[purpose]);
        gauge.set(i64::from(is_stuck));
        let mut first = BTreeMap::<&str, i64>::new();
        for &(certificate, expiry_s) in of_purpose.iter().flat_map(|files| &files.expiries) {
            let least = first.entry(certificate).or_insert(expiry_s);
            *least = expiry_s.min(*least);
        }
        for (certificate, expiry_s) in first {
            let gauge = self.expiries_s.with_label_values(&[certificate]);
            gauge.set(expiry_s);
        }
    }
}

/// Files in use, which the metrics count until this is dropped.
pub(crate) struct FilesInUse {
    number: u64,
    purpose: &'static str,
}

impl FilesInUse {
    /// Files that are used for a purpose from now on, and when each of them expires.
    pub(crate) fn new(purpose: &'static str, expiries: &[(&'static str, i64)]) -> Self {
        let mut all = TLS.lock();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        let files = Files {
            purpose,
            is_stuck: false,
            expiries: expiries.to_vec(),
        };
        all.insert(number, files);
        TLS.show(purpose, &all);
        Self { number, purpose }
    }

    /// New ones are in use, which expire at these times.
    pub(crate) fn are_replaced(&self, expiries: &[(&'static str, i64)]) {
        self.change(|files| {
            files.is_stuck = false;
            files.expiries = expiries.to_vec();
        });
    }

    /// Whether new ones cannot be used, so that these stay in use.
    pub(crate) fn are_stuck(&self, is_stuck: bool) {
        self.change(|files| files.is_stuck = is_stuck);
    }

    fn change(&self, change: impl FnOnce(&mut Files)) {
        let mut all = TLS.lock();
        if let Some(files) = all.get_mut(&self.number) {
            change(files);
        }
        TLS.show(self.purpose, &all);
    }
}

impl Drop for FilesInUse {
    fn drop(&mut self) {
        let mut all = TLS.lock();
        all.remove(&self.number);
        TLS.show(self.purpose, &all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_purpose_do_not_hide_what_is_wrong_with_others() {
        const PURPOSE: &str = "of_two_users";
        let unusable = || TLS.unusable.with_label_values(&[PURPOSE]).get();
        let expiry_s = || TLS.expiries_s.with_label_values(&[PURPOSE]).get();
        let files = |expiry_s| FilesInUse::new(PURPOSE, &[(PURPOSE, expiry_s)]);
        let settler = files(200);
        settler.are_stuck(true);
        let eraser = files(300);
        assert_eq!((unusable(), expiry_s()), (1, 200));
        eraser.are_replaced(&[(PURPOSE, 400)]);
        assert_eq!((unusable(), expiry_s()), (1, 200));
        settler.are_replaced(&[(PURPOSE, 500)]);
        assert_eq!((unusable(), expiry_s()), (0, 400));
        eraser.are_stuck(true);
        drop(eraser);
        assert_eq!((unusable(), expiry_s()), (0, 500));
    }
}
