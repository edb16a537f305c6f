//! TLS: what expires, whether files can be used, and handshakes that failed.

use std::sync::LazyLock;

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
});

/// What is measured of TLS.
pub(crate) struct Tls {
    expiries_s: IntGaugeVec,
    unusable: IntGaugeVec,
    /// Handshakes that failed, or took too long.
    pub(crate) handshakes_failed: IntCounter,
}

impl Tls {
    /// Sets when each of these expires.
    pub(crate) fn expire(&self, expiries: &[(&str, i64)]) {
        for (certificate, expiry_s) in expiries {
            let gauge = self.expiries_s.with_label_values(&[certificate]);
            gauge.set(*expiry_s);
        }
    }

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

    /// Says whether the files for a purpose cannot be used.
    pub(crate) fn unusable(&self, purpose: &str, is_unusable: bool) {
        let gauge = self.unusable.with_label_values(&[purpose]);
        gauge.set(i64::from(is_unusable));
    }
}
