//! A structure that is handed from function to function: who writes what is wanted of it is found at the price of what is asked for.

use std::fmt::Write as _;

use program::{LinkAddr, Pc};
use slicer::slice::{Criterion, Slice};

use super::common::{Language, function, line_of, program};

/// Functions on a floor, each of which calls all of the next floor.
const WIDTH: usize = 6;
const FLOORS: usize = 9;

/// A compiler hands its state to everything that it calls: there are ten million ways through these functions to those that write.
fn mesh() -> String {
    let mut source = "struct state { int failed; int count; };\n".to_owned();
    for floor in (0..FLOORS).rev() {
        for column in 0..WIDTH {
            let _ = write!(
                source,
                "__attribute__((noinline)) void f{floor}_{column}(struct state *s) {{ s->count++;"
            );
            for next in (0..WIDTH).filter(|_| floor + 1 < FLOORS) {
                let _ = write!(source, " f{}_{next}(s);", floor + 1);
            }
            source.push_str(match floor + 1 == FLOORS {
                true => " if (s->count > 9) s->failed = s->count; }\n",
                false => " }\n",
            });
        }
    }
    source.push_str("int main(void) {\n struct state s = {0, 0};\n f0_0(&s);\n f0_1(&s);\n return s.failed; /* @asked */\n}\n");
    source
}

#[test]
fn a_structure_that_everybody_gets_is_followed_along_some_ways_only() {
    let source = mesh();
    let program = program("mesh", Language::C, 0, &source);
    let main = function(program, "main");
    let module = program.module(main.module).unwrap();
    let flow = module.code().flow(main.function);
    let line = line_of(&source, "@asked");
    let at = flow.instructions.iter().find(|instruction| {
        let pc = Pc {
            module: main.module,
            addr: LinkAddr(instruction.ip()),
        };
        super::common::line_at(program, pc) == Some(line)
    });
    let at = Pc {
        module: main.module,
        addr: LinkAddr(at.unwrap().ip()),
    };
    let slice: Vec<_> = Slice::new(program, &Criterion::instruction(at))
        .take(400)
        .collect();
    let writes = |text: &str| {
        slice.iter().any(|found| {
            let line = found
                .statement
                .line
                .and_then(|line| source.lines().nth(line as usize - 1));
            line.is_some_and(|line| line.contains(text))
        })
    };
    assert!(
        writes("f0_0(&s)") && writes("f0_1(&s)") && writes("s->failed = s->count"),
        "{slice:#?}"
    );
}
