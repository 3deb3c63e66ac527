//! MPI and OpenMP together: each process, and the job.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::command::{Verdict, check, json, programs, trial};

/// Compilers and launchers.
const IMPLEMENTATIONS: &[(&str, &str, &str, &[&str])] = &[
    ("mpicc.mpich", "two_ranks.c", "mpirun.mpich", &[]),
    ("mpif90.mpich", "two_ranks.f90", "mpirun.mpich", &[]),
    ("mpicc.openmpi", "two_ranks.c", "mpirun.openmpi", OPEN_MPI),
    (
        "mpif90.openmpi",
        "two_ranks.f90",
        "mpirun.openmpi",
        OPEN_MPI,
    ),
];

/// Tests may run as root, and on fewer processors than ranks.
const OPEN_MPI: &[&str] = &["--allow-run-as-root", "--oversubscribe"];

/// A busy machine may disturb some attempts.
const ATTEMPTS: usize = 6;

/// One test for each.
pub(crate) fn trials() -> Vec<Trial> {
    let one = |(compiler, source, launcher, options): &(
        &'static str,
        &'static str,
        &'static str,
        &'static [&str],
    )| {
        let (compiler, source, launcher, options) = (*compiler, *source, *launcher, *options);
        trial(format!("hybrid::{source}::{compiler}"), move || {
            test(compiler, source, launcher, options)
        })
    };
    IMPLEMENTATIONS.iter().map(one).collect()
}

fn test(compiler: &str, source: &str, launcher: &str, options: &[&str]) -> Result<(), Verdict> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    std::fs::create_dir_all(&folder).map_err(|error| Verdict::Wrong(error.to_string()))?;
    let program = folder
        .join(format!("hybrid-{compiler}"))
        .to_string_lossy()
        .into_owned();
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-g", "-fopenmp", "-o", &program])
        .arg(programs().join("hybrid").join(source));
    command.current_dir(&folder);
    let output = command
        .output()
        .map_err(|_| Verdict::CannotTell(format!("{compiler} is not installed")))?;
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    let mut words = vec![launcher];
    words.extend(options);
    words.extend(["-n", "2", &program]);
    let mut result = matches(&json(&words)?);
    for _ in 1..ATTEMPTS {
        if result.is_ok() {
            break;
        }
        result = matches(&json(&words)?);
    }
    result
}

fn matches(report: &Value) -> Result<(), Verdict> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let near = |name: &str, found: f64, wanted: f64| {
        check((found - wanted).abs() <= 0.03 * wanted, || {
            format!("{name}: {found}, wanted {wanted}")
        })
    };
    let processes = report["processes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    check(processes.len() == 2, || {
        format!("{} processes", processes.len())
    })?;
    let ranks: Vec<_> = processes
        .iter()
        .map(|process| process["rank"].as_u64())
        .collect();
    check(ranks == [Some(0), Some(1)], || format!("{ranks:?}"))?;
    let parts = ["productive", "lost", "idle"];
    let sum: f64 = parts.iter().map(|part| number(&report[part])).sum();
    check((sum - number(&report["total"])).abs() < 1e-6, || {
        format!("{sum}, {}", report["total"])
    })?;
    // The loops alone: what MPI does at its start takes as long as it takes.
    for (process, wanted) in processes.iter().zip([0.4, 1.2]) {
        let all = process["constructs"].as_array().into_iter().flatten();
        let loops = all.filter(|one| one["kind"] == "loop");
        let shares = loops.flat_map(|one| one["threads"].as_array().into_iter().flatten());
        near(
            "loop",
            shares.map(|share| number(&share["own"])).sum(),
            wanted,
        )?;
    }
    let points = processes[0]["synchronisation_points"]
        .as_array()
        .into_iter()
        .flatten();
    let reduction = points.filter(|point| {
        let name = point["name"]
            .as_str()
            .unwrap_or_default()
            .to_ascii_lowercase();
        name.trim_end_matches('_') == "mpi_allreduce"
    });
    near(
        "waiting in the reduction",
        reduction.map(|point| number(&point["wait"])).sum(),
        0.4,
    )?;
    let mpi = number(&report["hierarchy"]["mpi_parallel_efficiency"]);
    check(mpi > 0.3 && mpi < 1.0, || format!("MPI efficiency {mpi}"))
}
