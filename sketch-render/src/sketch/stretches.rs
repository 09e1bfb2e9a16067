//! Long stretches of steps in which nothing happens that a predictor or the failure is about: a loop that went on, a
//! decoder that has a statement a field. People want to see how they begin and end.

use std::ops::Range;

use diagnosis::sketch::{Sketch, Step};

use super::view::{self, Lane};

/// Steps that stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    /// They are shown.
    Shown(Range<usize>),
    /// They are left out, at first or altogether.
    Folded(Range<usize>),
}

/// The steps from `start` on. Of stretches longer than `longest` all but `near` steps at either end are folded.
pub(super) fn stretches(sketch: &Sketch, start: usize, longest: usize, near: usize) -> Vec<Stretch> {
    let matters = |step: &Step| step.predictor == Some(1) || step.failing || step.gap_before.is_some();
    let end = sketch.steps.len();
    let mut found = Vec::new();
    let (mut shown, mut plain) = (start, start);
    for at in start..=end {
        if sketch.steps.get(at).is_some_and(|step| !matters(step)) {
            continue;
        }
        if at - plain > longest.max(2 * near) {
            found.push(Stretch::Shown(shown..plain + near));
            found.push(Stretch::Folded(plain + near..at - near));
            shown = at - near;
        }
        plain = at + 1;
    }
    if shown < end {
        found.push(Stretch::Shown(shown..end));
    }
    found.retain(|stretch| !matches!(stretch, Stretch::Shown(steps) if steps.is_empty()));
    found
}

/// `508 steps of decode, each R table.scale = 0`: what was folded.
pub(super) fn summary(sketch: &Sketch, folded: &Range<usize>, lanes: &[Lane]) -> String {
    let steps = sketch.steps.get(folded.clone()).unwrap_or(&[]);
    let mut text = format!("{} steps", steps.len());
    let Some(first) = steps.first() else {
        return text;
    };
    if lanes.len() > 1
        && steps.iter().all(|step| step.thread == first.thread)
        && let Some(lane) = lanes.iter().find(|lane| lane.thread == first.thread)
    {
        text += &format!(" of {}", lane.name);
    }
    let effect = |step: &Step| view::effect_in(step, 60);
    if let Some(same) = effect(first)
        && steps.iter().all(|step| effect(step).as_ref() == Some(&same))
    {
        text += &format!(", each {same}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use Stretch::{Folded, Shown};

    fn sketch(steps: usize, keys: &[usize]) -> Sketch {
        let step = |at: usize| Step {
            predictor: keys.contains(&at).then_some(1),
            failing: at + 1 == steps,
            ..Step::default()
        };
        Sketch {
            steps: (0..steps).map(step).collect(),
            ..Sketch::default()
        }
    }

    #[test]
    fn short_ones_are_whole() {
        assert_eq!(stretches(&sketch(12, &[0]), 0, 10, 3), [Shown(0..12)]);
        assert_eq!(stretches(&sketch(0, &[]), 0, 10, 3), []);
    }

    #[test]
    fn long_ones_have_a_beginning_and_an_end() {
        let all = stretches(&sketch(100, &[2, 50]), 2, 10, 3);
        let expected = [
            Shown(2..6),
            Folded(6..47),
            Shown(47..54),
            Folded(54..96),
            Shown(96..100),
        ];
        assert_eq!(all, expected);
        assert_eq!(
            stretches(&sketch(100, &[]), 0, 10, 0),
            [Folded(0..99), Shown(99..100)]
        );
    }
}
