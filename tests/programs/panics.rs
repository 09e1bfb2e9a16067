//! A thread that panics.

use std::thread;

struct Board {
    cells: Vec<u32>,
}

impl Board {
    #[inline(never)]
    fn score(&self, at: usize) -> u32 {
        let cell = self.cells[at]; // @fail
        cell * 2
    }
}

fn main() {
    let board = Board {
        cells: vec![1, 2, 3],
    };
    let cells = board.cells.len();
    let player = thread::spawn(move || board.score(cells) + 1);
    let _ = player.join();
}
