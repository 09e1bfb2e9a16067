//! Catalogs of messages, one for each locale. A message that a catalog lacks
//! is looked up in the catalog that it falls back to.

use std::collections::HashMap;

const NONE: usize = usize::MAX;

/// What a locale's file says.
pub struct Source {
    pub fallbacks: Vec<&'static str>,
    pub lines: Vec<&'static str>,
}

pub struct Catalog {
    locale: String,
    messages: HashMap<String, String>,
    fallback: usize,
}

#[derive(Default)]
pub struct Bundle {
    catalogs: Vec<Catalog>,
    numbers: HashMap<String, usize>,
}

fn parse_messages(lines: &[&str]) -> HashMap<String, String> {
    lines
        .iter()
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, text)| (key.to_string(), text.to_string()))
        .collect()
}

impl Bundle {
    /// The number of the first fallback that is there.
    fn find_fallback(&self, source: &Source) -> usize {
        let mut names = source.fallbacks.iter();
        let found = names.find_map(|name| self.numbers.get(*name));
        found.copied().unwrap_or(NONE) // @none
    }

    fn add(&mut self, locale: &str, source: &Source) {
        let fallback = self.find_fallback(source); // @find
        let number = self.catalogs.len();
        let messages = parse_messages(&source.lines);
        let locale = locale.to_string();
        self.numbers.insert(locale.clone(), number);
        self.catalogs.push(Catalog { locale, messages, fallback }); // @store
    }

    pub fn load(sources: &HashMap<&'static str, Source>) -> Bundle {
        let mut bundle = Bundle::default();
        for (locale, source) in sources {
            bundle.add(locale, source); // @add
        }
        bundle
    }

    pub fn message(&self, locale: &str, key: &str) -> &str {
        let mut catalog = &self.catalogs[self.numbers[locale]];
        loop {
            match catalog.messages.get(key) {
                Some(text) => return text,
                None => catalog = self.fallback_of(catalog), // @missing
            }
        }
    }

    fn fallback_of(&self, catalog: &Catalog) -> &Catalog {
        let number = catalog.fallback; // @follow
        &self.catalogs[number] // @fail
    }

    pub fn print_catalogs(&self) {
        for catalog in &self.catalogs {
            let end = catalog.fallback == NONE;
            let size = catalog.messages.len();
            println!("{}: {size} messages, last of its line: {end}", catalog.locale);
        }
    }
}
