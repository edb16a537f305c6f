//! A stream of unbiased numbers: the keystream of ChaCha20 (RFC 8439).
//!
//! The range is our own, and so is the reading of the keystream: a library's `shuffle`,
//! `random_range` or generator may give other numbers in its next version, a stream cipher and a
//! modulo cannot.

use std::{fmt, num::NonZeroU64};

use chacha20::{ChaCha20, KeyIvInit, cipher::StreamCipher};

/// Numbers made at a time: four blocks of ChaCha20, which vector units compute side by side.
const NUMBERS_PER_REFILL: usize = 32;

/// An endless sequence of numbers, all determined by a key. Made by
/// [`Seed::stream`](super::Seed::stream).
///
/// They are the keystream of ChaCha20 (RFC 8439) with a nonce of 12 zero bytes and the block
/// counter from 0, read as little-endian 64-bit numbers: the first number is the first 8 bytes of
/// block 0.
pub struct Stream {
    cipher: ChaCha20,
    numbers: [u64; NUMBERS_PER_REFILL],
    used: usize,
}

impl Stream {
    /// The keystream of this key.
    pub(super) fn of_key(key: &[u8; 32]) -> Self {
        Self {
            cipher: ChaCha20::new(key.into(), &[0; 12].into()),
            numbers: [0; NUMBERS_PER_REFILL],
            used: NUMBERS_PER_REFILL,
        }
    }

    /// The next number, uniform over all of 64 bits.
    ///
    /// # Panics
    /// At the end of the keystream, after nearly 2^35 numbers: far beyond what any plan may hold.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if self.used == NUMBERS_PER_REFILL {
            self.refill();
        }
        let number = self.numbers[self.used];
        self.used += 1;
        number
    }

    /// A number uniform over `0..n`, exactly: no value is likelier than another, not even by 2^-64.
    ///
    /// Let `limit = floor(2^64 / n) * n`, the greatest multiple of `n` that is at most 2^64. Take
    /// numbers from the stream until one is less than `limit`, skipping those that are not; the
    /// answer is that number modulo `n`. (Each remainder has equally many numbers below `limit`. On
    /// average fewer than two numbers are taken, for small `n` nearly always one.)
    ///
    /// ```
    /// use std::num::NonZeroU64;
    /// use tombola::chance::Seed;
    ///
    /// let six = NonZeroU64::new(6).unwrap();
    /// let mut stream = Seed::from_bytes([0; 32]).stream(&[b"dice"]);
    /// let dice: Vec<u64> = (0..8).map(|_| 1 + stream.below(six)).collect();
    /// assert_eq!(dice, [4, 2, 3, 1, 4, 6, 6, 3]);
    /// ```
    #[inline]
    pub fn below(&mut self, n: NonZeroU64) -> u64 {
        // Every number below 2^64 - n is below the limit too, which saves most numbers a second
        // division.
        let surely_good = n.get().wrapping_neg();
        loop {
            let number = self.next_u64();
            if number < surely_good || number <= last_good(n) {
                return number % n;
            }
        }
    }

    fn refill(&mut self) {
        let mut bytes = [0; NUMBERS_PER_REFILL * 8];
        self.cipher.write_keystream(&mut bytes);
        let (numbers, _) = bytes.as_chunks::<8>();
        for (slot, number) in self.numbers.iter_mut().zip(numbers) {
            *slot = u64::from_le_bytes(*number);
        }
        self.used = 0;
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// `floor(2^64 / n) * n - 1`: 2^64 - 1 without the odd rest of 2^64 modulo n.
fn last_good(n: NonZeroU64) -> u64 {
    u64::MAX - n.get().wrapping_neg() % n
}
