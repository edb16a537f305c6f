//! The slot of a key in a cluster (Redis cluster specification, "Key distribution model").

/// The number of slots.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key. If the key has text between its first braces, only that text counts.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|&byte| byte == b'{')? + 1;
        let length = key[open..].iter().position(|&byte| byte == b'}')?;
        (length > 0).then(|| &key[open..open + length])
    };
    crc16(tag().unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` of Redis 7.0 answers.
    #[test]
    fn slots_are_those_of_redis() {
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("bar{foo}{baz}", 12_182),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
    }
}
