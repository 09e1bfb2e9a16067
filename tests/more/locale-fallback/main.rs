//! Greets users in their language. Locales have few messages of their own and
//! fall back to others for the rest.

mod catalog;

use catalog::{Bundle, Source};
use std::collections::HashMap;

const USERS: [(&str, &str); 4] = [("Ana", "pt-AO"), ("Jens", "de"), ("Rui", "pt"), ("Tom", "en")];

/// The locale files that were found, by name.
fn find_sources() -> HashMap<&'static str, Source> {
    let mut sources = HashMap::new();
    let mut file = |locale, fallbacks: &[&'static str], lines: &[&'static str]| {
        let fallbacks = fallbacks.to_vec();
        let lines = lines.to_vec();
        sources.insert(locale, Source { fallbacks, lines });
    };
    file("en", &[], &["hello = Hello", "mail = You have mail", "bye = See you"]);
    file("de", &["en"], &["hello = Hallo", "mail = Sie haben Post", "bye = Bis bald"]);
    file("es", &["en"], &["hello = Hola", "mail = Tiene correo", "bye = Hasta luego"]);
    file("pt", &["es", "en"], &["hello = Olá", "mail = Você tem mensagens", "bye = Até logo"]);
    file("pt-AO", &["pt", "es", "en"], &["hello = Olá", "bye = Até já"]);
    sources
}

fn greet(bundle: &Bundle, name: &str, locale: &str) -> String {
    let hello = bundle.message(locale, "hello");
    let mail = bundle.message(locale, "mail"); // @mail
    format!("{hello} {name}! {mail}.")
}

fn main() {
    let sources = find_sources();
    let bundle = Bundle::load(&sources); // @load
    for (name, locale) in USERS {
        let line = greet(&bundle, name, locale); // @greet
        println!("{line}");
    }
    bundle.print_catalogs();
}
