//! Processes that are followed by the control group or the unit that they belong to.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use failsketch_tests::skip;

use crate::attached::{Agent, SIGSEGV, Service, registered, settings};
use crate::built::Built;
use crate::server::TestServer;

/// A control group, as a manager of services makes one.
struct Group(PathBuf);

impl Group {
    /// One of this name in a hierarchy that processes may be moved in; `None` where there is none.
    fn new(name: &str) -> Option<Self> {
        let folders = [
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup/systemd",
        ];
        let is_hierarchy = |folder: &&Path| folder.join("cgroup.procs").exists();
        let mut folders = folders.iter().map(Path::new).filter(is_hierarchy);
        let path = folders.find_map(|folder| {
            let path = folder.join(format!("{name}-{}.service", std::process::id()));
            fs::create_dir(&path).ok().map(|()| path)
        });
        path.map(Self)
    }

    fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }

    fn take(&self, service: &Service) {
        fs::write(self.0.join("cgroup.procs"), service.pid().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it may not be gone yet; an empty group does no harm.
        let _left = fs::remove_dir(&self.0);
    }
}

/// Of two processes of one program only the one in the group is followed, and so is the one that comes after it.
fn follows_those_of_the_group(name: &str, job: impl Fn(&Group) -> String) {
    let Some(group) = Group::new(name) else {
        return skip::skipped("no control group can be made: it takes root and a writable /sys/fs/cgroup");
    };
    let built = Built::new("service.c");
    let server = TestServer::start();
    let [inside, outside] = [(); 2].map(|()| Service::start(&built, 60_000));
    group.take(&inside);
    let agent = Agent::start(&settings(&built, &server.url(), &job(&group)));
    server.memory.until("it is watched", registered);
    outside.signal("USR1");
    assert_eq!(outside.end().0.signal(), Some(SIGSEGV));
    inside.signal("USR1");
    assert_eq!(inside.end().0.signal(), Some(SIGSEGV));
    server
        .memory
        .until("its failure", |state| !state.failures.is_empty());
    let next = Service::start(&built, 60_000);
    group.take(&next);
    let questions = server.memory.lock().questions.len();
    server
        .memory
        .until("the next is watched", |state| state.questions.len() > questions);
    next.signal("USR1");
    assert_eq!(next.end().0.signal(), Some(SIGSEGV));
    server
        .memory
        .until("the next failure", |state| state.failures.len() >= 2);
    agent.end();
    assert_eq!(
        server.memory.lock().failures.len(),
        2,
        "the one outside is nobody's business"
    );
}

#[test]
fn a_control_group_is_followed_by_its_name() {
    follows_those_of_the_group("failsketch-named", |group| {
        format!("[follow]\ncgroup = '{}'", group.name())
    });
}

#[test]
fn and_by_its_folder() {
    follows_those_of_the_group("failsketch-folder", |group| {
        format!("[follow]\ncgroup = '{}'", group.0.display())
    });
}

#[test]
fn a_unit_is_followed() {
    follows_those_of_the_group("failsketch-unit", |group| {
        format!("[follow]\nunit = '{}'", group.name().trim_end_matches(".service"))
    });
}
