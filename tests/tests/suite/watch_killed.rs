//! The watching process is killed at any moment: the watched program goes on as if nothing had happened, and
//! nothing is left in it.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use failsketch_tests::running::Running;
use failsketch_tests::target::Built;
use failsketch_tests::watch::Watch;

use crate::watching::{Way, is_clean};

const KILLS: u32 = 200;
/// So many at a time: a killed watcher is found out in a program that others do not keep from running.
const AT_ONCE: u32 = 2;
/// So many mistakes tell what is wrong.
const ENOUGH: usize = 3;
const MARK: &str = "FAILSKETCH_KILL_TEST";

/// When the watching process is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So long after its start: while it loads, attaches, arms.
    Start(Duration),
    /// So long after everything is armed: while hits come and threads are created.
    Armed(Duration),
    /// So long after it was asked to stop, while it leaves.
    Leaving(Duration, Duration),
}

/// Numbers without a pattern; the seed is in every failure's message.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn micros(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit))
    }

    fn moment(&mut self) -> Moment {
        match self.below(10) {
            0..4 => Moment::Start(self.micros(80_000)),
            4..7 => Moment::Armed(self.micros(50_000)),
            _ => Moment::Leaving(self.micros(20_000), self.micros(6_000)),
        }
    }
}

/// Whether a moment was met: a watcher that ended before was not killed.
fn kill_at(moment: Moment, watch: &mut Running) -> bool {
    let armed = |watch: &Running| watch.stderr_line("failsketch: watching ").is_ok();
    match moment {
        Moment::Start(time) => thread::sleep(time),
        Moment::Armed(time) => {
            if !armed(watch) {
                return false;
            }
            thread::sleep(time);
        }
        Moment::Leaving(time, then) => {
            if !armed(watch) {
                return false;
            }
            thread::sleep(time);
            watch.signal("INT");
            thread::sleep(then);
        }
    }
    let met = watch.runs();
    watch.kill();
    met
}

/// One program, watched by somebody who is killed. Says what was wrong, or whether the moment was met.
fn scenario(built: &Built, mode: &str, moment: Moment, untouched: &str) -> Result<bool, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mark = format!(
        "{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let target = built.start(&[]);
    let pid = target.pid();
    let words = ["--pid", &pid.to_string(), "--mode", mode, "--var", "shared"];
    let mut watch = Running::start(Watch::command(words).env(MARK, &mark));
    let met = kill_at(moment, &mut watch);
    is_clean(pid).map_err(|left| format!("after the kill, {left}"))?;
    if let Err(instead) = target.stdout_line("shared ") {
        return Err(format!("{}: {instead}", target.finish().how()));
    }
    is_clean(pid).map_err(|left| format!("at the end, {left}"))?;
    if let Some(process) = stray(&mark) {
        return Err(format!("process {process} is left"));
    }
    same_code(pid, &built.exe)?;
    let done = target.finish();
    if done.stdout != untouched || done.status.code() != Some(7) {
        return Err(format!("{}: {}{}", done.how(), done.stdout, done.stderr));
    }
    Ok(met)
}

/// A process that carries the mark and does not go away.
fn stray(mark: &str) -> Option<String> {
    let entry = format!("{MARK}={mark}");
    let carries = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|word| word == entry.as_bytes())
    };
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut processes = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        match processes.find(carries) {
            Some(pid) if Instant::now() > end => return Some(pid),
            Some(_) => thread::sleep(Duration::from_millis(5)),
            None => return None,
        }
    }
}

/// The program's machine code in memory is that of its file: no probe is left in it.
fn same_code(pid: u32, exe: &Path) -> Result<(), String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| error.to_string())?;
    let code = maps.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = words[..] else {
            return None;
        };
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        (Path::new(path) == exe).then_some((number(start)?, number(end)?, number(offset)?))
    });
    let (start, end, offset) = code.ok_or("the program's code is not mapped")?;
    let bytes = |path: &Path, at: u64| -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        file.take(end - start).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let here = bytes(Path::new(&format!("/proc/{pid}/mem")), start).map_err(|error| error.to_string())?;
    let there = bytes(exe, offset).map_err(|error| error.to_string())?;
    let probes = fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    if probes.contains(&*exe.to_string_lossy()) {
        return Err(format!("a probe is left: {probes}"));
    }
    // The last page of the file's part may be followed by what the next part has.
    if here.get(..there.len()) != Some(&there[..]) {
        return Err("the program's machine code was changed".to_owned());
    }
    Ok(())
}

#[test]
fn at_any_moment_the_program_does_not_notice() {
    let built = Built::c("steady.c", "O2");
    let untouched = built.run(&[]);
    assert_eq!(untouched.status.code(), Some(7), "{}", untouched.how());
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |time| time.as_nanos() as u64 | 1);
    let work = |worker: u32| {
        let mut random = Random(seed ^ (u64::from(worker) << 32));
        let (mut met, mut wrong) = (0, Vec::new());
        for number in 0..KILLS / AT_ONCE {
            let mode = Way::ATTACHED[number as usize % 2].mode;
            let moment = random.moment();
            match scenario(&built, mode, moment, &untouched.stdout) {
                Ok(true) => met += 1,
                Ok(false) => {}
                Err(what) => wrong.push(format!("{mode}, killed at {moment:?}: {what}")),
            }
            // What is wrong often is wrong slowly.
            if wrong.len() == ENOUGH {
                break;
            }
        }
        (met, wrong)
    };
    let (mut met, mut wrong) = (0, Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        for worker in workers {
            let (kills, mistakes) = worker.join().expect("a worker tells what it saw");
            met += kills;
            wrong.extend(mistakes);
        }
    });
    assert!(
        wrong.is_empty(),
        "programs noticed (seed {seed}):\n{}",
        wrong.join("\n")
    );
    assert!(
        met * 2 > KILLS,
        "only {met} of {KILLS} watchers were killed before they ended"
    );
}
