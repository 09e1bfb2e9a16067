//! How long a sketch takes in each form, and its page in a browser: `render TURNS FILE`, one line of JSON. The best turn counts, of
//! the browser the one in the middle.

#![allow(clippy::print_stdout, reason = "the result is what this program is for")]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use diagnosis::sketch::Sketch;
use failsketch_tests::browser::Browser;
use sketch_render::sketch;
use sketch_render::term::Terminal;

const TERMINAL: Terminal = Terminal {
    width: 120,
    colour: true,
};

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [turns, file] = words.as_slice() else {
        return Err("usage: render TURNS FILE".into());
    };
    let turns: u32 = turns.parse()?;
    let sketch: Sketch = serde_json::from_slice(&std::fs::read(file)?)?;
    let result = serde_json::json!({
        "steps": sketch.steps.len(),
        "html_bytes": sketch::html(&sketch).len(),
        "html_ms": best(turns, || sketch::html(&sketch)),
        "term_ms": best(turns, || sketch::term(&sketch, TERMINAL)),
        "md_ms": best(turns, || sketch::markdown(&sketch)),
        "json_ms": best(turns, || sketch::json(&sketch)),
        "sarif_ms": best(turns, || sketch::sarif(&sketch)),
        "interactive_ms": interactive(&sketch::html(&sketch))?,
    });
    println!("{result}");
    Ok(())
}

/// Milliseconds of the best turn.
fn best<T>(turns: u32, render: impl Fn() -> T) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..turns.max(1) {
        let started = Instant::now();
        black_box(render());
        best = best.min(started.elapsed().as_secs_f64() * 1e3);
    }
    best
}

/// Milliseconds from asking for a page until it is painted and its script has run.
fn interactive(page: &str) -> Result<f64, Box<dyn Error>> {
    const TURNS: usize = 9;
    const ASK: &str = "const entry = performance.getEntriesByType('navigation')[0]; \
         const paint = performance.getEntriesByName('first-contentful-paint')[0]; \
         return document.documentElement.dataset.ready && paint && entry.domContentLoadedEventEnd > 0 \
         ? Math.max(paint.startTime, entry.domContentLoadedEventEnd) : null";
    let file = std::env::temp_dir().join(format!("failsketch-bench-{}.html", std::process::id()));
    std::fs::write(&file, page)?;
    let browser = Browser::start();
    browser.look(1280, false);
    let mut took = Vec::new();
    for _ in 0..TURNS {
        browser.open(&format!("file://{}", file.display()));
        let value = loop {
            if let Some(value) = browser.run(ASK).as_f64() {
                break value;
            }
        };
        took.push(value);
    }
    std::fs::remove_file(&file)?;
    took.sort_by(f64::total_cmp);
    Ok(took[TURNS / 2])
}
