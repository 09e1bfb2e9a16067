//! Variables, their places and their types in real programs.

mod support;

use program::source::{Encoding, Sources, Type, TypeKind, VarLocation, Variable, VariableKind};
use support::{Folder, FolderFiles, line_of};

const QUEUE: &str = include_str!("programs/queue.cpp");
const RBP: u16 = 6;

fn with_sources(compiler: &str, text: &str, name: &str, check: impl FnOnce(&Sources<'_>, &str)) {
    let folder = Folder::new("variables");
    folder.write(name, text);
    folder.run(&format!("{compiler} {name} -o built"));
    let files = FolderFiles::new(&folder, "built");
    let sources = Sources::load(&files.elf(), files);
    check(&sources, compiler);
    assert!(
        sources.problems().is_empty(),
        "{compiler}: {:?}",
        sources.problems()
    );
}

const BUILDS: [&str; 7] = [
    "g++ -gdwarf-4 -O0",
    "g++ -gdwarf-5 -O0",
    "g++ -gdwarf-5 -O0 -fdebug-types-section",
    "g++ -gdwarf-4 -O0 -fdebug-types-section -gsplit-dwarf",
    "clang++ -gdwarf-4 -O0",
    "clang++ -gdwarf-5 -O0 -gsplit-dwarf -fdebug-types-section",
    "clang++ -gdwarf-5 -O0",
];

fn at_line(sources: &Sources<'_>, mark: &str) -> Vec<Variable> {
    let addr = sources
        .addresses_of("queue.cpp", line_of(QUEUE, mark))
        .expect("code")
        .matches[0]
        .range
        .start;
    sources.variables_at(addr)
}

fn named<'v>(variables: &'v [Variable], name: &str) -> &'v Variable {
    let mut found = variables.iter().filter(|variable| &*variable.name == name);
    found
        .next()
        .unwrap_or_else(|| panic!("{name} is not among {variables:?}"))
}

fn type_of<'s, 'a>(sources: &'s Sources<'a>, variable: &Variable) -> Type<'s, 'a> {
    sources.ty(variable.ty.expect("a type"))
}

#[test]
fn locals_are_on_the_frame_innermost_first() {
    for build in BUILDS {
        with_sources(build, QUEUE, "queue.cpp", |sources, build| {
            let variables = at_line(sources, "// pushes");
            let names: Vec<&str> = variables.iter().map(|variable| &*variable.name).collect();
            assert_eq!(names, ["doubled", "i", "queue", "n"], "{build}");
            for variable in &variables {
                let on_frame = match variable.location {
                    VarLocation::Cfa(offset) => offset < 0 && build.starts_with("g++"),
                    VarLocation::RegisterOffset { register, offset } => {
                        register == RBP && offset < 0 && build.starts_with("clang++")
                    }
                    _ => false,
                };
                assert!(on_frame, "{build}: {variable:?}");
                assert_eq!(variable.frame, 0);
            }
            assert_eq!(named(&variables, "n").kind, VariableKind::Parameter);
            let queue = type_of(sources, named(&variables, "queue"));
            assert_eq!(queue.kind(), TypeKind::Reference);
            assert_eq!(queue.name(), "ns::Queue<int> &");
            assert_eq!(queue.pointee().and_then(Type::size), Some(68));
            let doubled = type_of(sources, named(&variables, "doubled"));
            assert_eq!(
                doubled.kind(),
                TypeKind::Base {
                    encoding: Encoding::Signed
                }
            );
        });
    }
}

#[test]
fn variables_of_inlined_functions_come_with_their_frame() {
    for build in BUILDS {
        with_sources(build, QUEUE, "queue.cpp", |sources, build| {
            let variables = at_line(sources, "// counts");
            // clang 14 puts such a static into a function entry without a name; its address still tells it.
            if build.starts_with("g++") {
                let calls = named(&variables, "calls");
                assert_eq!((calls.frame, calls.kind), (0, VariableKind::Static), "{build}");
                assert!(
                    matches!(calls.location, VarLocation::Address(_)),
                    "{build}: {calls:?}"
                );
            }
            let calls = sources.global_named("calls");
            assert_eq!(calls.len(), 1, "{build}: {calls:?}");
            assert_eq!(named(&variables, "x").frame, 0);
            assert_eq!(named(&variables, "i").frame, 1);
        });
    }
}

#[test]
fn globals_are_found_by_name_and_by_address() {
    for build in BUILDS {
        with_sources(build, QUEUE, "queue.cpp", |sources, build| {
            for name in ["ns::counter", "counter", "queue.cpp:counter"] {
                let found = sources.global_named(name);
                assert_eq!(found.len(), 1, "{build}: {name}");
                assert_eq!(&*found[0].name, "ns::counter");
            }
            assert!(sources.global_named("other.cpp:counter").is_empty());
            assert!(sources.global_named("s::counter").is_empty());
            assert!(
                matches!(sources.global_named("ns::mine")[0].location, VarLocation::Tls(_)),
                "{build}"
            );
            let table = sources.global_named("table").remove(0);
            let VarLocation::Address(start) = table.location else {
                panic!("{build}: {table:?}")
            };
            let (found, offset) = sources.global_at(start.offset(35), None).expect("the table");
            assert_eq!((&found, offset), (&table, 35), "{build}");
            assert_eq!(
                sources.global_at(start.offset(35), Some(start)),
                Some((table, 35))
            );
            assert_eq!(sources.global_at(start.offset(1 << 20), None), None);
        });
    }
}

#[test]
fn an_offset_leads_to_a_member() {
    for build in BUILDS {
        with_sources(build, QUEUE, "queue.cpp", |sources, build| {
            let table = sources.global_named("ns::table").remove(0);
            let ty = type_of(sources, &table);
            assert_eq!(ty.size(), Some(4 * 32), "{build}");
            let paths = |offset, size| {
                let found = ty.member_at(offset, size);
                found
                    .into_iter()
                    .map(|found| (found.path, found.offset))
                    .collect::<Vec<_>>()
            };
            let one = |path: &str| vec![(path.to_owned(), 0)];
            assert_eq!(paths(0, 4), one("[0].value"), "{build}");
            assert_eq!(paths(32 + 16 + 4 + 2, 2), one("[1].parts[1].high"), "{build}");
            assert_eq!(paths(64 + 16, 4), one("[2].parts[0]"), "{build}");
            let either = vec![("[3].tag".to_owned(), 0), ("[3].next".to_owned(), 0)];
            assert_eq!(paths(96 + 8, 8), either, "{build}");
            assert_eq!(paths(0, 8), one("[0]"), "four bytes are padding");
            assert_eq!(paths(128, 4), [(String::new(), 128)], "behind the end");
        });
    }
}

#[test]
fn an_optimised_variable_is_where_the_location_list_says() {
    let text = "int seen; int __attribute__((noinline)) scaled(int *from, int count) {\n\
                int total = 0;\n\
                for (int i = 0; i < count; i++)\n\
                total += from[i]; // loads\n\
                return total;\n\
                }\n\
                int main(int argc, char **argv) { (void)argv; return scaled(&seen, argc); }\n";
    for compiler in [
        "gcc -gdwarf-4",
        "gcc -gdwarf-5",
        "clang -gdwarf-4",
        "clang -gdwarf-5 -gsplit-dwarf",
    ] {
        with_sources(&format!("{compiler} -O1"), text, "scaled.c", |sources, build| {
            let matches = sources
                .addresses_of("scaled.c", line_of(text, "// loads"))
                .expect("code")
                .matches;
            let total = matches
                .iter()
                .flat_map(|found| sources.variables_at(found.range.start));
            let total: Vec<_> = total.filter(|variable| &*variable.name == "total").collect();
            let in_register = |variable: &Variable| matches!(variable.location, VarLocation::Register(_));
            assert!(total.iter().any(in_register), "{build}: {total:?}");
        });
    }
}

#[test]
fn rust_types_and_variables_are_read() {
    let text = "pub struct Job { pub id: u64, pub next: Option<Box<Job>>, pub name: (u8, i16) }\n\
                pub static mut LAST: u32 = 0;\n\
                #[inline(never)] fn work(job: &mut Job) -> u64 {\n\
                job.id += 1; // counts\n\
                unsafe { LAST += 1 };\n\
                job.id + job.next.as_ref().map_or(0, |next| next.id)\n\
                }\n\
                fn main() { let mut job = Job { id: 1, next: None, name: (1, 2) }; std::process::exit(work(&mut job) as i32) }\n";
    with_sources("rustc -g", text, "job.rs", |sources, build| {
        let line = line_of(text, "// counts");
        let at = sources.addresses_of("job.rs", line).expect("code").matches[0]
            .range
            .start;
        assert_eq!(
            sources.frames_at(at)[0].function.as_deref(),
            Some("job::work"),
            "{build}"
        );
        let variables = sources.variables_at(at);
        let job = type_of(sources, named(&variables, "job"))
            .pointee()
            .expect("a reference");
        assert_eq!(job.name(), "job::Job");
        let id = job
            .members()
            .into_iter()
            .find(|member| member.name.as_deref() == Some("id"))
            .expect("a member");
        assert_eq!(job.member_at(id.offset, 8)[0].path, "id");
        let next = job
            .members()
            .into_iter()
            .find(|member| member.name.as_deref() == Some("next"))
            .expect("next");
        let inside = job.member_at(next.offset, 8);
        assert!(
            inside.iter().any(|found| found.path == "next.Some.__0"),
            "{inside:?}"
        );
        assert_eq!(sources.global_named("job::LAST").len(), 1);
    });
}
