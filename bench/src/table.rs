//! The figures as a table, for people.

use tombola::model::text::grouped;

use crate::{
    figures::{Figures, Series},
    output::{Side, Table, counted},
};

/// The whole text that the bench prints.
pub(crate) fn render(figures: &Figures) -> String {
    let mut parts = vec![environment(figures), series(&figures.series)];
    if let Some(errors) = errors(&figures.series) {
        parts.push(errors);
    }
    if let Some(ratios) = ratios(figures) {
        parts.push(ratios);
    }
    if let Some(promises) = promises(figures) {
        parts.push(promises);
    }
    parts.push(sums(figures));
    parts.join("\n\n")
}

fn environment(figures: &Figures) -> String {
    let host = &figures.host;
    let mut lines = vec![format!(
        "tombola {} on {} {}{}{}",
        figures.tombola,
        counted(host.cores as u64, "core"),
        if host.processor.is_empty() { "" } else { "of " },
        host.processor,
        if host.load.is_empty() {
            String::new()
        } else {
            format!(", load {} before", host.load)
        },
    )];
    lines.push(format!(
        "{}: a write of 4 KiB is on disk after {} µs (p50), {} µs (p99)",
        host.directory,
        grouped(host.fsync_us_p50),
        grouped(host.fsync_us_p99)
    ));
    for store in figures
        .stores
        .iter()
        .filter(|store| !store.redis_version.is_empty())
    {
        lines.push(format!(
            "{}: Redis {}, appendonly {}, appendfsync {}",
            store.store, store.redis_version, store.appendonly, store.appendfsync
        ));
    }
    for store in figures
        .stores
        .iter()
        .filter(|store| !store.postgres_version.is_empty())
    {
        lines.push(format!("{}: {}", store.store, store.postgres_version));
    }
    for store in figures
        .stores
        .iter()
        .filter(|store| !store.protections.is_empty())
    {
        lines.push(format!("{}: {}", store.store, store.protections));
    }
    let load = &figures.load;
    let how = match (load.outstanding, load.rate) {
        (_, Some(rate)) => format!(
            "{} calls a second at a fixed rate over {} connections",
            grouped(rate),
            load.connections
        ),
        (outstanding, None) => format!(
            "{} connections × {} calls under way",
            load.connections,
            outstanding.unwrap_or(1)
        ),
    };
    lines.push(format!(
        "{how}, {} rounds of {} s each, taking turns",
        load.rounds, load.round_seconds
    ));
    lines.join("\n")
}

fn series(series: &[Series]) -> String {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("call", Left),
        ("store", Left),
        ("a second", Right),
        ("from", Right),
        ("to", Right),
        ("over empty", Right),
        ("won", Right),
        ("errors", Right),
        ("p50 ms", Right),
        ("p90", Right),
        ("p99", Right),
        ("p99.9", Right),
        ("max", Right),
        ("server µs", Right),
        ("Redis µs", Right),
        ("PostgreSQL µs", Right),
    ]);
    for one in series {
        let latency = &one.latency_us;
        let millis = |micros: u64| format!("{:.2}", micros as f64 / 1000.0);
        let optional = |figure: Option<f64>, digits: usize| {
            figure.map_or(String::new(), |figure| format!("{figure:.digits$}"))
        };
        let whole = |figure: f64| grouped(figure.round() as u64);
        table.row([
            one.label(),
            one.store.clone(),
            whole(one.per_second.median),
            whole(one.per_second.min),
            whole(one.per_second.max),
            optional(one.over_empty, 2),
            format!("{:.0}%", one.wins as f64 * 100.0 / one.calls.max(1) as f64),
            grouped(one.errors.values().sum()),
            millis(latency.p50),
            millis(latency.p90),
            millis(latency.p99),
            millis(latency.p999),
            millis(latency.max),
            optional(one.server_cpu_us, 1),
            optional(one.redis_us, 1),
            optional(one.postgres_cpu_us, 1),
        ]);
    }
    table.render()
}

fn errors(series: &[Series]) -> Option<String> {
    let mut table = Table::new([
        ("call", Side::Left),
        ("store", Side::Left),
        ("error", Side::Left),
        ("calls", Side::Right),
    ]);
    for one in series {
        for (reason, calls) in &one.errors {
            table.row([
                one.call.clone(),
                one.store.clone(),
                reason.clone(),
                grouped(*calls),
            ]);
        }
    }
    (!table.is_empty()).then(|| table.render())
}

fn ratios(figures: &Figures) -> Option<String> {
    let mut table = Table::new([("ratio", Side::Left), ("", Side::Right)]);
    for ratio in &figures.ratios {
        table.row([ratio.name.clone(), format!("{:.3}", ratio.value)]);
    }
    (!table.is_empty()).then(|| table.render())
}

fn promises(figures: &Figures) -> Option<String> {
    let mut table = Table::new([
        ("way", Side::Left),
        ("promise", Side::Left),
        ("broken", Side::Right),
        ("of", Side::Right),
        ("what was counted", Side::Left),
    ]);
    for one in &figures.promises {
        table.row([
            one.way.clone(),
            one.promise.into(),
            grouped(one.times),
            grouped(one.of),
            one.what.clone(),
        ]);
    }
    (!table.is_empty()).then(|| table.render())
}

fn sums(figures: &Figures) -> String {
    let draws: u64 = figures.campaigns.iter().map(|one| one.draws).sum();
    let wins: u64 = figures.campaigns.iter().map(|one| one.wins).sum();
    let wrong: Vec<String> = figures
        .campaigns
        .iter()
        .filter(|one| !one.balanced)
        .map(|one| format!("{} on {}", one.campaign, one.store))
        .collect();
    let verdict = if wrong.is_empty() {
        "the sums of every campaign add up (P2)".into()
    } else {
        format!("THE SUMS DO NOT ADD UP: {}", wrong.join(", "))
    };
    format!("{} draws, {} won: {verdict}", grouped(draws), grouped(wins))
}
