//! A trace tells of each thread who created it, when it began, and when its end was announced.

use std::collections::BTreeMap;

use libtest_mimic::Trial;

use crate::observer::{Verdict, exported_in_order, run_well, traced, trial};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    ["line-atomic", "ticket", "timestamp"]
        .map(|order| {
            trial(format!("thread_lives::{order}"), move |scratch| {
                lives(scratch, order)
            })
        })
        .into()
}

/// What the events of one thread say, with their places in the ordered export.
#[derive(Debug, Default)]
struct Life {
    created: Option<(usize, u64)>,
    started: Option<(usize, u64)>,
    exit: Option<(usize, String)>,
    ended: Option<usize>,
}

fn lives(scratch: &Scratch, order: &str) -> Result<(), Verdict> {
    const THREADS: u64 = 6;
    let command = guest_command("order/increment", &["6", "200"])?;
    let file = scratch.path().join("lives.unspool");
    run_well(
        scratch,
        &traced(scratch, &["--order", order], &file, &command),
    )?;
    let mut lives: BTreeMap<u64, Life> = BTreeMap::new();
    let mut waits: Vec<(usize, u64, String)> = Vec::new();
    for (place, item) in exported_in_order(scratch, &file)?.iter().enumerate() {
        let thread = item["thread"].as_u64().unwrap_or(u64::MAX);
        let object = || item["object"].as_str().unwrap_or_default().to_owned();
        match (item["kind"].as_str(), item["operation"].as_str()) {
            (Some("sync"), Some("thread_create")) => {
                let child = u64::from_str_radix(object().trim_start_matches("0x"), 16);
                let child = child.map_err(|problem| Verdict::Wrong(problem.to_string()))?;
                lives.entry(child).or_default().created = Some((place, thread));
            }
            (Some("thread_start"), _) => {
                let parent = item["parent"].as_u64().unwrap_or(u64::MAX);
                lives.entry(thread).or_default().started = Some((place, parent));
            }
            (Some("sync"), Some("thread_exit")) => {
                lives.entry(thread).or_default().exit = Some((place, object()));
            }
            (Some("sync"), Some("futex_wait")) => waits.push((place, thread, object())),
            (Some("thread_end"), _) => lives.entry(thread).or_default().ended = Some(place),
            _ => {}
        }
    }
    for thread in 1..=THREADS {
        let life = lives.remove(&thread).unwrap_or_default();
        let told = format!("thread {thread}: {life:?}");
        let (Some(created), Some(started), Some((exit, word)), Some(ended)) =
            (life.created, life.started, life.exit, life.ended)
        else {
            return Err(Verdict::Wrong(format!("something is missing of {told}")));
        };
        if created.1 != 0 || started.1 != 0 {
            return Err(Verdict::Wrong(format!("created by another one: {told}")));
        }
        if !(created.0 < started.0 && started.0 < exit && exit < ended) {
            return Err(Verdict::Wrong(format!("out of order: {told}")));
        }
        if word == "0x0" {
            return Err(Verdict::Wrong(format!("announced nowhere: {told}")));
        }
        // Who joined it by waiting at the announced word came back after the announcement.
        let early = waits
            .iter()
            .find(|(place, waiter, at)| *waiter == 0 && *at == word && *place < exit);
        if let Some(wait) = early {
            return Err(Verdict::Wrong(format!("{wait:?} before {told}")));
        }
    }
    Ok(())
}
