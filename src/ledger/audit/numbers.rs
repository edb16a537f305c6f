//! Sets of numbers from 0, one bit for each.

/// Numbers that were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    words: Vec<u64>,
}

impl Numbers {
    /// Adds a number; false if it is there already.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Whether it has a number.
    pub(super) fn contains(&self, number: u64) -> bool {
        let word = self.words.get((number / 64) as usize);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut numbers = Numbers::default();
        for number in [0, 63, 64, 1000] {
            assert!(!numbers.contains(number));
            assert!(numbers.insert(number));
            assert!(!numbers.insert(number));
            assert!(numbers.contains(number));
        }
        assert!(!numbers.contains(1));
    }
}
