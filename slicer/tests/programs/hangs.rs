//! What a hang is about: the calls that threads are in, and the conditions of their loops.

use failure::report::{Frame, ModuleRef, Position, Report, Source, SymbolRef, Thread};
use failure::{Kind, resolve};
use program::code::InstrIx;
use program::{LinkAddr, Pc, Program};
use slicer::slice::{Criterion, Slice};

use super::common::{self, Language, function, line_at, program};

const C: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
struct pool { int finished, total; pthread_mutex_t lock; pthread_cond_t changed; int ready; };
__attribute__((noinline)) int is_done(volatile struct pool *p) {
    return p->finished == p->total; /* compared */
}
__attribute__((noinline)) void nap(int t) {
    usleep(t); /* nap */
    __asm__ volatile("");
}
__attribute__((noinline)) void poll_all(volatile struct pool *p) {
    while (!is_done(p)) /* polled */
        nap(500); /* napping */
}
__attribute__((noinline)) void await(struct pool *p) {
    pthread_mutex_lock(&p->lock);
    while (!p->ready) /* predicate */
        pthread_cond_wait(&p->changed, &p->lock); /* awaiting */
    pthread_mutex_unlock(&p->lock);
}
void *worker(void *arg) { /* worker */
    await(arg); /* await */
    return NULL;
}
int main(void) {
    struct pool *p = calloc(1, sizeof *p);
    pthread_t t;
    pthread_create(&t, NULL, worker, p);
    poll_all(p); /* poll */
    pthread_join(t, NULL); /* joining */
    return 0;
}
"#;

fn line_of(mark: &str) -> u32 {
    common::line_of(C, mark)
}

/// The address after the last call on a marked line.
fn after_call(program: &Program<'_>, name: &str, mark: &str) -> LinkAddr {
    let id = function(program, name);
    let flow = program.module(id.module).unwrap().code().flow(id.function);
    let calls = flow.blocks.iter().filter(|block| block.exit.target().is_some());
    let on_line = calls.map(|block| block.last()).filter(|&ix| {
        let addr = flow.addr(ix).unwrap();
        line_at(
            program,
            Pc {
                module: id.module,
                addr,
            },
        ) == Some(line_of(mark))
    });
    let InstrIx(last) = on_line.last().unwrap_or_else(|| panic!("no call on {mark}"));
    LinkAddr(flow.instructions[last as usize].next_ip())
}

/// A thread: the library's functions that it is in, then calls in functions of the program, innermost first.
fn thread(program: &Program<'_>, file: &str, library: &[&str], own: &[(&str, &str)]) -> Thread {
    let library_frame = |name: &&str| Frame {
        module: Some(ModuleRef {
            path: "/lib/x86_64-linux-gnu/libc.so.6".to_owned(),
            ..ModuleRef::default()
        }),
        symbol: Some(SymbolRef {
            name: (*name).to_owned(),
            offset: None,
        }),
        ..Frame::default()
    };
    let own_frame = |(name, mark): &(&str, &str)| Frame {
        module: Some(ModuleRef {
            path: file.to_owned(),
            addr: Some(after_call(program, name, mark)),
            ..ModuleRef::default()
        }),
        position: Position::Return,
        ..Frame::default()
    };
    let frames = library.iter().map(library_frame);
    Thread {
        frames: frames.chain(own.iter().map(own_frame)).collect(),
        ..Thread::default()
    }
}

fn report(threads: Vec<Thread>) -> Report {
    Report {
        source: Source::Live,
        kind: Kind::Hang,
        signal: None,
        message: None,
        sign: None,
        fault_address: None,
        program: None,
        build_id: None,
        threads,
        failing: 0,
        notes: Vec::new(),
    }
}

/// The lines that a slice starts from.
fn starts(program: &Program<'_>, report: &Report) -> Vec<u32> {
    let failure = resolve(report, program).unwrap();
    let criterion = Criterion::failure(program, &failure);
    let lines = criterion
        .starts
        .iter()
        .filter_map(|start| line_at(program, start.pc));
    lines.collect()
}

#[test]
fn a_poll_is_about_what_ends_it() {
    for level in [0, 2] {
        let name = format!("polls{level}");
        let program = program(&name, Language::C, level, C);
        let main = thread(
            program,
            &name,
            &["clock_nanosleep", "usleep"],
            &[("nap", "nap"), ("poll_all", "napping"), ("main", "poll")],
        );
        let polls = report(vec![main]);
        let found = starts(program, &polls);
        assert!(found.contains(&line_of("polled")), "-O{level}: {found:?}");
        let failure = resolve(&polls, program).unwrap();
        let slice = Slice::new(program, &Criterion::failure(program, &failure));
        let near: Vec<u32> = slice.take(4).filter_map(|found| found.statement.line).collect();
        assert!(near.contains(&line_of("compared")), "-O{level}: {near:?}");
    }
}

#[test]
fn a_wait_is_about_its_predicate() {
    for level in [0, 2] {
        let name = format!("waits{level}");
        let program = program(&name, Language::C, level, C);
        let main = thread(
            program,
            &name,
            &["__futex_abstimed_wait", "__pthread_clockjoin_ex"],
            &[("main", "joining")],
        );
        let worker = thread(
            program,
            &name,
            &["__futex_abstimed_wait", "pthread_cond_wait"],
            &[("await", "awaiting")],
        );
        let found = starts(program, &report(vec![main, worker]));
        let expected = ["awaiting", "predicate", "joining"].map(line_of);
        assert_eq!(found, expected, "-O{level}");
    }
}

const EVENT: &str = r#"
#include <pthread.h>
#include <stdlib.h>
struct event { pthread_mutex_t lock; pthread_cond_t wake; unsigned waiters; };
__attribute__((noinline)) void signal_event(struct event *e) {
    pthread_mutex_lock(&e->lock);
    if (e->waiters > 0) /* asked */
        pthread_cond_signal(&e->wake); /* signals */
    pthread_mutex_unlock(&e->lock);
}
__attribute__((noinline)) void await(struct event *e) {
    pthread_mutex_lock(&e->lock);
    e->waiters++;
    pthread_cond_wait(&e->wake, &e->lock); /* awaiting */
    pthread_mutex_unlock(&e->lock);
}
void *worker(void *arg) {
    signal_event(arg);
    return NULL;
}
int main(void) {
    struct event *e = calloc(1, sizeof *e);
    pthread_t t;
    pthread_create(&t, NULL, worker, e);
    await(e); /* await */
    pthread_join(t, NULL);
    return 0;
}
"#;

#[test]
fn who_waits_for_a_signal_waits_for_whoever_would_have_sent_it() {
    for level in [0, 2] {
        let name = format!("event{level}");
        let program = program(&name, Language::C, level, EVENT);
        let id = function(program, "await");
        let module = program.module(id.module).unwrap();
        let flow = module.code().flow(id.function);
        let waits = flow.calls().find_map(|(ix, target, _)| match target {
            program::code::Target::Import(import) => {
                let name = module.elf().import_name(import)?;
                name.starts_with("pthread_cond_wait")
                    .then(|| LinkAddr(flow.instructions[ix.0 as usize].next_ip()))
            }
            _ => None,
        });
        let mut main = thread(
            program,
            &name,
            &["__futex_abstimed_wait", "pthread_cond_wait"],
            &[],
        );
        main.frames.push(Frame {
            module: Some(ModuleRef {
                path: name.clone(),
                addr: waits,
                ..ModuleRef::default()
            }),
            position: Position::Return,
            ..Frame::default()
        });
        let failure = resolve(&report(vec![main]), program).unwrap();
        let calls = slicer::wakes::waking(program, &failure);
        let line = |mark: &str| {
            let mark = format!("/* {mark} */");
            let lines = (1..).zip(EVENT.lines());
            lines
                .into_iter()
                .find(|(_, line)| line.contains(&mark))
                .map(|(n, _)| n)
        };
        let found: Vec<_> = calls.iter().map(|&call| line_at(program, call)).collect();
        assert_eq!(found, [line("signals")], "-O{level}");
        let slice = Slice::new(program, &Criterion::instruction(calls[0]));
        let near: Vec<_> = slice.take(3).map(|found| found.statement.line).collect();
        assert!(near.contains(&line("asked")), "-O{level}: {near:?}");
    }
}
