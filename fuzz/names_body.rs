//! Body of the fuzz target `container_names`, and of the test that replays its corpus: files that name containers and cgroups.
//! It is a module of `sockeye_source::names`.

use super::CgroupMount;
use super::docker::{NAME_LEN_MAX, container_name};
use sockeye_model::Container;
use sockeye_wire::proc_pid::{cgroup_lines, netns_mounts};

/// Docker's `config.v2.json`, `/proc/PID/cgroup`, paths of cgroups, and `mountinfo`: each input is taken for all of them.
pub fn container_names(bytes: &[u8]) {
    if let Some(name) = container_name(bytes) {
        assert!((1..=NAME_LEN_MAX).contains(&name.len()), "{name}");
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"/\"\\".contains(&byte)),
            "{name}"
        );
        // It is in the file, and a file with nothing else names the same.
        assert!(bytes.windows(name.len()).any(|piece| piece == name.as_bytes()));
        let alone = format!("{{\"Config\":{{\"Name\":\"other\"}},\"Name\":\"/{name}\"}}");
        assert_eq!(container_name(alone.as_bytes()), Some(name));
    }
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Some(container) = Container::from_cgroup(line) {
            check_container(&container);
            // What is below a container belongs to it; what the kernel adds to a removed one changes nothing.
            let removed = [line, b" (deleted)"].concat();
            if !line.ends_with(b" (deleted)") {
                assert_eq!(Container::from_cgroup(&removed), Some(container));
            }
        }
    }
    let mut lines = 0;
    for line in cgroup_lines(bytes) {
        assert!(line.path.starts_with(b"/"));
        lines += 1;
    }
    assert!(lines <= 1 + bytes.iter().filter(|&&byte| byte == b'\n').count());
    if let Some(container) = Container::from_cgroup_file(bytes) {
        check_container(&container);
    }
    if let Some(mount) = CgroupMount::among(bytes) {
        let point = mount.point();
        assert!(point.as_os_str().len() <= bytes.len());
        assert_eq!(mount.folder_at(point).as_deref(), Some(point));
    }
    assert!(netns_mounts(bytes).map(|mount| mount.path.len()).sum::<usize>() <= bytes.len());
}

fn check_container(container: &Container) {
    let name = container.name();
    assert!((1..=255).contains(&name.len()));
    assert!(name.starts_with(container.short_name()));
    assert!(container.matches_text(name) && container.matches_text(container.short_name()));
    assert_eq!(container.has_id(), container.short_name().len() < name.len());
    assert!(!container.to_string().is_empty());
}

#[test]
fn corpus_is_parsed_without_panics() {
    crate::replay::replay(env!("CARGO_MANIFEST_DIR"), "container_names", container_names);
}
