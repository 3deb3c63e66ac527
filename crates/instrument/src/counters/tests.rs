//! What many places add to is divided, and nothing of it is lost.

use super::{Counter, Registry, SHARES, UNDIVIDED};

/// What so many places add to.
fn places_of(registry: &mut Registry, counter: Counter, count: u32) -> Vec<Counter> {
    (0..count)
        .map(|_| registry.share(counter, &[(counter, 1)]))
        .collect()
}

/// By how much a counter grows for one that is added to a place of its shares.
fn weights(registry: &mut Registry, counter: Counter, places: &[Counter]) -> Vec<i64> {
    let lies = |registry: &mut Registry, it| registry.place(it).index();
    let at: Vec<usize> = places.iter().map(|&it| lies(registry, it)).collect();
    let parts = registry.parts_of(counter);
    let weight = |place: &usize| {
        let parts = parts.iter().filter(|(part, _)| part.index() == *place);
        parts.map(|(_, amount)| amount).sum()
    };
    at.iter().map(weight).collect()
}

#[test]
fn a_counter_of_many_places_is_divided() {
    let mut registry = Registry::default();
    let counter = registry.add();
    let first = places_of(&mut registry, counter, UNDIVIDED);
    assert!(first.iter().all(|&it| it == counter));
    let mut later = places_of(&mut registry, counter, 4 * SHARES as u32);
    assert_eq!(weights(&mut registry, counter, &later), [1; 4 * SHARES]);
    assert!(later.windows(2).all(|pair| pair[0] != pair[1]));
    later.sort_unstable();
    later.dedup();
    assert_eq!(later.len(), SHARES);
    // The control: another counter has no part in them.
    let other = registry.add();
    assert_eq!(weights(&mut registry, other, &later), [0; SHARES]);
}

#[test]
fn a_group_is_divided_with_what_it_stands_for() {
    let mut registry = Registry::default();
    let [one, other] = [registry.add(), registry.add()];
    let amounts = smallvec::smallvec![(one, 3), (other, 5)];
    let group = registry.group(&amounts).expect("there is room");
    assert_eq!(registry.group(&amounts), Some(group));
    let shares: Vec<Counter> = (0..UNDIVIDED + SHARES as u32)
        .map(|_| registry.share(group, &amounts))
        .collect();
    assert!(shares.iter().any(|&share| share != group));
    let count = shares.len();
    assert_eq!(weights(&mut registry, one, &shares), vec![3; count]);
    assert_eq!(weights(&mut registry, other, &shares), vec![5; count]);
}
