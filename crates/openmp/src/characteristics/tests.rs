use proptest::prelude::*;

use super::*;
use crate::hierarchy::Hierarchy;
use crate::location::Location;

fn construct(kind: ConstructKind, own: [u64; 2], wait: [u64; 2]) -> Construct {
    let share = |thread: usize| Share {
        thread,
        count: 1,
        own_ns: own[thread],
        wait_ns: wait[thread],
        ..Share::default()
    };
    Construct {
        kind,
        parent: None,
        name: None,
        location: Location::default(),
        call_path: Vec::new(),
        forked_by: None,
        team: 2,
        schedule: None,
        shares: vec![share(0), share(1)],
    }
}

fn process(duration_ns: u64, constructs: Vec<Construct>) -> Process {
    Process {
        duration_ns,
        threads: 2,
        constructs,
        ..Process::default()
    }
}

#[test]
fn every_nanosecond_has_one_reason() {
    let program = process(
        1000,
        vec![
            construct(ConstructKind::Serial, [300, 0], [0, 0]),
            construct(ConstructKind::Parallel, [50, 40], [0, 260]),
            construct(ConstructKind::Loop, [500, 300], [0, 0]),
            construct(ConstructKind::Critical, [100, 50], [50, 50]),
        ],
    );
    let one = Characteristics::of_process(&program);
    let losses = one.losses();
    assert_eq!(one.total_ns(), 2000);
    assert_eq!(losses.get(LossClass::SerialPart), 300);
    assert_eq!(losses.get(LossClass::Duplicated), 40);
    assert_eq!(losses.get(LossClass::Desynchronisation), 260);
    assert_eq!(losses.get(LossClass::Critical), 100);
    assert_eq!(one.productive_ns(), 300 + 50 + 800 + 150);
    assert_eq!(one.insufficient_parallelism_ns(), 340);
}

/// What starts MPI is a loss of its own, and no part of the run that efficiencies are of; the control:
/// another call of MPI is communication, and lowers them.
#[test]
fn the_start_of_mpi_is_apart() {
    let told = |name: &str| {
        let mut call = construct(ConstructKind::Mpi, [400, 0], [0, 0]);
        call.name = Some(name.to_owned());
        call.shares
            .iter_mut()
            .for_each(|share| share.total_ns = share.own_ns);
        let work = construct(ConstructKind::Serial, [600, 0], [0, 0]);
        let program = process(1000, vec![call, work]);
        let losses = Characteristics::of_process(&program).losses();
        let efficiency = Hierarchy::of_process(&program).communication_efficiency;
        let of = |class| losses.get(class);
        (
            of(LossClass::Launch),
            of(LossClass::Communication),
            efficiency,
        )
    };
    for name in ["MPI_Init", "mpi_init_thread_", "MPI_Finalize"] {
        assert_eq!(told(name), (400, 0, 1.0));
    }
    assert_eq!(told("MPI_Initialized"), (0, 400, 0.6));
}

proptest! {
    #[test]
    fn productive_lost_and_idle_are_the_total(
        duration in 0u64..1_000_000,
        parts in proptest::collection::vec((0usize..24, any::<[u32; 2]>(), any::<[u32; 2]>()), 0..20),
    ) {
        let constructs = parts.iter().map(|(kind, own, wait)| {
            construct(ConstructKind::ALL[*kind], own.map(u64::from), wait.map(u64::from))
        });
        let one = Characteristics::of_process(&process(duration, constructs.collect()));
        prop_assert_eq!(one.productive_ns() + one.lost_ns() + one.idle_ns(), one.total_ns());
        for thread in &one.threads {
            prop_assert_eq!(thread.productive_ns + thread.losses.sum(), duration);
        }
    }
}
