//! Pearson's chi-square test, the yardstick of the statistical tests.

/// The normal quantile of 0.999: each bound of [`assert_fits`] is passed by one fair sample in a
/// thousand. The tests' seeds are fixed, so a test that passes once passes always.
const Z: f64 = 3.090_232;

/// The value that chi-square with `df` degrees of freedom stays below with the probability of the
/// normal quantile `z`, by the approximation of Wilson and Hilferty (PNAS 17, 1931).
fn quantile(df: f64, z: f64) -> f64 {
    let spread = 2.0 / (9.0 * df);
    df * (1.0 - spread + z * spread.sqrt()).powi(3)
}

/// Pearson's statistic: the sum of `(observed - expected)^2 / expected`.
fn statistic(observed: &[u64], expected: &[f64]) -> f64 {
    let excess = |(&seen, &due): (&u64, &f64)| (seen as f64 - due).powi(2) / due;
    observed.iter().zip(expected).map(excess).sum()
}

/// Whether counts are as far from `weights` (in any unit) as chance alone would have them: neither
/// further nor, which would betray a lack of chance, nearer. A cell without weight must be empty.
pub(super) fn fits(observed: &[u64], weights: &[f64]) -> bool {
    assert_eq!(observed.len(), weights.len(), "a weight for each cell");
    let total: u64 = observed.iter().sum();
    let share = total as f64 / weights.iter().sum::<f64>();
    let (cells, expected): (Vec<u64>, Vec<f64>) = observed
        .iter()
        .zip(weights)
        .filter(|&(&seen, &weight)| seen > 0 || weight > 0.0)
        .map(|(&seen, &weight)| (seen, weight * share))
        .unzip();
    let df = (cells.len() - 1) as f64;
    let distance = statistic(&cells, &expected);
    println!("chi-square {distance:.2}, {df} degrees of freedom");
    assert!(
        expected.iter().all(|&due| due == 0.0 || due >= 5.0),
        "chi-square needs 5 expected in each cell"
    );
    quantile(df, -Z) < distance && distance < quantile(df, Z)
}

/// Fails unless the counts fit the weights.
pub(super) fn assert_fits(observed: &[u64], weights: &[f64]) {
    assert!(
        fits(observed, weights),
        "{observed:?} are not as by chance from {weights:?}"
    );
}

/// Fails unless the counts fit cells of equal chance.
pub(super) fn assert_even(observed: &[u64]) {
    assert_fits(observed, &vec![1.0; observed.len()]);
}

#[test]
fn quantiles_agree_with_the_tables() {
    // The exact values, by inverting the incomplete gamma function: lower and upper at 0.001.
    for (df, lower, upper) in [
        (8.0, 0.857, 26.124),
        (15.0, 3.483, 37.697),
        (59.0, 31.020, 98.324),
        (99.0, 61.137, 148.230),
    ] {
        assert!((quantile(df, -Z) - lower).abs() < 0.2, "lower, {df}");
        assert!((quantile(df, Z) - upper).abs() < 0.2, "upper, {df}");
    }
}

#[test]
fn the_yardstick_refuses_a_loaded_die_a_die_without_chance_and_the_impossible() {
    let fair = [1.0; 6];
    assert!(fits(&[1020, 985, 1011, 960, 1043, 981], &fair));
    assert!(!fits(&[1000, 1000, 1000, 1000, 880, 1120], &fair));
    assert!(!fits(&[1000, 1000, 1000, 1000, 1000, 1001], &fair));
    assert!(!fits(&[1020, 985, 1], &[1.0, 1.0, 0.0]));
}
