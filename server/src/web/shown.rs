//! Times, states and names as people read them.

use sketch_render::text::plain_start;
use time::OffsetDateTime;

use crate::desk::Summary;
use crate::service::bugs::shown_state;
use crate::store::model;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A name or a message from elsewhere, made harmless and not too long.
pub(super) fn shown(text: &str, most: usize) -> String {
    plain_start(text, most)
}

/// A moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// For machines: `2026-11-17T21:08:00Z`.
    pub iso: String,
    /// In full: `17 Nov 2026, 21:08 UTC`.
    pub full: String,
    /// From now: `3 min ago`.
    pub ago: String,
}

impl Moment {
    /// A moment in seconds since 1970, seen from another.
    pub(super) fn new(at: u64, now: u64) -> Self {
        let seconds = i64::try_from(at).unwrap_or(0);
        let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = (time.year(), time.month(), time.day());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        let name = month.to_string();
        let name = name.get(..3).unwrap_or_default();
        Self {
            iso: format!(
                "{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z",
                u8::from(month)
            ),
            full: format!("{day} {name} {year}, {hour:02}:{minute:02} UTC"),
            ago: ago(now.saturating_sub(at)),
        }
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..10 => "just now".to_owned(),
        10..MINUTE => format!("{seconds} s ago"),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        _ if seconds < 2 * DAY => "yesterday".to_owned(),
        _ => format!("{} days ago", seconds / DAY),
    }
}

/// All states as pages have them, those that somebody should look at first.
pub(super) const STATES: [&str; 6] = [
    "regressed",
    "tracking",
    "explained",
    "unclear",
    "stopped",
    "fixed",
];

/// A state in a word.
pub(super) fn state(bug: &model::State, summary: &Summary) -> &'static str {
    shown_state(bug, summary).word(Some(summary.clear))
}

/// The beginning of a build-id, which is enough for people.
pub(super) fn short_build(build: &program::BuildId) -> String {
    build.to_string().chars().take(12).collect()
}

/// Text with code between backticks, in pieces: whether it is code, and the text.
pub(super) fn pieces(text: &str) -> Vec<(bool, String)> {
    let split = text.split('`').enumerate();
    let pieces = split.map(|(at, piece)| (at % 2 == 1, shown(piece, 400)));
    pieces.filter(|(_, piece)| !piece.is_empty()).collect()
}

/// `1 run`, `2 runs`.
pub(super) fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{} {one}s", grouped(count)),
    }
}

/// `12 345`.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_from_now() {
        let moment = |ago: u64| Moment::new(1_795_000_000 - ago, 1_795_000_000).ago;
        assert_eq!(moment(3), "just now");
        assert_eq!(moment(59), "59 s ago");
        assert_eq!(moment(3599), "59 min ago");
        assert_eq!(moment(7200), "2 h ago");
        assert_eq!(moment(100_000), "yesterday");
        assert_eq!(moment(864_000), "10 days ago");
        let moment = Moment::new(1_700_000_000, 1_700_000_000);
        assert_eq!(moment.iso, "2023-11-14T22:13:20Z");
        assert_eq!(moment.full, "14 Nov 2023, 22:13 UTC");
    }

    #[test]
    fn times_that_nobody_can_have_are_no_trouble() {
        assert_eq!(Moment::new(u64::MAX, 0).ago, "just now");
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1000), "1\u{202f}000");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn code_is_between_backticks() {
        let text = pieces("worker read `ch->slot` late");
        assert_eq!(text.iter().filter(|(code, _)| *code).count(), 1);
        assert_eq!(text[1], (true, "ch->slot".to_owned()));
        // Half a pair is no reason to lose anything.
        assert_eq!(pieces("a ` b").len(), 2);
    }
}
