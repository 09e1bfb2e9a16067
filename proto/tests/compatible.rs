//! The rule of compatibility, held against every protocol that was released: old agents understand new servers and the reverse.
//!
//! `released/N.proto` is the protocol as it was when [`proto::PROTOCOL`] was N. These files never change; whoever adds to the
//! protocol counts it up and puts a copy of what was there before beside them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use proto::v1;

const PACKAGE: &str = "failsketch.v1";

fn released() -> BTreeMap<u32, FileDescriptorProto> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let files = std::fs::read_dir(&folder).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    let compiled = files.iter().map(|file| {
        let number = file.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let mut set = protox::compile([file], [&folder]).unwrap();
        (number, set.file.pop().unwrap())
    });
    compiled.collect()
}

fn now() -> FileDescriptorProto {
    let set = FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap();
    let mut files = set.file.into_iter();
    files.find(|file| file.package() == PACKAGE).unwrap()
}

/// Messages and enumerations by their full names, nested ones included.
#[derive(Default)]
struct Named<'f> {
    messages: BTreeMap<String, &'f DescriptorProto>,
    enums: BTreeMap<String, &'f EnumDescriptorProto>,
}

impl<'f> Named<'f> {
    fn of(file: &'f FileDescriptorProto) -> Self {
        let mut named = Self::default();
        named.enter("", &file.message_type, &file.enum_type);
        named
    }

    fn enter(&mut self, within: &str, messages: &'f [DescriptorProto], enums: &'f [EnumDescriptorProto]) {
        for one in enums {
            self.enums.insert(format!("{within}.{}", one.name()), one);
        }
        for message in messages {
            let name = format!("{within}.{}", message.name());
            self.enter(&name, &message.nested_type, &message.enum_type);
            self.messages.insert(name, message);
        }
    }
}

/// What is wrong with a protocol for whoever knows an older one.
fn broken(old: &FileDescriptorProto, new: &FileDescriptorProto) -> Vec<String> {
    let mut broken = Vec::new();
    let (before, after) = (Named::of(old), Named::of(new));
    for (name, message) in &before.messages {
        match after.messages.get(name) {
            Some(now) => broken.extend(broken_fields(name, message, now)),
            None => broken.push(format!("{name} is gone")),
        }
    }
    for (name, one) in &before.enums {
        let now = after.enums.get(name);
        let values = |one: &EnumDescriptorProto| -> BTreeMap<i32, String> {
            let values = one.value.iter();
            values
                .map(|value| (value.number(), value.name().to_owned()))
                .collect()
        };
        let now = now.map(|now| values(now)).unwrap_or_default();
        let lost = values(one)
            .into_iter()
            .filter(|(number, value)| now.get(number) != Some(value));
        broken.extend(lost.map(|(number, value)| format!("{name}: {value} = {number} is gone")));
    }
    for service in &old.service {
        let now = new.service.iter().find(|now| now.name() == service.name());
        for method in &service.method {
            let kept = now.is_some_and(|now| now.method.contains(method));
            if !kept {
                broken.push(format!("{}.{} is another", service.name(), method.name()));
            }
        }
    }
    broken
}

fn broken_fields(name: &str, old: &DescriptorProto, new: &DescriptorProto) -> Vec<String> {
    let mut broken = Vec::new();
    for field in &old.field {
        let number = field.number();
        let now = new.field.iter().find(|now| now.number() == number);
        let is_reserved = |range: &prost_types::descriptor_proto::ReservedRange| {
            (range.start()..range.end()).contains(&number)
        };
        let reserved = new.reserved_range.iter().any(is_reserved);
        match now {
            None if reserved => (),
            None => broken.push(format!(
                "{name}.{} = {number} is gone and not reserved",
                field.name()
            )),
            Some(now) => {
                let same = now.name() == field.name()
                    && now.r#type() == field.r#type()
                    && now.type_name() == field.type_name()
                    && now.label() == field.label()
                    && now.oneof_index.is_some() == field.oneof_index.is_some();
                if !same {
                    broken.push(format!("{name}.{} = {number} is another", field.name()));
                }
            }
        }
    }
    broken
}

#[test]
fn nothing_that_was_released_has_changed() {
    let (released, now) = (released(), now());
    for (number, old) in &released {
        assert_eq!(
            broken(old, &now),
            [""; 0],
            "for those who speak protocol {number}"
        );
    }
    let numbers: Vec<u32> = released.into_keys().collect();
    let all: Vec<u32> = (1..proto::PROTOCOL).collect();
    assert_eq!(numbers, all, "a released protocol has no file");
}

#[test]
fn what_would_break_somebody_is_noticed() {
    let is_noticed = |change: &dyn Fn(&mut FileDescriptorProto)| {
        let mut changed = now();
        change(&mut changed);
        !broken(&now(), &changed).is_empty()
    };
    assert!(!is_noticed(&|_| ()));
    assert!(is_noticed(&|file| file.message_type[0].field[0].number = Some(77)));
    assert!(is_noticed(&|file| {
        file.message_type[0].field[0].name = Some("other".into());
    }));
    assert!(is_noticed(
        &|file| file.message_type[0].field[0].set_type(prost_types::field_descriptor_proto::Type::Int64)
    ));
    assert!(is_noticed(&|file| drop(file.message_type.pop())));
    assert!(is_noticed(&|file| {
        file.service[0].method[0].server_streaming = Some(true);
    }));
    let bug = |file: &mut FileDescriptorProto| {
        let messages = &mut file.message_type;
        let bug = messages.iter_mut().find(|message| message.name() == "Bug");
        bug.unwrap().enum_type[0].value[1].number = Some(9);
    };
    assert!(is_noticed(&bug));
    // What is dropped may be, if its number stays reserved.
    assert!(!is_noticed(&|file| {
        let message = &mut file.message_type[0];
        let dropped = message.field.pop().unwrap();
        message
            .reserved_range
            .push(prost_types::descriptor_proto::ReservedRange {
                start: dropped.number,
                end: dropped.number.map(|number| number + 1),
            });
    }));
    // And anything may be added.
    assert!(!is_noticed(&|file| {
        let mut field = file.message_type[0].field[0].clone();
        field.number = Some(500);
        field.name = Some("more".into());
        file.message_type[0].field.push(field);
    }));
}

#[test]
fn what_is_not_known_is_left_alone() {
    let plan = v1::Plan {
        bug: "0123456789abcdef".to_owned(),
        number: 7,
        ..v1::Plan::default()
    };
    let mut newer = plan.encode_to_vec();
    // Field 900, three bytes long; field 901, a number.
    newer.extend([0xa2, 0x38, 3, 1, 2, 3, 0xa8, 0x38, 42]);
    assert_eq!(v1::Plan::decode(&newer[..]).unwrap(), plan);
    let receipt = v1::RunReceipt {
        outcome: 99,
        ..v1::RunReceipt::default()
    };
    let read = v1::RunReceipt::decode(&receipt.encode_to_vec()[..]).unwrap();
    assert_eq!(read.outcome(), v1::run_receipt::Outcome::Unspecified);
    let bug = v1::Bug {
        state: 99,
        ..v1::Bug::default()
    };
    assert_eq!(bug.state(), v1::bug::State::Tracking);
}
