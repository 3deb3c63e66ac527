//! MPI and OpenMP together: each process, and the job.

use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::attempts::{Plan, attempt};
use crate::command::{Verdict, build_by, check, json_and_talk, programs, trial};

/// Compilers, launchers, and numbers of ranks.
const JOBS: &[(&str, &str, &str, &[&str], usize)] = &[
    ("mpicc.mpich", "ranks.c", "mpirun.mpich", &[], 2),
    ("mpicc.mpich", "ranks.c", "mpirun.mpich", &[], 4),
    ("mpif90.mpich", "ranks.f90", "mpirun.mpich", &[], 3),
    ("mpicc.openmpi", "ranks.c", "mpirun.openmpi", OPEN_MPI, 2),
    ("mpicc.openmpi", "ranks.c", "mpirun.openmpi", OPEN_MPI, 3),
    ("mpif90.openmpi", "ranks.f90", "mpirun.openmpi", OPEN_MPI, 4),
];

/// Tests may run as root, and on fewer processors than ranks.
const OPEN_MPI: &[&str] = &["--allow-run-as-root", "--oversubscribe"];

/// One test for each.
pub(crate) fn trials() -> Vec<Trial> {
    let one = |job: &'static (&str, &str, &str, &[&str], usize)| {
        let (compiler, source, _, _, ranks) = job;
        trial(
            format!("hybrid::{source}::{compiler}::{ranks}"),
            move || test(job),
        )
    };
    JOBS.iter().map(one).collect()
}

fn test(
    (compiler, source, launcher, options, ranks): &(&str, &str, &str, &[&str], usize),
) -> Result<(), Verdict> {
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-fopenmp"]);
    let source = programs().join("hybrid").join(source);
    let name = format!("hybrid-{compiler}");
    let program = build_by(command, &source, &name, &[], |command| {
        let output = command
            .output()
            .map_err(|_| Verdict::CannotTell(format!("{compiler} is not installed")))?;
        check(output.status.success(), || {
            String::from_utf8_lossy(&output.stderr).into_owned()
        })
    })?;
    let (program, count) = (program.to_string_lossy().into_owned(), ranks.to_string());
    let mut words = vec![*launcher];
    words.extend(*options);
    words.extend(["-n", &count, &program]);
    let plan = Plan {
        elapsed: 0.2 + 0.4 * (*ranks - 1) as f64,
        work: 0.4,
        threads: 2.0,
    };
    attempt(
        plan,
        || json_and_talk(&words),
        |report, slack| matches(report, *ranks, slack),
    )
}

fn matches(report: &Value, count: usize, slack: f64) -> Result<(), Verdict> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let near = |name: &str, found: f64, wanted: f64| {
        check((found - wanted).abs() <= 0.03 * wanted + slack, || {
            format!("{name}: {found}, wanted {wanted}")
        })
    };
    let processes = report["processes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    check(processes.len() == count, || {
        format!("{} processes", processes.len())
    })?;
    let ranks: Vec<_> = processes
        .iter()
        .map(|process| process["rank"].as_u64())
        .collect();
    let wanted: Vec<_> = (0..count as u64).map(Some).collect();
    check(ranks == wanted, || format!("{ranks:?}"))?;
    let parts = ["productive", "lost", "idle"];
    let sum: f64 = parts.iter().map(|part| number(&report[part])).sum();
    check((sum - number(&report["total"])).abs() < 1e-6, || {
        format!("{sum}, {}", report["total"])
    })?;
    // The loops alone: what MPI does at its start takes as long as it takes.
    let last = count - 1;
    for (rank, process) in processes.iter().enumerate() {
        let all = process["constructs"].as_array().into_iter().flatten();
        let loops = all.filter(|one| one["kind"] == "loop");
        let shares = loops.flat_map(|one| one["threads"].as_array().into_iter().flatten());
        near(
            "loop",
            shares.map(|share| number(&share["own"])).sum(),
            0.4 + 0.8 * rank as f64,
        )?;
        if rank < last {
            near(
                "waiting in the reduction",
                waiting(process, "mpi_allreduce"),
                0.4 * (last - rank) as f64,
            )?;
        }
    }
    // Who is waited for, and what would be saved if all ranks had as much to do.
    let told = report["diagnosis"].as_array().into_iter().flatten();
    let late = format!("rank {last} comes late to ");
    let told: Vec<&str> = told
        .filter_map(Value::as_str)
        .filter(|sentence| sentence.to_ascii_lowercase().contains("mpi_allreduce"))
        .collect();
    check(told.len() == 1 && told[0].starts_with(&late), || {
        format!("{told:?} instead of {late}")
    })?;
    let saved = told[0].rsplit_once("up to ").map_or("", |(_, rest)| rest);
    let saved = saved.trim_end_matches(" s").parse().unwrap_or(f64::NAN);
    near("saving of an even division", saved, 0.2 * last as f64)?;
    let mpi = number(&report["hierarchy"]["mpi_parallel_efficiency"]);
    check(mpi > 0.3 && mpi < 1.0, || format!("MPI efficiency {mpi}"))
}

/// How long a process waited in an MPI function.
fn waiting(process: &Value, function: &str) -> f64 {
    let points = process["synchronisation_points"].as_array();
    let of_function = points.into_iter().flatten().filter(|point| {
        let name = point["name"].as_str().unwrap_or_default();
        name.to_ascii_lowercase().trim_end_matches('_') == function
    });
    of_function
        .map(|point| point["wait"].as_f64().unwrap_or(f64::NAN))
        .sum()
}
