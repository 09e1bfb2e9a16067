//! A keeper and nothing else: what the tests start for processes that they attach to in exact mode.

use std::process::ExitCode;

fn main() -> ExitCode {
    watchpoint::keeper::serve()
}
