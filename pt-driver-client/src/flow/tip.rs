//! Addresses as the packets that are frequent have them.

/// The address of a TIP packet and the packet's length; `None` when it has none, or is too close to the end. Which
/// compression comes next is hard to foresee: it is looked up, not branched on.
#[inline]
pub(super) fn address(bytes: &[u8], header: u8, last: u64) -> Option<(u64, usize)> {
    let raw = u64::from_le_bytes(*bytes.get(1..)?.first_chunk()?);
    let Payload { told, size, sign } = PAYLOADS[usize::from(header >> 5)];
    let ip = last & !told | raw & told;
    (size > 0).then_some((
        (ip << sign).cast_signed().wrapping_shr(sign).cast_unsigned(),
        size,
    ))
}

/// How a compressed address is written.
#[derive(Clone, Copy)]
struct Payload {
    /// The bits that are told; the others are those of the last address.
    told: u64,
    /// The size of the packet; none for what has no address.
    size: usize,
    /// How many bits are copies of the highest one that is told.
    sign: u32,
}

const PAYLOADS: [Payload; 8] = {
    const fn payload(told: u64, size: usize, sign: u32) -> Payload {
        Payload { told, size, sign }
    }
    let none = payload(0, 0, 0);
    [
        none,
        payload(0xffff, 3, 0),
        payload(0xffff_ffff, 5, 0),
        payload(0xffff_ffff_ffff, 7, 16),
        payload(0xffff_ffff_ffff, 7, 0),
        none,
        payload(u64::MAX, 9, 0),
        none,
    ]
};
