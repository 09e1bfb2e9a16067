//! What the tests share: both decoders, told the same way.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

pub mod machine;
pub mod processor;
pub mod scenario;

use pt_driver_client::code::{BlockId, Blocks, Image};
use pt_driver_client::config::Config;
use pt_driver_client::flow::{Consumer, Decoder, Gap, Part, Why};
use pt_driver_client::reference::{self, Instructions};
use tracee::libipt;

/// What a decoder said: every instruction and every gap, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    pub items: Vec<Item>,
    pub gaps: Vec<Gap>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    Ran(u64),
    Gap(Why),
}

impl Said {
    pub fn instructions(&self) -> Vec<u64> {
        let ran = self.items.iter().filter_map(|item| match item {
            Item::Ran(address) => Some(*address),
            Item::Gap(_) => None,
        });
        ran.collect()
    }
}

impl Instructions for Said {
    fn instruction(&mut self, address: u64) {
        self.items.push(Item::Ran(address));
    }

    fn gap(&mut self, gap: Gap) {
        self.items.push(Item::Gap(gap.why));
        self.gaps.push(gap);
    }
}

impl Consumer for Said {
    const EVENTS: bool = false;

    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        for &id in blocks {
            let block = code.block(id);
            let ran = code.addresses(block.start, block.instructions);
            self.items.extend(ran.map(Item::Ran));
        }
    }

    fn part(&mut self, code: &Blocks<'_>, part: Part) {
        self.items
            .extend(code.addresses(part.start, part.instructions).map(Item::Ran));
    }

    fn gap(&mut self, gap: Gap) {
        Instructions::gap(self, gap);
    }
}

/// Ours.
pub fn ours(image: &Image<'_>, trace: &[u8]) -> Said {
    ours_with(image, trace, Config::default())
}

/// Ours, of a trace that was recorded like this.
pub fn ours_with(image: &Image<'_>, trace: &[u8], config: Config) -> Said {
    let mut said = Said::default();
    let mut decoder = Decoder::with(image, config);
    decoder.decode(trace, &mut said);
    // What it remembers of the code must not change what it says.
    let mut again = Said::default();
    decoder.decode(trace, &mut again);
    assert_eq!(said, again);
    said
}

/// libipt's.
pub fn theirs(image: &Image<'_>, trace: &[u8]) -> Said {
    theirs_with(image, trace, Config::default())
}

/// libipt's, of a trace that was recorded like this.
pub fn theirs_with(image: &Image<'_>, trace: &[u8], config: Config) -> Said {
    let code = libipt::CodeFile::new(image.pieces()).unwrap();
    let image = libipt::Image::new(&code).unwrap();
    let mut said = Said::default();
    reference::decode(&image, trace, &config, &mut said).unwrap();
    said
}
