//! The commands that would make something work, here and for this user.

use super::facts::Facts;

/// What failsketch asks for: all of it, whichever part is missing, as a second command would take back what
/// the first one gave.
const ALL: [&str; 4] = ["perfmon", "bpf", "sys_ptrace", "sys_admin"];

/// How to give failsketch its capabilities, if it needs some (named without `CAP_`, in lower case) that it does
/// not have.
pub(super) fn grant(facts: &Facts, needs: &[&str]) -> Vec<String> {
    let lacks = |need: &&str| facts.user_namespace || !facts.has(&full_name(need));
    if !needs.iter().any(lacks) {
        return blocked_although_granted(facts);
    }
    let out_of_reach = |need: &&str| facts.beyond_reach.contains(&full_name(need).as_str());
    if facts.container.is_some() || facts.user_namespace || needs.iter().any(out_of_reach) {
        return container_options(facts);
    }
    if facts.no_new_privileges {
        return vec!["run failsketch as root, from a shell that has not set no_new_privs".to_owned()];
    }
    let exe = std::env::current_exe().map_or_else(
        |_| "\"$(command -v failsketch)\"".to_owned(),
        |path| format!("'{}'", path.display()),
    );
    vec![format!("sudo setcap cap_{}+ep {exe}", ALL.join(",cap_"))]
}

/// How to set a setting for now and for later.
fn set(name: &str, value: &str) -> Vec<String> {
    vec![
        format!("sudo sysctl {name}={value}"),
        format!("echo '{name}={value}' | sudo tee /etc/sysctl.d/60-failsketch.conf   # also after a reboot"),
    ]
}

/// A user's own processes may be watched with the setting at 2; otherwise it takes capabilities.
pub(super) fn watching(facts: &Facts) -> Vec<String> {
    match facts.number("kernel.perf_event_paranoid") {
        Some(paranoid) if paranoid > 2 && !facts.has("CAP_PERFMON") && facts.container.is_none() => {
            set("kernel.perf_event_paranoid", "2")
        }
        _ => grant(facts, &["perfmon", "sys_ptrace"]),
    }
}

pub(super) fn tracing(facts: &Facts) -> Vec<String> {
    match facts.number("kernel.yama.ptrace_scope") {
        Some(3) => vec![
            "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.conf and /etc/sysctl.d, and reboot"
                .to_owned(),
        ],
        Some(1 | 2) if !facts.has("CAP_SYS_PTRACE") && facts.container.is_none() => {
            set("kernel.yama.ptrace_scope", "0")
        }
        _ => grant(facts, &["sys_ptrace"]),
    }
}

fn full_name(need: &str) -> String {
    format!("CAP_{}", need.to_uppercase())
}

fn blocked_although_granted(facts: &Facts) -> Vec<String> {
    if facts.seccomp {
        return vec![
            "docker run --security-opt seccomp=unconfined …   # or a profile that allows perf_event_open, bpf \
             and ptrace"
                .to_owned(),
        ];
    }
    Vec::new()
}

fn container_options(facts: &Facts) -> Vec<String> {
    let upper = ALL.iter().map(|need| need.to_uppercase());
    if facts.container.as_deref() == Some("kubernetes") {
        let list: Vec<_> = upper.map(|name| format!("\"{name}\"")).collect();
        return vec![format!(
            "in the pod's container: securityContext: {{capabilities: {{add: [{}]}}, seccompProfile: {{type: \
             Unconfined}}}}",
            list.join(", ")
        )];
    }
    let tool = match facts.container.as_deref() {
        Some("podman") => "sudo podman",
        _ => "docker",
    };
    let adds: Vec<_> = upper.map(|name| format!("--cap-add {name}")).collect();
    let mut steps = vec![format!(
        "{tool} run {} --security-opt seccomp=unconfined …",
        adds.join(" ")
    )];
    if facts.user_namespace {
        steps.push(
            "without a user namespace (rootful, no userns-remap): the kernel asks for the host's capabilities"
                .to_owned(),
        );
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{Facts, grant};

    #[test]
    fn a_user_gets_file_capabilities() {
        let steps = grant(&Facts::default(), &["perfmon", "bpf"]);
        assert!(
            steps[0].starts_with("sudo setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_sys_admin+ep '/"),
            "{steps:?}"
        );
    }

    #[test]
    fn nothing_is_asked_for_that_is_there() {
        let facts = Facts {
            capabilities: vec!["CAP_BPF"],
            ..Facts::default()
        };
        assert_eq!(grant(&facts, &["perfmon", "bpf"]).len(), 1);
        assert_eq!(grant(&facts, &["bpf"]), Vec::<String>::new());
    }

    #[test]
    fn a_container_is_started_differently() {
        let mut facts = Facts {
            container: Some("docker".to_owned()),
            ..Facts::default()
        };
        let docker = "docker run --cap-add PERFMON --cap-add BPF --cap-add SYS_PTRACE --cap-add SYS_ADMIN --security-opt \
                      seccomp=unconfined …";
        assert_eq!(grant(&facts, &["perfmon"]), [docker]);
        facts.container = Some("kubernetes".to_owned());
        assert!(
            grant(&facts, &["perfmon"])[0]
                .contains("add: [\"PERFMON\", \"BPF\", \"SYS_PTRACE\", \"SYS_ADMIN\"]")
        );
        facts.container = None;
        facts.user_namespace = true;
        facts.capabilities = vec!["CAP_PERFMON"];
        assert_eq!(
            grant(&facts, &["perfmon"]).len(),
            2,
            "capabilities of a namespace do not count"
        );
    }

    #[test]
    fn a_filter_may_be_in_the_way_of_capabilities_that_are_there() {
        let facts = Facts {
            capabilities: vec!["CAP_PERFMON"],
            seccomp: true,
            ..Facts::default()
        };
        assert!(grant(&facts, &["perfmon"])[0].contains("seccomp=unconfined"));
    }
}
