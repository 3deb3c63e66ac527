use super::*;

#[test]
fn the_machine_says_what_it_has() {
    let text = b"\
MemTotal:       24684092 kB
MemFree:        22172008 kB
MemAvailable:   24192208 kB
SwapTotal:          2048 kB
SwapFree:           1024 kB
";
    let expected = Machine {
        total: 24_684_092 << 10,
        available: 24_192_208 << 10,
        free_swap: 1 << 20,
    };
    assert_eq!(Machine::parse(text), Some(expected));
    assert_eq!(Machine::parse(b"MemTotal: 5 kB\n"), None);
}

#[test]
fn this_machine_has_memory_left() {
    let sources = MemorySources::open();
    let left = sources.left().expect("there is /proc");
    assert!(
        left.left > 1 << 20 && left.left <= 2 * left.total,
        "{left:?}"
    );
    assert!(sources.files().all(|number| number >= 200));
}

const MOUNTS: &str = "\
23 1 254:0 / / rw,relatime - ext4 /dev/vda rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

fn found(groups: &str, mounts: &str) -> Vec<(String, Version)> {
    let all = folders(groups, mounts).into_iter();
    all.map(|(folder, version)| (folder.display().to_string(), version))
        .collect()
}

#[test]
fn groups_are_found_from_the_own_one_up() {
    let groups = "5:devices:/\n4:cpu,memory:/jobs/17\n0::/session\n";
    let expected = [
        ("/sys/fs/cgroup/memory/jobs/17", Version::First),
        ("/sys/fs/cgroup/memory/jobs", Version::First),
        ("/sys/fs/cgroup/memory/", Version::First),
        ("/sys/fs/cgroup/unified/session", Version::Second),
        ("/sys/fs/cgroup/unified/", Version::Second),
    ];
    let expected = expected.map(|(folder, version)| (folder.to_owned(), version));
    assert_eq!(found(groups, MOUNTS), expected);
}

#[test]
fn in_a_container_a_part_of_the_tree_is_mounted() {
    let mounts = "9 8 0:26 /docker/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
    let expected = |folders: &[&str]| -> Vec<(String, Version)> {
        let all = folders.iter();
        all.map(|folder| ((*folder).to_owned(), Version::Second))
            .collect()
    };
    assert_eq!(
        found("0::/docker/c1/inner\n", mounts),
        expected(&["/sys/fs/cgroup/inner", "/sys/fs/cgroup/"])
    );
    assert_eq!(
        found("0::/elsewhere\n", mounts),
        expected(&["/sys/fs/cgroup/"])
    );
    assert!(found("0::/\n", "").is_empty());
}

/// A folder with the files of a group, and what is left by them of 1 MiB of free swap space.
fn left(version: Version, files: &[(&str, &str)]) -> Option<u64> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("unspool-group-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let group = Group::open(&folder, version);
    let left = group.and_then(|group| group.left(1 << 20, &mut [0; FILE_SIZE]));
    std::fs::remove_dir_all(&folder).unwrap();
    left.map(|left| left.left)
}

#[test]
fn what_a_group_has_left() {
    let usage = ("memory.current", "60000000\n");
    let stat = ("memory.stat", "anon 1\nactive_file 300\ninactive_file 20\n");
    let limit = ("memory.max", "100000000\n");
    let swap = |limit| [("memory.swap.max", limit), ("memory.swap.current", "100\n")];
    let files = |limit: &'static str| {
        [
            &[("memory.max", limit), usage, stat][..],
            &swap("600\n")[..],
        ]
        .concat()
    };
    let without_swap = [limit, usage, stat];
    assert_eq!(
        left(Version::Second, &without_swap),
        Some(40_000_320 + (1 << 20))
    );
    assert_eq!(
        left(Version::Second, &files("100000000\n")),
        Some(40_000_320 + 500)
    );
    let unlimited = [&without_swap[..], &swap("max\n")[..]].concat();
    assert_eq!(
        left(Version::Second, &unlimited),
        Some(40_000_320 + (1 << 20))
    );
    // More than is allowed, and no limit.
    assert_eq!(left(Version::Second, &files("50000000\n")), Some(500));
    assert_eq!(left(Version::Second, &files("max\n")), None);
}

#[test]
fn what_a_group_of_the_first_version_has_left() {
    let files = |together: &'static str| {
        [
            ("memory.limit_in_bytes", "100000000\n"),
            ("memory.usage_in_bytes", "60000000\n"),
            (
                "memory.stat",
                "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 300\n",
            ),
            ("memory.memsw.limit_in_bytes", together),
            ("memory.memsw.usage_in_bytes", "60000000\n"),
        ]
    };
    assert_eq!(
        left(Version::First, &files("100000000\n")),
        Some(40_000_320)
    );
    assert_eq!(
        left(Version::First, &files("9223372036854771712\n")),
        Some(40_000_320 + (1 << 20))
    );
    let unlimited = [
        ("memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory.usage_in_bytes", "60000000\n"),
        ("memory.stat", ""),
    ];
    assert_eq!(left(Version::First, &unlimited), None);
}
