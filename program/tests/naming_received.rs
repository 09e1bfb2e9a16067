//! The variable that a value is put into which has no name where it comes from.

mod support;

use std::collections::BTreeSet;

use program::Module;
use program::code::InstrIx;
use program::naming::Namer;
use program::values::Values;
use support::{Folder, FolderFiles};

const C: &str = "
struct item { long size; const char *name; };
extern struct item *next(void);
extern char *find(const char *from);
extern int keep(const char *what);
int check(const char *from) {
    char *found = find(from);
    return keep(found) + (*found == 'a');
}
int take(void) {
    struct item copy = *next();
    return keep(copy.name) + (int)copy.size;
}
int pass(const char *from) {
    return keep(find(from));
}
";

/// The names that the calls and the loads of eight bytes in a function have by what they are put into.
fn received(level: &str, function: &str) -> BTreeSet<String> {
    let folder = Folder::new("received");
    folder.write("take.c", C);
    folder.run(&format!("gcc -g {level} -shared -fPIC take.c -o built"));
    let files = FolderFiles::new(&folder, "built");
    let module = Module::load("built", files.binary(), files).expect("a compiler wrote it");
    let functions = module.code().functions();
    let is_it = |id: &_| functions.get(*id).and_then(|it| it.symbol) == Some(function);
    let function = functions.ids().find(is_it).expect("it is there");
    let flow = module.code().flow(function);
    let values = Values::analyse(&flow, &|slot| module.constant_pointer(slot));
    let namer = Namer::new(&module, &flow, &values);
    let all = (0..).map(InstrIx).take(flow.instructions.len());
    let names = all.filter_map(|ix| namer.name_received(ix, 8));
    names.map(|name| name.path).collect()
}

#[test]
fn a_result_has_the_name_of_the_variable_that_it_is_put_into() {
    for level in ["-O0", "-O2"] {
        assert_eq!(
            received(level, "check"),
            BTreeSet::from(["found".to_owned()]),
            "{level}"
        );
        assert_eq!(received(level, "pass"), BTreeSet::new(), "{level}");
    }
}

#[test]
fn what_is_copied_out_of_something_without_a_name_has_the_name_of_the_copy() {
    for level in ["-O0", "-O2"] {
        let names = received(level, "take");
        assert!(names.contains("copy.name"), "{level}: {names:?}");
    }
}
