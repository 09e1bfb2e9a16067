//! What people ask a server for: `failsketch bugs`, and `show` of a bug.

use std::fmt::Write as _;

use agent::link::Access;
use anyhow::{Context as _, Result, bail};
use diagnosis::sketch::Sketch;
use program::BuildId;
use proto::v1::bugs_client::BugsClient;
use proto::v1::steer_request::{Fixed, Resume, Stop, What, Widen};
use proto::v1::{Bug, GetBugRequest, GetSketchRequest, ListAuditRequest, ListBugsRequest, SteerRequest};
use sketch_render::text::plain;
use time::OffsetDateTime;
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use crate::args::{BugsArgs, ServerArgs, SteerArgs};
use crate::{show, source_text};
use sources::add_sources;

/// A connection to the service for people.
pub type People = BugsClient<InterceptedService<Channel, agent::link::Bearer>>;

/// The way to a server that the options name.
pub fn access(args: &ServerArgs) -> Result<Access> {
    let server = args
        .server
        .clone()
        .context("no server: give --server URL, or set FAILSKETCH_SERVER")?;
    Ok(Access {
        server,
        ca: args.ca.clone(),
        identity: None,
        token: args.token.clone(),
        insecure: args.insecure,
    })
}

/// Connects when it is first used.
pub fn connect(access: &Access) -> Result<People> {
    let (channel, bearer) = access.channel()?;
    Ok(BugsClient::with_interceptor(channel, bearer)
        .max_decoding_message_size(proto::MOST_MESSAGE)
        .accept_compressed(tonic::codec::CompressionEncoding::Gzip))
}

/// What a server said, in one line.
pub fn said(status: Status) -> anyhow::Error {
    match status.code() {
        tonic::Code::Unavailable if status.message().contains("certificate") => anyhow::anyhow!(
            "the server cannot be trusted ({}): --ca gives the file with its authority's certificate, the ca.pem that `failsketch serve --init` made",
            status.message()
        ),
        tonic::Code::Unavailable => anyhow::anyhow!(
            "the server cannot be reached ({}): is the address that --server or FAILSKETCH_SERVER gives right, and does `failsketch serve` run there?",
            status.message()
        ),
        // What speaks TLS does not understand what does not.
        tonic::Code::Internal | tonic::Code::Unknown if is_of_transport(status.message()) => anyhow::anyhow!(
            "the server does not understand what is sent to it ({}): if it has TLS, its address begins with https://",
            status.message()
        ),
        tonic::Code::Unimplemented => {
            anyhow::anyhow!("the server is older than this failsketch, and cannot do this: upgrade it")
        }
        tonic::Code::Unauthenticated => anyhow::anyhow!(
            "the server says: {}; --token or FAILSKETCH_TOKEN_FILE gives the file with yours",
            status.message()
        ),
        _ => anyhow::anyhow!("the server says: {}", status.message()),
    }
}

/// Whether an error is about the connection and not about a request.
fn is_of_transport(message: &str) -> bool {
    message.starts_with("h2 protocol error") || message.starts_with("transport error")
}

/// Lists the bugs; gives what to print.
pub fn bugs(args: &BugsArgs) -> Result<String> {
    if args.audit {
        return audit(args);
    }
    let access = access(&args.server)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let listed = runtime.block_on(async {
        let request = ListBugsRequest {
            program: args.program.clone().unwrap_or_default(),
            limit: args.limit,
        };
        connect(&access)?.list_bugs(request).await.map_err(said)
    })?;
    let bugs = listed.into_inner().bugs;
    if bugs.is_empty() {
        return Ok("no bugs yet: `failsketch agent` on a host reports the first failure\n".to_owned());
    }
    let mut text = String::new();
    for bug in &bugs {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line(bug));
    }
    Ok(text)
}

/// Lists who steered bugs; gives what to print.
fn audit(args: &BugsArgs) -> Result<String> {
    let access = access(&args.server)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let listed = runtime.block_on(async {
        let request = ListAuditRequest {
            program: args.program.clone().unwrap_or_default(),
            limit: args.limit,
        };
        connect(&access)?.list_audit(request).await.map_err(said)
    })?;
    let entries = listed.into_inner().entries;
    if entries.is_empty() {
        return Ok("nobody has steered a bug yet: `failsketch steer`\n".to_owned());
    }
    let mut text = String::new();
    for entry in &entries {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}  {}  {}: {} by {}",
            utc(entry.at),
            entry.bug,
            plain(&entry.program),
            plain(&entry.what),
            plain(&entry.who),
        );
    }
    Ok(text)
}

/// Seconds since 1970 as people write them; as they are where no calendar has them.
fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok();
    let time = time.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let Some(time) = time else {
        return seconds.to_string();
    };
    let (hour, minute, second) = time.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
}

/// Has a bug treated differently; gives what to print.
pub fn steer(args: &SteerArgs) -> Result<String> {
    let what = match &args.fixed_in {
        Some(build) => {
            let build = BuildId::from_hex(build);
            let build = build.context("a build-id is hexadecimal, as `file` and `readelf -n` print it")?;
            What::Fixed(Fixed {
                build_id: build.0.into(),
            })
        }
        None if args.stop => What::Stop(Stop {}),
        None if args.resume => What::Resume(Resume {}),
        None => What::Widen(Widen {}),
    };
    let access = access(&args.server)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let bug = runtime.block_on(async {
        let request = SteerRequest {
            bug: args.bug.clone(),
            what: Some(what),
        };
        connect(&access)?.steer(request).await.map_err(said)
    })?;
    Ok(format!("{}\n", line(&bug.into_inner())))
}

fn line(bug: &Bug) -> String {
    let state = bug.state().word(bug.explained);
    let best = match bug.best.is_empty() {
        true => "no predictor yet",
        false => &bug.best,
    };
    format!(
        "{}  {:9}  {}, {}, {}  {}: {}\n    {}",
        bug.id,
        state,
        counted(bug.failures, "failure"),
        counted(bug.runs, "tracked run"),
        counted(bug.hosts, "host"),
        plain(&bug.program),
        plain(&bug.signature),
        plain(best),
    )
}

/// `1 host`, `2 hosts`.
fn counted(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The sketch of a bug.
pub fn sketch(server: &ServerArgs, bug: &str, map: &[(String, String)]) -> Result<Sketch> {
    let access = access(server)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let bytes = runtime.block_on(async {
        let request = GetSketchRequest {
            bug: bug.to_owned(),
            ..GetSketchRequest::default()
        };
        connect(&access)?.get_sketch(request).await.map_err(said)
    })?;
    let bytes = bytes.into_inner().sketch;
    if bytes.is_empty() {
        bail!("the server has no sketch of bug {bug}");
    }
    with_sources(&bytes, map)
}

/// Where a server has the page of a bug.
pub fn page(server: &ServerArgs, bug: &str) -> Result<String> {
    let access = access(server)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let bug = runtime.block_on(async {
        let request = GetBugRequest { bug: bug.to_owned() };
        connect(&access)?.get_bug(request).await.map_err(said)
    })?;
    let bug = bug.into_inner().id;
    Ok(format!(
        "{}/bugs/{}",
        access.server.trim_end_matches('/'),
        plain(&bug)
    ))
}

/// A sketch that a server sent, with the text of the sources that are here.
pub fn with_sources(bytes: &[u8], map: &[(String, String)]) -> Result<Sketch> {
    let mut sketch = show::parse(bytes)?;
    let sources = source_text::of_sketch(map, &sketch)?;
    add_sources(&mut sketch, &sources);
    Ok(sketch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_let_in_hears_which_option_to_give() {
        let says = |status: Status| said(status).to_string();
        assert!(says(Status::unavailable("connection refused")).contains("--server"));
        assert!(says(Status::unavailable("invalid peer certificate: UnknownIssuer")).contains("--ca "));
        assert!(says(Status::unauthenticated("who are you?")).contains("--token "));
        assert!(says(Status::internal("h2 protocol error: http2 error")).contains("https://"));
        assert_eq!(says(Status::not_found("no bug x")), "the server says: no bug x");
    }
}
