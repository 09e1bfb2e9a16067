//! Where the server has the text of source lines from.
//!
//! Programs come from others, and so do the paths in them: only files below folders that the configuration names are read.

use std::sync::Arc;

use diagnosis::sketch::Sketch;
use sources::debuginfod::NoAddress;
use sources::{Debuginfod, SourceText, add_sources};

use crate::config;

/// Folders and servers that have sources.
#[derive(Debug, Default)]
pub struct SourcePlaces {
    map: Vec<(String, String)>,
    debuginfod: Option<Arc<Debuginfod>>,
}

impl SourcePlaces {
    /// As a configuration says.
    ///
    /// # Errors
    /// When an address of a debuginfod server is none.
    pub fn new(config: &config::Sources) -> Result<Self, NoAddress> {
        let map = config.map.iter();
        Ok(Self {
            map: map.map(|map| (map.from.clone(), map.to.clone())).collect(),
            debuginfod: Debuginfod::new(&config.debuginfod.join(" "))?.map(Arc::new),
        })
    }

    /// Adds the text of its statements to a sketch. It may wait for other servers.
    pub fn add_to(&self, sketch: &mut Sketch) {
        let text = SourceText::mapped_only(&self.map);
        let text = match &self.debuginfod {
            Some(servers) => text.or_from(Arc::clone(servers)),
            None => text,
        };
        add_sources(sketch, &text);
    }
}
