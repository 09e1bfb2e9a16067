//! A path to a piece of memory, and how a programmer writes it.

use std::sync::Arc;

/// Longer text would not be read.
const LONGEST_TEXT: usize = 200;

/// One step from a piece of memory to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To a member of a structure or union.
    Member(Arc<str>),
    /// To one that a library's type keeps to itself, and no programmer writes.
    Inner(Arc<str>),
    /// To what a pointer points to.
    Deref(PointerKind),
    /// To an element of an array, or of what a pointer to elements points to.
    Element(Subscript),
}

impl Step {
    /// The member that it leads to.
    #[must_use]
    pub fn member(&self) -> Option<&Arc<str>> {
        match self {
            Self::Member(name) | Self::Inner(name) => Some(name),
            Self::Deref(_) | Self::Element(_) => None,
        }
    }
}

/// How what a pointer points to is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointerKind {
    /// `p->member`, `*p`: a pointer of C and C++.
    Arrow,
    /// `p.member`, `*p`: a reference or box of Rust.
    Auto,
    /// `(*p).member`, `*p`: a raw pointer of Rust.
    Raw,
    /// `r.member`, `r`: a reference of C++.
    Alias,
}

/// Which element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subscript {
    /// A number.
    Number(u64),
    /// What a variable says.
    Name(String),
    /// Not known.
    Unknown,
}

/// The text of a path as a programmer writes it, without what a library's types keep to themselves. `None` when it is too long to be
/// shown.
pub(super) fn render(root: &str, steps: &[Step]) -> Option<String> {
    let is_own = |step: &Step| matches!(step, Step::Member(_) | Step::Element(_));
    let is_inner = |step: &Step| matches!(step, Step::Inner(_));
    let own = steps.iter().rposition(is_own).map_or(0, |last| last + 1);
    let inner = steps.iter().position(is_inner).unwrap_or(steps.len());
    let shown = steps.get(..own.max(inner))?;
    let written: Vec<Step> = shown.iter().filter(|step| !is_inner(step)).cloned().collect();
    render_all(root, &written)
}

/// The text of a path with all of its members.
pub(super) fn render_all(root: &str, steps: &[Step]) -> Option<String> {
    let mut text = root.to_owned();
    let mut pointer = None;
    for step in steps {
        text = match (step, pointer.take()) {
            (Step::Member(name) | Step::Inner(name), Some(PointerKind::Arrow)) => format!("{text}->{name}"),
            (Step::Member(name) | Step::Inner(name), Some(PointerKind::Raw)) => format!("(*{text}).{name}"),
            (Step::Member(name) | Step::Inner(name), _) => format!("{text}.{name}"),
            (Step::Element(subscript), Some(PointerKind::Arrow | PointerKind::Raw)) => {
                format!("(*{text}){}", brackets(subscript))
            }
            (Step::Element(subscript), _) => format!("{text}{}", brackets(subscript)),
            (Step::Deref(kind), before) => {
                pointer = Some(*kind);
                match before {
                    Some(PointerKind::Alias) | None => text,
                    // Rust goes through a reference to an `Arc` with one point.
                    Some(PointerKind::Auto) if *kind == PointerKind::Auto => text,
                    Some(_) => format!("(*{text})"),
                }
            }
        };
        if text.len() > LONGEST_TEXT {
            return None;
        }
    }
    let text = match pointer {
        Some(PointerKind::Arrow | PointerKind::Raw | PointerKind::Auto) => format!("*{text}"),
        Some(PointerKind::Alias) | None => text,
    };
    (text.len() <= LONGEST_TEXT).then_some(text)
}

fn brackets(subscript: &Subscript) -> String {
    match subscript {
        Subscript::Number(number) => format!("[{number}]"),
        Subscript::Name(name) => format!("[{name}]"),
        Subscript::Unknown => "[…]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Step {
        Step::Member(name.into())
    }

    fn check(steps: &[Step], expected: &str) {
        assert_eq!(render("p", steps).as_deref(), Some(expected));
    }

    #[test]
    fn pointers_of_c_are_written_as_in_c() {
        let deref = Step::Deref(PointerKind::Arrow);
        check(&[], "p");
        check(std::slice::from_ref(&deref), "*p");
        check(&[deref.clone(), deref.clone()], "*(*p)");
        check(&[deref.clone(), member("head")], "p->head");
        check(&[deref.clone(), deref.clone(), member("head")], "(*p)->head");
        check(
            &[member("a"), deref.clone(), member("b"), member("c")],
            "p.a->b.c",
        );
        check(&[Step::Element(Subscript::Number(2)), member("x")], "p[2].x");
        check(
            &[deref.clone(), Step::Element(Subscript::Name("i".into()))],
            "(*p)[i]",
        );
        check(
            &[deref, member("slots"), Step::Element(Subscript::Unknown)],
            "p->slots[…]",
        );
    }

    #[test]
    fn references_are_written_as_what_they_refer_to() {
        let (alias, auto) = (PointerKind::Alias, PointerKind::Auto);
        check(&[Step::Deref(alias)], "p");
        check(&[Step::Deref(alias), member("x")], "p.x");
        check(
            &[Step::Deref(alias), Step::Deref(PointerKind::Arrow), member("x")],
            "p->x",
        );
        check(&[Step::Deref(auto)], "*p");
        check(&[Step::Deref(auto), member("x")], "p.x");
        check(&[Step::Deref(auto), Step::Deref(auto), member("x")], "p.x");
        check(&[Step::Deref(PointerKind::Raw), member("x")], "(*p).x");
    }

    #[test]
    fn what_a_library_keeps_to_itself_is_not_written() {
        let (auto, arrow) = (Step::Deref(PointerKind::Auto), Step::Deref(PointerKind::Arrow));
        let inner = |name: &str| Step::Inner(name.into());
        // A `Mutex`, and a member of what it has.
        let lock = [auto, member("stats"), inner("data")];
        check(&lock, "p.stats");
        check(&[&lock[..], &[member("hits")]].concat(), "p.stats.hits");
        // A map's root, and a node below it.
        let root = [
            arrow.clone(),
            member("rows"),
            inner("_M_header"),
            inner("_M_parent"),
        ];
        check(&root, "p->rows");
        check(&[&root[..], &[arrow, inner("_M_left")]].concat(), "p->rows");
        let all = render_all("p", &root);
        assert_eq!(all.as_deref(), Some("p->rows._M_header._M_parent"));
        // An array that is the only member of its type.
        let element = Step::Element(Subscript::Name("i".into()));
        check(&[member("slots"), inner("_M_elems"), element], "p.slots[i]");
    }

    #[test]
    fn a_path_that_is_too_long_has_no_text() {
        let steps: Vec<_> = (0..100).map(|_| member("next")).collect();
        assert_eq!(render("p", &steps), None);
    }
}
