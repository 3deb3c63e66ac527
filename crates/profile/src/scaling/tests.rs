use super::{Expectation, Scaling};
use crate::named_paths::NamedPaths;
use crate::profile::Profile;
use crate::recordings::{of_paths, of_threads};
use crate::text::View;

const MS: u64 = 1_000_000;

fn profile(paths: &[(&[&str], u64)]) -> Profile {
    Profile::new(&NamedPaths::new(&of_paths(paths)))
}

fn loss_ms(scaling: &Scaling, name: &str) -> f64 {
    let name = format!("{name}+0x10");
    let place = scaling.functions.iter().position(|(it, _)| *it == name);
    let times = &scaling.times[place.expect("a function")];
    scaling.loss(times, false) / MS as f64
}

/// What all do again is lost, what they divide is not.
#[test]
fn work_that_is_repeated_is_lost() {
    let base = profile(&[
        (&["main", "divided"], 800 * MS),
        (&["main", "repeated"], 200 * MS),
    ]);
    let run = profile(&[
        (&["main", "divided"], 800 * MS),
        (&["main", "repeated"], 800 * MS),
    ]);
    let scaling = Scaling::new(Expectation::Strong, &base, &run);
    assert_eq!(loss_ms(&scaling, "divided"), 0.0);
    assert_eq!(loss_ms(&scaling, "repeated"), 600.0);
    assert_eq!(scaling.total_loss(), 600.0 * MS as f64);
    let text = scaling.to_text(&[View::Flat, View::TopDown, View::BottomUp]);
    assert!(
        text.contains("37.5 % of the larger run's time; efficiency 62.5 %"),
        "{text}"
    );
    assert!(text.contains("37.5 %        0.0 %  main+0x10"), "{text}");
    assert!(
        text.contains("37.5 %       37.5 %    repeated+0x10"),
        "{text}"
    );
    // The control: nothing is said of what is as expected.
    assert!(!text.contains("divided"), "{text}");
}

/// A context that one of the runs does not have is compared with nothing.
#[test]
fn contexts_of_either_run_are_there() {
    let base = profile(&[(&["main", "alone"], 100 * MS)]);
    let run = profile(&[(&["main", "waits"], 300 * MS)]);
    let scaling = Scaling::new(Expectation::Strong, &base, &run);
    assert_eq!(loss_ms(&scaling, "alone"), -100.0);
    assert_eq!(loss_ms(&scaling, "waits"), 300.0);
    let losses = scaling
        .contexts
        .iter()
        .map(|it| scaling.loss(&it.times, false));
    assert_eq!(losses.sum::<f64>(), scaling.total_loss());
}

/// Where each thread has the same to do, the time may grow as the threads do, and no more.
#[test]
fn time_may_grow_with_the_work() {
    let one = Profile::new(&NamedPaths::new(&of_threads(&[&[(
        &["main", "work"],
        100 * MS,
    )]])));
    let work: (&[&str], u64) = (&["main", "work"], 100 * MS);
    let slower: (&[&str], u64) = (&["main", "work"], 150 * MS);
    for (threads, lost) in [([&[work][..], &[work]], 0.0), ([&[work], &[slower]], 50.0)] {
        let two = Profile::new(&NamedPaths::new(&of_threads(&threads)));
        let weak = Scaling::new(Expectation::Weak, &one, &two);
        assert_eq!((weak.base.threads, weak.run.threads), (1, 2));
        assert_eq!(loss_ms(&weak, "work"), lost);
        let strong = Scaling::new(Expectation::Strong, &one, &two);
        assert_eq!(loss_ms(&strong, "work"), lost + 100.0);
    }
}
