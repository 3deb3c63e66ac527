//! What the functions of OpenMP's runtimes mean for order.
//!
//! Sources: the specification of OpenMP 5.1; `libgomp/libgomp_g.h` of GCC and
//! `openmp/runtime/src/kmp_csupport.cpp` and `kmp_tasking.cpp` of LLVM, for which is called when.

/// What a function of a runtime does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Nothing that orders what the program does.
    Nothing,
    /// Has a team execute a function with some data, and waits for its end.
    Region(Given),
    /// The same, but the caller executes the function itself, until [`Operation::RegionEnd`].
    RegionStart,
    /// Ends such a region.
    RegionEnd,
    /// Waits for the team, and for its tasks.
    Barrier,
    /// Makes a task of GCC's.
    Task,
    /// Allocates what stands for a task of LLVM's.
    TaskAllocate,
    /// Makes a task of what was allocated.
    TaskMade,
    /// Makes the tasks of a loop.
    TaskLoop(Given),
    /// Waits for the tasks that the calling one has made.
    TaskWait,
    /// Waits for those of them that the dependences name.
    DependenceWait,
    /// Begins a group of tasks.
    GroupStart,
    /// Waits for the group.
    GroupEnd,
    /// Waits for a lock.
    Acquire(Lock),
    /// Has a lock if it says so.
    TryAcquire(Lock),
    /// Gives a lock back.
    Release(Lock),
    /// May have the caller combine what threads have computed.
    Reduce {
        /// Whether all wait for the end.
        waits: bool,
    },
    /// The end of that.
    ReduceEnd {
        /// Whether all wait for the end.
        waits: bool,
    },
    /// What it returns may be what another thread of the team has left.
    CopyStart,
    /// Leaves something for the team.
    CopyEnd,
    /// Gives the calling thread a section, or none.
    Section,
    /// There are no more sections for the calling thread.
    SectionsEnd {
        /// Whether it waits for the team.
        waits: bool,
    },
    /// Tells which thread it is that calls, or gives memory of that thread.
    WhichThread,
    /// Ends a task that waits for that.
    Fulfil,
}

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// GCC's: the function and its data.
    Gnu,
    /// LLVM's.
    Llvm,
}

/// Which lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// One for all of these functions.
    Global(u8),
    /// That at the address in an argument.
    At(usize),
    /// One of the team's.
    OfTeam(OfTeam),
}

/// What each team has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OfTeam {
    /// The order of `ordered`.
    Ordered,
    /// What iterations wait for that depend on others.
    Doacross,
    /// What `single` leaves for the team.
    Copied,
}

/// The operation of a function with this symbol; `None` for what is no function of a runtime.
pub(super) fn operation_of(symbol: &str) -> Option<Operation> {
    use Operation::*;

    let is_of_runtime = ["GOMP_", "omp_", "__kmpc_", "ompc_"];
    if !is_of_runtime.iter().any(|it| symbol.starts_with(it)) {
        return None;
    }
    // Functions for Fortran have another name.
    let name = match symbol.starts_with("omp_") {
        true => symbol.strip_suffix('_').unwrap_or(symbol),
        false => symbol,
    };
    let ordered = Lock::OfTeam(OfTeam::Ordered);
    let doacross = Lock::OfTeam(OfTeam::Doacross);
    Some(match name {
        "GOMP_parallel_end" => RegionEnd,
        _ if name.starts_with("GOMP_parallel") && name.ends_with("_start") => RegionStart,
        _ if name.starts_with("GOMP_parallel") => Region(Given::Gnu),
        "__kmpc_fork_call" | "__kmpc_fork_call_if" | "__kmpc_fork_teams" => Region(Given::Llvm),
        "GOMP_barrier" | "GOMP_barrier_cancel" | "GOMP_loop_end" | "GOMP_loop_end_cancel" => {
            Barrier
        }
        "GOMP_workshare_task_reduction_unregister" => Barrier,
        "__kmpc_barrier" | "__kmpc_cancel_barrier" | "__kmpc_copyprivate" => Barrier,
        "GOMP_task" => Task,
        "__kmpc_omp_task_alloc" | "__kmpc_omp_target_task_alloc" => TaskAllocate,
        "__kmpc_omp_task" | "__kmpc_omp_task_with_deps" | "__kmpc_omp_task_parts" => TaskMade,
        "GOMP_taskloop" | "GOMP_taskloop_ull" => TaskLoop(Given::Gnu),
        "__kmpc_taskloop" | "__kmpc_taskloop_5" => TaskLoop(Given::Llvm),
        "GOMP_taskwait" | "__kmpc_omp_taskwait" => TaskWait,
        "GOMP_taskwait_depend" | "__kmpc_omp_wait_deps" | "__kmpc_omp_taskwait_deps_51" => {
            DependenceWait
        }
        "GOMP_taskgroup_start" | "__kmpc_taskgroup" => GroupStart,
        "GOMP_taskgroup_end" | "__kmpc_end_taskgroup" => GroupEnd,
        "GOMP_critical_start" => Acquire(Lock::Global(0)),
        "GOMP_critical_end" => Release(Lock::Global(0)),
        "GOMP_atomic_start" => Acquire(Lock::Global(1)),
        "GOMP_atomic_end" => Release(Lock::Global(1)),
        "GOMP_critical_name_start" => Acquire(Lock::At(0)),
        "GOMP_critical_name_end" => Release(Lock::At(0)),
        "__kmpc_critical" | "__kmpc_critical_with_hint" => Acquire(Lock::At(2)),
        "__kmpc_end_critical" => Release(Lock::At(2)),
        "omp_set_lock" | "omp_set_nest_lock" => Acquire(Lock::At(0)),
        "omp_unset_lock" | "omp_unset_nest_lock" => Release(Lock::At(0)),
        "omp_test_lock" | "omp_test_nest_lock" => TryAcquire(Lock::At(0)),
        "__kmpc_set_lock" | "__kmpc_set_nest_lock" => Acquire(Lock::At(2)),
        "__kmpc_unset_lock" | "__kmpc_unset_nest_lock" => Release(Lock::At(2)),
        "__kmpc_test_lock" | "__kmpc_test_nest_lock" => TryAcquire(Lock::At(2)),
        "GOMP_ordered_start" | "__kmpc_ordered" => Acquire(ordered),
        "GOMP_ordered_end" | "__kmpc_end_ordered" => Release(ordered),
        "GOMP_doacross_wait" | "GOMP_doacross_ull_wait" | "__kmpc_doacross_wait" => {
            Acquire(doacross)
        }
        "GOMP_doacross_post" | "GOMP_doacross_ull_post" | "__kmpc_doacross_post" => {
            Release(doacross)
        }
        "__kmpc_reduce" => Reduce { waits: true },
        "__kmpc_reduce_nowait" => Reduce { waits: false },
        "__kmpc_end_reduce" => ReduceEnd { waits: true },
        "__kmpc_end_reduce_nowait" => ReduceEnd { waits: false },
        "GOMP_single_copy_start" => CopyStart,
        "GOMP_single_copy_end" => CopyEnd,
        "GOMP_sections_start" | "GOMP_sections2_start" | "GOMP_sections_next" => Section,
        "GOMP_sections_end" | "GOMP_sections_end_cancel" => SectionsEnd { waits: true },
        "GOMP_sections_end_nowait" => SectionsEnd { waits: false },
        "omp_get_thread_num" | "omp_get_place_num" | "GOMP_task_reduction_remap" => WhichThread,
        "__kmpc_threadprivate_cached" | "__kmpc_task_reduction_get_th_data" => WhichThread,
        "omp_fulfill_event" => Fulfil,
        _ => Nothing,
    })
}
