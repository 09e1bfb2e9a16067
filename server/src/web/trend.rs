//! Failures over time, as a row of bars.

use std::fmt::Write as _;

use super::shown::{counted, grouped};

/// Bars of a row.
const BARS: u64 = 24;
/// Hours of a day.
const DAY: u64 = 24;
/// Units of a bar's width, and of the space after it.
const WIDTH: u64 = 5;
const SPACE: u64 = 2;
/// Units of the height.
const HEIGHT: u64 = 24;

/// The first hour that a row may show, seen from now.
pub(super) fn from_hour(now: u64) -> u64 {
    (now / 3600).saturating_sub(BARS * DAY)
}

/// Failures of a bug over the last day by the hour, or over the last weeks by the day if it is older than that.
pub(super) struct Trend {
    bars: Vec<u64>,
    by_day: bool,
}

impl Trend {
    /// Of failures by hours.
    pub(super) fn new(hours: impl Iterator<Item = (u64, u64)>, first_seen: u64, now: u64) -> Self {
        let by_day = now.saturating_sub(first_seen) > DAY * 3600;
        let unit = if by_day { DAY } else { 1 };
        let last = now / 3600 / unit;
        let mut bars = vec![0; usize::try_from(BARS).unwrap_or(0)];
        for (hour, failures) in hours {
            // Whoever reports from the future does so now.
            let back = last.saturating_sub(hour / unit);
            let place = (BARS - 1).checked_sub(back);
            if let Some(bar) = place.and_then(|place| bars.get_mut(usize::try_from(place).ok()?)) {
                *bar += failures;
            }
        }
        Self { bars, by_day }
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let all = self.bars.iter().sum();
        let most = self.bars.iter().copied().max().unwrap_or(0);
        let (time, unit) = if self.by_day {
            ("24 days", "a day")
        } else {
            ("24 hours", "an hour")
        };
        match all {
            0 => format!("no failures in the last {time}"),
            all => format!(
                "{} in the last {time}, at most {} {unit}",
                counted(all, "failure"),
                grouped(most)
            ),
        }
    }

    /// As a picture. It is drawn with attributes alone: a page has no style but that of its file.
    pub(super) fn picture(&self) -> String {
        let most = self.bars.iter().copied().max().unwrap_or(0).max(1);
        let width = BARS * (WIDTH + SPACE) - SPACE;
        let words = self.words();
        let mut svg = format!(
            "<svg class=\"trend\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" role=\"img\" \
             aria-label=\"{words}\"><title>{words}</title>"
        );
        for (place, failures) in (0_u64..).zip(&self.bars) {
            // What is there is seen, however little.
            let height = match failures {
                0 => 1,
                some => (some * HEIGHT).div_ceil(most).max(3),
            };
            let class = if *failures == 0 { " class=\"none\"" } else { "" };
            // Writing to a string does not fail.
            let _ = write!(
                svg,
                "<rect{class} x=\"{}\" y=\"{}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"1\"/>",
                place * (WIDTH + SPACE),
                HEIGHT - height
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;

    #[test]
    fn a_new_bug_is_shown_by_the_hour_and_an_old_one_by_the_day() {
        let hour = NOW / 3600;
        let new = Trend::new([(hour, 2), (hour - 1, 1)].into_iter(), NOW - 7000, NOW);
        assert_eq!(new.bars[23], 2);
        assert_eq!(new.bars[22], 1);
        assert_eq!(new.words(), "3 failures in the last 24 hours, at most 2 an hour");
        let old = Trend::new([(hour, 2), (hour - 100, 5)].into_iter(), 1, NOW);
        assert_eq!(old.bars.iter().sum::<u64>(), 7);
        assert_eq!(old.words(), "7 failures in the last 24 days, at most 5 a day");
    }

    #[test]
    fn what_is_long_ago_or_in_the_future_breaks_nothing() {
        let trend = Trend::new([(0, 9), (u64::MAX / 7200, 4)].into_iter(), 0, NOW);
        assert_eq!(trend.words(), "4 failures in the last 24 days, at most 4 a day");
        let none = Trend::new(std::iter::empty(), NOW, NOW);
        assert_eq!(none.words(), "no failures in the last 24 hours");
        assert_eq!(none.picture().matches("<rect").count(), 24);
    }
}
