//! A front and nothing else: `front PID ADDRESS MODE KEEPER` watches eight bytes until it is killed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use program::RunAddr;
use tracee::Pid;
use watchpoint::code::CodeFiles;
use watchpoint::session::{Keeper, Request, Session};
use watchpoint::{Address, Mode, ModeRequest, Target, Trigger, WatchSpec};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, address, mode, keeper] = &arguments[..] else {
        return ExitCode::from(2);
    };
    let (Ok(pid), Ok(address)) = (pid.parse(), address.parse()) else {
        return ExitCode::from(2);
    };
    let request = Request {
        target: Target::Process(Pid(pid)),
        locations: vec![WatchSpec {
            address: Address::Run(RunAddr(address)),
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        }],
        mode: ModeRequest::Only(if mode == "exact" {
            Mode::Exact
        } else {
            Mode::Observe
        }),
        keeper: Some(Keeper {
            program: PathBuf::from(keeper),
            arguments: Vec::new(),
        }),
    };
    let files = CodeFiles::default();
    let Ok((mut session, _)) = Session::start(request, &files) else {
        return ExitCode::FAILURE;
    };
    while let Ok(progress) = session.next(Duration::from_millis(10)) {
        if progress.ended.is_some() {
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::FAILURE
}
