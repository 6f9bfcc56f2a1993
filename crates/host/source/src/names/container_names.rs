//! Names of containers, for [`super::WorkloadNames`]: from the files of the runtimes, and from the sockets of Docker and
//! Podman. All of it is untrusted: sizes, times and the characters of names are bounded.
//!
//! It deliberately does not speak gRPC (containerd's socket), or read files and sockets of other users, which could make
//! us wait.

use super::daemon;
use super::docker::{Docker, NAME_LEN_MAX};
use serde_json::Value;
use sockeye_model::{Container, Runtime, ShortText};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names by the id of the container.
type NamesById = HashMap<Box<str>, String>;

/// The names of the containers of this host; each source is read at its first use.
#[derive(Debug)]
pub(super) struct ContainerNames {
    /// `/`, except in tests.
    root: PathBuf,
    docker: Option<Docker>,
    logs: OnceLock<NamesById>,
    storage: OnceLock<NamesById>,
    daemons: OnceLock<NamesById>,
}

impl Default for ContainerNames {
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl ContainerNames {
    pub(super) fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            docker: Docker::at(root.join("var/lib/docker/containers")),
            logs: OnceLock::new(),
            storage: OnceLock::new(),
            daemons: OnceLock::new(),
        }
    }

    /// Returns the label of a container: `web`, `NAMESPACE/POD/CONTAINER` in Kubernetes; without a name
    /// `docker:9ec39b91f3d7`, and `pod:UID/9ec39b91f3d7` in the pod `pod`.
    ///
    /// | runtime | where names are |
    /// |---|---|
    /// | Kubernetes | the links `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` of the kubelet |
    /// | containerd, CRI-O | annotations in the `config.json` of the container's bundle below `/run` |
    /// | Docker | `/var/lib/docker/containers/ID/config.v2.json`, else the daemon |
    /// | Podman, CRI-O | `containers.json` of its storage, else the daemon |
    /// | runc, crun, called by themselves | `state.json` and `status` below `/run/runc` and `/run/crun`: [`Self::of_plain_runtime`] |
    /// | others | the path of the cgroup itself |
    pub(super) fn label(&self, container: &Container, pod: Option<&ShortText<36>>) -> String {
        let Some(id) = id_of(container) else {
            return container.to_string();
        };
        self.name(container.runtime, id).unwrap_or_else(|| {
            match pod.map(|uid| String::from_utf8_lossy(uid.as_bytes())) {
                Some(uid) => format!("pod:{uid}/{container}"),
                None => format!("{}:{container}", container.runtime),
            }
        })
    }

    fn name(&self, runtime: Runtime, id: &str) -> Option<String> {
        let logs = self.logs.get_or_init(|| pod_logs(&self.root));
        let found = logs
            .get(id)
            .cloned()
            .or_else(|| self.in_bundle(id))
            .or_else(|| self.docker.as_ref()?.name(id.as_bytes()).map(plain))
            .or_else(|| {
                let storage = self.storage.get_or_init(|| self.read_storage());
                storage.get(id).cloned()
            });
        let has_daemon = matches!(runtime, Runtime::Docker | Runtime::Podman | Runtime::Other);
        found.or_else(|| {
            let daemons = has_daemon.then(|| self.daemons.get_or_init(|| self.ask_daemons()));
            daemons?.get(id).cloned()
        })
    }

    /// Returns the name in the annotations of the bundle from which a runtime was started. The folder is root's.
    fn in_bundle(&self, id: &str) -> Option<String> {
        let task = "run/containerd/io.containerd.runtime.v2.task";
        let folders = [
            format!("{task}/k8s.io/{id}"),
            format!("{task}/default/{id}"),
            format!("run/containers/storage/overlay-containers/{id}/userdata"),
        ];
        folders.iter().find_map(|folder| {
            let json = read_json(&self.root.join(folder).join("config.json"))?;
            name_in_annotations(json.get("annotations")?)
        })
    }

    /// Returns the name of the container that runc or crun, called by themselves, made in the cgroup with this path, or above it. Such a cgroup
    /// may have any name; the runtime's own file says that it is a container's.
    ///
    /// runc: `libcontainer/factory_linux.go`, `libcontainer/cgroups` (`state.json`); crun: `src/libcrun/status.c` (`status`).
    pub(super) fn of_plain_runtime(&self, path: &[u8]) -> Option<String> {
        let path = std::str::from_utf8(path).ok()?;
        let folders = [self.root.join("run"), self.root.join("var/run")];
        let folders = || folders.iter().cloned().chain(own_run());
        // From the inside out.
        let mut rest = path;
        for _ in 0..DEPTH_MAX {
            let (above, folder) = rest.rsplit_once('/')?;
            let scope = folder.strip_suffix(".scope");
            let in_scope = |prefix| scope.and_then(|scope| scope.strip_prefix(prefix));
            let candidates = [Some(folder), in_scope("runc-"), in_scope("crun-")];
            let is_folder = |name: &&str| is_name(name) && !matches!(*name, "." | "..");
            let mut names = candidates.into_iter().flatten().filter(is_folder);
            let is_container = |name: &&str| {
                folders().any(|run| {
                    let runc = || read_json(&run.join("runc").join(name).join("state.json"));
                    let crun = || read_json(&run.join("crun").join(name).join("status"));
                    runc().is_some_and(|state| is_cgroup_of_runc(&state, rest))
                        || crun().is_some_and(|status| is_cgroup_of_crun(&status, rest))
                })
            };
            if let Some(name) = names.find(is_container) {
                return Some(name.to_owned());
            }
            rest = above;
        }
        None
    }

    fn read_storage(&self) -> NamesById {
        let stores = ["var/lib/containers/storage", "var/run/containers/storage"]
            .map(|store| self.root.join(store))
            .into_iter()
            .chain(own_data().map(|data| data.join("containers/storage")));
        let files = stores.map(|store| store.join("overlay-containers/containers.json"));
        files
            .filter_map(|file| read_json(&file))
            .flat_map(|json| names_in_list(&json))
            .collect()
    }

    fn ask_daemons(&self) -> NamesById {
        let sockets = ["run/docker.sock", "var/run/docker.sock", "run/podman/podman.sock"]
            .map(|socket| self.root.join(socket))
            .into_iter()
            .chain(own_run().map(|run| run.join("podman/podman.sock")));
        let answers = sockets.filter_map(|socket| daemon::containers(&socket));
        answers
            .filter_map(|body| serde_json::from_slice(&body).ok())
            .flat_map(|json: Value| names_in_list(&json))
            .collect()
    }
}

/// Whether a `state.json` of runc is that of the container in a cgroup. It has the folders of all hierarchies: `{"": "/sys/fs/cgroup/web"}`.
fn is_cgroup_of_runc(state: &Value, path: &str) -> bool {
    let folders = state.get("cgroup_paths").and_then(Value::as_object);
    folders.is_some_and(|folders| {
        let mut folders = folders.values().filter_map(Value::as_str);
        folders.any(|folder| folder.starts_with('/') && folder.ends_with(path))
    })
}

fn is_cgroup_of_crun(status: &Value, path: &str) -> bool {
    let own = status.get("cgroup-path").and_then(Value::as_str);
    own.is_some_and(|own| own.trim_start_matches('/') == path.trim_start_matches('/'))
}

fn id_of(container: &Container) -> Option<&str> {
    container
        .has_id()
        .then(|| std::str::from_utf8(container.name()).ok())?
}

/// Data of the user who runs us, for his rootless containers. Root takes no path from the environment.
fn own_data() -> Option<PathBuf> {
    own_folder("XDG_DATA_HOME").or_else(|| Some(own_folder("HOME")?.join(".local/share")))
}

fn own_run() -> Option<PathBuf> {
    own_folder("XDG_RUNTIME_DIR")
}

fn own_folder(variable: &str) -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return None;
    }
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// Reads the names in the links that the kubelet makes for collectors of logs; everybody may list them.
fn pod_logs(root: &Path) -> NamesById {
    let Ok(files) = fs::read_dir(root.join("var/log/containers")) else {
        return NamesById::new();
    };
    let names = files.flatten().take(FILES_MAX);
    names.filter_map(|file| name_of_log(&file.file_name())).collect()
}

/// Returns id and name in `POD_NAMESPACE_CONTAINER-ID.log`.
fn name_of_log(file: &OsStr) -> Option<(Box<str>, String)> {
    let (names, id) = file.to_str()?.strip_suffix(".log")?.rsplit_once('-')?;
    let (pod, rest) = names.split_once('_')?;
    let (namespace, container) = rest.split_once('_')?;
    Some((id.into(), in_pod(namespace, pod, container)?))
}

fn in_pod(namespace: &str, pod: &str, container: &str) -> Option<String> {
    [namespace, pod, container]
        .into_iter()
        .all(is_name)
        .then(|| format!("{namespace}/{pod}/{container}"))
}

/// Returns the name in the annotations that containerd, CRI-O and nerdctl write.
fn name_in_annotations(annotations: &Value) -> Option<String> {
    let text = |key: &str| annotations.get(key)?.as_str();
    let pod = |keys: [&str; 3]| {
        let [namespace, pod, container] = keys.map(text);
        in_pod(namespace?, pod?, container?)
    };
    pod([
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.container-name",
    ])
    .or_else(|| {
        pod([
            "io.kubernetes.pod.namespace",
            "io.kubernetes.pod.name",
            "io.kubernetes.container.name",
        ])
    })
    .or_else(|| {
        text("nerdctl/name")
            .filter(|name| is_name(name))
            .map(str::to_owned)
    })
}

/// Returns the names in a list of containers: of the daemons' `/containers/json` (`Id`, `Names`), or of
/// `containers.json` (`id`, `names`).
fn names_in_list(list: &Value) -> Vec<(Box<str>, String)> {
    let name = |container: &Value| {
        let either = |keys: [&str; 2]| keys.into_iter().find_map(|key| container.get(key));
        let id = either(["Id", "id"])?.as_str()?;
        let name = either(["Names", "names"])?.get(0)?.as_str()?;
        let name = name.strip_prefix('/').unwrap_or(name);
        is_name(name).then(|| (id.into(), plain(name.to_owned())))
    };
    let containers = list.as_array().map_or(&[][..], Vec::as_slice);
    containers.iter().filter_map(name).collect()
}

/// Converts the name that CRI-O and Docker under Kubernetes make, `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`.
fn plain(name: String) -> String {
    let parts: Vec<&str> = name.split('_').collect();
    match parts[..] {
        ["k8s", container, pod, namespace, _uid, _attempt] => in_pod(namespace, pod, container),
        _ => None,
    }
    .unwrap_or(name)
}

/// Whether a name has only the characters that the runtimes allow.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn read_json(path: &Path) -> Option<Value> {
    // A FIFO must not make us wait.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut json = Vec::new();
    file.take(JSON_LEN_MAX).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

/// A list of a few thousand containers has some MiB.
const JSON_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Folders of a cgroup's path that are looked up.
const DEPTH_MAX: usize = 16;
/// Most hosts allow 110 pods.
const FILES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
    const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";

    /// Files of a host below a temporary folder.
    struct Host(PathBuf);

    impl Host {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("sockeye-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            Self(root)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path.replace("ID", ID));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("ID", ID)).unwrap();
        }

        #[track_caller]
        fn check(&self, cgroup: &str, expected: &str) {
            let path = cgroup.replace("UID", UID).replace("ID", ID);
            let container = Container::from_cgroup(path.as_bytes()).unwrap();
            let pod = sockeye_model::pod_of_cgroup(path.as_bytes());
            let label = ContainerNames::below(&self.0).label(&container, pod.as_ref());
            assert_eq!(label, expected.replace("UID", UID), "{path}");
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn without_files_the_runtime_and_a_short_id_are_shown() {
        let host = Host::new("nonames");
        for (cgroup, label) in [
            ("/docker/ID", "docker:9ec39b91f3d7"),
            ("/system.slice/docker-ID.scope", "docker:9ec39b91f3d7"),
            ("/machine.slice/libpod-ID.scope/container", "podman:9ec39b91f3d7"),
            ("/ID", "container:9ec39b91f3d7"),
            ("/kubepods/burstable/podUID/ID", "pod:UID/9ec39b91f3d7"),
            (
                "/kubepods.slice/kubepods-podUID.slice/crio-ID.scope",
                "pod:UID/9ec39b91f3d7",
            ),
            ("/lxc.payload.web/init.scope", "web"),
            ("/machine.slice/machine-web.scope", "web"),
        ] {
            host.check(cgroup, label);
        }
    }

    #[test]
    fn pods_are_named_by_the_links_of_the_kubelet() {
        let host = Host::new("kubelet");
        let logs = host.0.join("var/log/containers");
        fs::create_dir_all(&logs).unwrap();
        let link = format!("web-7d4b9c6f5d-x2x4q_prod_nginx-{ID}.log");
        symlink("/var/log/pods/nowhere", logs.join(link)).unwrap();
        symlink("/nowhere", logs.join("nonsense")).unwrap();
        for cgroup in [
            "/kubepods/burstable/podUID/ID",
            "/kubepods.slice/kubepods-podUID.slice/cri-containerd-ID.scope",
            "/docker/ID",
        ] {
            host.check(cgroup, "prod/web-7d4b9c6f5d-x2x4q/nginx");
        }
    }

    #[test]
    fn containerd_and_crio_names_are_in_annotations() {
        let host = Host::new("bundle");
        let config = "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json";
        host.write(
            config,
            r#"{"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri.container-name":"nginx",
               "io.kubernetes.cri.sandbox-name":"web-0","io.kubernetes.cri.sandbox-namespace":"prod"}}"#,
        );
        host.check("/kubepods/podUID/ID", "prod/web-0/nginx");
        host.write(config, r#"{"annotations":{"nerdctl/name":"web"}}"#);
        host.check("/system.slice/nerdctl-ID.scope", "web");
        host.write(config, "{not json");
        host.write(
            "run/containers/storage/overlay-containers/ID/userdata/config.json",
            r#"{"annotations":{"io.kubernetes.container.name":"db","io.kubernetes.pod.name":"db-0",
               "io.kubernetes.pod.namespace":"prod"}}"#,
        );
        host.check("/kubepods/podUID/crio-ID", "prod/db-0/db");
    }

    #[test]
    fn docker_and_podman_names_are_in_files() {
        let host = Host::new("files");
        host.write(
            "var/lib/docker/containers/ID/config.v2.json",
            r#"{"Name":"/web"}"#,
        );
        host.check("/docker/ID", "web");
        host.write(
            "var/lib/docker/containers/ID/config.v2.json",
            r#"{"Name":"/k8s_nginx_web-0_prod_2c48913c-b29f-11e7-9350-020968147796_0"}"#,
        );
        host.check("/kubepods/podUID/ID", "prod/web-0/nginx");
        let host = Host::new("storage");
        host.write(
            "var/lib/containers/storage/overlay-containers/containers.json",
            r#"[{"id":"other","names":["x"]},{"names":[]},7,{"id":"ID","names":["db"],"image":"1"}]"#,
        );
        host.check("/machine.slice/libpod-ID.scope", "db");
    }

    #[test]
    fn containers_of_runc_and_crun_are_named_by_their_state() {
        let host = Host::new("plain");
        let name = |path: &str| ContainerNames::below(&host.0).of_plain_runtime(path.as_bytes());
        // As runc 1.1 writes it with cgroups v1 and v2, and crun 1.8.
        host.write(
            "run/runc/web/state.json",
            r#"{"id":"web","init_process_pid":41,"cgroup_paths":{"cpu":"/sys/fs/cgroup/cpu/web","memory":"/sys/fs/cgroup/memory/web"}}"#,
        );
        host.write(
            "run/runc/db/state.json",
            r#"{"id":"db","cgroup_paths":{"":"/sys/fs/cgroup/system.slice/runc-db.scope"}}"#,
        );
        host.write(
            "run/crun/cache/status",
            r#"{"pid":42,"cgroup-path":"/app/cache","scope":"","rootfs":"/srv"}"#,
        );
        for (path, expected) in [
            ("/web", Some("web")),
            ("/web/init.scope", Some("web")),
            ("/system.slice/runc-db.scope", Some("db")),
            ("/app/cache", Some("cache")),
            // Another cgroup of the same name.
            ("/system.slice/db", None),
            ("/other/cache", None),
            ("/app", None),
            ("/", None),
            ("", None),
            ("/../web/..", None),
            ("/../runc/web", None),
            ("\u{1b}[31m", None),
        ] {
            assert_eq!(name(path).as_deref(), expected, "{path}");
        }
        assert_eq!(name(&"/x".repeat(100_000)), None);
        for state in [
            "",
            "7",
            "[]",
            r#"{"cgroup_paths":7}"#,
            r#"{"cgroup_paths":{"":""}}"#,
        ] {
            host.write("run/runc/web/state.json", state);
            assert_eq!(name("/web"), None, "{state}");
        }
    }

    #[test]
    fn hostile_names_and_files_are_not_shown() {
        let host = Host::new("hostile");
        for name in ["", "a b", "\\u001b[31m", "../x", "a/b/c/d"] {
            host.write(
                "var/lib/containers/storage/overlay-containers/containers.json",
                &format!(r#"[{{"id":"ID","names":["{name}"]}}]"#),
            );
            host.check("/machine.slice/libpod-ID.scope", "podman:9ec39b91f3d7");
        }
        let deep = "[".repeat(1_000_000);
        host.write(
            "var/lib/containers/storage/overlay-containers/containers.json",
            &deep,
        );
        host.check("/machine.slice/libpod-ID.scope", "podman:9ec39b91f3d7");
        let fifo = host
            .0
            .join("run/containers/storage/overlay-containers")
            .join(ID)
            .join("userdata");
        fs::create_dir_all(&fifo).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, fifo.join("config.json"), kind, mode, 0).unwrap();
        host.check("/machine.slice/libpod-ID.scope", "podman:9ec39b91f3d7");
    }

    #[test]
    fn daemon_names_what_files_do_not() {
        let host = Host::new("daemon");
        fs::create_dir_all(host.0.join("run")).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(host.0.join("run/docker.sock")).unwrap();
        let server = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut peer, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let len = peer.read(&mut request).unwrap();
            let body = format!(r#"[{{"Id":"{ID}","Names":["/web"]}}]"#);
            write!(
                peer,
                "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}"
            )
            .unwrap();
            String::from_utf8_lossy(&request[..len]).into_owned()
        });
        host.check("/docker/ID", "web");
        assert!(
            server
                .join()
                .unwrap()
                .starts_with("GET /containers/json HTTP/1.0\r\n")
        );
    }
}
