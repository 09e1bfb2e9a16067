//! The same through libipt: what our decoder is held against.

use tracee::libipt::{self, EventKind, Fault, Image, InsnDecoder, SetupError};

use crate::config::{Config, Erratum};
use crate::flow::{Gap, Why};
use crate::packet::{PSB, next_psb};

/// So many instructions without a packet are an endless loop in the code.
const WITHOUT_PACKET: u64 = 1 << 20;

/// Is told what ran, instruction by instruction.
pub trait Instructions {
    /// An instruction ran.
    fn instruction(&mut self, address: u64);

    /// From here on nothing is known, until decoding begins anew.
    fn gap(&mut self, gap: Gap);
}

/// Decodes a trace with libipt's instruction decoder.
///
/// # Errors
/// When libipt cannot be set up.
pub fn decode(
    image: &Image<'_>,
    trace: &[u8],
    config: &Config,
    told: &mut impl Instructions,
) -> Result<(), SetupError> {
    if trace.is_empty() {
        return Ok(());
    }
    let mut next = next_psb(trace, 0);
    if next != Some(0) {
        told.gap(Gap {
            from: 0,
            to: next.unwrap_or(trace.len()) as u64,
            why: Why::NotSynchronised,
        });
    }
    let mut decoder = InsnDecoder::new(trace, image, &settings(config))?;
    while let Some(psb) = next {
        let Err(why) = segment(&mut decoder, psb as u64, told) else {
            break;
        };
        let at = decoder.offset().and_then(|offset| usize::try_from(offset).ok());
        let at = at.unwrap_or(trace.len());
        next = next_psb(trace, at.max(psb + PSB.len()));
        told.gap(Gap {
            from: at as u64,
            to: next.unwrap_or(trace.len()) as u64,
            why,
        });
    }
    Ok(())
}

/// Decodes from a PSB to the end or an error.
fn segment(decoder: &mut InsnDecoder<'_>, psb: u64, told: &mut impl Instructions) -> Result<(), Why> {
    let mut status = match decoder.sync_at(psb) {
        Ok(status) => status,
        Err(Fault::EndOfTrace) => return Ok(()),
        Err(fault) => return Err(why(fault)),
    };
    let (mut offset, mut without_packet) = (None, 0);
    loop {
        while status.event_pending {
            match decoder.event() {
                Ok((event, next)) => {
                    if let EventKind::Overflow { .. } = event.kind {
                        let at = decoder.offset().unwrap_or(psb);
                        told.gap(Gap {
                            from: at,
                            to: at,
                            why: Why::Overflow,
                        });
                    }
                    status = next;
                }
                Err(Fault::EndOfTrace) => return Ok(()),
                Err(fault) => return Err(why(fault)),
            }
        }
        let (insn, stepped) = decoder.next_insn();
        if insn.size > 0 {
            told.instruction(insn.ip);
        }
        status = match stepped {
            Ok(next) => next,
            // What the code does after the last packet is a guess from the first decision on.
            Err(_) if status.end_of_trace => return Ok(()),
            Err(Fault::EndOfTrace) => return Ok(()),
            Err(fault) => return Err(why(fault)),
        };
        without_packet += 1;
        if without_packet > WITHOUT_PACKET {
            if status.end_of_trace || decoder.offset() == offset {
                return Err(Why::Endless);
            }
            (offset, without_packet) = (decoder.offset(), 0);
        }
    }
}

/// How the trace was recorded, in libipt's words.
fn settings(config: &Config) -> libipt::Config {
    let errata = Erratum::ALL
        .into_iter()
        .filter(|&erratum| config.errata.has(erratum));
    let errata = errata.map(|erratum| match erratum {
        Erratum::Bdm70 => libipt::Erratum::Bdm70,
        Erratum::Bdm64 => libipt::Erratum::Bdm64,
        Erratum::Skd007 => libipt::Erratum::Skd007,
        Erratum::Skd022 => libipt::Erratum::Skd022,
        Erratum::Skd010 => libipt::Erratum::Skd010,
        Erratum::Skl014 => libipt::Erratum::Skl014,
        Erratum::Apl11 => libipt::Erratum::Apl11,
        Erratum::Apl12 => libipt::Erratum::Apl12,
        Erratum::Skl168 => libipt::Erratum::Skl168,
        Erratum::Skz84 => libipt::Erratum::Skz84,
    });
    let clock = &config.clock;
    let filter = config.filter.unwrap_or_default();
    libipt::Config {
        errata: errata.collect(),
        filter: filter.ranges.into_iter().flatten().collect(),
        mtc_frequency: clock.mtc_frequency,
        nominal_ratio: clock.nominal_ratio.map_or(0, u8::from),
        tsc_per_crystal: clock
            .tsc_per_crystal
            .map_or((0, 0), |(ticks, crystal)| (ticks.get(), crystal.get())),
    }
}

/// libipt's error in our words.
#[must_use]
pub fn why(fault: Fault) -> Why {
    match fault {
        Fault::NotSynchronised => Why::NotSynchronised,
        Fault::UnknownPacket => Why::UnknownPacket,
        Fault::MalformedPacket => Why::MalformedPacket,
        Fault::UnexpectedPacket | Fault::NotEnabled => Why::UnexpectedPacket,
        Fault::Mismatch | Fault::EndOfTrace => Why::Mismatch,
        Fault::NoAddress => Why::NoAddress,
        Fault::NoCode => Why::NoCode,
        Fault::NotAnInstruction => Why::NotAnInstruction,
        Fault::NoCall => Why::NoCall,
        Fault::ReturnNotTaken => Why::ReturnNotTaken,
        Fault::BadStatus => Why::BadStatus,
        Fault::Other(code) => Why::Other(code),
    }
}
