//! The lanes on a terminal: threads beside one another while they have room, one below the other where not.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use diagnosis::sketch::{Sketch, StatementRef, Step};

use super::names::short;
use super::stretches::{Stretch, stretches, summary};
use super::view::{self, Lane};
use crate::term::Terminal;
use crate::text::{base_name, cut, fitting, pad, plain_start, width};

/// A narrower lane shows too little of a statement.
const NARROWEST_LANE: usize = 22;
/// Of a longer grey prefix only so many steps are shown, those nearest to what matters.
const LONGEST_PREFIX: usize = 24;
/// Of a longer stretch in which nothing happens that matters the middle is left out,
const LONGEST_STRETCH: usize = 30;
/// but for so many steps at either end.
const NEAR: usize = 6;
/// Lines of a statement that matters; others have two.
const MOST_LINES: usize = 4;
/// The rank of the predictor that is boxed.
const BOXED: u32 = 1;

/// Draws the steps.
pub(super) fn draw(out: &mut String, sketch: &Sketch, terminal: Terminal) {
    let mut grid = Grid::new(sketch, terminal);
    grid.heading(out);
    let prefix = view::prefix(sketch);
    let hidden = prefix.saturating_sub(LONGEST_PREFIX);
    if hidden > 0 {
        grid.left_out(out, &format!("{hidden} earlier steps"));
    }
    for stretch in stretches(sketch, hidden, LONGEST_STRETCH, NEAR) {
        match stretch {
            Stretch::Shown(steps) => {
                for (index, step) in steps.clone().zip(sketch.steps.get(steps).unwrap_or(&[])) {
                    grid.step(out, step, index < prefix);
                }
            }
            Stretch::Folded(steps) => {
                let text = summary(sketch, &steps, &grid.lanes);
                grid.left_out(out, &text);
            }
        }
    }
}

struct Grid<'s> {
    sketch: &'s Sketch,
    terminal: Terminal,
    lanes: Vec<Lane>,
    /// Columns of the step's number and its marks.
    number: usize,
    /// Columns of a lane; of the only one, if they are stacked.
    lane: usize,
    /// Columns of the thread's name in front of a stacked lane.
    name: usize,
    /// Columns of the values at the right.
    value: usize,
    /// The function that was last named in each lane.
    functions: Vec<Option<(String, Option<String>)>>,
}

impl<'s> Grid<'s> {
    fn new(sketch: &'s Sketch, terminal: Terminal) -> Self {
        let lanes = view::lanes(sketch);
        let number = sketch.steps.len().to_string().len() + 3;
        let widest = sketch
            .steps
            .iter()
            .map(|step| width(&value_text(step, usize::MAX)))
            .max();
        let value = widest.unwrap_or(0).min(terminal.width * 3 / 10);
        let room = terminal.width.saturating_sub(number + value + 1);
        let beside = room / lanes.len().max(1);
        let stacked = lanes.len() > 1 && beside < NARROWEST_LANE;
        let names = lanes.iter().map(|lane| width(&lane.name)).max().unwrap_or(0);
        let name = if stacked {
            names.min(terminal.width / 5) + 1
        } else {
            0
        };
        let widest_code = sketch.steps.iter().map(|step| width(&code_text(step))).max();
        let wanted = widest_code.unwrap_or(0).max(NARROWEST_LANE) + 6;
        let lane = if stacked {
            room.saturating_sub(name)
        } else {
            beside
        }
        .min(wanted)
        .max(16);
        Self {
            sketch,
            terminal,
            functions: vec![None; lanes.len()],
            lanes,
            number,
            lane,
            name,
            value,
        }
    }

    fn stacked(&self) -> bool {
        self.name > 0
    }

    fn heading(&self, out: &mut String) {
        if self.stacked() {
            return;
        }
        let mut line = " ".repeat(self.number);
        for (at, lane) in self.lanes.iter().enumerate() {
            let name = pad(&short(&lane.name, self.lane - 2), self.lane);
            line += &self.terminal.paint(lane_style(at).bold(), &name);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }

    /// A line in place of steps.
    fn left_out(&mut self, out: &mut String, what: &str) {
        let text = format!("… {what}; the HTML and JSON forms have them");
        let _ = writeln!(out, "{}", self.terminal.faint(&cut(&text, self.terminal.width)));
        // Whoever comes next is named again.
        self.functions.fill(None);
    }

    fn step(&mut self, out: &mut String, step: &Step, grey: bool) {
        let at = self
            .lanes
            .iter()
            .position(|lane| lane.thread == step.thread)
            .unwrap_or(0);
        if let Some(gap) = &step.gap_before {
            let text = cut(&format!("┄ gap: {}", plain_start(gap, 200)), self.lane - 2);
            self.row(
                out,
                "",
                at,
                &self.inside(&text),
                AnsiColor::Yellow.on_default(),
                "",
            );
        }
        let style = style(step, grey);
        let boxed = step.predictor == Some(BOXED);
        let function = (step.statement.function.clone(), step.statement.file.clone());
        let known = self.functions.get_mut(at).map(|last| {
            let known = last.as_ref() == Some(&function);
            *last = Some(function);
            known
        });
        let heading = self.function(&step.statement, self.lane - if boxed { 6 } else { 4 });
        if boxed {
            self.row(out, "", at, &self.edge('┏', &heading, '┓'), style, "");
        } else if known != Some(true) {
            self.row(out, "", at, &self.inside(&heading), Style::new().dimmed(), "");
        }
        let most = if boxed || step.failing { MOST_LINES } else { 2 };
        let code = lines(&code_text(step), self.lane - 4, most);
        let values = value_lines(step, self.value);
        let mut number = self.mark(step);
        for row in 0..code.len().max(values.len()) {
            let text = |lines: &[String]| lines.get(row).cloned().unwrap_or_default();
            let (code, value) = (text(&code), text(&values));
            let cell = if boxed {
                self.boxed(&code)
            } else {
                self.inside(&code)
            };
            self.row(out, &number, at, &cell, style, &value);
            number.clear();
        }
        if boxed {
            self.row(out, "", at, &self.edge('┗', "", '┛'), style, "");
        }
    }

    /// The number of a step: `~3` where its place among the others is not known, `(3)` where it was not seen to run.
    fn mark(&self, step: &Step) -> String {
        let mut number = step.n.to_string();
        if view::is_inferred(self.sketch, step) {
            number = format!("({number})");
        }
        if step.unordered_after.is_some() {
            number = format!("~{number}");
        }
        number
    }

    /// The function, and the file where that has room; the predictors below name it again.
    fn function(&self, statement: &StatementRef, columns: usize) -> String {
        let function = short(&statement.function, columns);
        let file = statement
            .file
            .as_deref()
            .map(|file| short(base_name(file), columns));
        match file {
            Some(file) if width(&function) + 1 + width(&file) <= columns => format!("{function} {file}"),
            _ => function,
        }
    }

    fn inside(&self, text: &str) -> String {
        format!("│ {}", pad(text, self.lane - 2))
    }

    fn boxed(&self, text: &str) -> String {
        format!("┃ {}┃ ", pad(text, self.lane - 4))
    }

    fn edge(&self, left: char, text: &str, right: char) -> String {
        let text = if text.is_empty() {
            String::new()
        } else {
            format!(" {} ", cut(text, self.lane - 6))
        };
        let rest = (self.lane - 3).saturating_sub(width(&text));
        format!("{left}{text}{}{right} ", "━".repeat(rest))
    }

    /// One line: the number, the lanes (only one of which has something), the value.
    fn row(&self, out: &mut String, number: &str, at: usize, cell: &str, style: Style, value: &str) {
        let terminal = self.terminal;
        let number = format!("{number:>room$} ", room = self.number - 1);
        let mut line = terminal.faint(&number);
        let mut shown = width(&number);
        if self.stacked() {
            let name = self.lanes.get(at).map_or("", |lane| lane.name.as_str());
            // Only the row that has the number needs the name.
            let name = if number.trim().is_empty() { "" } else { name };
            line += &terminal.paint(lane_style(at), &pad(&short(name, self.name - 1), self.name));
            line += &paint(terminal, style, cell);
            shown += self.name + self.lane;
        } else {
            for lane in 0..self.lanes.len() {
                if lane == at {
                    line += &paint(terminal, style, cell);
                } else {
                    line += &terminal.faint(&pad("│", self.lane));
                }
                shown += self.lane;
            }
        }
        if !value.is_empty() {
            let value = cut(
                value,
                terminal.width.saturating_sub(shown).max(self.value.min(12)),
            );
            line += &terminal.paint(AnsiColor::Cyan.on_default(), &value);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Without a style there is nothing to switch off afterwards.
fn paint(terminal: Terminal, style: Style, text: &str) -> String {
    if style.is_plain() {
        text.to_owned()
    } else {
        terminal.paint(style, text)
    }
}

fn style(step: &Step, grey: bool) -> Style {
    if step.failing {
        AnsiColor::Red.on_default().bold()
    } else if step.predictor == Some(BOXED) {
        AnsiColor::Yellow.on_default().bold()
    } else if grey {
        Style::new().dimmed()
    } else {
        Style::new()
    }
}

fn lane_style(lane: usize) -> Style {
    const COLOURS: [AnsiColor; 5] = [
        AnsiColor::Blue,
        AnsiColor::Magenta,
        AnsiColor::Green,
        AnsiColor::Cyan,
        AnsiColor::Yellow,
    ];
    let colour = COLOURS
        .get(lane % COLOURS.len())
        .copied()
        .unwrap_or(AnsiColor::White);
    colour.on_default()
}

fn code_text(step: &Step) -> String {
    let code = view::code(&step.statement);
    let code = match step.statement.line {
        Some(line) => format!("{line} {code}"),
        None => code,
    };
    if step.failing { format!("✗ {code}") } else { code }
}

/// Code in at most so many lines, broken where code is best broken, unless that leaves most of a line empty.
fn lines(text: &str, columns: usize, most: usize) -> Vec<String> {
    let (mut lines, mut text) = (Vec::new(), text.to_owned());
    while lines.len() + 1 < most && width(&text) > columns {
        let room = fitting(&text, columns);
        let (fits, _) = text.split_at(room);
        let good = fits.rfind([' ', '(', ',', ';', '=']).map_or(0, |at| at + 1);
        let (first, rest) = text.split_at(if good * 5 >= room * 3 { good } else { room });
        let rest = format!("  {}", rest.trim_start());
        lines.push(first.trim_end().to_owned());
        text = rest;
    }
    lines.push(cut(&text, columns));
    lines
}

/// What a step did, in one line where that has room, or else the value below its name.
fn value_lines(step: &Step, columns: usize) -> Vec<String> {
    let whole = value_text(step, usize::MAX);
    match whole.rsplit_once(" = ") {
        Some((name, value)) if width(&whole) > columns => {
            let access = step.access.map_or("", view::letter);
            let variable = name.strip_prefix(access).unwrap_or(name).trim_start();
            let room = columns.saturating_sub(access.len() + 1);
            let name = format!("{access} {}", short(variable, room));
            vec![
                name.trim_start().to_owned(),
                cut(&format!("  = {value}"), columns),
            ]
        }
        _ => vec![value_text(step, columns)],
    }
}

fn value_text(step: &Step, columns: usize) -> String {
    let rank = step.predictor.map_or(String::new(), |rank| format!(" [{rank}]"));
    let room = columns.saturating_sub(rank.len()).min(60);
    let effect = view::effect_in(step, room).unwrap_or_default();
    (cut(&effect, room) + &rank).trim_start().to_owned()
}
