//! The keys or arguments of a call, in one allocation: a batch of draws has a thousand of them.

use std::io::Write as _;

/// A list of byte strings.
#[derive(Clone, Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// An empty list with room for `words` of `bytes` in all.
    pub fn with_capacity(words: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(words),
        }
    }

    /// Adds a word.
    ///
    /// ```
    /// use tombola::store::redis::Words;
    /// let mut words = Words::default();
    /// words.push("one");
    /// words.write(format_args!("{:x}", 255));
    /// assert_eq!(words.iter().collect::<Vec<_>>(), [b"one".as_slice(), b"ff"]);
    /// ```
    pub fn push(&mut self, word: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(word.as_ref());
        self.ends.push(self.bytes.len());
    }

    /// Adds a word from format arguments, without a string in between.
    pub fn write(&mut self, word: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = self.bytes.write_fmt(word);
        self.ends.push(self.bytes.len());
    }

    /// Adds all words of another list.
    pub fn append(&mut self, other: &Self) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes they have together.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The words in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }
}

impl<I> From<I> for Words
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    fn from(words: I) -> Self {
        let mut list = Self::default();
        for word in words {
            list.push(word);
        }
        list
    }
}
