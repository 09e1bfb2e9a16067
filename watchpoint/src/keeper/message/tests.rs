use proptest::prelude::*;

use super::super::bytes::receive;
use super::*;
use tracee::process::ModuleMap;

fn frame(out: Out) -> Vec<u8> {
    let mut stream = Vec::new();
    out.send(&mut stream).expect("a vector takes everything");
    receive(&mut &stream[..])
        .expect("it was just written")
        .expect("there is a frame")
}

fn hit() -> RawHit {
    RawHit {
        time_ns: 1,
        earliest_ns: 2,
        likely_ns: 3,
        tid: Tid(3),
        watched: RunAddr(4),
        registers: Registers {
            rax: 5,
            r15: 6,
            gs_base: 7,
            ..Registers::default()
        },
        has_segment_bases: true,
        report: Report::Probe,
        stack: vec![8; 16],
        probed: Some(RunAddr(9)),
        memory: Snapshot::of(RunAddr(9), &[1, 2, 3, 4, 5, 6, 7, 8, 9]).collect(),
        looking_ns: 9,
        looked_ns: 10,
    }
}

#[test]
fn orders_come_back_as_they_were() {
    let specs = vec![
        WatchSpec {
            address: Address::Run(RunAddr(0x1000)),
            len: 4,
            trigger: Trigger::Write,
            places: 1,
        },
        WatchSpec {
            address: Address::Static {
                module: Some(PathBuf::from("/lib/x.so")),
                addr: LinkAddr(0x20),
            },
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        },
        WatchSpec {
            address: Address::Probed(vec![Probe {
                module: None,
                addr: LinkAddr(0x30),
                offset: FileOffset(0x40),
                expression: Expression {
                    base: Some(Register::RDI),
                    index: Some((Register::R12, 8)),
                    disp: -16,
                },
                late: true,
                nth: Some(3),
            }]),
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        },
    ];
    let order = Order { pid: Pid(77), specs };
    assert_eq!(Order::from_bytes(&frame(order.to_bytes())), Some(order));
}

#[test]
fn events_come_back_as_they_were() {
    let arming = Arming {
        location: 1,
        at: Location {
            addr: RunAddr(2),
            len: 3,
            trigger: Trigger::Write,
        },
        from_ns: 4,
        late: true,
        content: Some((vec![5, 6], false)),
    };
    let modules = ModuleMap::of(Pid(std::process::id())).expect("these are ours");
    let events = [
        Event::Modules(Box::new(modules)),
        Event::Armed(arming),
        Event::Disarmed {
            location: 1,
            at: RunAddr(2),
            until_ns: 3,
        },
        Event::Hit(Box::new(hit())),
        Event::Complete(9),
        Event::Lost(8),
        Event::Vforked,
        Event::Counted(
            Slot {
                addr: RunAddr(1),
                len: 8,
            },
            5,
        ),
        Event::Ended(End::Exited(-3)),
        Event::Ended(End::Killed {
            signal: Signal(11),
            core_dumped: true,
        }),
    ];
    for event in events {
        let shown = format!("{event:?}");
        let bytes = frame(Said::Event(event).to_bytes());
        let Some(Said::Event(back)) = Said::from_bytes(&bytes) else {
            panic!("{shown} did not come back");
        };
        assert_eq!(format!("{back:?}"), shown);
        for len in 0..bytes.len() {
            assert!(Said::from_bytes(&bytes[..len]).is_none(), "{shown} cut to {len}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Said::from_bytes(&bytes);
        let _ = Order::from_bytes(&bytes);
    }

    #[test]
    fn a_changed_byte_does_no_harm(at in 0usize..300, to in any::<u8>()) {
        let mut bytes = frame(Said::Event(Event::Hit(Box::new(hit()))).to_bytes());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = to;
        }
        let _ = Said::from_bytes(&bytes);
    }
}
