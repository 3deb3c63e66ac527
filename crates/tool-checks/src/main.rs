//! Tools that tests run: `tool-checks TOOL [WORD]... -- PROGRAM [ARGUMENT]...`.
//!
//! Each finds out by two different means what a program does, and says whether they agree; or it
//! misbehaves, so that what is said of it can be looked at.
#![deny(unsafe_code)]

mod added;
mod appended;
mod arguments;
mod bystander;
mod call_paths;
mod calls;
mod changed;
mod conditional;
mod consumed;
mod costs;
mod counted_regions;
mod crowded;
mod each_access;
mod ends;
mod entries;
mod events;
mod failing;
mod grown;
mod memory_values;
mod misaligned;
mod misbehave;
mod part;
mod raised;
mod rarely;
mod reads;
mod regions;
mod repetitions;
mod results;
mod rewritten;
mod shadows;
mod state;
mod synchronised;
mod timed_regions;
mod told;
mod versions;
mod wide;
mod world;
mod wrappers;
mod writes;

use unspool_tool::{arguments, run};

fn main() {
    let name = arguments().first().and_then(|word| word.to_str());
    match name.unwrap_or_default() {
        "added" => run(added::Added),
        "appended" => run(appended::Appended::new()),
        "arguments" if asked("gated") => run(arguments::Values::<{ arguments::GATED }>::new()),
        "arguments" if asked("rarely") => run(arguments::Values::<{ arguments::RARELY }>::new()),
        "arguments" => run(arguments::Values::<{ arguments::PLAIN }>::new()),
        "bystander" => run(bystander::Bystander),
        "call-paths" => run(call_paths::CallPaths::default()),
        "calls" => run(calls::Calls::new()),
        "changed" => run(changed::Changed::new()),
        "costs" => run(costs::Costs::new()),
        "conditional" => run(conditional::Conditional::new()),
        "consumed" => run(consumed::Consumed::new()),
        "crowded" => run(crowded::Crowded::new()),
        "each-access" => run(each_access::EachAccess::new()),
        "failing" => run(failing::Failing),
        "grown" => run(grown::Grown::new()),
        "memory-values" => run(memory_values::MemoryValues::new()),
        "misaligned" => run(misaligned::Misaligned::new()),
        "ends" => run(ends::Ends::new()),
        "entries" => run(entries::Entries::new()),
        "wide" => run(wide::Entries::new()),
        "part" => run(part::Part::new()),
        "raised" => run(raised::Raised),
        "rarely" => run(rarely::Rarely::new()),
        "reads" => run(reads::Reads::default()),
        "counted-regions" => run(counted_regions::CountedRegions::new()),
        "timed-regions" => run(timed_regions::TimedRegions::new()),
        "regions" => run(regions::Regions::new()),
        "repetitions" => run(repetitions::Repetitions::new()),
        "results" => run(results::Results::default()),
        "events" => run(events::Events::default()),
        "synchronised" => run(synchronised::Synchronised::default()),
        "shadows" => match arguments().get(1).and_then(|word| word.to_str()) {
            Some("u8/1") => run(shadows::Shadows::<u8, 1>::new()),
            Some("u16/2") => run(shadows::Shadows::<u16, 2>::new()),
            Some("u32/4") => run(shadows::Shadows::<u32, 4>::new()),
            Some("u64/8") => run(shadows::Shadows::<u64, 8>::new()),
            Some("u64/1") => run(shadows::Shadows::<u64, 1>::new()),
            _ => run(shadows::Shadows::<u8, 64>::new()),
        },
        "rewritten" => run(rewritten::Rewritten::new()),
        "state" => run(state::State::new()),
        "told" => run(told::Told),
        "versions" => run(versions::Versions::new()),
        "world" => run(world::World),
        "wrappers" if asked("gated") => run(wrappers::Wrappers::<true>::new()),
        "wrappers" => run(wrappers::Wrappers::<false>::new()),
        "writes" => run(writes::Writes::default()),
        "misbehave" => run(misbehave::Misbehave::new()),
        other => {
            eprintln!("there is no tool `{other}`");
            std::process::exit(2);
        }
    }
}

/// Whether a word is among the tool's arguments.
fn asked(word: &str) -> bool {
    arguments().iter().any(|argument| argument == word)
}
