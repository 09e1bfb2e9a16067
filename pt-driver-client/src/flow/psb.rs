//! PSB and what belongs to it: where decoding begins, and what it is checked against when it comes by.

use super::consumer::{Consumer, Event, Why};
use super::decoder::{Known, State};
use super::fast::zeros;
use crate::config::Erratum;
use crate::packet::{ExecMode, Packet, PacketError};

impl Known<'_> {
    /// PSB and what belongs to it, up to PSBEND: the state, for a decoder that begins here; for one that comes by,
    /// the state as it should be. Whether that was the end.
    pub fn psb<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        next: usize,
        consumer: &mut C,
    ) -> Result<bool, Why> {
        if !state.pending.is_empty() {
            return Err(Why::UnexpectedPacket);
        }
        let is_last = state.begun && state.position >= state.end;
        let start = state.position;
        let (mut ip, mut mode) = (None, None);
        state.position = next;
        state.timeline.psb();
        let overflow = loop {
            // Much of what belongs to a PSB is PADs.
            state.position += state.trace.get(state.position..).map_or(0, zeros);
            let (packet, size) = match state.packet(state.position) {
                Ok(parsed) => parsed,
                Err(PacketError::End) => {
                    self.finish(state, consumer);
                    return Ok(true);
                }
                // Whoever begins here will find it.
                Err(_) if is_last => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            match packet {
                Packet::PsbEnd => {
                    state.position += size;
                    break false;
                }
                Packet::Overflow => break true,
                Packet::Fup(payload) => ip = payload.resolve(ip.unwrap_or(0)),
                Packet::ModeExec { mode: told, .. } => mode = Some(told),
                _ if packet.is_timing() => self.timing(state, packet, true, consumer),
                Packet::Pad
                | Packet::ModeTsx { .. }
                | Packet::Pip { .. }
                | Packet::Vmcs { .. }
                | Packet::Mnt(_) => {}
                _ if is_last => return Ok(true),
                _ => return Err(Why::UnexpectedPacket),
            }
            state.position += size;
        };
        if state.has(Erratum::Bdm70) && !overflow && ip.is_some() && enables_next(state) {
            ip = None;
        }
        if state.begun {
            if let Err(why) = self.pass_psb(state, ip, mode, overflow, consumer) {
                // The state is wrong, but not the PSB: decoding begins anew with it.
                state.position = start;
                return Err(why);
            }
        } else if let Some(ip) = ip {
            state.enabled = true;
            state.go(ip);
        }
        state.last_ip = ip.unwrap_or(0);
        if is_last {
            return Ok(true);
        }
        if let Some(mode) = mode {
            state.switch(mode);
        }
        if let Some(ip) = ip.filter(|_| !state.begun) {
            self.event(Event::Enabled(ip), consumer);
        }
        state.begun = true;
        Ok(false)
    }

    /// Comes by a PSB: runs up to where it was written, if the state is what it says.
    fn pass_psb<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        ip: Option<u64>,
        mode: Option<ExecMode>,
        overflow: bool,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let same_mode = !state.mode_known || mode.is_none_or(|mode| mode == state.mode);
        if !same_mode || ip.is_none() && state.enabled && !overflow || ip.is_some() && !state.enabled {
            return Err(Why::BadStatus);
        }
        match ip {
            Some(ip) => self.arrive(state, ip, consumer),
            None => Ok(()),
        }
    }
}

/// BDM70: a FUP in PSB+ although tracing is off. The TIP.PGE that follows tells.
fn enables_next(state: &State<'_>) -> bool {
    let mut at = state.position;
    while let Ok((packet, size)) = state.packet(at) {
        match packet {
            Packet::TipPge(_) => return true,
            Packet::Pad
            | Packet::Pip { .. }
            | Packet::ModeExec { .. }
            | Packet::ModeTsx { .. }
            | Packet::Vmcs { .. }
            | Packet::Mnt(_) => {}
            _ if packet.is_timing() => {}
            _ => return false,
        }
        at += size;
    }
    false
}
