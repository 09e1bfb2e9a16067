//! Which recorder is wanted, and which one there is.

use std::fmt;
use std::str::FromStr;

use program::Program;
use serde::{Deserialize, Serialize};
use slicer::plan::Plan;
use thiserror::Error;
use tracee::bpf::BpfError;
use tracee::perf::intel_pt::PtPmu;
use tracee::perf::{PerfError, Uprobe};

use super::Recorder;
use super::intel::{IntelOptions, IntelPt};
use super::software::{Options, SoftwarePt};
use super::step::SingleStep;

/// How the caller wants control flow recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ControlFlow {
    /// Intel PT where the processor and the kernel have it and can be told what to trace, else probes, else not at all.
    #[default]
    Auto,
    /// This one, or fail.
    Only(Source),
    /// Not at all.
    None,
}

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// The processor.
    IntelPt,
    /// Probes on branches, in software.
    SoftwarePt,
    /// One instruction at a time: for tests.
    SingleStep,
}

/// The name is none of those that there are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no such recorder: {0}; there are auto, intel-pt, software-pt and none")]
pub struct UnknownRecorder(String);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::IntelPt => "intel-pt",
            Self::SoftwarePt => "software-pt",
            Self::SingleStep => "single-step",
        })
    }
}

impl fmt::Display for ControlFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Only(source) => source.fmt(f),
            Self::None => f.pad("none"),
        }
    }
}

impl FromStr for ControlFlow {
    type Err = UnknownRecorder;

    fn from_str(name: &str) -> Result<Self, UnknownRecorder> {
        match name {
            "auto" => Ok(Self::Auto),
            "intel-pt" => Ok(Self::Only(Source::IntelPt)),
            "software-pt" => Ok(Self::Only(Source::SoftwarePt)),
            "none" => Ok(Self::None),
            other => Err(UnknownRecorder(other.to_owned())),
        }
    }
}

/// Why control flow cannot be recorded in the way that was asked for.
#[derive(Debug, Error)]
pub enum RecorderError {
    /// No Intel PT.
    #[error("Intel PT cannot be used: {why}; {instead}")]
    NoIntelPt {
        /// Why.
        why: String,
        /// What else there is.
        instead: &'static str,
    },
    /// No probes with programs.
    #[error("control flow cannot be recorded with probes: {0}; --control-flow none does without")]
    NoSoftwarePt(String),
    /// A probe could not be set for a reason that concerns all of them.
    #[error(transparent)]
    Perf(#[from] PerfError),
    /// A program could not be loaded.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// Which recorder a request comes to on this host; `None` for none.
///
/// # Errors
/// When one was asked for that is not there. With [`ControlFlow::Auto`] there is always an answer.
pub fn choose(request: ControlFlow) -> Result<Option<Source>, RecorderError> {
    match request {
        ControlFlow::None => Ok(None),
        // A processor without filters (the first that had Intel PT) records everything, and most of it is of libraries
        // whose code the decoder is not given: probes tell more.
        ControlFlow::Auto if PtPmu::of_this_host().is_ok_and(|pmu| pmu.filters > 0) => {
            Ok(Some(Source::IntelPt))
        }
        ControlFlow::Auto => Ok(software().is_ok().then_some(Source::SoftwarePt)),
        ControlFlow::Only(Source::IntelPt) => match PtPmu::of_this_host() {
            Ok(_) => Ok(Some(Source::IntelPt)),
            Err(why) => Err(RecorderError::NoIntelPt {
                why: why.to_string(),
                instead: match software() {
                    Ok(()) => "--control-flow software-pt records with probes on branches",
                    Err(_) => "probes cannot be used either: --control-flow none does without",
                },
            }),
        },
        ControlFlow::Only(Source::SoftwarePt) => {
            software().map_err(RecorderError::NoSoftwarePt)?;
            Ok(Some(Source::SoftwarePt))
        }
        ControlFlow::Only(Source::SingleStep) => Ok(Some(Source::SingleStep)),
    }
}

/// Whether probes with programs are there, by trying.
fn software() -> Result<(), String> {
    Uprobe::supported().map_err(|error| error.to_string())?;
    super::software::try_program().map_err(|error| error.to_string())
}

/// Hits of probes in one run: at some 5 µs each, a tenth of a second.
const MOST_HITS: u64 = 20_000;

/// A recorder for one run of a program under a plan; `None` when nothing is to be recorded.
///
/// # Errors
/// When one was asked for that is not there.
pub fn recorder(
    request: ControlFlow,
    program: &Program<'_>,
    plan: &Plan,
) -> Result<Option<Box<dyn Recorder>>, RecorderError> {
    Ok(match choose(request)? {
        None => None,
        Some(Source::IntelPt) => Some(Box::new(IntelPt::new(program, plan, IntelOptions::default())?)),
        Some(Source::SingleStep) => Some(Box::new(SingleStep::new(program, plan))),
        Some(Source::SoftwarePt) => Some(Box::new(SoftwarePt::new(
            program,
            plan,
            Options {
                hits: MOST_HITS,
                ..Options::default()
            },
        ))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_option() {
        for name in ["auto", "intel-pt", "software-pt", "none"] {
            assert_eq!(name.parse::<ControlFlow>().unwrap().to_string(), name);
        }
        assert!("single-step".parse::<ControlFlow>().is_err(), "for tests only");
    }
}
