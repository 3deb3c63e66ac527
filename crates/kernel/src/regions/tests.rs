use super::*;

fn starts(regions: &Regions) -> Vec<(u64, u64, i32)> {
    regions
        .by_start
        .iter()
        .map(|(&start, r)| (start, r.end, r.protection))
        .collect()
}

#[test]
fn inserting_over_the_middle_splits() {
    let mut regions = Regions::default();
    regions.insert(0x1000..0x5000, 1, None);
    regions.insert(0x2000..0x3000, 5, None);
    assert_eq!(
        starts(&regions),
        [
            (0x1000, 0x2000, 1),
            (0x2000, 0x3000, 5),
            (0x3000, 0x5000, 1)
        ]
    );
    regions.remove(0x1800..0x4000);
    assert_eq!(starts(&regions), [(0x1000, 0x1800, 1), (0x4000, 0x5000, 1)]);
}

#[test]
fn executable_length_runs_over_adjacent_regions() {
    let mut regions = Regions::default();
    regions.insert(0x1000..0x2000, libc::PROT_EXEC, None);
    regions.insert(0x2000..0x3000, libc::PROT_EXEC | libc::PROT_READ, None);
    regions.insert(0x3000..0x4000, libc::PROT_READ, None);
    assert_eq!(regions.executable_length(0x1800), 0x1800);
    assert_eq!(regions.executable_length(0x3000), 0);
    assert!(regions.any_executable(0x2fff..0x3001));
    assert!(!regions.any_executable(0x3000..0x9000));
}

#[test]
fn files_on_disks_are_not_served() {
    let mut regions = Regions::default();
    let version = Version {
        size: 0x1000,
        modified: (1, 0),
        changed: (1, 0),
    };
    for (start, major) in [(0x1000, 8), (0x2000, 0), (0x3000, 8)] {
        let object = Object {
            device: libc::makedev(major, 1),
            inode: 2,
        };
        let view = View {
            object,
            offset: 0,
            shared: false,
        };
        regions.insert(start..start + 0x1000, libc::PROT_EXEC, Some(view));
        regions.set_version(start, version);
    }
    regions.insert(0x4000..0x5000, libc::PROT_EXEC, None);
    regions.forget_version(0x3000..0x4000);
    let served = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000].map(|at| regions.may_be_served(at));
    assert_eq!(served, [false, true, true, true, true]);
}

#[test]
fn views_of_one_object_find_each_other() {
    let object = Object {
        device: 1,
        inode: 2,
    };
    let view = |offset| {
        Some(View {
            object,
            offset,
            shared: true,
        })
    };
    let mut regions = Regions::default();
    regions.insert(0x1_0000..0x1_4000, libc::PROT_EXEC, view(0x2000));
    regions.insert(0x8_0000..0x8_8000, libc::PROT_READ, view(0));
    assert!(regions.other_views(0x1_1000..0x1_2000).is_empty());
    assert!(regions.is_stable(0x1_0000..0x1_4000));
    // A piece of the other view becomes writable, and so a region of its own.
    regions.protect(0x8_3000..0x8_5000, libc::PROT_WRITE);
    let found = |range| -> Vec<_> {
        let others = regions.other_views(range);
        let ends = |(range, _): (Range<u64>, Region)| (range.start, range.end);
        others.into_iter().map(ends).collect()
    };
    assert_eq!(found(0x1_1000..0x1_2000), [(0x8_3000, 0x8_4000)]);
    assert_eq!(
        found(0x1_0000..0x1_2000),
        [(0x8_2000, 0x8_3000), (0x8_3000, 0x8_4000)]
    );
    assert_eq!(found(0x8_3000..0x8_4000), [(0x1_1000, 0x1_2000)]);
    assert!(!regions.is_stable(0x1_1800..0x1_1900));
    assert!(regions.is_stable(0x1_3000..0x1_5000));
}

#[test]
fn aliases_are_mappings_of_the_same_bytes_of_which_one_is_written() {
    let view = |inode, offset| {
        Some(View {
            object: Object { device: 1, inode },
            offset,
            shared: true,
        })
    };
    let read = libc::PROT_READ;
    let mut regions = Regions::default();
    regions.insert(0x1_0000..0x1_a000, read, view(1, 0));
    regions.insert(0x2_0000..0x2_1000, read, view(1, 0x1000));
    regions.insert(0x3_0000..0x3_1000, read, view(1, 0x5000));
    regions.insert(0x4_0000..0x4_1000, read, view(1, 0xa000));
    regions.insert(0x5_0000..0x5_1000, read, view(2, 0));
    let starts = |regions: &Regions| -> Vec<u64> {
        let aliased = regions.aliased();
        aliased.iter().map(|(range, _)| range.start).collect()
    };
    assert!(starts(&regions).is_empty());
    regions.protect(0x3_0000..0x3_1000, read | libc::PROT_WRITE);
    assert_eq!(starts(&regions), [0x1_0000, 0x2_0000, 0x3_0000]);
    regions.remove(0x1_0000..0x1_6000);
    assert!(starts(&regions).is_empty());
    regions.insert(0x6_0000..0x6_1000, libc::PROT_WRITE, view(2, 0xfff));
    assert_eq!(starts(&regions), [0x5_0000, 0x6_0000]);
}

#[test]
fn shared_code_is_open_once_another_process_has_it() {
    let view = |inode, shared| {
        Some(View {
            object: Object { device: 1, inode },
            offset: 0,
            shared,
        })
    };
    let mut regions = Regions::default();
    regions.insert(0x1000..0x2000, libc::PROT_EXEC, view(1, true));
    regions.insert(0x2000..0x3000, libc::PROT_EXEC, view(2, false));
    assert_eq!(regions.code_open_to_others().count(), 0);
    assert!(regions.is_stable(0x1000..0x3000));
    regions.open_all_objects_but(&BTreeSet::new());
    assert!(!regions.is_stable(0x1f00..0x2100));
    assert!(regions.is_stable(0x2000..0x2100));
    let open: Vec<u64> = regions
        .code_open_to_others()
        .map(|range| range.start)
        .collect();
    assert_eq!(open, [0x1000]);
}

#[test]
fn gaps_are_found_before_between_and_after() {
    let mut regions = Regions::default();
    regions.insert(0x2000..0x3000, 1, None);
    regions.insert(0x4000..0x5000, 1, None);
    assert_eq!(regions.find_gap(0x1000, 0x1000..0x9000), Some(0x1000));
    assert!(regions.is_free(0x3000..0x4000));
    assert!(!regions.is_free(0x3000..0x4001) && !regions.is_free(0x2fff..0x3001));
    assert_eq!(regions.find_gap(0x1000, 0x2000..0x9000), Some(0x3000));
    assert_eq!(regions.find_gap(0x2000, 0x2000..0x9000), Some(0x5000));
    assert_eq!(regions.find_gap(0x5000, 0x2000..0x9000), None);
}

#[test]
fn a_wish_is_fulfilled_or_moved_within_the_area() {
    let mut regions = Regions::default();
    regions.insert(0x2000..0x3000, 1, None);
    let area = 0x1000..0x9000;
    let place = |wish| regions.place_near(wish, area.clone());
    assert_eq!(place(0x5000..0x6000), Some(0x5000));
    assert_eq!(place(0x2000..0x3000), Some(0x1000));
    assert_eq!(place(0x2800..0x4800), Some(0x3000));
    assert_eq!(place(0x8000..0xa000), Some(0x3000));
    assert_eq!(place(0x2000..0x9000), None);
}

const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// What is mapped, as far as stacks have grown.
fn mapped(regions: &Regions) -> Vec<(u64, u64)> {
    let all = regions.mapped(0..u64::MAX);
    all.map(|(range, _)| (range.start, range.end)).collect()
}

fn edges(regions: &Regions) -> Vec<(u64, u64)> {
    let all = regions.edges();
    all.map(|edge| (edge.address, edge.floor)).collect()
}

#[test]
fn a_stack_is_mapped_as_far_as_it_has_grown() {
    let mut regions = Regions::default();
    regions.insert(0x1000..0x2000, DATA, None);
    regions.insert_stack(0x8000..0x2_0000, DATA, 0x1_e000);
    assert_eq!(mapped(&regions), [(0x1000, 0x2000), (0x1_e000, 0x2_0000)]);
    assert_eq!(edges(&regions), [(0x1_e000, 0x8000)]);
    regions.grow(0x1_e000, 0x1_a000);
    // Another thread has found the same.
    regions.grow(0x1_e000, 0x1_b000);
    assert_eq!(mapped(&regions)[1..], [(0x1_a000, 0x2_0000)]);
    // All of it counts in everything else.
    assert_eq!(regions.find(0x9000).map(|(start, _)| start), Some(0x8000));
    // Beyond what its limit allowed at the start.
    regions.grow(0x1_a000, 0x8000);
    assert_eq!(edges(&regions), [(0x8000, 0x2000)]);
    regions.grow(0x8000, 0x6000);
    assert_eq!(mapped(&regions)[1..], [(0x6000, 0x2_0000)]);
    assert_eq!(edges(&regions), [(0x6000, 0x2000)]);
}

#[test]
fn what_the_program_maps_below_a_stack_bounds_it() {
    let mut regions = Regions::default();
    regions.insert_stack(0x8000..0x2_0000, DATA, 0x1_e000);
    regions.insert(0xa000..0xc000, DATA, None);
    assert_eq!(mapped(&regions), [(0xa000, 0xc000), (0x1_e000, 0x2_0000)]);
    assert_eq!(edges(&regions), [(0x1_e000, 0xc000)]);
    // It is gone: the stack can grow there again.
    regions.remove(0xa000..0xc000);
    regions.grow(0x1_e000, 0xc000);
    assert_eq!(edges(&regions), [(0xc000, 0)]);
    regions.grow(0xc000, 0x9000);
    assert_eq!(mapped(&regions), [(0x9000, 0x2_0000)]);
}

#[test]
fn pieces_of_what_grows_grow_too() {
    let mut regions = Regions::default();
    regions.insert(0x4000..0xa000, DATA, None);
    regions.set_growing(0x4000);
    regions.protect(0x6000..0x7000, libc::PROT_READ);
    assert_eq!(
        edges(&regions),
        [(0x4000, 0), (0x6000, 0x6000), (0x7000, 0x7000)]
    );
    regions.remove(0x6000..0x8000);
    assert_eq!(edges(&regions), [(0x4000, 0), (0x8000, 0x6000)]);
    regions.grow(0x4000, 0x1000);
    regions.grow(0x8000, 0x7000);
    assert_eq!(mapped(&regions), [(0x1000, 0x6000), (0x7000, 0xa000)]);
    regions.insert(0..0xa000, DATA, None);
    assert!(edges(&regions).is_empty());
}

#[test]
fn a_stack_that_is_protected_in_part_grows_below_that() {
    let mut regions = Regions::default();
    regions.insert_stack(0x8000..0x2_0000, DATA, 0x1_e000);
    regions.protect(0x1_c000..0x1_d000, libc::PROT_READ);
    assert_eq!(mapped(&regions)[0], (0x1_c000, 0x1_d000));
    assert_eq!(edges(&regions)[0], (0x1_c000, 0x8000));
    // All of it, from the lowest address on.
    regions.protect(0x8000..0x1_c000, DATA | libc::PROT_EXEC);
    assert_eq!(edges(&regions)[0], (0x1_c000, 0x8000));
}
