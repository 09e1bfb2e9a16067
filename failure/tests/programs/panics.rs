//! Panics in every way that has a text of its own, and one that has none.

struct Board {
    cells: Vec<u32>,
}

#[inline(never)]
fn score(board: &Board, way: &str, at: usize) -> u32 {
    let missing: Option<u32> = None;
    match way {
        "plain" => panic!("plain words"),
        "formatted" => panic!("no cell {at} on a board of {}", board.cells.len()),
        "index" => board.cells[at],
        "expect" => missing.expect("a cell must be there"),
        "unwrap" => way.parse().unwrap(),
        "string" => std::panic::panic_any(format!("a string about {at}")),
        "number" => std::panic::panic_any(at),
        "thread" => std::thread::scope(|scope| {
            let other = scope.spawn(move || -> u32 { panic!("told by another thread, {at}") });
            other.join().unwrap_or(0)
        }),
        "nounwind" => nounwind(at),
        _ => std::process::abort(),
    }
}

extern "C" fn nounwind(at: usize) -> u32 {
    panic!("at the border: {at}")
}

fn main() {
    let board = Board { cells: vec![1, 2, 3] };
    let way = std::env::args().nth(1).unwrap_or_default();
    println!("{}", score(&board, &way, 7));
}
