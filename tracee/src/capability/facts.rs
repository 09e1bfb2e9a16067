//! What the host says about itself: the kernel, its settings, who we are and what holds us.

use std::fs;

use serde::Serialize;

use crate::ids::FIRST_PID_NAMESPACE;
use crate::perf::original_file_limit;

/// The capabilities that matter here, by their bit.
const CAPABILITIES: [(&str, u32); 6] = [
    ("CAP_IPC_LOCK", 14),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
    ("CAP_CHECKPOINT_RESTORE", 40),
];

/// The host, the user and the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The kernel's version.
    pub kernel: String,
    /// The processor.
    pub processor: String,
    /// Whether a hypervisor is between us and the processor.
    pub virtual_machine: bool,
    /// The effective user.
    pub user: u32,
    /// Which of the capabilities that matter this process has.
    pub capabilities: Vec<&'static str>,
    /// Which it could not even get as root.
    pub beyond_reach: Vec<&'static str>,
    /// What kind of container this is, as far as one can see.
    pub container: Option<String>,
    /// Whether root is only root of a user namespace: capabilities do not count for perf and BPF then.
    pub user_namespace: bool,
    /// Whether process numbers are those of a namespace.
    pub pid_namespace: bool,
    /// Whether a seccomp filter is in force.
    pub seccomp: bool,
    /// Whether set-user-id programs and file capabilities have no effect.
    pub no_new_privileges: bool,
    /// Settings of the kernel and limits of the process.
    pub settings: Vec<Setting>,
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name, as `sysctl` or `ulimit` know it.
    pub name: &'static str,
    /// Its value; none if this kernel does not have it.
    pub value: Option<String>,
}

/// Settings under /proc/sys, by the name that `sysctl` knows them by.
const SYSCTLS: [&str; 8] = [
    "kernel.perf_event_paranoid",
    "kernel.perf_event_mlock_kb",
    "kernel.yama.ptrace_scope",
    "kernel.unprivileged_bpf_disabled",
    "kernel.kptr_restrict",
    "kernel.core_pattern",
    "kernel.randomize_va_space",
    "fs.nr_open",
];

impl Facts {
    /// Reads them.
    pub(super) fn read() -> Self {
        let status = read("/proc/self/status");
        let cpuinfo = read("/proc/cpuinfo");
        let effective = mask(&status, "CapEff");
        let bounding = mask(&status, "CapBnd");
        let mut settings: Vec<_> = SYSCTLS
            .map(|name| Setting {
                name,
                value: sysctl(name),
            })
            .into();
        if let Some(limit) = original_file_limit() {
            settings.push(Setting {
                name: "ulimit -n",
                value: Some(format!("{} (at most {})", limit.soft, limit.hard)),
            });
        }
        let limits = read("/proc/self/limits");
        for (name, row) in [
            ("ulimit -l", "Max locked memory"),
            ("ulimit -c", "Max core file size"),
        ] {
            settings.push(Setting {
                name,
                value: limit(&limits, row),
            });
        }
        let user_namespace = !whole_id_space(&read("/proc/self/uid_map"));
        let pid_namespace = !is_first_namespace("pid", FIRST_PID_NAMESPACE);
        let cgroup_namespace = !is_first_namespace("cgroup", FIRST_CGROUP_NAMESPACE);
        // The files of an image that is no container's may have been a container's.
        let contained = user_namespace || pid_namespace || cgroup_namespace;
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            virtual_machine: has_flag(&cpuinfo, "hypervisor"),
            user: field(&status, "Uid")
                .and_then(|uids| uids.split_whitespace().nth(1)?.parse().ok())
                .unwrap_or(u32::MAX),
            capabilities: named(effective),
            beyond_reach: named(!bounding),
            container: if contained { container() } else { None },
            user_namespace,
            pid_namespace,
            seccomp: field(&status, "Seccomp").is_some_and(|mode| mode != "0"),
            no_new_privileges: field(&status, "NoNewPrivs").is_some_and(|on| on != "0"),
            settings,
        }
    }

    /// A setting's value.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        let setting = self.settings.iter().find(|setting| setting.name == name)?;
        setting.value.as_deref()
    }

    /// Whether this process has a capability.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.contains(&capability)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.setting(name)?.split_whitespace().next()?.parse().ok()
    }
}

/// Whether the processor has a feature, as /proc/cpuinfo names it.
pub(super) fn processor_has(feature: &str) -> bool {
    has_flag(&read("/proc/cpuinfo"), feature)
}

/// A file's text; nothing where there is none: what is not there says as much.
pub(super) fn read(path: &str) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

fn sysctl(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|one| one == flag))
}

fn mask(status: &str, name: &str) -> u64 {
    let digits = field(status, name).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

fn named(mask: u64) -> Vec<&'static str> {
    let held = CAPABILITIES.iter().filter(|(_, bit)| mask >> bit & 1 == 1);
    held.map(|&(name, _)| name).collect()
}

/// The soft limit of a row of /proc/self/limits.
fn limit(limits: &str, row: &str) -> Option<String> {
    let line = limits.lines().find_map(|line| line.strip_prefix(row))?;
    Some(line.split_whitespace().next()?.to_owned())
}

/// `PROC_CGROUP_INIT_INO`: the namespace of control groups outside of all containers.
const FIRST_CGROUP_NAMESPACE: u64 = 0xefff_fffb;

/// Whether a namespace of ours is the host's; also if that cannot be told.
fn is_first_namespace(kind: &str, first: u64) -> bool {
    let number = || {
        let link = fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
        let (_, number) = link.to_str()?.split_once('[')?;
        number.strip_suffix(']')?.parse::<u64>().ok()
    };
    number().is_none_or(|number| number == first)
}

/// Whether user numbers are those of the whole host.
fn whole_id_space(uid_map: &str) -> bool {
    uid_map.trim().is_empty() || uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn container() -> Option<String> {
    let exists = |path: &str| fs::exists(path).unwrap_or(false);
    if exists("/.dockerenv") {
        return Some("docker".to_owned());
    }
    if exists("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    if let Ok(kind) = fs::read_to_string("/run/systemd/container") {
        return Some(kind.trim().to_owned());
    }
    container_of_cgroup(&read("/proc/self/cgroup")).map(str::to_owned)
}

fn container_of_cgroup(cgroup: &str) -> Option<&'static str> {
    let known = [
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
        ("containerd", "containerd"),
    ];
    let found = known.iter().find(|(part, _)| cgroup.contains(part));
    found.map(|&(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::{container_of_cgroup, field, has_flag, limit, mask, named, whole_id_space};

    #[test]
    fn status_and_limits_as_the_kernel_writes_them() {
        let status = "Name:\tcat\nUid:\t1000\t1001\t1000\t1000\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n";
        assert_eq!(field(status, "Uid"), Some("1000\t1001\t1000\t1000"));
        assert_eq!(field(status, "NoNewPrivs"), None);
        assert_eq!(named(mask(status, "CapEff")).len(), 6);
        assert_eq!(named(1 << 38), ["CAP_PERFMON"]);
        assert_eq!(named(mask(status, "CapBnd")), Vec::<&str>::new());
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max core file size        0                    unlimited            bytes\n";
        assert_eq!(limit(limits, "Max core file size").as_deref(), Some("0"));
        assert_eq!(limit(limits, "Max locked memory"), None);
    }

    #[test]
    fn flags_are_whole_words() {
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu intel_pt_something hypervisor\n";
        assert!(has_flag(cpuinfo, "hypervisor"));
        assert!(!has_flag(cpuinfo, "intel_pt"));
    }

    #[test]
    fn namespaces_and_containers() {
        assert!(whole_id_space("         0          0 4294967295\n"));
        assert!(!whole_id_space("         0     100000      65536\n"));
        assert_eq!(
            container_of_cgroup("0::/kubepods/besteffort/pod1"),
            Some("kubernetes")
        );
        assert_eq!(container_of_cgroup("0::/user.slice/user-1000.slice"), None);
    }
}
