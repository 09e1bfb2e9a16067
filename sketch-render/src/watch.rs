//! Who reads and writes a variable: one line a hit.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use serde::{Serialize, Serializer};

use crate::model::{StatementRef, hex};
use crate::term::{Terminal, position};
use crate::text::{cut, pad, plain, width};

/// One access to watched memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Its number, from 1, in the order of the accesses.
    pub seq: u64,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Which thread.
    pub tid: u32,
    /// The accessing instruction's address in the process.
    #[serde(serialize_with = "hex")]
    pub pc: u64,
    /// The statement.
    pub statement: StatementRef,
    /// The library's function that made the access for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// `R`, `W`, `RW`, or [`UNKNOWN_ACCESS`].
    pub access: &'static str,
    /// It is one step for all other threads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
    /// The first byte that the access touched, where it can be told; else the first that is watched.
    #[serde(serialize_with = "hex")]
    pub addr: u64,
    /// What is watched, for people: the value is that of all of it, whatever the access touched.
    #[serde(skip)]
    pub place: String,
    /// What the user called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// What it held after the access; nothing where it is not known.
    pub value: Option<Value>,
    /// What it held before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its place among the hits next to it is not certain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unordered: bool,
}

/// What an access is called whose instruction is not known: something touched the place, in one way or another.
pub const UNKNOWN_ACCESS: &str = "unknown";

/// What memory held.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// An address.
    Pointer(u64),
    /// A number that the program has a name for.
    Named(i128, String),
    /// Anything else, first byte first.
    Bytes(Vec<u8>),
}

impl Serialize for Value {
    /// Numbers are numbers, addresses and bytes are hexadecimal text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) | Self::Named(number, _) => match u64::try_from(*number) {
                Ok(number) => serializer.serialize_u64(number),
                Err(_) => serializer.serialize_i64(i64::try_from(*number).unwrap_or(i64::MIN)),
            },
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Pointer(_) | Self::Bytes(_) => serializer.serialize_str(&self.text()),
        }
    }
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Pointer(addr) => format!("{addr:#x}"),
            Self::Named(_, name) => plain(name),
            Self::Bytes(bytes) => {
                let mut text = String::with_capacity(2 * bytes.len());
                for byte in bytes {
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

/// What is said at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Accesses that were reported.
    pub hits: u64,
    /// Accesses that happened and could not be kept.
    pub lost: u64,
    /// Places that were watched only after the program could have used them.
    pub late_armed: u64,
    /// How it was watched.
    pub mode: String,
    /// Why in this mode, where the user did not choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How the program ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What a reader must know to judge it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Serialize)]
struct SummaryLine<'s> {
    summary: &'s Summary,
}

/// A hit as one line of JSON.
pub fn json_hit(hit: &Hit) -> serde_json::Result<String> {
    serde_json::to_string(hit)
}

/// The summary as the last line of JSON.
pub fn json_summary(summary: &Summary) -> serde_json::Result<String> {
    serde_json::to_string(&SummaryLine { summary })
}

/// A hit as a line for people; times count from `start`.
#[must_use]
pub fn hit(hit: &Hit, start: u64, terminal: Terminal) -> String {
    let since = hit.time_ns.saturating_sub(start);
    let time = format!("{:>5}.{:06}", since / 1_000_000_000, since / 1000 % 1_000_000);
    let name = plain(&hit.place);
    let known = |value: &Option<Value>| value.as_ref().map_or("?".to_owned(), Value::text);
    let value = match (hit.access, &hit.before) {
        ("R", _) | (_, None) => format!("{name} = {}", known(&hit.value)),
        (_, Some(before)) => format!("{name} = {}  was {}", known(&hit.value), before.text()),
    };
    let access = match (hit.access, hit.atomic) {
        ("RW", true) => "RW atomic",
        (UNKNOWN_ACCESS, _) => "?",
        (access, _) => access,
    };
    let doubt = if hit.unordered { "~" } else { " " };
    let head = format!("{time}{doubt} {:>7}  {}  ", hit.tid, pad(access, 9));
    let value = pad(&value, width(&value).max(28));
    let via = hit.via.as_deref();
    let via = via.map_or(String::new(), |via| format!(" in {}", cut(&plain(via), 40)));
    let place = position(&hit.statement) + &via;
    let source = hit.statement.text.as_deref().map_or(String::new(), plain);
    let used = width(&head) + width(&value) + 2 + width(&place) + 2;
    let room = terminal.width.saturating_sub(used);
    let source = if room >= 12 {
        cut(source.trim(), room)
    } else {
        String::new()
    };
    let value = if hit.access == "R" {
        value
    } else {
        terminal.paint(AnsiColor::Yellow.on_default(), &value)
    };
    let line = format!(
        "{}{value}  {}  {source}",
        terminal.faint(&head),
        terminal.strong(&place)
    );
    line.trim_end().to_owned()
}

/// The summary as lines for people.
#[must_use]
pub fn summary(summary: &Summary) -> String {
    let count = |number: u64, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    };
    let mut text = count(summary.hits, "access", "accesses");
    if summary.lost > 0 {
        let _ = write!(text, ", {} lost", summary.lost);
    }
    if summary.late_armed > 0 {
        let _ = write!(
            text,
            ", {} watched late",
            count(summary.late_armed, "place", "places")
        );
    }
    let _ = write!(text, " ({}", plain(&summary.mode));
    if let Some(reason) = &summary.reason {
        let _ = write!(text, ": {}", plain(reason));
    }
    text.push(')');
    if let Some(ended) = &summary.ended {
        let _ = write!(text, "; {}", plain(ended));
    }
    for note in &summary.notes {
        let _ = write!(text, "\nnote: {}", plain(note));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Hit {
        Hit {
            seq: 7,
            time_ns: 5_001_234_567,
            tid: 4711,
            pc: 0x5555_0000_1234,
            statement: StatementRef {
                function: "push".to_owned(),
                file: Some("/src/queue.c".to_owned()),
                line: Some(88),
                pc: 0x1234,
                text: Some("q->count++;".to_owned()),
                accesses: Vec::new(),
            },
            via: None,
            access: "RW",
            atomic: false,
            addr: 0x5555_0000_4010,
            place: "queue.count".to_owned(),
            variable: Some("queue.count".to_owned()),
            value: Some(Value::Integer(5)),
            before: Some(Value::Integer(4)),
            unordered: false,
        }
    }

    const PLAIN: Terminal = Terminal {
        width: 120,
        colour: false,
    };

    #[test]
    fn an_access_to_a_part_shows_the_value_of_the_whole_place() {
        let part = Hit {
            variable: None,
            addr: 0x1004,
            place: "0x1000:8".to_owned(),
            access: "R",
            before: None,
            ..sample()
        };
        assert_eq!(
            hit(&part, 5_000_000_000, PLAIN),
            "    0.001234     4711  R          0x1000:8 = 5                  push (queue.c:88)  q->count++;"
        );
    }

    #[test]
    fn a_hit_is_one_line_with_time_thread_access_values_and_statement() {
        assert_eq!(
            hit(&sample(), 5_000_000_000, PLAIN),
            "    0.001234     4711  RW         queue.count = 5  was 4        push (queue.c:88)  q->count++;"
        );
    }

    #[test]
    fn an_access_of_unknown_kind_is_no_read_and_no_write() {
        let unknown = Hit {
            access: UNKNOWN_ACCESS,
            before: None,
            ..sample()
        };
        let line = hit(&unknown, 5_000_000_000, PLAIN);
        assert!(line.contains("4711  ?          queue.count = 5"), "{line}");
        let json = json_hit(&unknown).expect("JSON");
        assert!(json.contains("\"access\":\"unknown\""), "{json}");
    }

    #[test]
    fn a_hostile_name_stays_on_its_line() {
        let hostile = Hit {
            place: "a\nb\u{1b}[2J".to_owned(),
            ..sample()
        };
        assert_eq!(hit(&hostile, 0, PLAIN).lines().count(), 1);
        assert!(!hit(&hostile, 0, PLAIN).contains('\u{1b}'));
    }

    #[test]
    fn json_has_the_contract_s_fields() {
        let text = json_hit(&sample()).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["pc"], "0x555500001234");
        assert_eq!(value["addr"], "0x555500004010");
        assert_eq!(value["value"], 5);
        assert_eq!(value["before"], 4);
        assert_eq!(value["statement"]["line"], 88);
        assert!(value.get("atomic").is_none());
        let unknown = Hit {
            value: None,
            before: None,
            ..sample()
        };
        let value: serde_json::Value =
            serde_json::from_str(&json_hit(&unknown).expect("JSON")).expect("JSON");
        assert!(value["value"].is_null() && value.get("before").is_none());
    }

    #[test]
    fn values_are_numbers_or_hexadecimal_text() {
        let json = |value: Value| serde_json::to_string(&value).expect("JSON");
        assert_eq!(json(Value::Integer(-3)), "-3");
        assert_eq!(json(Value::Integer(u64::MAX.into())), "18446744073709551615");
        assert_eq!(json(Value::Pointer(0)), "\"0x0\"");
        assert_eq!(json(Value::Named(2, "DONE".to_owned())), "2");
        assert_eq!(json(Value::Bytes(vec![1, 0xab])), "\"01ab\"");
        assert_eq!(json(Value::Float(f64::NAN)), "null");
    }

    #[test]
    fn the_summary_says_what_was_missed() {
        let counted = Summary {
            hits: 1,
            lost: 2,
            late_armed: 1,
            mode: "observe".to_owned(),
            reason: None,
            ended: Some("the program exited with status 3".to_owned()),
            notes: Vec::new(),
        };
        assert_eq!(
            summary(&counted),
            "1 access, 2 lost, 1 place watched late (observe); the program exited with status 3"
        );
        let json = json_summary(&counted).expect("JSON");
        assert!(
            json.starts_with("{\"summary\":{\"hits\":1,\"lost\":2,\"late_armed\":1,\"mode\":\"observe\"")
        );
    }
}
