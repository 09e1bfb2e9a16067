//! The processor lost packets: where tracing goes on.
//!
//! A FUP right behind the OVF says where; anything else says that tracing is off. Some processors get this wrong, each
//! in its own way: the workarounds are those of libipt.

use super::consumer::{Consumer, Event, Gap, Why};
use super::decoder::{Known, State};
use super::pending::Pending;
use crate::config::Erratum;
use crate::packet::{IpPayload, Packet, PacketError};

/// Where decoding goes on.
struct Resumed {
    /// The next packet.
    at: usize,
    /// Where the program is, if tracing is on.
    ip: Option<IpPayload>,
}

/// What comes behind an OVF.
enum Behind {
    /// A FUP, and the offset after it.
    Fup(IpPayload, usize),
    /// Something that tells that tracing is off, or the end.
    Off,
    /// A packet that cannot be there.
    Unexpected,
}

impl Known<'_> {
    /// Goes on behind an OVF: the offset of the next packet.
    pub fn overflow<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        next: usize,
        consumer: &mut C,
    ) -> Result<usize, Why> {
        let from = state.position as u64;
        state.pending = Pending::default();
        let resumed = resumed(state, next)?;
        state.timeline.lost();
        state.last_ip = 0;
        state.mode_known = false;
        state.begun = true;
        let ip = resumed.ip.and_then(|payload| Self::address(state, payload));
        self.flush(consumer);
        consumer.gap(Gap {
            from,
            to: resumed.at as u64,
            why: Why::Overflow,
        });
        let mut between = next;
        while between < resumed.at
            && let Ok((packet, size)) = state.packet(between)
        {
            self.timing(state, packet, false, consumer);
            between += size;
        }
        state.enabled = ip.is_some();
        if let Some(ip) = ip {
            state.go(ip);
            self.event(Event::Enabled(ip), consumer);
        }
        Ok(resumed.at)
    }
}

fn resumed(state: &State<'_>, next: usize) -> Result<Resumed, Why> {
    let behind = behind(state, next)?;
    if let Behind::Fup(ip, after) = behind {
        let ip = Some(ip).filter(|_| !(state.has(Erratum::Apl12) && is_off(state, after)));
        return Ok(Resumed { at: after, ip });
    }
    if state.has(Erratum::Skd010)
        && let Some(resumed) = without_fup(state, next)
    {
        return Ok(resumed);
    }
    if let Behind::Unexpected = behind {
        let after = state
            .has(Erratum::Apl11)
            .then(|| after_disable(state, next))
            .flatten();
        let at = after.ok_or(Why::UnexpectedPacket)?;
        return Ok(Resumed { at, ip: None });
    }
    Ok(Resumed { at: next, ip: None })
}

fn behind(state: &State<'_>, mut at: usize) -> Result<Behind, Why> {
    loop {
        match state.packet(at) {
            Ok((Packet::Fup(payload), size)) => return Ok(Behind::Fup(payload, at + size)),
            Ok((packet, size)) if packet.is_timing() => at += size,
            Ok((Packet::Pad | Packet::Mnt(_), size)) => at += size,
            Ok((Packet::PsbEnd | Packet::Tip(_) | Packet::TipPgd(_) | Packet::Tnt(_), _)) => {
                return Ok(Behind::Unexpected);
            }
            Ok(_) | Err(PacketError::End) => return Ok(Behind::Off),
            Err(error) => return Err(error.into()),
        }
    }
}

/// SKD010: the FUP is missing. The next packet with an address says where tracing goes on, if it is on.
fn without_fup(state: &State<'_>, mut at: usize) -> Option<Resumed> {
    let mut transaction = None;
    while let Ok((packet, size)) = state.packet(at) {
        match packet {
            Packet::TipPgd(_) => {
                return Some(Resumed {
                    at: at + size,
                    ip: None,
                });
            }
            Packet::Tip(ip) => {
                return Some(Resumed {
                    at: at + size,
                    ip: Some(ip),
                });
            }
            // It belongs to a transaction or an interrupt: both begin where the program is.
            Packet::Fup(ip) => {
                return Some(Resumed {
                    at: transaction.unwrap_or(at),
                    ip: Some(ip),
                });
            }
            Packet::Psb => return header_fup(state, at + size).map(|ip| Resumed { at, ip: Some(ip) }),
            Packet::ModeTsx { .. } if transaction.is_none() => transaction = Some(at),
            Packet::Pad
            | Packet::Mnt(_)
            | Packet::Pip { .. }
            | Packet::Vmcs { .. }
            | Packet::ModeExec { .. }
            | Packet::PwrEntry { .. }
            | Packet::PwrExit { .. }
            | Packet::EventData { .. }
            | Packet::ExStop { ip: false }
            | Packet::Ptw { ip: false, .. }
            | Packet::ControlFlowEvent { ip: false, .. } => {}
            _ if packet.is_timing() => {}
            // Tracing is on after outcomes, but of which branches nobody knows.
            _ => return None,
        }
        at += size;
    }
    None
}

/// APL11: a TIP.PGD that should not be there; the offset after it.
fn after_disable(state: &State<'_>, mut at: usize) -> Option<usize> {
    while let Ok((packet, size)) = state.packet(at) {
        match packet {
            Packet::TipPgd(_) => return Some(at + size),
            Packet::Pad | Packet::Mnt(_) | Packet::ControlFlowEvent { .. } | Packet::EventData { .. } => {}
            _ if packet.is_timing() => {}
            _ => return None,
        }
        at += size;
    }
    None
}

/// APL12: a FUP although tracing is off. The packets behind tell.
fn is_off(state: &State<'_>, mut at: usize) -> bool {
    while let Ok((packet, size)) = state.packet(at) {
        match packet {
            Packet::TipPge(_) | Packet::TraceStop => return true,
            Packet::Psb => return header_has_end(state, at + size) && header_fup(state, at + size).is_none(),
            Packet::Tnt(_) | Packet::Tip(_) | Packet::TipPgd(_) | Packet::PsbEnd | Packet::Overflow => {
                return false;
            }
            _ => at += size,
        }
    }
    false
}

/// The FUP of a PSB+.
fn header_fup(state: &State<'_>, at: usize) -> Option<IpPayload> {
    header(state, at).find_map(|packet| match packet {
        Packet::Fup(ip) => Some(ip),
        _ => None,
    })
}

fn header_has_end(state: &State<'_>, at: usize) -> bool {
    header(state, at).any(|packet| packet == Packet::PsbEnd)
}

/// The packets from an offset in a PSB+ to its end.
fn header<'s>(state: &'s State<'_>, mut at: usize) -> impl Iterator<Item = Packet> + 's {
    let mut is_over = false;
    std::iter::from_fn(move || {
        let (packet, size) = state.packet(at).ok().filter(|_| !is_over)?;
        at += size;
        is_over = matches!(packet, Packet::PsbEnd | Packet::Overflow | Packet::Psb);
        Some(packet)
    })
}
