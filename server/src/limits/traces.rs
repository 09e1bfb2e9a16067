//! How much a trace tells, before it is decoded.
//!
//! A byte can have six outcomes of branches in it, and decoding makes a block and a branch of each: a small trace is a large one
//! when it is decoded. Probes write twenty thousand outcomes at most; a processor that went round in a loop writes as many as its
//! buffer holds.

use pt_driver_client::packet::parse::parse;
use pt_driver_client::packet::sync::next_psb;
use pt_driver_client::packet::{Packet, PacketError};

/// Outcomes of branches in all traces of a run.
pub(super) const BRANCHES: usize = 1 << 20;

/// The outcomes of branches that a trace tells, going through its packets as a decoder does.
pub(super) fn branches(trace: &[u8]) -> usize {
    let mut count = 0_usize;
    let mut next = next_psb(trace, 0);
    while let Some(psb) = next {
        let mut at = psb;
        let mut in_block = None;
        let stopped: PacketError = loop {
            match parse(trace.get(at..).unwrap_or_default(), in_block) {
                Ok((packet, length)) => {
                    at += length.max(1);
                    match packet {
                        Packet::Tnt(outcomes) => count = count.saturating_add(outcomes.count.into()),
                        Packet::Tip(_) | Packet::TipPge(_) | Packet::TipPgd(_) | Packet::Fup(_) => count += 1,
                        Packet::BlockBegin { short, .. } => in_block = Some(short),
                        Packet::BlockEnd { .. } => in_block = None,
                        _ => {}
                    }
                }
                Err(error) => break error,
            }
        };
        next = match stopped {
            PacketError::End => None,
            _ => next_psb(trace, at.max(psb + 1)),
        };
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSB: [u8; 16] = [
        2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
    ];

    #[test]
    fn outcomes_are_counted_from_where_a_decoder_begins() {
        let six = 0xfe;
        assert_eq!(branches(&[]), 0);
        assert_eq!(branches(&[six; 100]), 0, "nobody can begin there");
        assert_eq!(branches(&[&PSB[..], &[six; 100]].concat()), 600);
        // A packet that is none, and what comes after the next PSB.
        let damaged = [&PSB[..], &[six, 2, 0xff, six], &PSB[..], &[six]].concat();
        assert_eq!(branches(&damaged), 12);
        assert_eq!(branches(&PSB.repeat(1000)), 0);
    }
}
