//! The long-run shares of a Markov chain in layers.
//!
//! The states of a layer lead to the next layer or to the first one, those of the last layer also
//! to the last one. So whoever leaves a state of the first layer, or one of the last layer that may
//! lead to the last layer, comes back to one of them after each layer once at most: these are the
//! cuts. Each counter makes layers of the states; those with the fewest cuts are taken.
//!
//! The probabilities from cut to cut follow by one pass through the layers, without a series that
//! would have to converge (a chain without chance never would). The share of each cut then follows
//! by the elimination of Grassmann, Taksar and Heyman (*Regenerative analysis and steady state
//! distributions for Markov chains*, Operations Research 33, 1985), which subtracts nothing, so no
//! digit is lost.

/// The most cuts, and the most steps through the layers from all of them: what a second is enough
/// for.
const CUTS_MAX: usize = 600;
const STEPS_MAX: usize = 200_000_000;

/// A state.
#[derive(Debug)]
pub(super) struct State {
    /// States that a draw leads to, with their probabilities.
    pub(super) next: Vec<(usize, f64)>,
    /// Outcomes of a draw, with their probabilities.
    pub(super) given: Vec<(usize, f64)>,
}

/// A way to divide the states into layers.
#[derive(Debug)]
pub(super) struct Layers {
    /// By state.
    pub(super) of: Vec<u32>,
    pub(super) last: u32,
}

impl Layers {
    fn is_cut(&self, states: &[State], index: usize) -> bool {
        let is_last = |state: usize| self.of[state] == self.last;
        let mut next = states[index].next.iter();
        self.of[index] == 0 || is_last(index) && next.any(|(next, _)| is_last(*next))
    }

    fn cuts(&self, states: &[State]) -> usize {
        let cuts = (0..states.len()).filter(|index| self.is_cut(states, *index));
        cuts.count()
    }
}

/// A chain that begins in state 0.
#[derive(Debug)]
pub(super) struct Chain {
    states: Vec<State>,
    /// Those of the first layer, and those of the last one that may lead to it.
    cuts: Vec<usize>,
    /// By state, its index among the cuts.
    cut_of: Vec<Option<usize>>,
    /// All other states, by layer.
    between: Vec<usize>,
}

impl Chain {
    /// A chain that one of these ways divides into layers; none if it would take too long to solve.
    pub(super) fn new(states: Vec<State>, ways: Vec<Layers>) -> Option<Self> {
        let layers = ways.into_iter().min_by_key(|way| way.cuts(&states))?;
        let (cuts, mut between): (Vec<usize>, Vec<usize>) =
            (0..states.len()).partition(|index| layers.is_cut(&states, *index));
        between.sort_by_key(|index| layers.of[*index]);
        let mut cut_of = vec![None; states.len()];
        for (index, cut) in cuts.iter().enumerate() {
            cut_of[*cut] = Some(index);
        }
        let steps: usize = states.iter().map(|state| state.next.len()).sum();
        let passes = cuts.iter().filter(|cut| layers.of[**cut] == 0).count();
        (cuts.len() <= CUTS_MAX && steps.saturating_mul(passes) <= STEPS_MAX).then_some(Self {
            states,
            cuts,
            cut_of,
            between,
        })
    }

    /// The long-run share of each of so many outcomes.
    pub(super) fn shares(&self, outcomes: usize) -> Vec<f64> {
        let mut between: Vec<Vec<f64>> = (0..self.cuts.len())
            .map(|cut| {
                let mut visits = vec![0.0; self.states.len()];
                visits[self.cuts[cut]] = 1.0;
                self.pass(&mut visits)
            })
            .collect();
        let mut shares = vec![0.0; outcomes];
        for (class, weight) in closed_classes(&mut between) {
            let part = self.shares_of(&class, &steady(&class, &between), outcomes);
            for (share, part) in shares.iter_mut().zip(part) {
                *share += weight * part;
            }
        }
        shares
    }

    /// Lets visits of cuts go through the layers, up to the next cut; the probability of each.
    fn pass(&self, visits: &mut [f64]) -> Vec<f64> {
        let mut arrived = vec![0.0; self.cuts.len()];
        for state in self.cuts.iter().chain(&self.between) {
            let visit = visits[*state];
            if visit == 0.0 {
                continue;
            }
            for (next, probability) in &self.states[*state].next {
                match self.cut_of[*next] {
                    Some(cut) => arrived[cut] += visit * probability,
                    None => visits[*next] += visit * probability,
                }
            }
        }
        arrived
    }

    /// The shares of outcomes while the cuts of a class are visited so often.
    fn shares_of(&self, class: &[usize], often: &[f64], outcomes: usize) -> Vec<f64> {
        let mut visits = vec![0.0; self.states.len()];
        for (cut, often) in class.iter().zip(often) {
            visits[self.cuts[*cut]] = *often;
        }
        self.pass(&mut visits);
        let draws: f64 = visits.iter().sum();
        let mut shares = vec![0.0; outcomes];
        for (state, visit) in self.states.iter().zip(&visits) {
            for (outcome, probability) in &state.given {
                shares[*outcome] += visit * probability / draws;
            }
        }
        shares
    }
}

/// The classes of states that are never left, and the probability to come to each from state 0.
/// Eliminates the states that are left for good in `matrix`.
fn closed_classes(matrix: &mut [Vec<f64>]) -> Vec<(Vec<usize>, f64)> {
    let reached = reachable(matrix);
    let is_seen = |state: usize| state == 0 || reached[0][state];
    let is_kept = |state: usize| {
        let mut others = (0..matrix.len()).filter(|other| reached[state][*other]);
        others.all(|other| reached[other][state])
    };
    let seen: Vec<usize> = (0..matrix.len()).filter(|state| is_seen(*state)).collect();
    let (kept, left): (Vec<usize>, Vec<usize>) = seen.iter().partition(|state| is_kept(**state));
    for state in left.iter().copied().filter(|state| *state != 0) {
        let row = matrix[state].clone();
        let leaves: f64 = seen
            .iter()
            .filter(|it| **it != state)
            .map(|it| row[*it])
            .sum();
        for from in seen.iter().copied().filter(|from| *from != state) {
            let share = std::mem::take(&mut matrix[from][state]) / leaves;
            for to in seen.iter().copied().filter(|to| *to != state) {
                matrix[from][to] += share * row[to];
            }
        }
    }
    let mut classes: Vec<(Vec<usize>, f64)> = Vec::new();
    for state in kept {
        let found = classes
            .iter_mut()
            .find(|(class, _)| reached[class[0]][state]);
        match found {
            Some((class, _)) => class.push(state),
            None => classes.push((vec![state], 0.0)),
        }
    }
    if left.first() != Some(&0) {
        return classes.into_iter().map(|(class, _)| (class, 1.0)).collect();
    }
    let all: f64 = classes
        .iter()
        .flat_map(|(class, _)| class)
        .map(|it| matrix[0][*it])
        .sum();
    for (class, weight) in &mut classes {
        *weight = class.iter().map(|it| matrix[0][*it]).sum::<f64>() / all;
    }
    classes
}

/// Which states can be reached from which, in one step or more.
fn reachable(matrix: &[Vec<f64>]) -> Vec<Vec<bool>> {
    let mut reached: Vec<Vec<bool>> = matrix
        .iter()
        .map(|row| row.iter().map(|probability| *probability > 0.0).collect())
        .collect();
    for middle in 0..matrix.len() {
        let onward = reached[middle].clone();
        for from in reached.iter_mut().filter(|from| from[middle]) {
            for (known, new) in from.iter_mut().zip(&onward) {
                *known |= new;
            }
        }
    }
    reached
}

/// How often the states of a closed class are visited, in proportion.
fn steady(class: &[usize], matrix: &[Vec<f64>]) -> Vec<f64> {
    let row = |from: &usize| class.iter().map(|to| matrix[*from][*to]).collect();
    let mut matrix: Vec<Vec<f64>> = class.iter().map(row).collect();
    for state in (1..class.len()).rev() {
        let row = matrix[state].clone();
        let leaves: f64 = row[..state].iter().sum();
        for from in &mut matrix[..state] {
            from[state] /= leaves;
            let share = from[state];
            for (to, probability) in from[..state].iter_mut().zip(&row) {
                *to += share * probability;
            }
        }
    }
    let mut often = vec![1.0; class.len()];
    for state in 1..class.len() {
        often[state] = (0..state)
            .map(|from| often[from] * matrix[from][state])
            .sum();
    }
    often
}
