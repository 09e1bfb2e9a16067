//! `failsketch watch`, and what it reports.

use std::ffi::OsStr;
use std::process::{Command, ExitStatus};

use serde_json::Value;

use crate::command;
use crate::running::Running;

/// A `failsketch watch --json` that runs.
#[derive(Debug)]
pub struct Watch(pub Running);

/// One reported access.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Its number.
    pub seq: u64,
    /// When.
    pub time_ns: u64,
    /// Which thread.
    pub tid: u64,
    /// The function and the file's last component, where known.
    pub function: String,
    /// See above.
    pub file: Option<String>,
    /// The line; 0 where not known.
    pub line: u32,
    /// `R`, `W` or `RW`, with ` atomic` if it is.
    pub access: String,
    /// The watched address.
    pub addr: String,
    /// What the user called it.
    pub variable: Option<String>,
    /// After the access, as bits.
    pub value: Option<u64>,
    /// Before the access.
    pub before: Option<u64>,
    /// The value after as it is shown.
    pub shown: Value,
    /// Its place among its neighbours is not certain.
    pub unordered: bool,
}

/// Everything that a watch reported.
#[derive(Debug)]
pub struct Watched {
    /// The accesses in the order of the report.
    pub hits: Vec<Hit>,
    /// Reported, by the summary.
    pub count: u64,
    /// Lost, by the summary.
    pub lost: u64,
    /// The whole summary.
    pub summary: Value,
    /// How the command ended.
    pub status: ExitStatus,
    /// What it said, with what a launched program printed.
    pub stderr: String,
}

impl Watch {
    /// Starts `failsketch watch --json` with these arguments.
    #[must_use]
    pub fn start<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self(Running::start(&mut Self::command(arguments)))
    }

    /// The command itself.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(command::binary());
        // The environment as it is: a launched program sees it.
        command.args(["watch", "--json"]).args(arguments);
        command
    }

    /// Attaches to a process, and waits until everything is armed.
    ///
    /// # Panics
    /// When it does not come to that.
    #[must_use]
    pub fn attach(pid: u32, mode: &str, variables: &[&str]) -> Self {
        let pid = pid.to_string();
        let named = variables.iter().flat_map(|name| ["--var", *name]);
        let watch = Self::start(["--pid", pid.as_str(), "--mode", mode].into_iter().chain(named));
        if let Err(instead) = watch.0.stderr_line("failsketch: watching ") {
            panic!("watch --pid {pid} --mode {mode} {variables:?} does not watch:\n{instead}");
        }
        watch
    }

    /// Launches a program under watch; its standard input has ended.
    #[must_use]
    pub fn launch(program: &Command, mode: &str, variables: &[&str]) -> Self {
        let named = variables.iter().flat_map(|name| ["--var", *name]);
        let options = ["--mode", mode]
            .into_iter()
            .chain(named)
            .chain(["--"])
            .map(OsStr::new);
        let program_words = std::iter::once(program.get_program()).chain(program.get_args());
        let mut watch = Self::start(options.chain(program_words));
        watch.0.end_input();
        watch
    }

    /// Waits for its end, by itself, and reads the report.
    ///
    /// # Panics
    /// When it ends badly, or its output is not what was agreed on.
    #[must_use]
    pub fn finish(self) -> Watched {
        let done = self.0.finish();
        let fail = |why: &str| -> ! {
            panic!(
                "{why}: {}\n{}\n{}",
                done.how(),
                shorten(&done.stdout),
                done.stderr
            )
        };
        if !done.status.success() {
            fail("watch fails");
        }
        let lines: Vec<Value> = done
            .stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| fail(&format!("not JSON: {line}: {error}")))
            })
            .collect();
        let Some((last, hits)) = lines.split_last() else {
            fail("watch prints nothing")
        };
        let summary = last["summary"].clone();
        let (Some(count), Some(lost)) = (summary["hits"].as_u64(), summary["lost"].as_u64()) else {
            fail("the last line is not a summary")
        };
        Watched {
            hits: hits.iter().map(Hit::read).collect(),
            count,
            lost,
            summary,
            status: done.status,
            stderr: done.stderr,
        }
    }
}

impl Hit {
    fn read(value: &Value) -> Self {
        let number = |field: &str| {
            let number = value[field].as_u64();
            number.unwrap_or_else(|| panic!("{field} is not a number: {value}"))
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let statement = &value["statement"];
        let access = text(&value["access"]).unwrap_or_else(|| panic!("no access: {value}"));
        let atomic = value["atomic"] == true;
        Self {
            seq: number("seq"),
            time_ns: number("time_ns"),
            tid: number("tid"),
            function: text(&statement["function"]).unwrap_or_default(),
            file: text(&statement["file"]).and_then(|path| path.rsplit('/').next().map(str::to_owned)),
            line: statement["line"]
                .as_u64()
                .and_then(|line| u32::try_from(line).ok())
                .unwrap_or(0),
            access: if atomic { access + " atomic" } else { access },
            addr: text(&value["addr"]).unwrap_or_else(|| panic!("no address: {value}")),
            variable: text(&value["variable"]),
            value: bits(&value["value"]),
            before: bits(&value["before"]),
            shown: value["value"].clone(),
            unordered: value["unordered"] == true,
        }
    }
}

/// A value as the bits of eight bytes.
fn bits(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_i64().map(i64::cast_unsigned)),
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    }
}

fn shorten(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0..=20 => lines.join("\n"),
        count => format!(
            "{}\n… {} lines …\n{}",
            lines[..10].join("\n"),
            count - 20,
            lines[count - 10..].join("\n")
        ),
    }
}
