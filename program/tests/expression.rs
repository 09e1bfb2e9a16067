//! Expressions over the variables of real programs.

mod support;

use std::collections::HashMap;

use program::expression::{Expression, Place, PlaceError, Reading, Shape};
use program::{Module, RunAddr};
use support::{Folder, FolderFiles};

const MAIN: &str = r#"
#include <atomic>
enum Color { RED, GREEN = 5, BAD = -1 };
struct Base { int kind; };
struct Node : Base { long weight; Node *next; union { int number; float ratio; }; short grid[3][4]; };
Node first;
Node *head = &first;
Node &alias = first;
namespace pool { Node *slots[4]; std::atomic<long> used; }
volatile Color color = GREEN;
unsigned char flag;
static int limit = 3;
thread_local int mine;
int other();
int main() { return limit + other() + mine + (int)first.weight + head->kind + alias.kind + flag + color; }
"#;

const OTHER: &str = "static int limit = 4; static int lonely = 1; int other() { return limit + lonely; }\n";

/// Far from the addresses that the tests make up.
const BIAS: u64 = 0x5555_0000_0000;

const BUILDS: [&str; 3] = [
    "g++ -g -O0",
    "clang++ -g -O0",
    "g++ -gdwarf-4 -O1 -fno-toplevel-reorder",
];

fn in_each_build(check: impl Fn(&Module<'_>, &str)) {
    for build in BUILDS {
        let folder = Folder::new("expression");
        folder.write("main.cpp", MAIN);
        folder.write("other.cpp", OTHER);
        folder.run(&format!("{build} main.cpp other.cpp -o built"));
        let files = FolderFiles::new(&folder, "built");
        let module = Module::load("built", files.binary(), files).expect("a module");
        check(&module, build);
    }
}

fn place(module: &Module<'_>, text: &str) -> Result<Place, PlaceError> {
    Place::find(module, &Expression::parse(text).expect(text))
}

#[test]
fn members_elements_and_pointers_are_offsets_and_reads() {
    in_each_build(|module, build| {
        let found =
            |text: &str| place(module, text).unwrap_or_else(|error| panic!("{build}: {text}: {error}"));
        let first = found("first");
        assert_eq!(found("first.kind").offset, 0, "{build}");
        let weight = found("first.weight");
        assert_eq!((weight.base, weight.offset, weight.size), (first.base, 8, 8));
        assert_eq!(weight.shape, Shape::Signed);
        assert_eq!(found("first.ratio").offset, 24);
        assert_eq!(found("first.ratio").shape, Shape::Float);
        let cell = found("first.grid[1][2]");
        assert_eq!((cell.offset, cell.size), (28 + 2 * (4 + 2), 2));
        let row = found("first.grid[2]");
        assert_eq!((row.offset, row.size, row.shape), (28 + 2 * 8, 8, Shape::Bytes));

        for same in [
            "head->weight",
            "(*head).weight",
            "head.weight",
            "head[0].weight",
            "alias.weight",
        ] {
            let through = found(same);
            assert_eq!(
                (through.follows.as_slice(), through.offset),
                (&[0][..], 8),
                "{same}"
            );
        }
        let second = found("pool::slots[2]->next->weight");
        assert_eq!((second.follows, second.offset), (vec![16, 16], 8));
        assert_eq!(found("*head").size, first.size);
        assert_eq!(found("head[2].kind").offset, 2 * first.size);
        assert_eq!(found("pool::used").shape, Shape::Signed);
        assert_eq!(found("used").base, found("pool::used").base);
        assert_eq!(found("flag").shape, Shape::Character);
        assert_eq!(
            found("color").shape.read(&5u32.to_le_bytes()),
            Reading::Named(5, "GREEN".to_owned())
        );
    });
}

#[test]
fn the_address_goes_through_memory_and_stops_at_a_null_pointer() {
    in_each_build(|module, _| {
        let next = place(module, "head->next->weight").expect("a place");
        let head = RunAddr(next.base.0 + BIAS);
        let mut memory = HashMap::from([(head, 0x5000), (RunAddr(0x5010), 0x6000)]);
        let read = |memory: &HashMap<RunAddr, u64>, at| memory.get(&at).copied();
        assert_eq!(next.address(BIAS, |at| read(&memory, at)), Ok(RunAddr(0x6008)));
        memory.insert(RunAddr(0x5010), 0);
        assert_eq!(next.address(BIAS, |at| read(&memory, at)), Err(RunAddr(0x5010)));
        assert_eq!(next.address(0, |_| None), Err(RunAddr(next.base.0)));
    });
}

#[test]
fn a_name_of_two_files_asks_for_the_file() {
    in_each_build(|module, build| {
        let error = place(module, "limit").expect_err("two variables");
        let said = error.to_string();
        assert!(
            said.contains("main.cpp:limit") && said.contains("other.cpp:limit"),
            "{build}: {said}"
        );
        let (one, other) = (place(module, "main.cpp:limit"), place(module, "other.cpp:limit"));
        assert_ne!(one.expect("a place").base, other.expect("a place").base);
        assert!(place(module, "lonely").is_ok());
    });
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    in_each_build(|module, build| {
        let said = |text: &str| place(module, text).expect_err(text).to_string();
        assert!(said("nothing").contains("no variable `nothing`"), "{build}");
        assert!(said("mine").contains("thread-local"), "{build}");
        let member = said("first.wieght");
        assert!(
            member.contains("no member `wieght`") && member.contains("weight"),
            "{member}"
        );
        assert!(said("flag.x").contains("no member"), "{build}");
        assert!(said("*flag").contains("no pointer"), "{build}");
        assert!(said("pool::slots[9]").contains("it has 4"), "{build}");
    });
}

#[test]
fn a_symbol_is_enough_for_the_variable_itself() {
    let folder = Folder::new("symbols");
    folder.write(
        "plain.c",
        "long total = 7; int main(void) { return (int)total; }\n",
    );
    folder.run("gcc plain.c -o built");
    let files = FolderFiles::new(&folder, "built");
    let module = Module::load("built", files.binary(), files).expect("a module");
    let total = place(&module, "total").expect("a place");
    assert_eq!((total.size, total.shape), (8, Shape::Unsigned));
    assert!(matches!(place(&module, "total.x"), Err(PlaceError::NoType(_))));
    let unknown = place(&module, "hidden").expect_err("unknown").to_string();
    assert!(unknown.contains("no debug information"), "{unknown}");
}
