//! Where debug files are kept on a Linux host: the rules of gdb, which distributions and packagers follow.

use std::path::{Path, PathBuf};

use program::{BuildId, FileRequest};

/// The folders that distributions install debug files into.
const GLOBAL_FOLDERS: [&str; 2] = ["/usr/lib/debug", "/usr/local/lib/debug"];

/// The paths at which a requested file may be, best first, for a binary at `binary`.
pub(super) fn candidates(binary: &Path, request: &FileRequest, extra: &[PathBuf]) -> Vec<PathBuf> {
    let folders = || extra.iter().cloned().chain(GLOBAL_FOLDERS.map(PathBuf::from));
    let beside = binary.parent().unwrap_or(Path::new("."));
    match request {
        FileRequest::DebugByBuildId(id) => folders()
            .filter_map(|folder| by_build_id(&folder, id, ".debug"))
            .chain(debuginfod_cache(id))
            .collect(),
        FileRequest::DebugLink { name, .. } => {
            let mut paths = vec![beside.join(name), beside.join(".debug").join(name)];
            let absolute = beside.canonicalize().unwrap_or_else(|_| beside.to_owned());
            let inner = absolute.strip_prefix("/").unwrap_or(&absolute).to_owned();
            for folder in folders() {
                paths.push(folder.join(&inner).join(name));
                paths.push(folder.join(name));
            }
            paths
        }
        FileRequest::Supplementary { path, build_id } => {
            let mut paths = vec![beside.join(path)];
            for folder in folders() {
                paths.extend(by_build_id(&folder, build_id, ".debug"));
                if let Some(name) = Path::new(path).file_name() {
                    paths.push(folder.join(".dwz").join(name));
                }
            }
            paths
        }
        FileRequest::SplitObject { path, comp_dir } => {
            let recorded = Path::new(path);
            let mut paths = Vec::new();
            if recorded.is_absolute() {
                paths.push(recorded.to_owned());
            } else {
                paths.extend(comp_dir.as_ref().map(|folder| Path::new(folder).join(recorded)));
                paths.push(beside.join(recorded));
            }
            // A build that was moved as a whole keeps its objects beside the binary.
            paths.extend(recorded.file_name().map(|name| beside.join(name)));
            paths
        }
        FileRequest::SplitPackage => packages(binary, folders()),
    }
}

/// A package is named after the binary or the binary's debug file, and stands beside it or where debug files are kept. The
/// binary may have been given through a link.
fn packages(binary: &Path, folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let real = binary.canonicalize().ok().filter(|real| real != binary);
    let binaries: Vec<&Path> = std::iter::once(binary).chain(real.as_deref()).collect();
    let named = |path: &Path, ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let mut paths = Vec::new();
    for binary in &binaries {
        paths.extend([
            named(binary, ".dwp"),
            named(binary, ".debug.dwp"),
            binary.with_extension("dwp"),
        ]);
    }
    for folder in folders {
        for binary in &binaries {
            let whole = binary.strip_prefix("/").ok().map(|inner| folder.join(inner));
            let alone = binary.file_name().map(|name| folder.join(name));
            for path in whole.into_iter().chain(alone) {
                paths.extend([named(&path, ".dwp"), named(&path, ".debug.dwp")]);
            }
        }
    }
    paths
}

fn by_build_id(folder: &Path, id: &BuildId, suffix: &str) -> Option<PathBuf> {
    let hex = id.to_string();
    let (head, tail) = hex.split_at_checked(2)?;
    (!tail.is_empty()).then(|| {
        folder
            .join(".build-id")
            .join(head)
            .join(format!("{tail}{suffix}"))
    })
}

/// What a debuginfod client fetched earlier; nothing is fetched from here.
fn debuginfod_cache(id: &BuildId) -> Option<PathBuf> {
    let folder = std::env::var_os("DEBUGINFOD_CACHE_PATH")
        .map(PathBuf::from)
        .or_else(|| {
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let cache =
                cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
            cache.map(|cache| cache.join("debuginfod_client"))
        })?;
    Some(folder.join(id.to_string()).join("debuginfo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(request: &FileRequest) -> Vec<String> {
        let found = candidates(
            Path::new("/opt/app/bin/server"),
            request,
            &[PathBuf::from("/symbols")],
        );
        found.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn build_id_files_are_sharded_by_the_first_byte() {
        let id = BuildId::from_hex("ab12cd").unwrap();
        let found = paths(&FileRequest::DebugByBuildId(id));
        assert_eq!(
            found[..2],
            [
                "/symbols/.build-id/ab/12cd.debug",
                "/usr/lib/debug/.build-id/ab/12cd.debug"
            ]
            .map(String::from)
        );
    }

    #[test]
    fn a_debug_link_is_searched_beside_the_binary_first() {
        let found = paths(&FileRequest::DebugLink {
            name: "server.debug".into(),
            crc: 0,
        });
        assert_eq!(found[0], "/opt/app/bin/server.debug");
        assert_eq!(found[1], "/opt/app/bin/.debug/server.debug");
        assert!(found.contains(&"/usr/lib/debug/opt/app/bin/server.debug".to_owned()));
    }

    #[test]
    fn split_objects_are_relative_to_the_compilers_folder() {
        let request = FileRequest::SplitObject {
            path: "obj/a.dwo".into(),
            comp_dir: Some("/build".into()),
        };
        assert_eq!(
            paths(&request),
            ["/build/obj/a.dwo", "/opt/app/bin/obj/a.dwo", "/opt/app/bin/a.dwo"].map(String::from)
        );
    }

    #[test]
    fn a_package_is_beside_the_binary_or_where_debug_files_are_kept() {
        let found = paths(&FileRequest::SplitPackage);
        assert_eq!(
            found[..5],
            [
                "/opt/app/bin/server.dwp",
                "/opt/app/bin/server.debug.dwp",
                "/opt/app/bin/server.dwp",
                "/symbols/opt/app/bin/server.dwp",
                "/symbols/opt/app/bin/server.debug.dwp",
            ]
            .map(String::from)
        );
        assert!(found.contains(&"/symbols/server.dwp".to_owned()));
    }
}
