//! Races as text for people.

use unspool_analyses::races::{PartKind, RacingAccess};
use unspool_report::DataPlace;

use super::described::Described;
use super::described_race::{DescribedPart, DescribedRace};
use super::heap_block::DescribedStep;
use super::locks::DescribedUse;
use super::stacks::Stack;
use super::system_call_names::system_call_name;

/// The whole answer. Whether blocks of the heap were asked for decides what is said where they are not
/// known.
pub(super) fn of(described: &Described, show: usize, asks_for_blocks: bool) -> String {
    let mut text = headline(described) + "\n";
    text += &numbered(described, &described.races, show);
    if !described.predicted.is_empty() {
        text += "\nWhat follows has not happened in this run, but another order of the same events has it:\n";
        text += &numbered(described, &described.predicted, show);
    }
    if !described.possible.is_empty() {
        text += "\nWhat follows is no race if plain moves stand for atomic accesses of which nothing is \
                 known,\nor if what a string function reads lies behind the string's end:\n";
        for race in described.possible.iter().take(show) {
            text += &format!("\n- {}", one(described, race));
        }
        text += &hidden(&described.possible, show);
    }
    if !described.uncertain.is_empty() {
        text += "\nWhat follows may be races, or missing records may explain it:\n";
        for race in described.uncertain.iter().take(show) {
            text += &format!("\n- {}", one(described, race));
        }
    }
    text + &remarks(described, asks_for_blocks)
}

/// Races with numbers, as far as they are shown.
fn numbered(described: &Described, races: &[DescribedRace], show: usize) -> String {
    let mut text = String::new();
    for (race, number) in races.iter().zip(1..).take(show) {
        text += &format!("\n{number}. {}", one(described, race));
    }
    text + &hidden(races, show)
}

/// How many are not shown.
fn hidden(races: &[DescribedRace], show: usize) -> String {
    match races.len().saturating_sub(show) {
        0 => String::new(),
        hidden => format!("\nand {hidden} more (--show)\n"),
    }
}

/// What came of it, in one line.
fn headline(described: &Described) -> String {
    let checked = described.report.accesses_checked;
    let as_far = if described.is_whole {
        ""
    } else {
        " as far as the trace goes"
    };
    let none = format!("no races{as_far}: {checked} accesses were compared with other threads'");
    let seen = match &described.races[..] {
        [] => none,
        [one] => format!("1 race{as_far}: {}", short(one)),
        [first, ..] => format!(
            "{} races{as_far}; the first: {}",
            described.races.len(),
            short(first)
        ),
    };
    let predicted = match &described.predicted[..] {
        [] => String::new(),
        [one] => format!("; 1 predicted: {}", short(one)),
        [first, ..] => format!(
            "; {} predicted; the first: {}",
            described.predicted.len(),
            short(first)
        ),
    };
    seen + &predicted
}

/// A race in few words.
fn short(race: &DescribedRace) -> String {
    let places = race.sides().map(|(_, stack)| {
        let place = &stack.headline()?.place;
        place.line.clone().or_else(|| place.function.clone())
    });
    let [first, second] = places.map(|place| place.unwrap_or_else(|| "?".to_owned()));
    format!("{}, {first} and {second}", object(race))
}

/// Why two accesses race that have met.
pub(super) const SEEN: &str = "nothing orders the two";
/// Why two accesses race that have not.
pub(super) const PREDICTED: &str = "another order of the same events has them beside each other";

/// A race in a sentence, for tools that show it beside a line.
pub(super) fn message(described: &Described, race: &DescribedRace, why: &str) -> String {
    let [first, second] = race
        .sides()
        .map(|(access, stack)| side(described, access, stack));
    let block = race.block.iter();
    let allocated =
        block.map(|block| format!("; {}", step(described, "allocated", &block.allocated)));
    format!(
        "{}: {first}; {second}; {why}{}",
        object(race),
        allocated.collect::<String>()
    )
}

fn one(described: &Described, race: &DescribedRace) -> String {
    let times = match race.race.occurrences {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let mut text = format!("{}, {times}\n", object(race));
    for (((access, stack), held), part) in
        race.sides().into_iter().zip(&race.locks).zip(&race.parts)
    {
        text += &format!("     {}\n", side(described, access, stack));
        text += &stack.lines("         ");
        text += &locks(described, held.as_deref());
        // That it is in a region is in the calls.
        if let Some(part) = part.as_ref().filter(|it| it.kind != PartKind::Region) {
            text += &format!("         {}\n", made(described, part));
            text += &part.made.stack.lines("             ");
        }
    }
    for mending in race.mended_by() {
        text += &format!("     {}\n", mending.text());
    }
    if let Some(block) = &race.block {
        let steps = [
            ("allocated", Some(&block.allocated)),
            ("freed", block.freed.as_ref()),
        ];
        for (verb, taken) in steps {
            let Some(taken) = taken else {
                continue;
            };
            text += &format!("     {}\n", step(described, verb, taken));
            text += &taken.stack.lines("         ");
        }
    }
    let mut threads = [race.race.first.thread, race.race.second.thread];
    threads.sort_unstable();
    let [first, second] = threads;
    for number in [first, second]
        .into_iter()
        .take(if first == second { 1 } else { 2 })
    {
        if let Some(creation) = described.creations.get(&number) {
            text += &format!(
                "     {} was created{}\n",
                thread(described, number),
                at(creation)
            );
            text += &creation.lines("         ");
        }
    }
    text
}

/// The locks that a thread held at its access, of a run in which they were looked at.
fn locks(described: &Described, held: Option<&[DescribedUse]>) -> String {
    let indent = "         ";
    match held {
        None if described.locks.were_looked_at() => {
            format!("{indent}with locks that are not known any more\n")
        }
        None => String::new(),
        Some([]) => format!("{indent}with no lock held\n"),
        Some(held) => {
            let lines = held.iter().map(|lock| {
                let taken = at(&lock.stack);
                let stack = lock.stack.lines("             ");
                format!("{indent}with {}, taken{taken}\n{stack}", lock.text())
            });
            lines.collect()
        }
    }
}

/// What was done with the block of the heap.
pub(super) fn step(described: &Described, verb: &str, step: &DescribedStep) -> String {
    let who = thread(described, step.thread);
    format!("the block was {verb} by {who}{}", at(&step.stack))
}

/// What of an OpenMP program an access belongs to.
pub(super) fn made(described: &Described, part: &DescribedPart) -> String {
    let (name, made) = (part.name(), &part.made);
    let who = thread(described, made.thread);
    format!("in {name} made by {who}{}", at(&made.stack))
}

/// What the race is about.
fn object(race: &DescribedRace) -> String {
    let (address, bytes) = (race.race.address, race.race.bytes);
    let plural = if bytes == 1 { "" } else { "s" };
    let DataPlace {
        variable, section, ..
    } = &race.data;
    let name = match (variable, section) {
        (Some(variable), _) if race.data.offset == 0 => format!("{variable} "),
        (Some(variable), _) => format!("{variable}+{} ", race.data.offset),
        (None, Some(section)) => format!("{section} "),
        (None, None) => {
            let block = race.block.as_ref();
            block.map_or_else(String::new, |block| format!("{} ", block.name()))
        }
    };
    format!("{name}({bytes} byte{plural} at {address:#x})")
}

/// An access: who does what, and where.
pub(super) fn side(described: &Described, access: &RacingAccess, stack: &Stack) -> String {
    let verb = if access.writes { "writes" } else { "reads" };
    let size = access.size;
    let plural = if size == 1 { "" } else { "s" };
    let who = thread(described, access.thread);
    if let Some(number) = access.system_call {
        let call = system_call_name(number);
        let at = at(stack);
        return format!("{who}: the kernel {verb} {size} byte{plural} for {call}{at}");
    }
    format!("{who} {verb} {size} byte{plural}{}", at(stack))
}

/// The frame to look at.
fn at(stack: &Stack) -> String {
    let frame = stack.headline();
    frame.map_or_else(String::new, |frame| format!(" in {}", frame.text()))
}

fn thread(described: &Described, number: u32) -> String {
    let thread = described.thread(number);
    match thread.and_then(|thread| thread.name.as_ref()) {
        Some(name) => format!("thread {number} ({name})"),
        None => format!("thread {number}"),
    }
}

/// What was left out, and what may have been missed.
fn remarks(described: &Described, asks_for_blocks: bool) -> String {
    let mut text = String::new();
    for (line, count) in &described.suppressed {
        text += &format!("left out: {count} by the suppression {line}\n");
    }
    if described.report.forgotten > 0 {
        text += &format!(
            "memory was short {} times (--memory), and what had been seen forgotten: races may have \
             been missed\n",
            described.report.forgotten
        );
    }
    if described.report.begun_anew > 0 {
        text += &format!(
            "more threads, or tasks that nothing had waited for, than are told apart ({}) were there {} \
             times, and what had been seen was forgotten: races may have been missed\n",
            unspool_analyses::races::TOLD_APART,
            described.report.begun_anew
        );
    }
    if described.report.blocks_forgotten > 0 {
        text += &format!(
            "memory was short {} times for blocks of the heap (--memory), and those were forgotten that \
             were there\n",
            described.report.blocks_forgotten
        );
    }
    let is_nameless = |race: &DescribedRace| race.data.module.is_none();
    let mut told = described.races.iter().chain(&described.possible);
    if !described.report.saw_heap && told.any(is_nameless) {
        text += match asks_for_blocks {
            true => {
                "blocks of the heap are not known: no function that allocates was found by its name\n"
            }
            false => {
                "memory without a name may be on the heap: with a program, --heap tells of which block\n"
            }
        };
    }
    if described.cannot_tell_atomics {
        text += "the debugging information of code in C is of a version of DWARF that cannot say what is \
                 atomic: compiled with -gdwarf-5 it does, and possible races are told for certain, or are none\n";
    }
    text += &unpredicted(described);
    if described.report.calls_missing > 0 {
        let missing = described.report.calls_missing;
        text += &format!(
            "memory was short for call paths (--memory): some are cut short, {missing} calls are missing\n"
        );
    }
    if described.report.beyond > 0 {
        let beyond = described.report.beyond;
        text += &format!("{beyond} occurrences of further pairs of places are not listed\n");
    }
    text
}

/// What was not looked at for races that another order would show, if they were asked for.
fn unpredicted(described: &Described) -> String {
    let Some(left) = described.report.unpredicted else {
        return String::new();
    };
    let mut text = String::new();
    if !described.locks.were_looked_at() {
        text += "sections of locks are not moved for what is predicted: no function that locks was found \
                 by its name, or the trace was recorded without them (--record with --predict)\n";
    }
    if !described.is_whole {
        text += "nothing is predicted where records are missing\n";
    }
    if left.given_up > 0 {
        text += &format!(
            "of {} pairs of places not all accesses were looked at for an order in which they meet\n",
            left.given_up
        );
    }
    if left.left_out > 0 {
        text += &format!(
            "{} accesses were not held against later ones for that: too many others were to the same \
             bytes\n",
            left.left_out
        );
    }
    if left.forgotten > 0 {
        text += &format!(
            "memory was short {} times (--memory): what came before is not moved behind what came \
             after\n",
            left.forgotten
        );
    }
    text
}
