//! Reading an expression.

use thiserror::Error;

use crate::scoped::ANONYMOUS;

/// Nobody writes more, and each step may cost a read of the target's memory.
const MOST_STEPS: usize = 32;

/// A variable and the way from it to what is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The file that defines the variable, as far as it was given.
    pub file: Option<String>,
    /// The variable's name, qualified as far as it was given.
    pub name: String,
    /// The way, in the order of evaluation.
    pub steps: Vec<Step>,
}

/// One step of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To what a pointer points to.
    Follow,
    /// To a member of a structure, through a pointer if need be.
    Member(String),
    /// To an element of an array, or of what a pointer points to.
    Element(u64),
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// No variable in it.
    #[error("`{0}` names no variable: write it as NAME, NAME.FIELD, *NAME, NAME[2] or FILE.c:NAME")]
    NoName(String),
    /// Something that does not continue an expression.
    #[error("`{text}`: cannot go on at `{rest}`: after the name come .FIELD, ->FIELD or [NUMBER]")]
    Stray {
        /// The whole text.
        text: String,
        /// Where it stops making sense.
        rest: String,
    },
    /// A parenthesis without its partner.
    #[error("`{0}`: a parenthesis or bracket is not closed")]
    Unclosed(String),
    /// More steps than anybody writes.
    #[error("`{0}` goes through more than {MOST_STEPS} steps: watch a nearer place, or an address")]
    TooLong(String),
}

impl Expression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader {
            text,
            rest: text.trim(),
            depth: 0,
        };
        let expression = reader.unary()?;
        if !reader.rest.is_empty() {
            return Err(reader.stray());
        }
        if expression.steps.len() > MOST_STEPS {
            return Err(ParseError::TooLong(text.to_owned()));
        }
        Ok(expression)
    }
}

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    depth: usize,
}

impl<'t> Reader<'t> {
    /// `*x.y` follows `x.y`, as in C.
    fn unary(&mut self) -> Result<Expression, ParseError> {
        let starred = self.rest.trim_start_matches('*');
        let stars = self.rest.len() - starred.len();
        if stars > MOST_STEPS {
            return Err(ParseError::TooLong(self.text.to_owned()));
        }
        self.rest = starred.trim_start();
        let mut expression = self.postfix()?;
        expression.steps.extend(std::iter::repeat_n(Step::Follow, stars));
        Ok(expression)
    }

    fn postfix(&mut self) -> Result<Expression, ParseError> {
        let mut expression = if !self.rest.starts_with(ANONYMOUS) && self.take("(") {
            self.depth += 1;
            if self.depth > MOST_STEPS {
                return Err(ParseError::TooLong(self.text.to_owned()));
            }
            let inner = self.unary()?;
            if !self.take(")") {
                return Err(ParseError::Unclosed(self.text.to_owned()));
            }
            inner
        } else {
            self.variable()?
        };
        loop {
            if self.take("->") || self.take(".") {
                let name = self.word();
                if name.is_empty() {
                    return Err(self.stray());
                }
                expression.steps.push(Step::Member(name.to_owned()));
            } else if self.take("[") {
                let digits = self.word();
                let index = digits.parse().map_err(|_| self.stray())?;
                if !self.take("]") {
                    return Err(self.stray());
                }
                expression.steps.push(Step::Element(index));
            } else {
                return Ok(expression);
            }
        }
    }

    /// `file.c:name`, `ns::name`, `name`.
    fn variable(&mut self) -> Result<Expression, ParseError> {
        let file = self.file();
        let end = name_end(self.rest).ok_or_else(|| ParseError::Unclosed(self.text.to_owned()))?;
        let (name, rest) = self.rest.split_at(end);
        let name = name.trim();
        self.rest = rest.trim_start();
        if name.is_empty() || name.ends_with(':') || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(ParseError::NoName(self.text.to_owned()));
        }
        Ok(Expression {
            file,
            name: name.to_owned(),
            steps: Vec::new(),
        })
    }

    /// What stands before the first single colon.
    fn file(&mut self) -> Option<String> {
        if self.rest.starts_with(ANONYMOUS) {
            return None;
        }
        let bytes = self.rest.as_bytes();
        let single = |&at: &usize| {
            bytes[at] == b':' && bytes.get(at + 1) != Some(&b':') && (at == 0 || bytes[at - 1] != b':')
        };
        let at = (0..bytes.len()).find(single)?;
        let file = &self.rest[..at];
        self.rest = self.rest[at + 1..].trim_start();
        (!file.is_empty()).then(|| file.to_owned())
    }

    fn word(&mut self) -> &'t str {
        let end = self
            .rest
            .find(|character| !is_word(character))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn stray(&self) -> ParseError {
        ParseError::Stray {
            text: self.text.to_owned(),
            rest: self.rest.to_owned(),
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// Where the name ends that a text begins with. Template arguments and Rust's `{closure#0}` belong to it, whatever is in
/// their brackets; `None` when one of those is not closed.
fn name_end(text: &str) -> Option<usize> {
    let (mut depth, mut passed) = (0usize, 0);
    for (at, character) in text.char_indices() {
        if at < passed {
            continue;
        }
        match character {
            '<' | '{' => depth += 1,
            '>' | '}' if depth > 0 => depth -= 1,
            '(' if depth > 0 => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 || is_word(character) || character == ':' => {}
            '(' if text[at..].starts_with(ANONYMOUS) => passed = at + ANONYMOUS.len(),
            _ => return Some(at),
        }
    }
    (depth == 0).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Option<String>, String, Vec<Step>) {
        let expression = Expression::parse(text).expect(text);
        (expression.file, expression.name, expression.steps)
    }

    fn member(name: &str) -> Step {
        Step::Member(name.to_owned())
    }

    #[test]
    fn names_may_be_qualified_by_scope_and_by_file() {
        assert_eq!(parsed("counter"), (None, "counter".into(), vec![]));
        assert_eq!(parsed("ns::counter"), (None, "ns::counter".into(), vec![]));
        assert_eq!(
            parsed("src/queue.c:limit"),
            (Some("src/queue.c".into()), "limit".into(), vec![])
        );
        assert_eq!(
            parsed("queue.cc:ns::pool.head"),
            (Some("queue.cc".into()), "ns::pool".into(), vec![member("head")])
        );
        assert_eq!(
            parsed("Pool<int, 4>::all[1]"),
            (None, "Pool<int, 4>::all".into(), vec![Step::Element(1)])
        );
        assert_eq!(
            parsed("Table<int (*)(char const*), a::b>::all.size"),
            (
                None,
                "Table<int (*)(char const*), a::b>::all".into(),
                vec![member("size")]
            )
        );
    }

    #[test]
    fn namespaces_may_have_no_name() {
        let stock = "shop::(anonymous namespace)::stock";
        assert_eq!(parsed(stock), (None, stock.into(), vec![]));
        assert_eq!(
            parsed("shop.cc:shop::(anonymous namespace)::stock.left"),
            (Some("shop.cc".into()), stock.into(), vec![member("left")])
        );
        assert_eq!(
            parsed("*(anonymous namespace)::head"),
            (None, "(anonymous namespace)::head".into(), vec![Step::Follow])
        );
        assert_eq!(
            parsed("(*(anonymous namespace)::head).next"),
            (
                None,
                "(anonymous namespace)::head".into(),
                vec![Step::Follow, member("next")]
            )
        );
        assert_eq!(parsed("{anonymous}::x"), (None, "{anonymous}::x".into(), vec![]));
    }

    #[test]
    fn a_star_follows_all_that_comes_behind_it_and_parentheses_change_that() {
        assert_eq!(
            parsed("*list->head"),
            (None, "list".into(), vec![member("head"), Step::Follow])
        );
        assert_eq!(
            parsed("(*list).head"),
            (None, "list".into(), vec![Step::Follow, member("head")])
        );
        assert_eq!(
            parsed("**p"),
            (None, "p".into(), vec![Step::Follow, Step::Follow])
        );
        assert_eq!(
            parsed("jobs[2].next->state.0"),
            (
                None,
                "jobs".into(),
                vec![Step::Element(2), member("next"), member("state"), member("0")]
            )
        );
    }

    #[test]
    fn what_is_no_expression_says_where_it_stops() {
        for text in ["", "*", "3", ".x", "file.c:", "()", "a::"] {
            assert!(
                matches!(Expression::parse(text), Err(ParseError::NoName(_))),
                "{text}"
            );
        }
        for text in ["a+1", "a[x]", "a[1", "a.", "a->", "a b", "a[-1]", "a)"] {
            assert!(
                matches!(Expression::parse(text), Err(ParseError::Stray { .. })),
                "{text}: {:?}",
                Expression::parse(text)
            );
        }
        for text in ["(a", "Box<int::value", "f::{closure#0"] {
            assert!(
                matches!(Expression::parse(text), Err(ParseError::Unclosed(_))),
                "{text}"
            );
        }
        let deep = format!("{}a", "*".repeat(40));
        assert!(matches!(Expression::parse(&deep), Err(ParseError::TooLong(_))));
        let nested = format!("{}a", "(".repeat(100_000));
        assert!(matches!(Expression::parse(&nested), Err(ParseError::TooLong(_))));
    }
}
